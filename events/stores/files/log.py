"""One log file: its header, where its lines end, and what to do when it is not as it was left.

A log is looked at in two ways. A reader takes it as it stands, a whole last line without a newline included, and changes
nothing. The owner puts the tail right first, counts finished lines only, and remembers the file's device, inode and size:
whatever differs later was done by another program.

Methods that read or write files block; those that may take long are called in worker threads, by one caller at a time.
What readers use meanwhile (`table`, `head`) only ever grows at its end or is replaced as a whole.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager

import anyio

from ...dialects.base import Dialect
from ...disk import Disk, FileStat, opened
from ...entries import Header
from ...errors import AppendInDoubt, LogError, LogReplaced
from ...telemetry import logger
from ..base import Cursor, Lease, Ref, TornTail
from . import beside, tail
from .beside import Extent
from .head import generation_of, header_crc, read_head
from .locks import Held
from .migration import migrate
from .mounts import is_slow_device
from .packed_disk import PackedDisk, reading_disk
from .table import Table

NOWHERE = Cursor("", 0)
"""The head of a log that is not there yet."""

_UNKEPT = -1
"""In place of the count that a snapshot keeps whose table is damaged, so that it is written anew."""


class Log:
    """One log file.

    Attributes:
        ref: Its name in the store.
        path: Its real path.
        header: What its header says; None while it is not there.
        dialect: How its lines are written; None while it is not there.
        table: Where its lines end.
        head: Where it ends, as far as it is committed.
        device, inode, size: The file as it was left.
        fd: The descriptor that the pool opened for it, or -1.
        place: Where the pool holds it.
        used: The descriptor was used lately.
        left_ns: When the file was modified last, as of the moment when its descriptor was closed.
        lease, held: The right to append, while it is owned here.
        epoch: The epoch of the latest ownership that is known.
        busy: A worker thread is at it.
        idle: Set when it is no longer.
        doubt: Why nobody knows what the file holds, until somebody looks.
        distrusted: The doubt is of no append that somebody waits for; whoever appends next looks, and goes on.
        named_folders: The folders whose names are sure to survive a power cut, as the store knows.
        unnamed: The folders to flush before it is sure that the log's name does, too.
        unjournaled: A failed journal leaves it open whether the last bytes are on the disk.
        unsynced: A failed flush leaves it open whether the last bytes are on the disk.
        slow: It lies where the disk may keep the event loop waiting.
        packed: The disk on which it is read while it is packed; None while it is not.
        torn: The torn tail that was put right when it was acquired.
    """

    __slots__ = (
        "_counted",
        "_crc",
        "_disk",
        "busy",
        "counter",
        "device",
        "dialect",
        "distrusted",
        "doubt",
        "epoch",
        "fd",
        "gate",
        "head",
        "header",
        "held",
        "idle",
        "inode",
        "lease",
        "left_ns",
        "named_folders",
        "packed",
        "path",
        "place",
        "ref",
        "size",
        "slow",
        "table",
        "torn",
        "unjournaled",
        "unnamed",
        "unsynced",
        "used",
    )

    def __init__(self, disk: Disk, ref: Ref, path: str) -> None:
        self._disk = disk
        self.ref = ref
        self.path = path
        self.fd = -1
        self.place = 0
        self.used = False
        self.left_ns = 0
        self.lease: Lease | None = None
        self.held: Held | None = None
        self.epoch = 0
        self.busy = False
        self.idle: anyio.Event | None = None
        self.gate: anyio.Lock | None = None
        self.doubt: AppendInDoubt | None = None
        self.distrusted = False
        self.named_folders: set[str] = set()
        self.unnamed: tuple[str, ...] = ()
        self.unjournaled = False
        self.unsynced = False
        self.slow = False
        self.packed: PackedDisk | None = None
        self.torn: TornTail | None = None
        self.counter: int = 0
        self._counted: int = 0
        self._forget()

    def _forget(self) -> None:
        """Know of no file under this name."""
        self.header: Header | None = None
        self.dialect: Dialect | None = None
        self.table = Table(array("Q", [0]))
        self.head = NOWHERE
        self.device = self.inode = self.size = 0
        self._crc = 0

    @property
    def generation(self) -> str:
        """The history that the table belongs to; empty for a log that is not there."""
        return self.head.generation

    def distrust(self, doubt: AppendInDoubt) -> None:
        """Have whoever appends next look first, and then go on: what failed was no append's."""
        if self.doubt is None:
            self.doubt = doubt
            self.distrusted = True

    # -- looking at it

    def examine(self, *, changed: bool = False) -> None:
        """Look at the file from its beginning, as a reader does.

        Args:
            changed: It is known to be another one than the one that was known, though it may not look like it.

        Raises:
            NotASession: It does not begin with a header.
            UnsupportedVersion: A newer program wrote it.
            OSError: It cannot be read.
        """
        self._look(changed=changed, open_end=True)

    def find(self) -> None:
        """Look at the file, or where there is none at its packed form; see `examine`.

        Raises:
            LogDamaged: The packed form is damaged.
            ExtraMissing: Reading it needs a package that is not installed.
        """
        self.examine()
        if self.header is None:
            self.find_packed()
            if self.packed is None:
                self.examine()  # it may have been unpacked between the two looks

    def find_packed(self) -> None:
        """Look at the packed form, where there is one."""
        self.packed = reading_disk(self._disk, self.path)
        if self.packed is not None:
            self._disk = self.packed
            self.examine()

    def unpacked(self, disk: Disk) -> None:
        """Take note that the file stands there again, and own it; see `own`."""
        self._disk, self.packed = disk, None
        self.own()

    def own(self) -> None:
        """Look at the file from its beginning, bring it to its present version and put its tail right.

        Raises:
            NotASession: It does not begin with a header.
            UnsupportedVersion: A newer program wrote it.
            OSError: It cannot be read or written.
        """
        self._look()
        if self.dialect is not None and self.dialect.old:
            with self.opened(os.O_RDONLY) as fd:
                _, block = read_head(self._disk, fd, self.path, self.size)
                migrate(self._disk, self.path, fd, block, self.dialect, self.table)
            self._look(changed=True)
        if self.header is not None:
            with self.opened(os.O_RDWR | os.O_APPEND) as fd:
                self.torn = self.settle(fd)
            self._remember()

    def _remember(self) -> None:
        """Keep the count of histories, where it has grown or a damaged snapshot keeps it."""
        if self._counted != self.counter:
            try:
                self.save_snapshot(self.table.count, None)
            except (OSError, LogReplaced) as error:
                session_id = self.header.id if self.header is not None else None
                logger().debug("snapshot_not_saved", session_id=session_id, ref=self.ref, error=str(error))
            self._counted = self.counter

    def _look(self, *, changed: bool = False, open_end: bool = False) -> None:
        """Read the header and take in all finished lines.

        Args:
            changed: See `examine`.
            open_end: Count a whole last line that has no newline, too.
        """
        disk = self._disk
        kept = beside.read_snapshot(disk, self.path)
        ends = None if kept is None else beside.read_table(disk, self.path, kept)
        counted = 0 if kept is None else kept.counter
        counter = max(self.counter, counted)
        self._counted = _UNKEPT if kept is not None and ends is None else counted
        try:
            fd = disk.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            self._forget()
            self.counter = counter + (kept is not None or changed)
            return
        try:
            with self.named():
                found = disk.fstat(fd)
                if found.size == 0:
                    self._forget()
                    self.counter = counter + (kept is not None or changed)
                    return
                detected, block = read_head(disk, fd, self.path, found.size)
                crc = header_crc(block)
                table = Table(array("Q", [detected.size]))
                if kept is not None:
                    if not kept.speaks_of(disk, fd, found, crc, detected.size):
                        changed = True
                    elif ends is not None:
                        table = Table(ends)
                if not block.endswith(b"\n"):
                    table.scanned = 0  # the header itself is the tail
                else:
                    table.grow(disk, fd, found.size)
                self.header, self.dialect = detected.header, detected.dialect
                self.device, self.inode, self.size = found.device, found.inode, found.size
                self.slow = is_slow_device(found.device)
                self.counter = counter + changed
                self._crc = crc
                self._name(fd, table)
                if open_end:
                    self.take_open_end(fd)
        finally:
            disk.close(fd)

    def _name(self, fd: int, table: Table) -> None:
        """Begin a history with these lines."""
        first = (table.ends[0], table.ends[1]) if table.count else None
        generation = generation_of(self._disk, fd, self.inode, self._crc, self.counter, first)
        self.table = table
        self.head = Cursor(generation, table.count)

    def created(self, fd: int, header: Header, dialect: Dialect, block: bytes, lines: tuple[bytes, ...]) -> None:
        """Know the file that was just written with this header and these lines."""
        found = self._disk.fstat(fd)
        table = Table(array("Q", [len(block)]))
        for line in lines:
            table.ends.append(table.ends[-1] + len(line))
        table.scanned = table.ends[-1]
        self.device, self.inode, self.size = found.device, found.inode, found.size
        self.slow = is_slow_device(found.device)
        self._crc = header_crc(block)
        self._name(fd, table)
        self.header, self.dialect = header, dialect
        self._remember()

    # -- what was done to it since

    def refresh_apart(self) -> None:
        """Take in what was appended, or what the file was replaced by, with a descriptor of its own.

        Raises:
            LogError: What stands there now is no session.
            OSError: It cannot be read.
        """
        try:
            with self.opened(os.O_RDONLY) as fd:
                found = self._disk.fstat(fd)
                if self.is_same(found):
                    self.refresh(fd, found)
                    return
        except FileNotFoundError:
            pass
        self.changed()

    def refresh(self, fd: int, found: FileStat) -> None:
        """Take in what was appended since, given how the file looks now."""
        table = self.table
        if found.size != self.size:
            table.grow(self._disk, fd, found.size)
            self.size = found.size
            if self.lease is None:
                self.take_open_end(fd)
            self.head = Cursor(self.head.generation, table.count)

    def take_back(self, head: Cursor, size: int) -> None:
        """Know of nothing after a head and a size again, as if the rest had not been appended."""
        if head.generation:
            del self.table.ends[head.seq + 1 :]
            self.table.scanned = self.size = size
            self.head = head
        else:
            self._forget()

    def take_open_end(self, fd: int) -> None:
        """Count a whole last line that has no newline."""
        if self.size > self.table.scanned >= self.table.ends[0]:
            self.table.take_end(self._disk, fd, self.size)
            self.head = Cursor(self.head.generation, self.table.count)

    def is_same(self, found: FileStat) -> bool:
        """Tell whether this is still the file whose lines are known; it may have grown."""
        return found.inode == self.inode and found.device == self.device and found.size >= self.table.scanned

    def is_left(self, fd: int, found: FileStat) -> bool:
        """Tell whether a file that nobody had open is still the one that was left.

        Its inode may have been used again. So if it was modified meanwhile and yet has the same size, its header decides.
        """
        if not self.is_same(found):
            return False
        if not self.left_ns or found.modified_ns == self.left_ns or found.size != self.size:
            return True
        try:
            return header_crc(read_head(self._disk, fd, self.path, found.size)[1]) == self._crc
        except LogError:
            return False

    def changed(self) -> None:
        """Take note that the file was replaced, shortened or removed; the generation is another one from here on.

        Raises:
            NotASession: What stands there now does not begin with a header; nothing is known of it then.
        """
        before = self.head.generation
        try:
            self._look(changed=True, open_end=self.lease is None)
        except BaseException:
            self._forget()
            raise
        if self.lease is not None and self.header is not None:
            self._remember()
        assert self.head.generation != before or not before

    def settle(self, fd: int) -> TornTail | None:
        """Put the tail right, given a descriptor for reading and appending, and tell what it was."""
        disk, shared = self._disk, self.dialect is not None and self.dialect.shared
        torn: TornTail | None = None
        with self.named():
            while True:
                start, size = self.table.scanned, disk.fstat(fd).size
                if size <= start:
                    self.size = size
                    return torn
                torn = TornTail(start, size - start)
                if start == 0 or tail.needs_newline(disk, fd, start, size, shared=shared):
                    beside.write_all(disk, fd, b"\n")
                    size = disk.fstat(fd).size
                    if start == 0:  # it was the header that had none
                        self._look()
                        continue
                elif kept_in := tail.move_away(disk, self.path, fd, start, size):
                    torn = TornTail(start, size - start, kept_in)
                    size = start
                self.table.grow(disk, fd, size)
                self.size = size
                self.head = Cursor(self.head.generation, self.table.count)

    # -- what its lines say

    def lines(self, fd: int, table: Table, runs: list[tuple[int, int]]) -> Sequence[bytes]:
        """Read the lines of some runs of ordinals, first and last included.

        Raises:
            LogReplaced: The file does not hold lines there.
        """
        found: list[bytes] = []
        with self.named():
            for first, last in runs:
                lines = table.lines(self._disk, fd, first, last)
                if lines is None:
                    raise self.replaced()
                if len(runs) == 1:
                    return lines
                found += lines
        return found

    def lines_apart(self, table: Table, runs: list[tuple[int, int]]) -> Sequence[bytes]:
        """Read lines with a descriptor of their own."""
        device, inode = self.device, self.inode  # the size is left out: the owner may be appending meanwhile
        with self.opened(os.O_RDONLY) as fd:
            found = self._disk.fstat(fd)
            if (found.device, found.inode) != (device, inode):
                raise self.replaced()
            return self.lines(fd, table, runs)

    def replaced(self) -> LogReplaced:
        """Say that the file is not the one that was known."""
        return LogReplaced(f"{self.path} was replaced, shortened or removed by another program: read it from the start")

    # -- what stands beside it

    def extent(self, fd: int, table: Table, seq: int) -> Extent:
        """Return how the log up to a line is recognised."""
        with self.named():
            return beside.extent_of(self._disk, fd, table.ends[0], table.ends[seq], self._crc)

    def load_index(self, table: Table) -> tuple[int, bytes] | None:
        """Return the snapshot's index and the ordinal that it reaches to, if it is of this log and these lines."""
        snapshot = beside.read_snapshot(self._disk, self.path)
        if snapshot is None:
            return None
        with self.opened(os.O_RDONLY) as fd, self.named():
            if (
                snapshot.lines >= len(table.ends)
                or table.ends[snapshot.lines] != snapshot.extent.end
                or not snapshot.is_current(found := self._disk.fstat(fd))
                or not snapshot.speaks_of(self._disk, fd, found, self._crc, table.ends[0])
            ):
                return None
        data = beside.read_index(self._disk, self.path, snapshot)
        return None if data is None else (snapshot.lines, data)

    def save_snapshot(self, seq: int, index: bytes | None) -> None:
        """Write the table and the index as of a line.

        Raises:
            LogReplaced: The file is another one.
            OSError: It cannot be written.
        """
        table = self.table
        with self.opened(os.O_RDONLY) as fd:
            found = self._disk.fstat(fd)
            if not self.is_same(found):
                raise self.replaced()
            extent = self.extent(fd, table, seq)
        beside.write_snapshot(self._disk, self.path, self.counter, found, extent, table.ends[: seq + 1], index)

    def load_leaf(self, table: Table, head: Cursor) -> tuple[int, bytes] | None:
        """Return the leaf record and the ordinal at which it was made, if it is of these lines."""
        return None if table.open_end else self.load_record(beside.LEAF_SUFFIX, head, table)

    def save_leaf(self, data: bytes, *, sync: bool) -> None:
        """Write the leaf record of this head.

        Raises:
            OSError: It cannot be written.
        """
        with self.opened(os.O_RDONLY) as fd:
            extent = self.extent(fd, self.table, self.head.seq)
        head = Cursor("", self.head.seq)  # it holds for a copy of the log too
        beside.write_record(self._disk, self.path, beside.LEAF_SUFFIX, head, extent, data, sync=sync)

    def load_record(self, suffix: str, head: Cursor, table: Table) -> tuple[int, bytes] | None:
        """Return what is kept under a suffix and the ordinal that it speaks of, if it is of this log and these lines."""
        kept = beside.read_record(self._disk, self.path, suffix)
        if kept is None or kept[0].generation not in ("", head.generation) or not 0 <= kept[0].seq <= head.seq:
            return None
        with self.opened(os.O_RDONLY) as fd:
            seq = kept[0].seq
            return (seq, kept[1]) if beside.holds(kept[0], self.extent(fd, table, seq)) else None

    def save_checkpoint(self, suffix: str, head: Cursor, data: bytes) -> None:
        """Write a projection's checkpoint as of a line.

        Raises:
            LogReplaced: The file is another one.
            OSError: It cannot be written.
        """
        with self.opened(os.O_RDONLY) as fd:
            if not self.is_same(self._disk.fstat(fd)):
                raise self.replaced()
            extent = self.extent(fd, self.table, head.seq)
        beside.write_record(self._disk, self.path, suffix, head, extent, data, sync=False)

    # -- descriptors and errors

    def opened(self, flags: int) -> AbstractContextManager[int]:
        """Open the file for a while, apart from the pool."""
        return opened(self._disk, self.path, flags)

    @contextmanager
    def named(self) -> Generator[None]:
        """Have errors of the disk name the file."""
        try:
            yield
        except OSError as error:
            if error.filename is not None or error.errno is None:
                raise
            raise OSError(error.errno, error.strerror, self.path) from error
