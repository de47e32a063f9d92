"""The replay of journals whose hosts have ended, to restore what a power cut removed from session files.

Before a session is owned, the `.treering/journal` folders from its own folder upwards are checked. A journal whose lock
is free is replayed, under its lock and those of its sessions. For each session, in the order of the writes:

- bytes that are present are rewritten in place. This changes nothing, but makes the flush include them: after a flush
  that failed in the dead host, the system may consider them written. If other programs write to the file as well, such
  bytes are left alone;
- bytes that are missing at the end are appended; the file is created if needed;
- zeros in their place, which a file system may leave behind, are overwritten;
- if other bytes are in their place, or bytes before them are missing, the lines whose entries are not in the log are
  appended to its end, which starts a new generation.

Then the files and the folders are flushed, and the journal is dropped. All of this can be interrupted at any point and
repeated. If a session is owned by another program or cannot be written, its journal is kept until it is needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, pairwise

import msgspec
from msgspec import Struct

from ...disk import Disk, flush_file, opened, write_all
from ...errors import Conflict, LogError, SessionLocked, TreeringError
from ...telemetry import logger
from ...undecodable import UNDECODABLE
from . import journal
from .atomic_files import removed_on_error, write_atomically, write_temporary
from .beside import INDEX_SUFFIX
from .flushing import flush_or_write_again
from .head import read_head
from .journal import JOURNALS, Entry
from .locks import Held, Locks
from .log import Log
from .names import folders_between
from .table import CHUNK, chunks

_STEP_S = 0.001
_TIMEOUT_S = 60.0
_BLOCK = 4096


class _Id(Struct):
    """The part of a line that identifies its entry."""

    id: str | None = None


_decode_id = msgspec.json.Decoder(_Id).decode


class _DeadJournal:
    """A journal whose host has ended.

    Attributes:
        path: The path of the journal.
        held: Its lock.
        fd: The file, open for reading.
        pending: The paths of the sessions that could not be restored.
        readable: Whether its version is known.
    """

    __slots__ = ("fd", "held", "path", "pending", "readable")

    def __init__(self, path: str, held: Held, fd: int) -> None:
        self.path = path
        self.held = held
        self.fd = fd
        self.pending: set[str] = set()
        self.readable = True


class _Piece:
    """A record of a journal, with access to its bytes."""

    __slots__ = ("_disk", "_fd", "entry")

    def __init__(self, disk: Disk, fd: int, entry: Entry) -> None:
        self._disk = disk
        self._fd = fd
        self.entry = entry

    @property
    def start(self) -> int:
        """Where in the session file its bytes begin."""
        return self.entry.offset

    @property
    def end(self) -> int:
        """Where in the session file its bytes end."""
        return self.entry.end

    @property
    def creates_file(self) -> bool:
        """Whether the record creates the file."""
        return self.entry.offset == 0

    def block(self) -> bytes:
        """Return the header block; empty if there is none."""
        return self._disk.pread(self._fd, self.entry.block, self.entry.at)

    def lines(self) -> bytes:
        """Return the lines."""
        return self._disk.pread(self._fd, self.entry.size, self.entry.at + self.entry.block)

    def data(self) -> bytes:
        """Return the bytes that belong in the session file."""
        return self.block() + self.lines() if self.creates_file else self.lines()


class JournalReplay:
    """The replay of journals for one store. Its methods block, and may be called from any thread.

    Args:
        disk: The disk.
        locks: Tell which hosts are alive, and lock the sessions during the replay.
        own: The paths of this store's own journals.
    """

    def __init__(self, disk: Disk, locks: Locks, own: Collection[str]) -> None:
        self._disk = disk
        self._locks = locks
        self._own = own
        self._kept: dict[str, tuple[int, int, set[str]]] = {}  # inode, size and pending sessions, by journal

    # -- what the store calls

    def before(self, path: str) -> None:
        """Replay the journals that may hold records of a session, before it is owned.

        Raises:
            Conflict: Another host has been replaying for a minute.
            LogError: The session has records, and its file is not a session.
            OSError: The session has records, and its file cannot be written.
        """
        self._replay_folders(_folders_above(path), path)

    def may_restore(self, path: str) -> bool:
        """Tell whether there are journals that may hold records of a session."""
        return any(journal.journals_in(self._disk, folder) for folder in _folders_above(path))

    def under(self, root: str) -> None:
        """Replay the journals of a root before its sessions are listed; sessions that cannot be written stay pending.

        Raises:
            Conflict: Another host has been replaying for a minute.
            OSError: A journal cannot be read.
        """
        self._replay_folders(_folders_above(os.path.join(root, JOURNALS)), None)

    def _replay_folders(self, folders: Iterable[str], required: str | None) -> None:
        """Replay the journals in some folders; a failure is raised only for the session `required`."""
        for folder in folders:
            journals = [each for each in journal.journals_in(self._disk, folder) if each not in self._own]
            if any(self._concerns(each, required) for each in journals):
                with self._exclusively(f"{folder}/replay"):
                    self._replay(folder, journals, required)

    def void(self, path: str) -> None:
        """Void the records of a session in all journals; the caller must own the session.

        Raises:
            OSError: A void file cannot be written.
        """
        for folder in _folders_above(path):
            root = folder.removesuffix(JOURNALS)
            for each in journal.journals_in(self._disk, folder):
                journal.void(self._disk, each, path.removeprefix(root))

    # -- selecting journals

    def _concerns(self, journal_path: str, path: str | None) -> bool:
        """Tell whether a journal has to be replayed; one that was kept is only needed for its pending sessions."""
        kept = self._kept.get(journal_path)
        if kept is None:
            return True
        try:
            stat = self._disk.stat(journal_path)
        except FileNotFoundError:
            self._kept.pop(journal_path, None)
            return False
        inode, size, pending = kept
        return (inode, size) != (stat.inode, stat.size) or path in pending

    @contextmanager
    def _exclusively(self, name: str) -> Generator[None]:
        """Keep other hosts from replaying the journals of a folder; they wait until this replay is done."""
        deadline = time.monotonic() + _TIMEOUT_S
        while isinstance(held := self._locks.take(name), SessionLocked):
            if time.monotonic() > deadline:
                raise Conflict(f"{os.path.dirname(name)} is being replayed by another host: try again later")
            time.sleep(_STEP_S)
        try:
            yield
        finally:
            self._locks.give_back(held)

    def _replay(self, folder: str, journals: Sequence[str], required: str | None) -> None:
        dead: list[_DeadJournal] = []
        try:
            for path in journals:
                held = self._locks.take(path)
                if isinstance(held, SessionLocked):
                    continue  # its host is alive
                try:
                    fd = self._disk.open(path, os.O_RDONLY)
                except BaseException as error:
                    self._locks.give_back(held)
                    if isinstance(error, FileNotFoundError):
                        continue
                    raise
                dead.append(_DeadJournal(path, held, fd))
            if dead:
                self._restore_sessions(folder, dead, required)
        finally:
            for each in dead:
                with suppress(OSError):
                    self._disk.close(each.fd)
                self._locks.give_back(each.held)

    # -- restoring the sessions of journals

    def _restore_sessions(self, folder: str, dead: Sequence[_DeadJournal], required: str | None) -> None:
        sessions: dict[str, list[tuple[_DeadJournal, _Piece]]] = {}
        for each in dead:
            for path, piece in self._pieces(folder, each):
                sessions.setdefault(path, []).append((each, piece))
        folders: set[str] = set()
        for path, pieces in sessions.items():
            if self._restore_session(path, [piece for _, piece in pieces], required):
                # The process that created a folder may have been killed before it flushed the folder's name.
                folders.update(folders_between(os.path.dirname(folder.removesuffix(JOURNALS)), path))
            else:
                for each, _ in pieces:
                    each.pending.add(path)
        for parent in sorted(folders):
            with suppress(FileNotFoundError):  # nothing was restored for a session without usable records
                self._disk.sync_directory(parent)
        for each in dead:
            if each.pending or not each.readable:
                stat = self._disk.fstat(each.fd)
                self._kept[each.path] = (stat.inode, stat.size, each.pending)
            else:
                self._kept.pop(each.path, None)
        journal.drop(self._disk, [each.path for each in dead if each.readable and not each.pending])
        logger().info("journals_replayed", journals=len(dead), sessions=len(sessions))

    def _pieces(self, folder: str, dead: _DeadJournal) -> Iterator[tuple[str, _Piece]]:
        """Yield the valid records of a journal, with the paths of their sessions."""
        disk, root = self._disk, folder.removesuffix(JOURNALS)
        header, line = journal.read_header(disk, dead.fd)
        if header is None:
            dead.readable = not line  # without a line, its creation was never completed, and it was never used
            if line:
                logger().warning("journal_unknown", journal=dead.path)
            return
        void_until = journal.read_voids(disk, dead.path, line)
        for entry in journal.read_entries(disk, dead.fd, line):
            if entry.at > void_until.get(entry.name, 0):
                yield root + entry.name, _Piece(disk, dead.fd, entry)

    def _restore_session(self, path: str, pieces: list[_Piece], required: str | None) -> bool:
        """Restore one session; return False if that has to wait."""
        held = self._locks.take(path)
        if isinstance(held, SessionLocked):
            logger().info("replay_waits", ref=path, why="the session is owned", holder=held.pid)
            return False
        try:
            _Restoration(self._disk, path, in_order(pieces)).run()
        except (OSError, TreeringError) as error:
            if path == required:
                raise
            logger().warning("replay_waits", ref=path, why=str(error))
            return False
        finally:
            self._locks.give_back(held)
        return True


def _folders_above(path: str) -> Iterator[str]:
    """Yield the folders whose journals may have records of a file."""
    directory = os.path.dirname(path)
    while True:
        yield os.path.join(directory, JOURNALS)
        parent = os.path.dirname(directory)
        if parent == directory:
            return
        directory = parent


def in_order(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Return the records of a file in order; of overlapping records, the latest one."""
    ordered = sorted(pieces, key=lambda piece: piece.entry.epoch)
    current: list[_Piece] = []
    for piece in ordered:
        while current and current[-1].end > piece.start:
            current.pop()  # the file was shortened in between
        current.append(piece)
    return current


