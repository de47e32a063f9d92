"""What a store remembers of the durability of logs that it released, for when it acquires them again."""

from __future__ import annotations

from ..log.log import Log

FLUSHED_MAX = 65536
"""For how many released logs it is kept that their bytes were flushed; any other is flushed once more."""

_ANY_INODE = 0


class ReleasedLogs:
    """The released logs whose last bytes are known to be, or suspected not to be, on the disk.

    Args:
        sync: Whether appends are to survive a power cut; otherwise, what was flushed does not matter.
    """

    def __init__(self, *, sync: bool) -> None:
        self._sync = sync
        self._unsynced: dict[str, int] = {}  # inodes by path
        self._flushed: dict[str, tuple[int, int]] = {}  # inodes and sizes by path

    def note_released(self, log: Log) -> None:
        """Remember whether the bytes of a log were all flushed, or are in the journal."""
        self._flushed.pop(log.path, None)
        if log.unjournaled or log.unsynced:
            self._unsynced[log.path] = log.inode
        elif self._sync and log.header is not None and log.doubt is None:
            self._flushed[log.path] = (log.inode, log.size)
            if len(self._flushed) > FLUSHED_MAX:
                del self._flushed[next(iter(self._flushed))]

    def note_not_flushed(self, path: str, inode: int = _ANY_INODE) -> None:
        """Remember that a file could not be flushed; without an inode, it may have been replaced since its release."""
        self._unsynced[path] = inode

    def note_durable(self, path: str) -> None:
        """Forget that a file could not be flushed: it has been since."""
        self._unsynced.pop(path, None)

    def may_lack_bytes(self, log: Log) -> bool:
        """Tell whether a failed flush may have lost bytes of this file, even if later flushes succeed."""
        return self._unsynced.get(log.path) in (_ANY_INODE, log.inode)

    def is_flushed(self, log: Log) -> bool:
        """Tell whether the file is as it was when all of it had been flushed."""
        return self._flushed.get(log.path) == (log.inode, log.size)
