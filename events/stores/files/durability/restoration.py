"""The restoration of one session file from the records of journals.

In the order in which the records were written:

- bytes that are present are rewritten in place. This changes nothing, but makes the flush include them: after a flush
  that failed in the dead host, the system may consider them written. If other programs write to the file as well, such
  bytes are left alone;
- bytes that are missing at the end are appended; the file is created if needed;
- zeros in their place, which a file system may leave behind, are overwritten;
- if other bytes are in their place, or bytes before them are missing, the lines whose entries are not in the log are
  appended to its end, which starts a new generation.

Then the file is flushed. All of this can be interrupted at any point and repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

import msgspec
from msgspec import Struct

from ....disk import Disk, flush_file, opened, write_all
from ....disk.atomic_files import removed_on_error, write_atomically, write_temporary
from ....errors import Conflict, LogError
from ....json_values import UNDECODABLE
from ....telemetry import logger
from ..log.head import read_head
from ..log.log import Log
from ..log.table import CHUNK, chunks
from ..names import INDEX_SUFFIX
from .flushing import flush_or_write_again
from .journal import StoredRecord

_BLOCK = 4096


class _Id(Struct):
    """The part of a line that identifies its entry."""

    id: str | None = None


_decode_id = msgspec.json.Decoder(_Id).decode


class Restoration:
    """The restoration of one session file.

    Args:
        path: The real path of the file.
        records: The records of the session in all journals, at least one.
    """

    def __init__(self, disk: Disk, path: str, records: Sequence[StoredRecord]) -> None:
        self._disk = disk
        self._path = path
        self._records = _in_order(records)
        self._misplaced: list[StoredRecord] = []

    def run(self) -> None:
        """Write the missing bytes, and flush the file.

        Raises:
            LogError: The file is not a session.
            OSError: The file cannot be written.
        """
        self._disk.make_directory(os.path.dirname(self._path))
        if self._records[0].creates_file or self._has_header():
            self._restore_in_place()
        else:
            self._recreate_from_block()
        if self._misplaced:
            self._append_missing_entries()

    def _has_header(self) -> bool:
        """Tell whether the file holds more than the beginning of a torn header."""
        block = self._header_block()
        try:
            with opened(self._disk, self._path) as fd:
                data = self._disk.pread(fd, len(block) + 1, 0)
        except FileNotFoundError:
            return False
        return len(data) > len(block) or not block.startswith(data.rstrip(b"\0")) or data == block

    def _header_block(self) -> bytes:
        return next((block for record in self._records if (block := record.block())), b"")

    # -- at the recorded offsets

    def _restore_in_place(self) -> None:
        disk, self._misplaced = self._disk, []
        fd = disk.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            for run in _runs(self._records):
                if not self._restore_run(fd, run):
                    return  # a new file took its place, in which everything was restored
            disk.datasync(fd)
        finally:
            disk.close(fd)

    def _restore_run(self, fd: int, run: Sequence[StoredRecord]) -> bool:
        """Restore a run of consecutive records; return False if that required a new file."""
        disk, size = self._disk, self._disk.fstat(fd).size
        start, end = run[0].offset, run[-1].end
        if start > size:
            self._misplaced += run
            return True
        expected = b"".join(record.data() for record in run)
        actual = disk.pread(fd, end - start, start)
        at = _first_difference(actual, expected)
        if at < len(actual):
            if not _zeros_or_equal(actual, expected):
                self._misplaced += run
                return True
            if not _is_zero(disk, fd, end, size):
                self._replace_patched(fd, size, start + at, expected[at:])
                return False
            disk.truncate(fd, start + at)
        elif at == 0 and self._was_appended(fd, size, expected):
            self._misplaced += run
            return True
        write_all(disk, fd, expected[at:])
        self._rewrite(fd, start, expected[:at])
        return True

    def _was_appended(self, fd: int, size: int, expected: bytes) -> bool:
        """Tell whether a replay that was interrupted appended lines of a run by their ids, just before its offset."""
        length = min(size, sum(record.lines_size for record in self._records))
        present = self._disk.pread(fd, length, size - length).splitlines()
        return not set(present).isdisjoint(expected.splitlines())

    def _rewrite(self, fd: int, offset: int, data: bytes) -> None:
        """Write bytes that are present already, unless another program may change them before they are written."""
        disk = self._disk
        if not data or read_head(disk, fd, self._path, disk.fstat(fd).size)[0].dialect.shared:
            return
        with opened(disk, self._path, os.O_RDWR) as target:
            disk.seek(target, offset)
            write_all(disk, target, data)

    def _replace_patched(self, fd: int, size: int, offset: int, data: bytes) -> None:
        """Replace the file by a copy with other bytes at an offset: other bytes follow, so this has to be atomic."""
        disk = self._disk
        patched = chain(chunks(disk, fd, 0, offset), [data], chunks(disk, fd, offset + len(data), size))
        temporary = write_temporary(disk, self._path, patched, sync=True)
        with removed_on_error(disk, temporary):
            if disk.fstat(fd).size != size:
                raise Conflict(f"another program appended to {self._path} while it was being restored: try again")
            disk.rename(temporary, self._path)
        self._restore_in_place()  # the other runs

    # -- by the ids of entries

    def _recreate_from_block(self) -> None:
        """Create the file again from a header block and the lines of the journals, after its beginning was lost."""
        block = self._header_block()
        if not block:
            logger().warning("replay_without_header", ref=self._path)
            return
        write_atomically(self._disk, self._path, [block, *(record.lines() for record in self._records)], sync=True)

    def _append_missing_entries(self) -> None:
        """Append the lines whose entries are not in the log, which starts a new generation."""
        disk = self._disk
        log = Log(disk, self._path, self._path)
        log.own()
        if log.header is None:
            raise LogError(f"{self._path} is empty, and the journal does not hold its header: it was left unchanged")
        with log.opened(os.O_RDWR | os.O_APPEND) as fd:
            known = {_line_key(line) for line in _lines_of(log, fd)}
            lines: list[bytes] = []
            for record in self._misplaced:
                for line in record.lines().split(b"\n"):
                    if line.strip() and (key := _line_key(line)) not in known:
                        known.add(key)
                        lines.append(line + b"\n")
            if lines:
                log.reload_changed()
                log.save_snapshot(log.table.count, None)  # holds the generation counter
                flush_file(disk, self._path + INDEX_SUFFIX)
                disk.sync_directory(os.path.dirname(self._path))  # or the lines could survive without the counter
                write_all(disk, fd, b"".join(lines))
            flush_or_write_again(disk, log, fd)
        logger().info("replayed_by_id", ref=self._path, lines=len(lines))


def _runs(records: Sequence[StoredRecord]) -> list[list[StoredRecord]]:
    """Split records into runs of consecutive ones without gaps."""
    runs = [[records[0]]]
    for previous, record in pairwise(records):
        if record.offset == previous.end:
            runs[-1].append(record)
        else:
            runs.append([record])
    return runs


def _first_difference(actual: bytes, expected: bytes) -> int:
    """Return the first offset at which the bytes differ; the length of the shorter ones if there is none."""
    length = min(len(actual), len(expected))
    for at in range(0, length, _BLOCK):
        if actual[at : at + _BLOCK] != expected[at : at + _BLOCK]:
            return next((n for n in range(at, min(at + _BLOCK, length)) if actual[n] != expected[n]), length)
    return length


def _zeros_or_equal(actual: bytes, expected: bytes) -> bool:
    """Tell whether each byte is zero or as expected, so that overwriting loses nothing."""
    for at in range(0, len(actual), _BLOCK):
        part, other = actual[at : at + _BLOCK], expected[at : at + _BLOCK]
        if part != other and any(
            byte not in (0, expected_byte) for byte, expected_byte in zip(part, other, strict=False)
        ):
            return False
    return True


def _is_zero(disk: Disk, fd: int, start: int, stop: int) -> bool:
    """Tell whether all bytes between two offsets are zero."""
    return not any(chunk.strip(b"\0") for chunk in chunks(disk, fd, start, stop))


def _lines_of(log: Log, fd: int) -> Iterator[bytes]:
    seq, table = 0, log.table
    while seq < table.count:
        last = table.last_that_fits(seq, table.count, CHUNK)
        yield from log.lines(fd, table, [(seq + 1, last)])
        seq = last


def _line_key(line: bytes) -> object:
    """Return the identity of a line: the id of its entry, or the line itself if it has no id."""
    try:
        return _decode_id(line).id or line.strip()
    except UNDECODABLE:
        return line.strip()


def _in_order(records: Sequence[StoredRecord]) -> list[StoredRecord]:
    """Return the records of a file in order; of overlapping records, the latest one."""
    ordered = sorted(records, key=lambda record: record.epoch)
    current: list[StoredRecord] = []
    for record in ordered:
        while current and current[-1].end > record.offset:
            current.pop()  # the file was shortened in between
        current.append(record)
    return current
