"""The logs that a store knows of: those that it owns, and those that were read lately.

An owned log is worked on by one worker thread at a time; it is `busy` meanwhile, and who wants it waits. What is known of
other logs is only a help: the least recently read ones are forgotten, and looked at again when they are asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import anyio

from ...disk import Disk
from ...errors import Conflict, HostClosed, LogReplaced, SessionNotFound
from ...offload import Offload, carried_out
from ..base import Lease, Ref
from .log import Log
from .names import Names
from .open_files import OpenFiles
from .table import Table

T = TypeVar("T")

INLINE_MAX = 64 * 1024
"""How many bytes are read on the event loop; more goes to a worker thread."""

_RUNS_INLINE_MAX = 64


class Logs:
    """Finds logs by their refs, and keeps those apart who want to work on the same one.

    Args:
        disk: The disk.
        names: Turns refs into paths.
        offload: Where what takes long is done.
        open_files: The open files.
        readers_max: How many logs are remembered that are not owned.

    Attributes:
        owned: The logs that are owned, by ref.
        unsynced: The logs that were let go while it was in doubt whether their bytes are on the disk: their inodes by path,
            0 for one that could be another by now.
        left: The logs that were let go with all of their bytes flushed, or in the journal: their inodes and sizes, by path;
            kept where appends survive the power.
        closed: Why nothing is served any more.
    """

    def __init__(self, disk: Disk, names: Names, offload: Offload, open_files: OpenFiles, readers_max: int) -> None:
        self._disk = disk
        self._names = names
        self._offload = offload
        self._open_files = open_files
        self._readers_max = readers_max
        self._read: OrderedDict[Ref, Log] = OrderedDict()
        self.owned: dict[Ref, Log] = {}
        self.unsynced: dict[str, int] = {}
        self.left: dict[str, tuple[int, int]] = {}
        self.closed: str | None = None

    def check_open(self) -> None:
        """Refuse to serve.

        Raises:
            HostClosed: The store was closed, or belongs to another process.
        """
        if self.closed is not None:
            raise HostClosed(self.closed)

    def not_found(self, ref: Ref) -> SessionNotFound:
        """Say that there is no such log."""
        return SessionNotFound(f"there is no session {ref!r} under {self._names.root}: create it, or try another root")

    # -- owned logs

    def held(self, lease: Lease) -> Log | None:
        """Return the log of a lease that is held."""
        log = self.owned.get(lease.ref)
        if log is None:
            return None
        mine = log.lease
        if mine is lease or (mine is not None and mine.epoch == lease.epoch and mine.owner == lease.owner):
            return log
        return None

    def must_hold(self, lease: Lease) -> Log:
        """Return the log of a lease.

        Raises:
            Conflict: The lease is over.
        """
        self.check_open()
        log = self.held(lease)
        if log is None:
            raise Conflict(f"the lease on {lease.ref} is over: acquire the log again")
        return log

    def own(self, log: Log, lease: Lease) -> None:
        """Take in a log that is owned from now on."""
        log.lease = lease
        self.forget(log.ref)
        self.owned[log.ref] = log

    def disown(self, log: Log) -> None:
        """Let go of a log that is owned no longer; what is known of it helps readers."""
        del self.owned[log.ref]
        self._open_files.drop(log)
        log.lease = None
        if log.header is not None and log.doubt is None:
            self.remember(log)

    async def until_idle(self, log: Log) -> None:
        """Wait until no worker thread is at a log; it may be busy again when this returns."""
        if log.idle is None:
            log.idle = anyio.Event()
        await log.idle.wait()

    async def exclusively(self, log: Log, work: Callable[[], T]) -> T:
        """Have a worker thread do something to an owned log, to its end, while nobody else does.

        Raises:
            Conflict: The lease ended while this waited.
        """
        while log.busy:
            await self.until_idle(log)
        if log.lease is None:
            raise Conflict(f"the lease on {log.ref} is over: acquire the log again")
        log.busy, inode = True, log.inode
        try:
            return await carried_out(self._offload, work)
        finally:
            self.back_from_thread(log, inode)

    def back_from_thread(self, log: Log, inode: int) -> None:
        """Take a log back from a worker thread; `inode` is what it had before."""
        log.busy = False
        if log.idle is not None:
            log.idle.set()
            log.idle = None
        if log.inode != inode or log.doubt is not None:
            self._open_files.drop(log)

    # -- logs that are read

    def known(self, ref: Ref) -> Log | None:
        """Return a log as it was looked at last, if it is remembered."""
        return self.owned.get(ref) or self._read.get(ref)

    def remember(self, log: Log) -> None:
        """Keep what is known of a log that is not owned; the least recently read one is forgotten instead."""
        self.forget(log.ref)
        self._read[log.ref] = log
        while len(self._read) > self._readers_max:
            self.forget(next(iter(self._read)))

    def forget(self, ref: Ref) -> None:
        """Forget a log that is not owned."""
        log = self._read.pop(ref, None)
        if log is not None:
            self._open_files.drop(log)

    def forget_all(self) -> None:
        """Forget every log."""
        self.owned.clear()
        self._read.clear()

    async def current(self, ref: Ref) -> Log:
        """Return a log as it is now: what other programs did to it is taken in first.

        Raises:
            SessionNotFound: It is not there.
            LogError: It was replaced by something that is no session.
            OSError: It cannot be read.
        """
        self.check_open()
        log = self.owned.get(ref)
        if log is None:
            log = self._read.get(ref)
            if log is None:
                return await self._look_first(ref)
            self._read.move_to_end(ref)
        elif log.header is None or not log.generation:  # or its first lines are being made durable
            raise self.not_found(ref)
        elif log.busy or log.doubt is not None:
            return log  # the file is ahead of what is committed
        try:
            found = self._disk.stat(log.path)
        except FileNotFoundError:
            found = None
        if log.packed is not None and log.lease is None:
            if found is None and log.packed.unchanged():
                return log
            self.forget(ref)
            return await self._look_first(ref)
        growing = log.gate is not None and log.gate.locked()  # a thread works on what is looked at here
        if found is not None and not growing and log.is_same(found):
            if found.size == log.size:
                return log
            if found.size - log.table.scanned <= INLINE_MAX and not log.slow:
                with suppress(LogReplaced):
                    log.refresh(self._open_files.get(log), found)
                    return log
        if log.lease is not None:
            await self.exclusively(log, log.refresh_apart)
        else:
            await self._gated(log, log.refresh_apart, lambda: not self._is_current(log))
        if log.header is None:
            self.forget(ref)
            if log.lease is None:
                return await self._look_first(ref)  # another process may have packed it
            raise self.not_found(ref)
        return log

    async def of(self, ref: Ref, generation: str) -> Log:
        """Return a log as it is now, which is to be of a generation; a thread that makes it one of another is waited for.

        Raises:
            LogReplaced: It has another generation now.
            SessionNotFound: It is not there.
            LogError: It was replaced by something that is no session.
            OSError: It cannot be read.
        """
        log = await self.current(ref)
        while log.generation != generation and log.busy:
            await self.until_idle(log)
        if log.generation != generation:
            raise log.replaced()
        return log

    async def _look_first(self, ref: Ref) -> Log:
        path = self._names.path_of(ref)
        log = Log(self._disk, ref, path)
        await self._offload(log.find)
        if log.header is None:
            raise self.not_found(ref)
        owned = self.owned.get(ref)
        if owned is not None and owned.header is not None:
            return owned  # acquired meanwhile
        if owned is None and self.closed is None:
            self.remember(log)
        return log

    def _is_current(self, log: Log) -> bool:
        """Tell whether a log is known as it is now."""
        try:
            found = self._disk.stat(log.path)
        except FileNotFoundError:
            return False
        return log.is_same(found) and found.size == log.size

    async def _gated(self, log: Log, work: Callable[[], None], needed: Callable[[], bool]) -> None:
        """Have a worker thread do something to a log that is read, while no other one does, if it is needed by then."""
        if log.gate is None:
            log.gate = anyio.Lock()
        async with log.gate:
            if not needed():
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
        """Read runs of lines, at once where they are small.

        Raises:
            LogReplaced: The file does not hold lines there; it has another generation from here on.
            OSError: It cannot be read.
        """
        size = sum(table.ends[last] - table.ends[first - 1] for first, last in runs)
        try:
            if size <= INLINE_MAX and len(runs) <= _RUNS_INLINE_MAX and not log.slow and log.packed is None:
                return log.lines(self._open_files.get(log), table, runs) if runs else []
            return await self._offload(log.lines_apart, table, runs)
        except (LogReplaced, FileNotFoundError):
            if log.busy:  # brought back, say: the thread that does it finds out what it is then
                await self.until_idle(log)
            elif log.table is table:
                await self._look_anew(log, table)
            raise log.replaced() from None

    async def _look_anew(self, log: Log, table: Table) -> None:
        if log.lease is not None:
            await self.exclusively(log, log.changed)
        elif self._read.get(log.ref) is log:
            await self._gated(log, log.changed, lambda: log.table is table)
