"""The two ways in which appends reach their files: inline on the event loop, or in worker threads.

Inline is the rule under durability "os": one check of the file, one write, one check of where it landed. Everything
else runs in a thread: flushes, writes to slow disks, and every unexpected state of a file. Under durability "group", an
append is written to its file in either way and then joins a round of the journal. Until that round is settled, its log
is busy and its head is held back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint
from msgspec import Struct

from ...disk import Disk
from ...errors import AppendInDoubt, InvalidInput, LogReplaced
from ..base import Append, Committed, Cursor, Failed, Fenced, InDoubt, Lease, Outcome
from . import writing
from .durability.flushing import Syncer, make_durable, not_flushed
from .durability.group_committer import GroupCommitter
from .durability.own_journals import LandedAppend, hold_back
from .log.log import Log
from .log.state import NOWHERE
from .logs import Logs

Barrier: TypeAlias = Literal["none", "file", "journal"]
"""What makes an append durable: nothing, a flush of its file, or the journal."""


class AppendJob(Struct, eq=False):
    """One append that a worker thread carries out, with its outcome once it was called.

    Attributes:
        log: The log, which is busy in the meantime.
        inode: The log's inode before the append.
        before: The head before the append, once it was written.
        written: The outcome of the write, once it was written.
        landed: The append, if the journal still has to make it durable.
        error: The exception that the job ended with.
    """

    disk: Disk
    log: Log
    append: Append
    barrier: Barrier
    inode: int
    before: Cursor | None = None
    written: Outcome | None = None
    landed: LandedAppend | None = None
    error: BaseException | None = None

    def __call__(self) -> None:
        log = self.log
        try:
            if self.written is None:
                self.before = log.head
                sync = self.barrier == "file"
                self.written = writing.append_with_own_fd(self.disk, log, self.append, sync=sync, keep=False)
            if self.barrier == "journal" and self.before is not None and log.head != self.before:
                self._make_durable(log, self.before, self.written)
        except BaseException as error:  # noqa: BLE001  # raised in the caller's task, not in the thread
            self.error = error

    def _make_durable(self, log: Log, before: Cursor, outcome: Outcome) -> None:
        if isinstance(outcome, Committed | Failed):
            self.landed = hold_back(log, self.append, before, outcome)
            if self.landed is None:
                try:
                    make_durable(self.disk, log)
                except OSError as error:
                    self.written = not_flushed(log, error)

    def settle(self) -> None:
        """If the append ended without an outcome, put it and the log in doubt."""
        if self.written is None and not isinstance(self.error, InvalidInput):
            doubt = AppendInDoubt(f"{self.log.path}: the append was interrupted; retry with the same command id")
            doubt.__cause__ = self.error
            self.log.doubt = self.log.doubt or doubt
            self.written = InDoubt(doubt)

    def outcome(self) -> Outcome:
        """Return the outcome.

        Raises:
            InvalidInput: The request was not valid.
        """
        if self.landed is not None:
            return self.landed.outcome
        if self.written is None:
            assert self.error is not None
            raise self.error
        return self.written


class Appender:
    """The append operations of one store, which has checked the lines.

    Args:
        syncer: Runs appends in worker threads.
        group: The rounds of the journal, under durability "group".
        timer: A monotonic clock, in seconds.
        sync: Whether every append is flushed.
        inline: Whether the event loop may write.
        cautious: Whether it must not write on slow disks, nor for a while after a slow write.
        slow_write_s: The duration from which a write counts as slow.
        slow_for_s: For how long threads write after a slow write.
    """

    def __init__(
        self,
        logs: Logs,
        syncer: Syncer,
        group: GroupCommitter | None,
        *,
        timer: Callable[[], float],
        sync: bool,
        inline: bool,
        cautious: bool,
        slow_write_s: float,
        slow_for_s: float,
    ) -> None:
        disk = self._disk = logs.disk
        self._logs = logs
        self._owned = logs.owned
        self._open_files = logs.open_files
        self._syncer = syncer
        self._sync = sync
        self._inline = inline and not sync
        self._cautious = cautious
        self._slow_write_s = slow_write_s
        self._slow_for_s = slow_for_s
        self._slow_until: float | None = None
        self._timer = timer
        self._group = group
        self._is_still = disk.is_still
        self._write = self._timed_write if cautious else disk.write

    @property
    def at_once(self) -> bool:
        """Whether `try_append` may append."""
        return self._inline and self._group is None

    @property
    def quick(self) -> bool:
        """Whether the event loop may use the disk, which then takes a few microseconds for what is small."""
        return self.at_once and not (self._cautious and self._is_slow_now())

    def _is_slow_now(self) -> bool:
        return self._slow_until is not None and self._timer() < self._slow_until

    def append_inline(self, append: Append) -> Outcome | None:
        """Append on the event loop; return None if the append has to run in a thread."""
        lease = append.lease
        log = self._owned.get(lease.ref)
        if log is None or (log.lease is not lease and self._logs.leased(lease) is None):
            return self.fenced(lease)
        if log.busy or not self._inline or log.doubt is not None:
            return None
        if append.expected_head != log.head:
            return Fenced(log.head, log.epoch)
        if self._cautious and (log.slow or (self._slow_until is not None and self._is_slow_now())):
            return None
        if log.header is None or not append.lines:
            before = log.fd
            outcome = writing.append_with_own_fd(self._disk, log, append, sync=False, keep=True)
            if log.fd != before:
                self._open_files.adopt(log)
        else:
            try:
                size = log.size
                if log.table.scanned != size or not self._is_still(log.path, log.device, log.inode, size):
                    return None
                fd = log.fd
                if fd < 0:
                    fd = self._open_files.get(log)
                log.recently_used = True
            except (OSError, LogReplaced):
                return None
            outcome = writing.append_at(self._disk, log, fd, append, sync=False, write=self._write)
        if log.doubt is not None:
            self._open_files.drop(log)
        return outcome

    def _timed_write(self, fd: int, data: bytes) -> int:
        """Write, and switch to threads for a while if that was slow.

        Only the write is timed, so that a pause of the garbage collector does not count.
        """
        timer, write = self._timer, self._disk.write
        start = timer()
        try:
            return write(fd, data)
        finally:
            if (end := timer()) - start > self._slow_write_s:
                self._slow_until = end + self._slow_for_s

    def fenced(self, lease: Lease) -> Fenced:
        """Return the outcome for a lease that has ended."""
        self._logs.check_open()
        log = self._logs.known(lease.ref)
        return Fenced(NOWHERE, lease.epoch) if log is None else Fenced(log.head, log.epoch)

    def append(self, appends: Sequence[Append]) -> Awaitable[list[Outcome]]:
        """Append to logs; see `Store.append`.

        This is not a coroutine function: under "group", thousands of appends wait for their rounds at a time, and each
        saves one frame.
        """
        if self._group is None:
            return self._append_ungrouped(appends)
        method = self._append_one if len(appends) == 1 else self._append_grouped
        return method(self._group, appends)

    async def _append_ungrouped(self, appends: Sequence[Append]) -> list[Outcome]:
        outcomes = [self.append_inline(append) for append in appends]
        return await self._complete(appends, outcomes, yielded=False)

    async def _complete(
        self, appends: Sequence[Append], outcomes: Sequence[Outcome | None], *, yielded: bool
    ) -> list[Outcome]:
        """Append in threads what has no outcome yet, and return all outcomes; let other tasks run in any case."""
        deferred = [append for number, append in enumerate(appends) if outcomes[number] is None]
        threaded = iter(await self._append_in_threads(deferred) if deferred else ())
        if not deferred and not yielded:
            await cancel_shielded_checkpoint()
        return [next(threaded) if outcome is None else outcome for outcome in outcomes]

    async def _append_in_threads(self, appends: Sequence[Append]) -> list[Outcome]:
        """Append in worker threads, as soon as none of the logs is busy."""
        while True:
            found = [(append, self._logs.leased(append.lease)) for append in appends]
            busy = next((log for _, log in found if log is not None and log.busy), None)
            if busy is None:
                break
            with anyio.CancelScope(shield=True):
                await self._logs.until_idle(busy)
        jobs = [
            (append, None if log is None else AppendJob(self._disk, log, append, self._barrier(log), log.inode))
            for append, log in found
        ]
        await self._carry_out([job for _, job in jobs if job is not None])
        return [self.fenced(append.lease) if job is None else job.outcome() for append, job in jobs]

    def _barrier(self, log: Log) -> Barrier:
        if self._group is None:
            return "file" if self._sync else "none"
        return "journal" if self._group.journals.covers(log) else "file"

    async def _carry_out(self, jobs: Sequence[AppendJob]) -> None:
        """Run jobs in worker threads, then make their landed appends durable, even if the caller is cancelled."""
        cancellation: BaseException | None = None
        for job in jobs:
            job.log.busy = True
        try:
            await self._syncer.run(jobs)
        except anyio.get_cancelled_exc_class() as error:  # the jobs were completed nevertheless
            cancellation = error
        except Exception as error:  # noqa: BLE001  # an offload may raise anything
            for job in jobs:
                job.error = job.error or error
        finally:
            for job in jobs:
                job.settle()
                self._logs.note_thread_done(job.log, job.inode, stays_busy=job.landed is not None)
        if self._group is not None and any(job.landed is not None for job in jobs):
            await self._group.commit([job.landed for job in jobs if job.landed is not None])
        if cancellation is not None:
            raise cancellation

    # -- with the journal

    async def _append_one(self, group: GroupCommitter, appends: Sequence[Append]) -> list[Outcome]:
        """Do the same as `_append_grouped` for a single append, which is the common case, but faster."""
        (append,) = appends
        log = self._owned.get(append.lease.ref)
        if log is None or log.busy or not group.journals.covers(log):
            return await self._append_in_threads(appends)
        before = log.head
        outcome = self.append_inline(append)
        if outcome is None:
            return await self._append_in_threads(appends)
        if log.head is before:
            await cancel_shielded_checkpoint()
            return [outcome]
        landed = hold_back(log, append, before, outcome)
        if landed is None:
            job = AppendJob(self._disk, log, append, "journal", log.inode, before, outcome)
            await self._carry_out([job])
            return [job.outcome()]
        log.busy = True
        await group.commit((landed,))
        return [landed.outcome]

    async def _append_grouped(self, group: GroupCommitter, appends: Sequence[Append]) -> list[Outcome]:
        """Append to the files of the logs, then make the appends durable with the next round of the journal."""
        outcomes: list[Outcome | None] = [None] * len(appends)
        landed: dict[int, LandedAppend] = {}
        unusual: dict[int, AppendJob] = {}
        for number, append in enumerate(appends):
            log = self._owned.get(append.lease.ref)
            if log is None or not group.journals.covers(log):
                continue
            before = log.head
            outcome = outcomes[number] = self.append_inline(append)
            if outcome is not None and log.head is not before:
                if (held_back := hold_back(log, append, before, outcome)) is not None:
                    log.busy = True
                    landed[number] = held_back
                else:
                    unusual[number] = AppendJob(self._disk, log, append, "journal", log.inode, before, outcome)
        if unusual:
            await self._carry_out(list(unusual.values()))
        if landed:
            await group.commit(list(landed.values()))
        for number, each in landed.items():
            outcomes[number] = each.outcome
        for number, job in unusual.items():
            outcomes[number] = job.outcome()
        return await self._complete(appends, outcomes, yielded=bool(landed or unusual))
