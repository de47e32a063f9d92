"""How appends reach their files: at once on the event loop, or in worker threads.

At once is the rule under durability "os": one look at the file, one write, one look at where it landed. Everything else
goes to a thread: flushing, slow disks, and all that is not as it should be. Under durability "group" an append goes to its file
in one of these ways and then joins a round of the journal; until that is settled, its log is busy and its head held back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

from ...disk import Disk
from ...errors import AppendInDoubt, InvalidInput, LogReplaced
from ..base import Append, Committed, Cursor, Failed, Fenced, InDoubt, Lease, Outcome
from ..lines import check_lines
from . import writer
from .group_committer import GroupCommitter, Landed
from .log import NOWHERE, Log
from .logs import Logs
from .open_files import OpenFiles
from .syncer import Syncer

_Barrier: TypeAlias = Literal["none", "file", "journal"]


class Pace(NamedTuple):
    """When the event loop writes, and when threads do.

    Attributes:
        sync: Every append is flushed.
        inline: The event loop may write.
        cautious: It does not on slow disks, nor for a while after a slow write.
        slow_write_s: What a slow write is.
        slow_for_s: How long that while is.
    """

    sync: bool
    inline: bool
    cautious: bool
    slow_write_s: float
    slow_for_s: float


class Appender:
    """Carries out the appends of one store.

    Args:
        disk: The disk.
        logs: Who owns what.
        open_files: The open files.
        syncer: The worker threads.
        pace: When to use them.
        timer: A clock that never goes back.
        group: The rounds of the journal, under durability "group".
    """

    def __init__(
        self,
        disk: Disk,
        logs: Logs,
        open_files: OpenFiles,
        syncer: Syncer,
        pace: Pace,
        timer: Callable[[], float],
        group: GroupCommitter | None = None,
    ) -> None:
        self._disk = disk
        self._logs = logs
        self._owned = logs.owned
        self._open_files = open_files
        self._syncer = syncer
        self._sync = pace.sync
        self._inline = pace.inline and not pace.sync
        self._cautious = pace.cautious
        self._slow_write_s = pace.slow_write_s
        self._slow_for_s = pace.slow_for_s
        self._slow_until = float("-inf")
        self._timer = timer
        self._group = group
        self._is_still = disk.is_still
        self._write = self._timed_write if pace.cautious else disk.write

    def try_append(self, append: Append) -> Outcome | None:
        """Append at once, or return None; see `Store.try_append`."""
        check_lines(append.lines)
        if self._group is None:
            return self._at_once(append)
        return self._fenced(append.lease) if self._logs.held(append.lease) is None else None

    def _at_once(self, append: Append) -> Outcome | None:
        """Append on the event loop, or return None."""
        lease = append.lease
        log = self._owned.get(lease.ref)
        if log is None or (log.lease is not lease and self._logs.held(lease) is None):
            return self._fenced(lease)
        if log.busy or not self._inline or log.doubt is not None:
            return None
        if append.expected_head != log.head:
            return Fenced(log.head, log.epoch)
        if self._cautious and (log.slow or self._timer() < self._slow_until):
            return None
        if log.header is None or not append.lines:
            before = log.fd
            outcome = writer.append_apart(self._disk, log, append, sync=False, keep=True)
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
                log.used = True
            except (OSError, LogReplaced):
                return None
            outcome = writer.append_at(self._disk, log, fd, append, sync=False, write=self._write)
        if log.doubt is not None:
            self._open_files.drop(log)
        return outcome

    def _timed_write(self, fd: int, data: bytes) -> int:
        """Write, and have threads write for a while where that was slow: the write alone, not a pause of the collector's."""
        began = self._timer()
        try:
            return self._disk.write(fd, data)
        finally:
            if (ended := self._timer()) - began > self._slow_write_s:
                self._slow_until = ended + self._slow_for_s

    def _fenced(self, lease: Lease) -> Fenced:
        """Refuse a lease that is over."""
        self._logs.check_open()
        log = self._logs.known(lease.ref)
        return Fenced(NOWHERE, lease.epoch) if log is None else Fenced(log.head, log.epoch)

    def append(self, appends: Sequence[Append]) -> Awaitable[list[Outcome]]:
        """Append to logs; see `Store.append`.

        Under "group" every append waits here for its round, and thousands at a time; so no frame lies between.
        """
        for each in appends:
            check_lines(each.lines)
        if self._group is None:
            return self._append_ungrouped(appends)
        way = self._append_one if len(appends) == 1 else self._append_grouped
        return way(self._group, appends)

    async def _append_ungrouped(self, appends: Sequence[Append]) -> list[Outcome]:
        outcomes = [self._at_once(each) for each in appends]
        late = [number for number, outcome in enumerate(outcomes) if outcome is None]
        if late:
            for number, outcome in zip(late, await self._append_late([appends[n] for n in late]), strict=True):
                outcomes[number] = outcome
        else:
            await cancel_shielded_checkpoint()
        return [outcome for outcome in outcomes if outcome is not None]

    async def _append_late(self, appends: Sequence[Append]) -> list[Outcome]:
        """Append in worker threads, as soon as nobody else is at the logs."""
        while True:
            logs = [self._logs.held(each.lease) for each in appends]
            busy = next((log for log in logs if log is not None and log.busy), None)
            if busy is None:
                break
            with anyio.CancelScope(shield=True):
                await self._logs.until_idle(busy)
        jobs = [
            None if log is None else _Job(self._disk, log, append, self._barrier(log))
            for log, append in zip(logs, appends, strict=True)
        ]
        await self._carry_out([job for job in jobs if job is not None])
        return [
            self._fenced(append.lease) if job is None else job.outcome()
            for job, append in zip(jobs, appends, strict=True)
        ]

    def _barrier(self, log: Log) -> _Barrier:
        if self._group is None:
            return "file" if self._sync else "none"
        return "journal" if self._group.covers(log) else "file"

    async def _carry_out(self, jobs: Sequence[_Job]) -> None:
        """Have worker threads do jobs, and the journal make durable what they landed, whatever becomes of the caller."""
        interruption: BaseException | None = None
        for job in jobs:
            job.log.busy = True
        try:
            await self._syncer.run(jobs)
        except anyio.get_cancelled_exc_class() as error:  # they were done all the same
            interruption = error
        except Exception as error:  # noqa: BLE001  # whatever an offload may raise
            for job in jobs:
                job.error = job.error or error
        finally:
            for job in jobs:
                job.settle()
                self._logs.back_from_thread(job.log, job.inode)
                if job.landed is not None:
                    job.log.busy = True
        if self._group is not None and any(job.landed is not None for job in jobs):
            await self._group.commit([job.landed for job in jobs if job.landed is not None])
        if interruption is not None:
            raise interruption

    # -- with the journal

    async def _append_one(self, group: GroupCommitter, appends: Sequence[Append]) -> list[Outcome]:
        """Do the same as `_append_grouped`, faster, for the one append that a session waits for."""
        (append,) = appends
        log = self._owned.get(append.lease.ref)
        if log is None or log.busy or not group.covers(log):
            return await self._append_late(appends)
        before = log.head
        outcome = self._at_once(append)
        if outcome is None:
            return await self._append_late(appends)
        if log.head is before:
            await cancel_shielded_checkpoint()
            return [outcome]
        landed = landing(log, append, before, outcome)
        if landed is None:
            job = _Job(self._disk, log, append, "journal", before, outcome)
            await self._carry_out([job])
            return [job.outcome()]
        log.busy = True
        await group.commit((landed,))
        return [landed.outcome]

    async def _append_grouped(self, group: GroupCommitter, appends: Sequence[Append]) -> list[Outcome]:
        """Append to the logs' files, then make that durable with the journal's next round."""
        outcomes: dict[int, Outcome] = {}
        landed: dict[int, Landed] = {}
        unusual: dict[int, _Job] = {}
        late: list[int] = []
        for number, append in enumerate(appends):
            log = self._owned.get(append.lease.ref)
            if log is None or not group.covers(log):
                late.append(number)
                continue
            before = log.head
            outcome = self._at_once(append)
            if outcome is None:
                late.append(number)
                continue
            outcomes[number] = outcome
            if log.head is not before:
                if (lands := landing(log, append, before, outcome)) is not None:
                    log.busy = True
                    landed[number] = lands
                else:
                    unusual[number] = _Job(self._disk, log, append, "journal", before, outcome)
        if unusual:
            await self._carry_out(list(unusual.values()))
            outcomes |= {number: job.outcome() for number, job in unusual.items()}
        if landed:
            await group.commit(list(landed.values()))
            for number, each in landed.items():
                outcomes[number] = each.outcome
        if late:
            outcomes |= zip(late, await self._append_late([appends[number] for number in late]), strict=True)
        elif not landed:
            await cancel_shielded_checkpoint()
        return [outcomes[number] for number in range(len(appends))]


