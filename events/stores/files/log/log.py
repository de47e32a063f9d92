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
from contextlib import AbstractContextManager, suppress

import anyio

from ....dialects.base import Dialect
from ....disk import Disk, FileStat, opened, write_all
from ....disk.disk import is_slow_device
from ....disk.disk_errors import naming_errors
from ....disk.packed import PackedDisk, reading_disk, stat_if_exists
from ....entries import Header
from ....errors import AppendInDoubt, LogError, LogReplaced, NotASession
from ....telemetry import logger
from ...base import Cursor, Lease, Ref, TornTail
from ..locks import Held
from ..names import UnflushedFolders
from ..replacing import migrate
from . import snapshots, tail
from .head import Extent, TornHeader, extent_of, generation_of, header_crc, read_head
from .snapshots import Snapshot
from .table import Table

NOWHERE = Cursor("", 0)
"""The head of a log that does not exist yet."""

_NOT_SAVED = -1
"""The saved counter if the snapshot's table is damaged: it differs from every counter, so the snapshot is rewritten."""

_REPAIRS_MAX = 100
"""How often a tail is repaired at a time, however often another program goes on writing; the next append finds more."""


class Log:
    """One log file.

    Args:
        disk: The disk.
        ref: The log's name in the store.
        path: Its real path.

    Attributes:
        disk: The disk through which the log is read: the given one, or `packed`.
        ref: Its name in the store.
        path: Its real path.
        packed: The disk that unpacks the log while it is packed; None while it is not.
        slow: Whether the log is on a disk that may block the event loop.

        header: Its decoded header; None while the log does not exist.
        header_crc: The checksum of its header line.
        dialect: The dialect of its lines; None while the log does not exist.
        table: Where its lines end.
        head: Its committed end.
        counter: How many earlier generations are known to have had this name.
        device, inode, size: The file after our last read or write.
        flushed_end: Up to where the snapshot says that the file had been flushed.
        modified_ns_seen: When the file was last modified before our last look at it; 0 if unknown. While an owner has a
            descriptor open, it looks only when it closes that.

        fd: The descriptor in the pool of open files, or -1.
        pool_place: Its position in the pool.
        recently_used: Whether it was used since the pool last looked for a file to close.

        lease, held: The lease and the lock, while the log is owned here.
        epoch: The epoch of the latest ownership that is known.
        torn: The torn tail that was repaired when the log was acquired.
        busy: Whether a worker thread is working on the owned log, so that its next append has to wait.
        idle: Wakes those who wait for `busy` to become False; None if nobody does.
        gate: Lets one thread at a time work on a log that is not owned; None before the first one does.

        doubt: Why the content of the file is uncertain; None once it was examined again.
        doubt_in_background: Whether the doubt arose outside of an append: the next append then examines the file and
            proceeds, instead of failing.
        unsynced: Whether a failed flush may have lost the last bytes, which have to be written again.
        unjournaled: Whether the last bytes are in no journal, because writing it failed.
        unflushed_folders: The folders to flush before the log's own name is known to survive a power cut.
    """

    __slots__ = (
        "_reader_extent",
        "_saved_counter",
        "busy",
        "counter",
        "device",
        "dialect",
        "disk",
        "doubt",
        "doubt_in_background",
        "epoch",
        "fd",
        "flushed_end",
        "gate",
        "head",
        "header",
        "header_crc",
        "held",
        "idle",
        "inode",
        "lease",
        "modified_ns_seen",
        "packed",
        "path",
        "pool_place",
        "recently_used",
        "ref",
        "size",
        "slow",
        "table",
        "torn",
        "unflushed_folders",
        "unjournaled",
        "unsynced",
    )

    def __init__(self, disk: Disk, ref: Ref, path: str) -> None:
        self.disk = disk
        self.ref = ref
        self.path = path
        self.packed: PackedDisk | None = None
        self.slow: bool
        self.counter = 0
        self._saved_counter: int
        self._forget()

        self.fd = -1
        self.pool_place: int
        self.recently_used: bool

        self.lease: Lease | None = None
        self.held: Held | None = None
        self.epoch: int
        self.torn: TornTail | None = None
        self.busy = False
        self.idle: anyio.Event | None = None
        self.gate: anyio.Lock | None = None

        self.doubt: AppendInDoubt | None = None
        self.doubt_in_background = False
        self.unsynced = False
        self.unjournaled = False
        self.unflushed_folders = UnflushedFolders(path, (), set())

    def _forget(self) -> None:
        """Reset to the state of a log that does not exist."""
        self.header: Header | None = None
        self.dialect: Dialect | None = None
        self.table = Table(array("Q", [0]))
        self.head = NOWHERE
        self.device = self.inode = self.size = self.flushed_end = self.modified_ns_seen = self.header_crc = 0
        self._reader_extent: Extent | None = None  # an owner needs none: it compares the file with its own last write

    @property
    def generation(self) -> str:
        """The generation that the table belongs to; empty for a log that does not exist."""
        return self.head.generation

    def note_background_doubt(self, doubt: AppendInDoubt) -> None:
        """Note a failure outside of an append: the next append examines the file first, then proceeds."""
        if self.doubt is None:
            self.doubt = doubt
            self.doubt_in_background = True

    def note_not_flushed(self, error: BaseException) -> None:
        """Note that a flush failed outside of an append: the bytes have to be written again before the next one."""
        self.unsynced = True
        self.note_background_doubt(AppendInDoubt(f"{self.path} could not be flushed ({error}): check the disk"))

    def note_idle(self) -> None:
        """Note that no worker thread works on the log any more, and wake those who wait for that."""
        self.busy = False
        if self.idle is not None:
            self.idle.set()
            self.idle = None

    def note_certain(self) -> None:
        """Note that the content of the file is known again, and that nothing has to be written again."""
        self.doubt = None
        self.doubt_in_background = False
        self.unsynced = False

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
        """Examine the file from its beginning as its owner: migrate an old version, and repair the tail.

        Args:
            reader: The log as it was last read through the same store; None if that is not known.

        Raises:
            NotASession: The file does not begin with a header.
            UnsupportedVersion: The file was written by a newer program.
            OSError: The file cannot be read or written.
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

    def _set_torn_header_aside(self) -> None:
        """Move the beginning of a header to a file beside the log, which is empty then, unless it has grown."""
        with suppress(FileNotFoundError, NotASession), self.opened(os.O_RDWR | os.O_APPEND) as fd, self.naming_errors():
            size = self.disk.fstat(fd).size
            try:
                read_head(self.disk, fd, self.path, size)
            except TornHeader:
                if (kept_in := tail.move_away(self.disk, self.path, fd, 0, size)) is not None:
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
            fd: The file.
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
        table, flushed_end = Table(array("Q", [detected.size])), 0
        if snapshot is not None:
            if not snapshot.describes(disk, fd, stat, crc, detected.size):
                changed = True
            elif ends is not None:
                table = Table(ends)
                flushed_end = snapshot.extent.end if snapshot.flushed else 0
        if not block.endswith(b"\n"):
            table.scanned = 0  # the header itself is the tail
        else:
            table.grow(disk, fd, stat.size)
        counter += changed
        generation = self._generation_of(fd, stat, crc, counter, table)
        reader_extent = None
        if open_end:
            self._count_open_end(fd, table, stat.size)
            reader_extent = self._extent_for_reader(fd, table, crc)
        self._take_over(stat, crc, counter, table, generation, reader_extent)
        self.flushed_end = flushed_end
        self.header, self.dialect = detected.header, detected.dialect
        return True

    def _generation_of(self, fd: int, stat: FileStat, crc: int, counter: int, table: Table) -> str:
        """Return the generation of a file with these lines."""
        return generation_of(self.disk, fd, stat.inode, crc, counter, table.first)

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
        """Take over the state of the file that was just created with this header and these lines.

        Raises:
            OSError: The file cannot be read.
        """
        stat, crc = self.disk.fstat(fd), header_crc(block)
        table = Table(array("Q", [len(block)]))
        for line in lines:
            table.ends.append(table.ends[-1] + len(line))
        table.scanned = table.ends[-1]
        generation = self._generation_of(fd, stat, crc, self.counter, table)
        self._take_over(stat, crc, self.counter, table, generation)
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

    def roll_back(self, head: Cursor, size: int) -> None:
        """Return to an earlier head and size, as if the lines after them had not been appended."""
        if head.generation:
            del self.table.ends[head.seq + 1 :]
            self.table.scanned = self.size = size
            self.head = head
        else:
            self._forget()

    def _count_open_end(self, fd: int, table: Table, size: int) -> None:
        """Count a last line that is whole but has no newline yet."""
        if size > table.scanned >= table.ends[0]:
            table.count_open_end(self.disk, fd, size)

    def is_same(self, stat: FileStat) -> bool:
        """Tell whether this is still the file whose lines are indexed; it may have grown."""
        return stat.inode == self.inode and stat.device == self.device and stat.size >= self.table.scanned

    def is_as_left(self, stat: FileStat) -> bool:
        """Tell whether the file is as it was after our last read or write."""
        return stat.is_still(self.device, self.inode, self.size)

    def is_unchanged(self, stat: FileStat) -> bool:
        """Tell whether the file is the one whose lines are indexed, and shows no sign of a change.

        A reader also compares its time, as the file may have been shortened and grown to the same size. For an owner,
        the time only matters while no descriptor is open: the file may then be another one with the same inode.
        """
        same_size = self.is_same(stat) and stat.size == self.size
        ignores_time = self.lease is not None and self.fd >= 0
        return same_size and (ignores_time or stat.modified_ns == self.modified_ns_seen)

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
        before = self.head.generation
        try:
            self._load(changed=True, open_end=self.lease is None)
        except LogError:
            self._forget()
            raise
        if self.lease is not None and self.header is not None:
            self._save_counter(self.header)
        assert self.head.generation != before or not before

    def settle(self, fd: int) -> TornTail | None:
        """Repair the tail and return what it was; `fd` must be open for reading and appending."""
        disk, shared = self.disk, self.dialect is not None and self.dialect.shared
        torn: TornTail | None = None
        with self.naming_errors():
            if self.table.scanned == 0 < (size := disk.fstat(fd).size):  # the newline is missing from the header
                write_all(disk, fd, b"\n")
                self._load()
                torn = TornTail(0, size)
            for _ in range(_REPAIRS_MAX):
                start, size = self.table.scanned, disk.fstat(fd).size
                if size <= start:
                    break
                kept_in: str | None = None
                if tail.needs_newline(disk, fd, start, size, shared=shared):
                    write_all(disk, fd, b"\n")
                else:  # None: another program went on, and what it finished is no tail
                    kept_in = tail.move_away(disk, self.path, fd, start, size)
                torn = TornTail(start, size - start, kept_in)
                self.table.grow(disk, fd, disk.fstat(fd).size)
                self.head = Cursor(self.head.generation, self.table.count)
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

    def replaced_error(self) -> LogReplaced:
        """Return the error that says that the file has another history now."""
        return LogReplaced(f"{self.path} was replaced, shortened or removed by another program: read it from the start")

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
        ends = table.ends[: seq + 1]
        snapshots.write_snapshot(self.disk, self.path, self.counter, stat, extent, ends, index, flushed=flushed)

    # -- descriptors and errors

    def opened(self, flags: int) -> AbstractContextManager[int]:
        """Open the file for the duration of a `with` block, outside the pool."""
        return opened(self.disk, self.path, flags)

    def naming_errors(self) -> AbstractContextManager[None]:
        """Add the path of the file to disk errors that lack one."""
        return naming_errors(self.path)
