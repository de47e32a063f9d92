"""The logs that a store keeps in memory, those that it owns and those that were read recently, and their descriptors.

At most one worker thread works on an owned log. The log is `busy` in the meantime, and other callers wait. The state of
other logs is a cache: the least recently read ones are dropped, and examined again when they are needed.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

import anyio

from ...disk import Disk
from ...errors import AppendInDoubt, Conflict, HostClosed, SessionNotFound
from ...offload import Offload, carried_out, share_of_descriptors
from ..base import Lease, Ref
from .log.log import Log
from .names import Names

T = TypeVar("T")

OPEN_FILES_MAX = 1024
"""How many log files are kept open at most by default."""
_SHARE = 8


def open_files_max() -> int:
    """Return how many log files to keep open: an eighth of the process's limit, at most `OPEN_FILES_MAX`."""
    return share_of_descriptors(_SHARE, OPEN_FILES_MAX)


class OpenFiles:
    """A pool of open log files that closes approximately the least recently used ones first.

    With it, a process with a low limit can serve ten thousand sessions: reopening a file costs a fifth of an append.
    Only the event loop's thread uses the pool; worker threads open files of their own for as long as they need them.

    Each use marks the file. When room is needed, a clock hand goes around the pool, clears marks, and closes the first
    file without one.

    Args:
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


class Logs:
    """The logs of one store by ref, with exclusive access for those who change them.

    Args and attributes:
        disk: The disk.
        names: Turns refs into paths.
        offload: Runs work that may take long.
        open_files: The pool of open files.
        readers_max: How many logs that are not owned are remembered.

    Attributes:
        owned: The owned logs, by ref.
        closed: Why the store serves no more requests; None while it does.
    """

    def __init__(self, disk: Disk, names: Names, offload: Offload, open_files: OpenFiles, readers_max: int) -> None:
        self.disk = disk
        self.names = names
        self.offload = offload
        self.open_files = open_files
        self.readers_max = readers_max
        self.owned: dict[Ref, Log] = {}
        self.closed: str | None = None
        self._read: OrderedDict[Ref, Log] = OrderedDict()

    def check_open(self) -> None:
        """Refuse requests after the store was closed.

        Raises:
            HostClosed: The store is closed, or belongs to another process.
        """
        if self.closed is not None:
            raise HostClosed(self.closed)

    def not_found_error(self, ref: Ref) -> SessionNotFound:
        """Return the error that says that a log does not exist."""
        path = self.names.path_of(ref)
        return SessionNotFound(f"there is no session at {path}, or no longer: load or create another one")

    # -- owned logs

    def leased(self, lease: Lease) -> Log | None:
        """Return the log of a lease; None if the lease has ended."""
        log = self.owned.get(lease.ref)
        if log is None:
            return None
        current = log.lease
        if current is lease or (current is not None and current.epoch == lease.epoch and current.owner == lease.owner):
            return log
        return None

    def require_lease(self, lease: Lease) -> Log:
        """Return the log of a lease.

        Raises:
            Conflict: The lease has ended.
        """
        self.check_open()
        log = self.leased(lease)
        if log is None:
            raise Conflict(f"the lease on {lease.ref} has ended: acquire the log again")
        return log

    def own(self, log: Log, lease: Lease) -> None:
        """Register a log as owned."""
        log.lease = lease
        self.forget(log.ref)
        self.owned[log.ref] = log

    def disown(self, log: Log) -> None:
        """Unregister an owned log; keep its state for readers if it is certain."""
        del self.owned[log.ref]
        self.open_files.drop(log)
        log.lease = None
        if log.header is not None and log.doubt is None:
            self.remember(log)

    async def until_idle(self, log: Log) -> None:
        """Wait until no worker thread works on a log; it may be busy again when this returns."""
        if log.idle is None:
            log.idle = anyio.Event()
        await log.idle.wait()

    async def exclusively(self, log: Log, work: Callable[[], T]) -> T:
        """Run `work` on an owned log in a worker thread, exclusively, to completion even if the caller is cancelled.

        Raises:
            Conflict: The lease ended while this waited.
        """
        while log.busy:
            await self.until_idle(log)
        if log.lease is None:
            raise Conflict(f"the lease on {log.ref} has ended: acquire the log again")
        log.busy, inode = True, log.inode
        try:
            return await carried_out(self.offload, work)
        finally:
            self.note_thread_done(log, inode)

    def note_thread_done(self, log: Log, inode: int, *, stays_busy: bool = False) -> None:
        """Note that a worker thread is done with a log; `inode` is the log's inode before.

        A log that stays busy waits for the journal: what the thread wrote is not committed yet.
        """
        if not stays_busy:
            log.note_idle()
        if log.inode != inode or log.doubt is not None:
            self.open_files.drop(log)

    # -- logs that are read

    def known(self, ref: Ref) -> Log | None:
        """Return a log as it was last seen; None if it is not in memory."""
        return self.owned.get(ref) or self._read.get(ref)

    def read(self, ref: Ref) -> Log | None:
        """Return a log that is not owned as it was last read; None if it is not in memory."""
        return self._read.get(ref)

    def remember(self, log: Log) -> None:
        """Keep the state of a log that is not owned, dropping the least recently read ones if there are too many."""
        self.forget(log.ref)
        self._read[log.ref] = log
        while len(self._read) > self.readers_max:
            self.forget(next(iter(self._read)))

    def touch(self, ref: Ref) -> None:
        """Note that a log that is not owned was read just now."""
        self._read.move_to_end(ref)

    def forget(self, ref: Ref) -> None:
        """Drop the state of a log that is not owned."""
        log = self._read.pop(ref, None)
        if log is not None:
            self.open_files.drop(log)

    def forget_all(self) -> None:
        """Drop the state of every log."""
        self.owned.clear()
        self._read.clear()