class _Restoration:
    """The restoration of one session file from the records of journals."""

    def __init__(self, disk: Disk, path: str, pieces: Sequence[_Piece]) -> None:
        self._disk = disk
        self._path = path
        self._pieces = pieces
        self._misplaced: list[_Piece] = []

    def run(self) -> None:
        """Write the missing bytes, and flush the file.

        Raises:
            LogError: The file is not a session.
            OSError: The file cannot be written.
        """
        if not self._pieces:
            return
        self._disk.make_directory(os.path.dirname(self._path))
        if self._pieces[0].creates_file or self._has_header():
            self._restore_in_place()
        elif not self._recreate_from_block():
            return
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
        return next((block for piece in self._pieces if (block := piece.block())), b"")

    # -- at the recorded offsets

    def _restore_in_place(self) -> None:
        disk, self._misplaced = self._disk, []
        fd = disk.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            for run in _runs(self._pieces):
                if not self._restore_run(fd, run):
                    return  # a new file took its place, in which everything was restored
            disk.datasync(fd)
        finally:
            disk.close(fd)

    def _restore_run(self, fd: int, run: Sequence[_Piece]) -> bool:
        """Restore a run of consecutive records; return False if that required a new file."""
        disk, size = self._disk, self._disk.fstat(fd).size
        start, end = run[0].start, run[-1].end
        if start > size:
            self._misplaced += run
            return True
        expected = b"".join(piece.data() for piece in run)
        actual = disk.pread(fd, end - start, start)
        at = _first_difference(actual, expected)
        if at == len(actual) and len(actual) < len(expected) and start + at == size:
            write_all(disk, fd, expected[at:])
        elif at < len(actual):
            if not _zeros_or_equal(actual, expected):
                self._misplaced += run
                return True
            if not _is_zero(disk, fd, end, size):
                self._replace_patched(fd, size, start + at, expected[at:])
                return False
            disk.truncate(fd, start + at)
            write_all(disk, fd, expected[at:])
        self._rewrite(fd, start, expected[:at])
        return True

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

    def _recreate_from_block(self) -> bool:
        """Create the file again from a header block and the lines of the journals, after its beginning was lost.

        Return False if no journal holds the header block.
        """
        block = self._header_block()
        if not block:
            logger().warning("replay_without_header", ref=self._path)
            return False
        write_atomically(self._disk, self._path, [block, *(piece.lines() for piece in self._pieces)], sync=True)
        return True

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
            for piece in self._misplaced:
                for line in piece.lines().split(b"\n"):
                    if line.strip() and (key := _line_key(line)) not in known:
                        known.add(key)
                        lines.append(line + b"\n")
            if lines:
                log.reload_changed()
                log.save_snapshot(log.table.count, None)  # holds the generation counter
                flush_file(disk, self._path + INDEX_SUFFIX)
                write_all(disk, fd, b"".join(lines))
            flush_or_write_again(disk, log, fd)
        logger().info("replayed_by_id", ref=self._path, lines=len(lines))


def _runs(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Split records into runs of consecutive ones without gaps."""
    runs = [[pieces[0]]]
    for previous, piece in pairwise(pieces):
        if piece.start == previous.end:
            runs[-1].append(piece)
        else:
            runs.append([piece])
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
