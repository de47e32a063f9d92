"""Flushing logs, so that their appends survive a power cut, and what has to be done when a flush fails.

The system may drop bytes that it failed to flush, and let the next flush succeed without them. So after a failed flush,
the log is in doubt until its bytes were written again, and the next flush brings them to the disk.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from anyio import CancelScope, Event, create_task_group, get_cancelled_exc_class
from msgspec import Struct

from ....dialects.base import Dialect
from ....disk import Disk, write_all
from ....errors import AppendInDoubt
from ....offload import Offload, carried_out, seen_through
from ...base import Cursor, InDoubt
from ..log.log import Log
from ..log.table import chunks


def in_doubt(log: Log, error: OSError | None, reason: str) -> InDoubt:
    """Stop appends until the file has been examined again, because its content is uncertain."""
    doubt = AppendInDoubt(f"{log.path}: {reason}; retry with the same command id")
    doubt.__cause__ = error
    log.doubt = doubt
    return InDoubt(doubt)


def not_flushed(log: Log, error: OSError) -> InDoubt:
    """Stop appends, because the last bytes could not be flushed and have to be written again."""
    log.unsynced = True
    return in_doubt(log, error, f"the append could not be flushed ({error.strerror or error})")


def flush_append(disk: Disk, log: Log, fd: int, *, dialect: Dialect | None = None, start: int = 0) -> InDoubt | None:
    """Flush what an append wrote; return why the append is in doubt, or None. See `flush_or_write_again`."""
    try:
        flush_or_write_again(disk, log, fd, dialect=dialect, start=start)
    except OSError as error:
        return not_flushed(log, error)
    return None


def make_durable(disk: Disk, log: Log) -> None:
    """Make a log survive a power cut: its whole content and its name."""
    with log.naming_errors(), log.opened(os.O_RDONLY) as fd:
        flush_or_write_again(disk, log, fd)
    log.unflushed_folders.flush(disk)


def flush_or_write_again(disk: Disk, log: Log, fd: int, *, dialect: Dialect | None = None, start: int = 0) -> None:
    """Flush a log; if that fails, write its bytes again before the error is raised.

    This host examines the log before its next append, but it may be killed before it does. The host after it can only
    flush, and needs bytes that still have to be written.

    Args:
        dialect: Its dialect, if the log does not know it yet.
        start: The offset before which everything was flushed earlier.
    """
    try:
        disk.datasync(fd)
    except OSError:
        with suppress(OSError):  # the log is in doubt, so this host will try again
            write_again(disk, log, dialect or log.dialect, start)
        raise


def write_again(disk: Disk, log: Log, dialect: Dialect | None, start: int = 0) -> None:
    """Write the same bytes again where they stand, so that the next flush has to bring them to the disk.

    A log that other programs write to is left as it is, since they may change the bytes between our read and our write.
    """
    if dialect is None or dialect.shared:
        return
    with log.opened(os.O_RDWR) as fd:
        disk.seek(fd, start)
        for chunk in chunks(disk, fd, start, disk.fstat(fd).size):
            write_all(disk, fd, chunk)


def resolve(disk: Disk, log: Log, *, sync: bool) -> Cursor:
    """Examine the file again and return its present end.

    A flush may succeed after an earlier flush lost the bytes, so bytes left in doubt by a failed flush have to be
    written again. A log that only treering writes to is rewritten in place and flushed. Nothing is truncated, so
    nothing can be lost in the process. A log that other programs write to is only flushed.

    Raises:
        AppendInDoubt: The disk failed again.
        LogError: The file is no longer a session.
        OSError: The file cannot be read.
    """
    try:
        stat = disk.stat(log.path)
    except FileNotFoundError:
        stat = None
    if log.header is None:
        if stat is not None and stat.size:
            log.own()
    elif stat is None or not log.continues_with_own_fd(stat):
        log.reload_changed()
        if log.dialect is not None and log.dialect.old:
            log.own()
    if log.header is not None:
        with log.opened(os.O_RDWR | os.O_APPEND) as fd:
            if log.unsynced:
                _flush_again(disk, log, fd, sync=sync)
            log.refresh(fd, disk.fstat(fd))
            log.settle(fd)
    log.note_certain()
    return log.head


def _flush_again(disk: Disk, log: Log, fd: int, *, sync: bool) -> None:
    """Flush bytes after a flush that may have lost them; see `resolve`."""
    try:
        write_again(disk, log, log.dialect)
        if sync:
            flush_or_write_again(disk, log, fd)
            log.unflushed_folders.flush(disk)
    except OSError as error:
        log.doubt = AppendInDoubt(f"{log.path} could not be flushed again ({error.strerror or error}): check the disk")
        raise log.doubt from error


def flush_unjournaled(disk: Disk, log: Log) -> None:
    """Flush bytes that no journal holds, because the journal failed or the append never reached it.

    Raises:
        AppendInDoubt: The log cannot be flushed. The bytes stay in doubt.
    """
    log.unjournaled = False
    try:
        with suppress(FileNotFoundError):
            make_durable(disk, log)
    except OSError as error:
        log.unsynced = True
        log.doubt = AppendInDoubt(f"{log.path} could not be flushed ({error.strerror or error}): check the disk")
        raise log.doubt from error


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


class _Call(Struct, eq=False):
    """The jobs of one caller: how many are left, and how to wake the caller."""

    left: int
    event: Event | None = None
    error: BaseException | None = None

    def wake(self) -> None:
        if self.event is not None:
            self.event.set()


class Syncer:
    """A runner of blocking jobs in shared rounds.

    Args:
        offload: Runs a round.
        width: How many rounds run at a time.
    """

    def __init__(self, offload: Offload, width: int) -> None:
        self._offload = offload
        self._width = width
        self._leaders = 0
        self._waiting: deque[tuple[_Call, Callable[[], None]]] = deque()

    async def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run all jobs to completion, even if the caller is cancelled; jobs must not raise."""
        call = _Call(len(jobs))
        self._waiting.extend((call, job) for job in jobs)
        cancellation = await seen_through(partial(self._take_part, call), lambda: not call.left)
        if call.error is not None:
            raise call.error
        if cancellation is not None:
            raise cancellation

    async def _take_part(self, call: _Call) -> None:
        """Lead as many rounds as may run now, or wait."""
        rounds = min(self._width - self._leaders, call.left, len(self._waiting))
        if rounds == 1:
            await self._lead(call)
        elif rounds > 1:
            async with create_task_group() as leaders:
                for _ in range(rounds):
                    leaders.start_soon(self._lead, call)
        if call.left:
            call.event = Event()
            await call.event.wait()

    async def _lead(self, call: _Call) -> None:
        self._leaders += 1
        try:
            with CancelScope(shield=True):
                while self._waiting and call.left:
                    share = -(-len(self._waiting) // self._width)
                    await self._run_round([self._waiting.popleft() for _ in range(share)])
        finally:
            self._leaders -= 1
            self._hand_over()

    async def _run_round(self, share: list[tuple[_Call, Callable[[], None]]]) -> None:
        failure: BaseException | None = None
        try:
            await carried_out(self._offload, _do, [job for _, job in share])
        except get_cancelled_exc_class():
            raise
        except BaseException as error:
            failure = error
            if not isinstance(error, Exception):
                raise
        finally:
            for call, _ in share:
                call.left -= 1
                call.error = call.error or failure
                if not call.left:
                    call.wake()

    def _hand_over(self) -> None:
        """Choose another caller to lead, one that waits, if jobs are left."""
        for call, _ in self._waiting:
            if call.event is not None and not call.event.is_set():
                call.event.set()
                return


def _do(jobs: Iterable[Callable[[], None]]) -> None:
    for job in jobs:
        job()
