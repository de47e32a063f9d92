"""What is known of one log file, without reading it.

Methods run where the log is used; the attributes that readers use while a thread works on the log (`table`, `head`)
only grow at their end or are replaced as a whole.
"""

from __future__ import annotations

from array import array
from contextlib import AbstractContextManager

import anyio

from ....dialects.base import Dialect
from ....disk import Disk, FileStat, opened
from ....disk.disk_errors import naming_errors
from ....disk.packed import PackedDisk
from ....entries import Header
from ....errors import AppendInDoubt, LogReplaced
from ...base import Cursor, Lease, Ref, TornTail
from ..locks import Held
from ..names import UnflushedFolders
from .head import Extent
from .table import Table

NOWHERE = Cursor("", 0)
"""The head of a log that does not exist yet."""


class LogState:
    """One log file.

    Args:
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
        kept: The generation that it keeps since it had no line, or was packed or unpacked; empty for none.
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
        "kept",
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
        self.kept = ""
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

    def roll_back(self, head: Cursor, size: int) -> None:
        """Return to an earlier head and size, as if the lines after them had not been appended."""
        if head.generation:
            del self.table.ends[head.seq + 1 :]
            self.table.scanned = self.size = size
            self.head = head
        else:
            self._forget()

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

    def replaced_error(self) -> LogReplaced:
        """Return the error that says that the file has another history now."""
        return LogReplaced(f"{self.path} was replaced, shortened or removed by another program: read it from the start")

    def opened(self, flags: int) -> AbstractContextManager[int]:
        """Open the file for the duration of a `with` block, outside the pool."""
        return opened(self.disk, self.path, flags)

    def naming_errors(self) -> AbstractContextManager[None]:
        """Add the path of the file to disk errors that lack one."""
        return naming_errors(self.path)
