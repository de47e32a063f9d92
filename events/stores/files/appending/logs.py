"""The logs that a store keeps in memory: those that it owns, and those that were read recently.

At most one worker thread works on an owned log. The log is `busy` in the meantime, and other callers wait. The state of
other logs is a cache: the least recently read ones are dropped, and examined again when they are needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import anyio

from ....disk import Disk, FileStat
from ....errors import Conflict, HostClosed, LogReplaced, SessionNotFound
from ....offload import Offload, carried_out
from ...base import Lease, Ref
from ..log.log import Log
from ..log.table import Table
from ..logs import OpenFiles
from ..names import Names

T = TypeVar("T")

INLINE_MAX = 64 * 1024
"""How many bytes are read on the event loop at most; larger reads run in a worker thread."""

_RUNS_INLINE_MAX = 64


class Logs:
    """The logs of one store by ref, with exclusive access for those who change them.

    Args:
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
        self._disk = disk
        self._names = names
        self._offload = offload
        self._open_files = open_files
        self._readers_max = readers_max
        self._read: OrderedDict[Ref, Log] = OrderedDict()
        self._counters: OrderedDict[Ref, int] = OrderedDict()  # of logs that were missing, by ref
        self.owned: dict[Ref, Log] = {}
        self.closed: str | None = None

    def check_open(self) -> None:
        """Refuse requests after the store was closed.

        Raises:
            HostClosed: The store is closed, or belongs to another process.
        """
        if self.closed is not None:
            raise HostClosed(self.closed)

    def not_found_error(self, ref: Ref) -> SessionNotFound:
        """Return the error that says that a log does not exist."""
        path = self._names.path_of(ref)
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
        self._open_files.drop(log)
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
            return await carried_out(self._offload, work)
        finally:
            self.note_thread_done(log, inode)

    def note_thread_done(self, log: Log, inode: int, *, stays_busy: bool = False) -> None:
        """Note that a worker thread is done with a log; `inode` is the log's inode before.

        A log that stays busy waits for the journal: what the thread wrote is not committed yet.
        """
        if not stays_busy:
            log.note_idle()
        if log.inode != inode or log.doubt is not None:
            self._open_files.drop(log)

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
        while len(self._read) > self._readers_max:
            self.forget(next(iter(self._read)))

    def forget(self, ref: Ref) -> None:
        """Drop the state of a log that is not owned."""
        log = self._read.pop(ref, None)
        if log is not None:
            self._open_files.drop(log)

    def forget_all(self) -> None:
        """Drop the state of every log."""
        self.owned.clear()
        self._read.clear()

    async def current(self, ref: Ref) -> Log:
        """Return a log as it is now, including what other programs did to it.

        Raises:
            SessionNotFound: The log does not exist.
            LogError: The log was replaced by a file that is not a session.
            OSError: The log cannot be read.
        """
        self.check_open()
        log = self.known(ref)
        if log is None:
            return await self._examine_new(ref)
        if log.lease is None:
            self._read.move_to_end(ref)
        elif log.header is None or not log.generation:  # no generation: its first lines are being made durable
            raise self.not_found_error(ref)
        elif log.busy or log.doubt is not None:
            return log  # the file is ahead of what is committed
        try:
            stat = self._disk.stat(log.path)
        except FileNotFoundError:
            stat = None
        if log.packed is not None and log.lease is None:
            if stat is None and log.packed.unchanged():
                return log
            self.forget(ref)
            return await self._examine_new(ref)
        if stat is not None and self._catch_up(log, stat):
            return log
        if log.lease is not None:
            await self.exclusively(log, log.refresh_with_own_fd)
        else:
            await self._gated(log, log.refresh_with_own_fd, lambda: not self._is_current(log))
        if log.header is None:
            self.forget(ref)
            if log.lease is None:
                self._note_missing(log)
                return await self._examine_new(ref)  # another process may have packed it
            raise self.not_found_error(ref)
        return log

    def _catch_up(self, log: Log, stat: FileStat) -> bool:
        """Index the lines that were appended to a log, on the event loop; return False if that takes a thread."""
        if log.gate is not None and log.gate.locked():  # a thread is changing the state that is compared here
            return False
        if log.is_unchanged(stat):
            return True
        if log.slow or not log.is_same(stat) or stat.size - log.table.scanned > INLINE_MAX:
            return False
        with suppress(LogReplaced):
            fd = self._open_files.get(log)
            if log.continues(fd, stat):
                log.refresh(fd, stat)
                return True
        return False

    async def at_generation(self, ref: Ref, generation: str) -> Log:
        """Return a log as it is now, if it has the given generation; wait for a thread that may be establishing it.

        Raises:
            LogReplaced: The log has another generation now.
            SessionNotFound: The log does not exist.
            LogError: The log was replaced by a file that is not a session.
            OSError: The log cannot be read.
        """
        log = await self.current(ref)
        while log.generation != generation and log.busy:
            await self.until_idle(log)
        if log.generation != generation:
            raise log.replaced_error()
        return log

    async def _examine_new(self, ref: Ref) -> Log:
        path = self._names.path_of(ref)
        log = Log(self._disk, ref, path)
        log.counter = self._counters.get(ref, 0)
        await self._offload(log.find)
        if log.header is None:
            self._note_missing(log)
            raise self.not_found_error(ref)
        owned = self.owned.get(ref)
        if owned is not None and owned.header is not None:
            return owned  # acquired in the meantime
        if owned is None and self.closed is None:
            if ref in self._read:  # read by another task in the meantime: only its log shows what has changed since
                return await self.current(ref)
            self.remember(log)
        return log

    def _note_missing(self, log: Log) -> None:
        """Keep the generation counter of a log that was read and is missing, or else it may seem unchanged later."""
        if log.counter:
            self._counters[log.ref] = log.counter
            if len(self._counters) > self._readers_max:
                self._counters.popitem(last=False)

    def _is_current(self, log: Log) -> bool:
        """Tell whether a log in memory agrees with its file."""
        try:
            stat = self._disk.stat(log.path)
        except FileNotFoundError:
            return False
        return log.is_unchanged(stat)

    async def _gated(self, log: Log, work: Callable[[], None], is_needed: Callable[[], bool]) -> None:
        """Run `work` on a log that is not owned in a worker thread, one at a time, if it is still needed by then."""
        if log.gate is None:
            log.gate = anyio.Lock()
        async with log.gate:
            if not is_needed():
                return
            self._open_files.drop(log)
            inode = log.inode
            try:
                await carried_out(self._offload, work)
            finally:
                if log.inode != inode:
                    self._open_files.drop(log)

    # -- lines

    async def lines(self, log: Log, table: Table, runs: list[tuple[int, int]]) -> Sequence[bytes]:
        """Read runs of lines, on the event loop if they are small.

        Raises:
            LogReplaced: The file does not hold these lines; the log has been reloaded with a new generation.
            OSError: The file cannot be read.
        """
        size = sum(table.ends[last] - table.ends[first - 1] for first, last in runs)
        try:
            if size <= INLINE_MAX and len(runs) <= _RUNS_INLINE_MAX and not log.slow and log.packed is None:
                return log.lines(self._open_files.get(log), table, runs) if runs else []
            return await self._offload(log.lines_with_own_fd, table, runs)
        except (LogReplaced, FileNotFoundError):
            if log.busy:  # for example being unpacked: that thread loads the file itself
                await self.until_idle(log)
            elif log.table is table:
                await self._reload(log, table)
            raise log.replaced_error() from None

    async def _reload(self, log: Log, table: Table) -> None:
        if log.lease is not None:
            await self.exclusively(log, log.reload_changed)
        elif self._read.get(log.ref) is log:
            await self._gated(log, log.reload_changed, lambda: log.table is table)
