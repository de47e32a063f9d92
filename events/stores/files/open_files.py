"""The descriptors of log files: a bounded pool, so that ten thousand sessions fit in a process that may open few files.

Opening a file again costs a fifth of an append, so letting one go loses little. The pool is used by the event loop's thread
alone; worker threads open files for themselves, for as long as they need them.
"""

from __future__ import annotations

import os
import resource

from ...disk import Disk
from ...errors import AppendInDoubt
from .log import Log

OPEN_FILES_MAX = 1024
"""How many log files are kept open at most, where the program does not say."""
_SHARE = 8


def open_files_max() -> int:
    """Return how many log files to keep open: an eighth of what the process may open, up to `OPEN_FILES_MAX`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else max(1, min(OPEN_FILES_MAX, soft // _SHARE))


class OpenFiles:
    """At most so many open log files; the ones that were not used for longest are closed first, roughly.

    Each use marks the file. When room is needed, the files are gone through in a circle: marks are taken away, and the
    first file without one is closed.

    Args:
        disk: Opens and closes.
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
        """Return the log's descriptor for reading, and for appending where it is owned; open it where it is not open.

        Raises:
            LogReplaced: Another file has its name.
            OSError: It cannot be opened.
        """
        if log.fd >= 0:
            log.used = True
            return log.fd
        fd = self._disk.open(log.path, os.O_RDWR | os.O_APPEND if log.lease is not None else os.O_RDONLY)
        try:
            same = log.is_left(fd, self._disk.fstat(fd))
        except BaseException:
            self._disk.close(fd)
            raise
        if not same:
            self._disk.close(fd)
            raise log.replaced()
        log.fd = fd
        self.adopt(log)
        return fd

    def adopt(self, log: Log) -> None:
        """Take in a log's descriptor that was opened elsewhere."""
        log.used = True
        ring = self._ring
        while (other := ring[self._hand]) is not None:
            if not other.used:
                self._close(other)
                break
            other.used = False
            self._hand = (self._hand + 1) % self._limit
        ring[self._hand] = log
        log.place = self._hand
        self._hand = (self._hand + 1) % self._limit
        self._count += 1

    def drop(self, log: Log) -> None:
        """Close the log's descriptor, if it is open."""
        if log.fd >= 0:
            self._ring[log.place] = None
            self._close(log)

    def close(self) -> None:
        """Close all."""
        for log in self._ring:
            if log is not None:
                self.drop(log)

    def _close(self, log: Log) -> None:
        fd, log.fd = log.fd, -1
        self._count -= 1
        try:
            log.left_ns = self._disk.fstat(fd).modified_ns
        except OSError:
            log.left_ns = 0
        try:
            self._disk.close(fd)
        except OSError as error:
            if log.lease is not None:  # some network file systems say only here that what was written is lost
                doubt = AppendInDoubt(f"{log.path}: closing it failed ({error.strerror or error}); read it again")
                doubt.__cause__ = error
                log.distrust(doubt)
