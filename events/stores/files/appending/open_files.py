"""A bounded pool of log file descriptors, so that a process with a low limit can serve ten thousand sessions.

Reopening a file costs a fifth of an append, so closing one is cheap. Only the event loop's thread uses the pool; worker
threads open files of their own for as long as they need them.
"""

from __future__ import annotations

import os

from ....disk import Disk
from ....errors import AppendInDoubt
from ....offload import share_of_descriptors
from ..log.log import Log

OPEN_FILES_MAX = 1024
"""How many log files are kept open at most by default."""
_SHARE = 8


def open_files_max() -> int:
    """Return how many log files to keep open: an eighth of the process's limit, at most `OPEN_FILES_MAX`."""
    return share_of_descriptors(_SHARE, OPEN_FILES_MAX)


class OpenFiles:
    """A pool of open log files that closes approximately the least recently used ones first.

    Each use marks the file. When room is needed, a clock hand goes around the pool, clears marks, and closes the first
    file without one.

    Args:
        disk: The disk.
        limit: How many files may be open.
    """

    def __init__(self, disk: Disk, limit: int) -> None:
        self._disk = disk
        self._limit = limit
        self._ring: list[Log | None] = [None] * limit
        self._hand = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, log: Log) -> int:
        """Return the log's descriptor, opening the file if needed: for reading, and for appending if the log is owned.

        Raises:
            LogReplaced: The file was replaced.
            OSError: The file cannot be opened.
        """
        if log.fd >= 0:
            log.recently_used = True
            return log.fd
        fd = self._disk.open(log.path, os.O_RDWR | os.O_APPEND if log.lease is not None else os.O_RDONLY)
        try:
            is_same = log.is_same_after_reopen(fd, self._disk.fstat(fd))
        except BaseException:
            self._disk.close(fd)
            raise
        if not is_same:
            self._disk.close(fd)
            raise log.replaced_error()
        log.fd = fd
        self.adopt(log)
        return fd

    def adopt(self, log: Log) -> None:
        """Add a log's descriptor that was opened elsewhere to the pool."""
        log.recently_used = True
        ring = self._ring
        while (other := ring[self._hand]) is not None:
            if not other.recently_used:
                self._close(other)
                break
            other.recently_used = False
            self._hand = (self._hand + 1) % self._limit
        ring[self._hand] = log
        log.pool_place = self._hand
        self._hand = (self._hand + 1) % self._limit
        self._count += 1

    def drop(self, log: Log) -> None:
        """Close the log's descriptor, if it is open."""
        if log.fd >= 0:
            self._ring[log.pool_place] = None
            self._close(log)

    def close(self) -> None:
        """Close all files."""
        for log in self._ring:
            if log is not None:
                self.drop(log)

    def _close(self, log: Log) -> None:
        fd, log.fd = log.fd, -1
        self._count -= 1
        try:
            log.modified_ns_seen = self._disk.fstat(fd).modified_ns
        except OSError:
            log.modified_ns_seen = 0
        try:
            self._disk.close(fd)
        except OSError as error:
            if log.lease is not None:  # some network file systems report lost writes only when the file is closed
                doubt = AppendInDoubt(f"{log.path} could not be closed ({error.strerror or error}): read it again")
                doubt.__cause__ = error
                log.note_background_doubt(doubt)