def landing(log: Log, append: Append, before: Cursor, outcome: Outcome) -> Landed | None:
    """Hold a log's head back until what was appended is durable; None where other lines came between, or a part is missing."""
    if not isinstance(outcome, Committed) or outcome.head.seq != before.seq + len(append.lines):
        return None
    if before.generation:
        offset = log.table.ends[outcome.head.seq] - sum(map(len, append.lines))
        landed = Landed(log, append.lines, b"", offset, before, outcome)
    else:
        landed = Landed(log, append.lines, append.header or b"", 0, before, outcome)
    log.head = before
    return landed


class _Job:
    """One append that a worker thread carries out, and what became of it.

    Args:
        disk: The disk.
        log: The log, which is busy meanwhile.
        append: What to append.
        barrier: What makes it durable.
        before: The head before it.
        outcome: What became of it, where it was appended before and is only to be flushed.

    Attributes:
        landed: What is still to be made durable by the journal.
    """

    __slots__ = ("_barrier", "_before", "_disk", "_outcome", "append", "error", "inode", "landed", "log")

    def __init__(
        self,
        disk: Disk,
        log: Log,
        append: Append,
        barrier: _Barrier,
        before: Cursor | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        self._disk = disk
        self._barrier = barrier
        self._before = before
        self._outcome = outcome
        self.log = log
        self.append = append
        self.inode = log.inode
        self.landed: Landed | None = None
        self.error: BaseException | None = None

    def __call__(self) -> None:
        log = self.log
        try:
            if self._outcome is None:
                self._before = log.head
                sync = self._barrier == "file"
                self._outcome = writer.append_apart(self._disk, log, self.append, sync=sync, keep=False)
            if self._barrier == "journal" and self._before is not None and log.head != self._before:
                self._make_durable(log, self._before, self._outcome)
        except BaseException as error:  # noqa: BLE001  # it belongs to the caller, not to the thread
            self.error = error

    def _make_durable(self, log: Log, before: Cursor, outcome: Outcome) -> None:
        if isinstance(outcome, Committed | Failed):
            self.landed = landing(log, self.append, before, outcome)
            if self.landed is None:
                self._outcome = writer.flush(self._disk, log) or outcome

    def settle(self) -> None:
        """Where nobody knows what became of it, say so, and have the log looked at."""
        if self._outcome is None and not isinstance(self.error, InvalidInput):
            doubt = AppendInDoubt(f"{self.log.path}: the append was broken off; retry with the same command id")
            doubt.__cause__ = self.error
            self.log.doubt = self.log.doubt or doubt
            self._outcome = InDoubt(doubt)

    def outcome(self) -> Outcome:
        """Return what became of it, or raise what the caller did wrong."""
        if self.landed is not None:
            return self.landed.outcome
        if self._outcome is None:
            assert self.error is not None
            raise self.error
        return self._outcome
