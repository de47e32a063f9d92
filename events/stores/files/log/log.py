"""One log file: its header, where its lines end, and how changes by other programs are detected.

A log is examined in one of two ways. A reader accepts the file as it is, counts a whole last line even without its
newline, and changes nothing. The owner first repairs the tail, counts only finished lines, and remembers the file's
device, inode and size: any later difference is the work of another program.

Methods that read or write files block; those that may take long are called in worker threads, by one caller at a time.
The attributes that readers use in the meantime (`table`, `head`) only grow at their end or are replaced as a whole.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate

from ....dialects.base import Dialect
from ....disk import Disk, FileStat, write_all
from ....disk.disk import is_slow_device
from ....disk.packed import packed_forms, reading_disk, stat_if_exists
from ....entries import Header
from ....errors import LogError, LogReplaced, NotASession
from ....telemetry import logger
from ...base import Cursor, TornTail
from ..names import INDEX_SUFFIX
from . import snapshots
from .backups import mend, migrate, move_away
from .head import FIRST_LINE, Extent, TornHeader, extent_of, generation_of, header_crc, read_head
from .snapshots import Snapshot
from .state import LogState
from .table import INLINE_MAX, Table

_REPAIRS_MAX = 100
"""How often a tail is repaired at a time, however often another program goes on writing; the next append finds more."""

_NOT_SAVED = -1
"""The saved counter if the snapshot is damaged or lacks the generation to keep: it differs from every counter, so the
snapshot is rewritten."""


class Log(LogState):
    """One log file: see `LogState` for what is known of it."""

    __slots__ = ()

    # -- examining the file

    def examine(self) -> None:
        """Examine the file from its beginning, as a reader.

        Raises:
            NotASession: The file does not begin with a header.
            UnsupportedVersion: The file was written by a newer program.
            OSError: The file cannot be read.
        """
        self._load(open_end=True)

    def find(self) -> None:
        """Examine the file, or its packed form if there is no file; see `examine`.

        Raises:
            LogDamaged: The packed form is damaged.
            ExtraMissing: Reading it needs a package that is not installed.
        """
        self.examine()
        if self.header is None:
            self.find_packed()
            if self.packed is None:
                self.examine()  # it may have been unpacked in between

    def find_packed(self) -> bool:
        """Examine the packed form, if there is one; return False if the file itself exists after all."""
        disk = self.disk
        self.packed = reading_disk(disk, self.path)
        if self.packed is not None:
            self.disk = self.packed
            self.examine()
        if stat_if_exists(disk, self.path) is None:
            return True
        self.disk, self.packed = disk, None
        return False

    def note_unpacked(self, disk: Disk) -> None:
        """Own the file that was just unpacked; see `own`. After an error, the log still counts as packed."""
        packed, self.disk, self.packed = self.packed, disk, None
        try:
            self.own()
        except BaseException:
            self.disk, self.packed = packed or disk, packed
            raise

    def own(self, reader: Log | None = None) -> None:
        """Examine the file from its beginning as its owner: migrate an old version, and repair the tail; see `examine`.

        Args:
            reader: The log as it was last read through the same store; None if that is not known.
        """
        self._load()
        if self.header is None:
            self._set_torn_header_aside()
        if (
            reader is not None
            and self.header is not None  # files that are missing have the same generation
            and reader.generation == self.generation
            and not self._continues_from(reader)
        ):
            self._load(changed=True)
        if self.dialect is not None and self.dialect.old:
            with self.opened(os.O_RDONLY) as fd:
                _, block = read_head(self.disk, fd, self.path, self.size)
                migrate(self.disk, self.path, fd, block, self.dialect, self.table)
            self._load(changed=True)
        if self.header is not None:
            with self.opened(os.O_RDWR | os.O_APPEND) as fd:
                self.torn = self.settle(fd)
            self._save_counter(self.header)

    def own_at_once(self, reader: Log | None) -> bool:
        """Do the same for a log that does not exist, or for a small file with nothing to repair.

        Returns:
            False if it takes more than that: the file was left as it is, and `own` has to be called on another object.
        """
        stat = stat_if_exists(self.disk, self.path)
        if stat is None:
            self._saved_counter = 0
            return snapshots.read_snapshot(self.disk, self.path) is None and not packed_forms(self.disk, self.path)
        if not 0 < stat.size <= INLINE_MAX:
            return False
        self._load()
        if self.header is None or self.dialect is None or self.dialect.old or self.table.scanned != self.size:
            return False
        if reader is not None and reader.generation == self.generation and not self._continues_from(reader):
            return False
        if packed_forms(self.disk, self.path):
            return False
        self._save_counter(self.header)
        return True

    def _set_torn_header_aside(self) -> None:
        """Move the beginning of a header to a file beside the log, which is empty then, unless it has grown."""
        with suppress(FileNotFoundError, NotASession), self.opened(os.O_RDWR | os.O_APPEND) as fd, self.naming_errors():
            size = self.disk.fstat(fd).size
            try:
                read_head(self.disk, fd, self.path, size)
            except TornHeader:
                if (kept_in := move_away(self.disk, self.path, fd, 0, size)) is not None:
                    self.torn = TornTail(0, size, kept_in)

    def _save_counter(self, header: Header) -> None:
        """Save the generation counter if the snapshot is damaged or has another value."""
        if self._saved_counter != self.counter:
            try:
                self.save_snapshot(self.table.count, None)
            except (OSError, LogReplaced) as error:
                logger().debug("snapshot_not_saved", session_id=header.id, ref=self.ref, error=str(error))
            self._saved_counter = self.counter

    def _load(self, *, changed: bool = False, open_end: bool = False) -> None:
        """Read the header and index all finished lines.

        Args:
            changed: The file is known to have another history than before, even if nothing else shows it.
            open_end: Count a complete last line without a newline, too.
        """
        snapshot = snapshots.read_snapshot(self.disk, self.path)
        ends = None if snapshot is None else snapshots.read_table(self.disk, self.path, snapshot)
        saved_counter = 0 if snapshot is None else snapshot.counter
        counter = max(self.counter, saved_counter)
        self._saved_counter = _NOT_SAVED if snapshot is not None and ends is None else saved_counter
        try:
            with self.opened(os.O_RDONLY) as fd, self.naming_errors():
                exists = self._load_file(fd, snapshot, ends, counter, changed=changed, open_end=open_end)
        except (FileNotFoundError, TornHeader):
            exists = False
        if not exists:
            self._forget()
            self.counter = counter + (snapshot is not None or changed)

    def _load_file(
        self,
        fd: int,
        snapshot: Snapshot | None,
        ends: array[int] | None,
        counter: int,
        *,
        changed: bool,
        open_end: bool,
    ) -> bool:
        """Read the header and index the lines of an open file; return False if it is empty.

        Args:
            snapshot: The snapshot beside it, which may be of another file.
            ends: The snapshot's line table; None if it is damaged.
            counter: How many earlier generations are known.
            changed: See `_load`.
            open_end: See `_load`.
        """
        disk = self.disk
        stat = disk.fstat(fd)
        if stat.size == 0:
            return False
        detected, block = read_head(disk, fd, self.path, stat.size)
        crc = header_crc(block)
        table, flushed_end, kept = Table(array("Q", [detected.size])), 0, ""
        if snapshot is not None:
            packed = self.packed is not None
            if not snapshot.describes(disk, fd, stat, crc, detected.size, packed=packed):
                changed = True
            elif ends is not None:
                table = Table(ends)
                flushed_end = snapshot.extent.end if snapshot.flushed else 0
                if snapshot.kept is not None:
                    kept = snapshot.kept.generation
                    if kept == self.head.generation and stat.inode != self.inode:
                        changed = False  # it was packed or unpacked, which another process may have done
        if not block.endswith(b"\n"):
            table.scanned = 0  # the header itself is the tail
        else:
            table.grow(disk, fd, stat.size)
        counter += changed
        kept = "" if changed else kept
        generation = kept or generation_of(stat.inode, crc, counter, table.first_line(disk, fd, FIRST_LINE))
        if not table.count and not kept and not open_end:
            kept, self._saved_counter = generation, _NOT_SAVED  # it is made without the first line, which will come
        reader_extent = None
        if open_end:
            self._count_open_end(fd, table, stat.size)
            reader_extent = self._extent_for_reader(fd, table, crc)
        self._take_over(stat, crc, counter, table, generation, reader_extent)
        self.flushed_end = flushed_end
        self.kept = kept
        self.header, self.dialect = detected.header, detected.dialect
        return True

    def _take_over(
        self, stat: FileStat, crc: int, counter: int, table: Table, generation: str, reader_extent: Extent | None = None
    ) -> None:
        """Replace the state by that of a file; everything was read before, so that an error changes nothing."""
        self.device, self.inode, self.size = stat.device, stat.inode, stat.size
        self.modified_ns_seen = stat.modified_ns
        self.slow = is_slow_device(stat.device)
        self.counter = counter
        self.header_crc = crc
        self.table = table
        self.head = Cursor(generation, table.count)
        self._reader_extent = reader_extent

    def note_created(self, fd: int, header: Header, dialect: Dialect, block: bytes, lines: tuple[bytes, ...]) -> None:
        """Take over the state of the file that was just created with this header and these lines."""
        stat, crc = self.disk.fstat(fd), header_crc(block)
        table = Table(array("Q", accumulate(map(len, (block, *lines)))))
        generation = generation_of(stat.inode, crc, self.counter, lines[0] if lines else None)
        self._take_over(stat, crc, self.counter, table, generation)
        self.kept = "" if lines else generation
        self._saved_counter = self._saved_counter if lines else _NOT_SAVED
        self.header, self.dialect = header, dialect
        self._save_counter(header)

    # -- changes since the last look

    def refresh_with_own_fd(self) -> None:
        """Index appended lines, or reload the file if it was replaced, using a descriptor outside the pool.

        Raises:
            LogError: The file is no longer a session.
            OSError: The file cannot be read.
        """
        try:
            with self.opened(os.O_RDONLY) as fd:
                stat = self.disk.fstat(fd)
                is_same = self.is_same(stat) if self.fd >= 0 else self.is_same_after_reopen(fd, stat)
                if is_same and self.continues(fd, stat):
                    self.refresh(fd, stat)
                    return
        except FileNotFoundError:
            pass
        self.reload_changed()

    def refresh(self, fd: int, stat: FileStat) -> None:
        """Index the lines appended since the last look; `stat` is the present status of the file."""
        table = self.table
        if stat.size != self.size:
            table.grow(self.disk, fd, stat.size)
            if self.lease is None:
                self._count_open_end(fd, table, stat.size)
                self._reader_extent = self._extent_for_reader(fd, table, self.header_crc)
            self.size = stat.size
            self.head = Cursor(self.head.generation, table.count)
        self.modified_ns_seen = stat.modified_ns

    def _extent_for_reader(self, fd: int, table: Table, crc: int) -> Extent | None:
        """Return the fingerprint of the lines that a reader has indexed; None for a packed log, which never grows."""
        return None if self.packed is not None else self.extent(fd, table, table.count, crc)

    def _count_open_end(self, fd: int, table: Table, size: int) -> None:
        """Count a last line that is whole but has no newline yet."""
        if size > table.scanned >= table.ends[0]:
            table.count_open_end(self.disk, fd, size)

    def is_same_after_reopen(self, fd: int, stat: FileStat) -> bool:
        """Tell whether a file is still the same after its descriptor was closed for a while.

        Its inode may have been reused: many file systems give it to the next file that is created. So compare the
        header if the file was modified in between.
        """
        if not self.is_same(stat):
            return False
        if not self.modified_ns_seen or stat.modified_ns == self.modified_ns_seen:
            return True
        try:
            return header_crc(read_head(self.disk, fd, self.path, stat.size)[1]) == self.header_crc
        except LogError:
            return False

    def continues(self, fd: int, stat: FileStat) -> bool:
        """Tell whether a changed file still begins with the lines that are indexed, as far as their ends show.

        It does not if it was shortened and then grew again, or was rewritten in place with a longer content.
        """
        table, extent = self.table, self._reader_extent
        if table.scanned < table.ends[0]:
            return stat.size == self.size  # the header had no newline: what follows may be one, or make it another
        if self.lease is None and extent is not None and extent.end == table.ends[-1]:
            return extent == self.extent(fd, table, table.count)
        return stat.size == self.size or self.disk.pread(fd, 1, table.scanned - 1) == b"\n"

    def continues_with_own_fd(self, stat: FileStat) -> bool:
        """Tell the same with a descriptor outside the pool, after checking that it is the same file."""
        if not self.is_same(stat):
            return False
        with self.opened(os.O_RDONLY) as fd:
            return self.continues(fd, stat)

    def _continues_from(self, reader: Log) -> bool:
        """Tell whether the file still begins with the lines that a reader has indexed, as far as their ends show."""
        if (reader.size, reader.modified_ns_seen) == (self.size, self.modified_ns_seen):
            return True
        with self.opened(os.O_RDONLY) as fd:
            return reader.continues(fd, self.disk.fstat(fd))

    def reload_changed(self) -> None:
        """Load the file again after it was replaced, shortened or removed; this starts a new generation.

        Raises:
            NotASession: The file does not begin with a header. The log is then treated as one that does not exist.
            UnsupportedVersion: The file was written by a newer program; it is treated in the same way.
            OSError: The file cannot be read. The log stays as it was, and the next look at the file tries again.
        """
        before, inode = self.head.generation, self.inode
        try:
            self._load(changed=True, open_end=self.lease is None)
        except LogError:
            self._forget()
            raise
        if self.lease is not None and self.header is not None:
            self._save_counter(self.header)
        assert self.head.generation != before or not before or self.inode != inode

    def settle(self, fd: int) -> TornTail | None:
        """Repair the tail and return what it was; `fd` must be open for reading and appending."""
        disk, table = self.disk, self.table
        torn: TornTail | None = None
        with self.naming_errors():
            if table.scanned == 0 < (size := disk.fstat(fd).size):  # the newline is missing from the header
                write_all(disk, fd, b"\n")
                self._load()
                table, torn = self.table, TornTail(0, size)
            shared = self.dialect is not None and self.dialect.shared
            for _ in range(_REPAIRS_MAX):
                start, size = table.scanned, disk.fstat(fd).size
                if size <= start:
                    break
                torn = mend(disk, self.path, fd, start, size, shared=shared)
                table.grow(disk, fd, disk.fstat(fd).size)
                self.head = Cursor(self.head.generation, table.count)
            self.size = size
        return torn

    # -- lines

    def lines(self, fd: int, table: Table, runs: list[tuple[int, int]]) -> Sequence[bytes]:
        """Read the lines of runs of seqs, each given by its first and last seq.

        Raises:
            LogReplaced: The file does not hold these lines.
        """
        lines: list[bytes] = []
        with self.naming_errors():
            for first, last in runs:
                run_lines = table.lines(self.disk, fd, first, last)
                if run_lines is None:
                    raise self.replaced_error()
                if len(runs) == 1:
                    return run_lines
                lines += run_lines
        return lines

    def lines_with_own_fd(self, table: Table, runs: list[tuple[int, int]]) -> Sequence[bytes]:
        """Read lines using a descriptor outside the pool."""
        device, inode = self.device, self.inode  # not the size: the owner may be appending
        with self.opened(os.O_RDONLY) as fd:
            stat = self.disk.fstat(fd)
            if (stat.device, stat.inode) != (device, inode):
                raise self.replaced_error()
            return self.lines(fd, table, runs)

    # -- the files beside it

    def extent(self, fd: int, table: Table, seq: int, crc: int | None = None) -> Extent:
        """Return the fingerprint of the log up to a line; `crc` is the header's, if it is not the known one."""
        with self.naming_errors():
            return extent_of(self.disk, fd, table.ends[0], table.ends[seq], self.header_crc if crc is None else crc)

    def save_snapshot(self, seq: int, index: bytes | None, *, flushed: bool = False) -> None:
        """Write the table and the index up to a line.

        Args:
            seq: The line.
            index: The index; None for none.
            flushed: Whether the log was flushed up to that line.

        Raises:
            LogReplaced: The file was replaced.
            OSError: The snapshot cannot be written.
        """
        table = self.table
        with self.opened(os.O_RDONLY) as fd:
            stat = self.disk.fstat(fd)
            if not self.is_same(stat):
                raise self.replaced_error()
            extent = self.extent(fd, table, seq)
        ends, kept = table.ends[: seq + 1], snapshots.Kept(self.kept, stat.inode, 0) if self.kept else None
        snapshots.write_snapshot(
            self.disk, self.path, self.counter, stat, extent, ends, index, flushed=flushed, kept=kept
        )

    def keep_generation(self, disk: Disk, log: FileStat, packed: FileStat) -> None:
        """Let the log and its packed form, of which one is made of the other, have one generation; see `snapshots`.

        Raises:
            OSError: The snapshot, which is named, cannot be written.
        """
        stat = log if self.packed is not None else packed  # of the one that is made
        start, kept = self.table.ends[0], snapshots.Kept(self.generation, log.inode, packed.inode)
        extent = Extent(start, start, self.header_crc, 0)
        try:
            snapshots.write_snapshot(
                disk, self.path, self.counter, stat, extent, array("Q", [start]), None, flushed=False, kept=kept
            )
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path + INDEX_SUFFIX) from error
