"""The rounds of durability "group": one write and one flush of the journal for all waiting appends.

No task or thread is dedicated to rounds. The first append that joins a round leads it: it waits for the previous round,
lets every append join that is ready, has a worker thread write and flush the journal, and wakes the others. Appends
that arrive in the meantime join the next round.

A journal is retired when it is full or when writing it failed. Before the next round, the session files that it covers
are flushed and the journal is dropped; appends wait for that. So a journal, and with it the work of a replay after a
power cut, is limited to `max_bytes` plus one round. If a session file cannot be flushed, its session is in doubt, and
the journal is kept until the file has been written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyio import Event, current_effective_deadline, get_cancelled_exc_class
from anyio.lowlevel import cancel_shielded_checkpoint
from msgspec import Struct

from ....disk import Disk, flush_file
from ....disk.disk_errors import reason_of, remedy_of
from ....errors import AppendInDoubt
from ....offload import carried_out, seen_through
from ....telemetry import logger
from ...base import InDoubt
from ..log.log import Log
from ..logs import Logs
from .flushing import ReleasedLogs, Syncer
from .own_journals import LandedAppend, OwnJournals


class Round:
    """Appends that become durable together."""

    __slots__ = ("done", "error", "landed")

    def __init__(self) -> None:
        self.landed: list[LandedAppend] = []
        self.done = Event()  # set when the outcomes of all appends are final
        self.error: BaseException | None = None  # why it is uncertain that the appends are durable


class GroupCommitter:
    """The journal writer of one store, which makes appends durable in rounds.

    Args:
        journals: The journals of this host.
        released: The logs that the store released.
        syncer: Flushes the session files when a journal is full.
        max_bytes: The size at which a journal is full; one round may exceed it.

    Attributes:
        journals: The journals of this host.
    """

    def __init__(
        self, logs: Logs, journals: OwnJournals, released: ReleasedLogs, syncer: Syncer, max_bytes: int
    ) -> None:
        self._logs = logs
        self._released = released
        self._syncer = syncer
        self._max_bytes = max_bytes
        self._gathering: Round | None = None
        self._running: Round | None = None
        self.journals = journals

    # -- rounds

    async def commit(self, landed: Sequence[LandedAppend]) -> None:
        """Make appends durable; when this returns, their round is settled."""
        leads = self._gathering is None
        this_round = self._gathering = self._gathering or Round()
        this_round.landed += landed
        cancellation: BaseException | None = None
        if not leads:
            try:
                await this_round.done.wait()  # most callers do, and a scope would take half as long again
            except get_cancelled_exc_class() as error:
                cancellation = error
        if not this_round.done.is_set():
            step = partial(self._lead, this_round) if leads else this_round.done.wait
            cancellation = await seen_through(step, this_round.done.is_set) or cancellation
        if cancellation is not None and current_effective_deadline() != float("-inf"):
            raise cancellation  # that of a cancelled scope is delivered again, after the caller received its outcome

    async def _lead(self, this_round: Round) -> None:
        while self._running is not None and self._running is not this_round:
            await self._running.done.wait()
        self._running = this_round
        await cancel_shielded_checkpoint()  # lets all appends that are ready join
        try:
            current = self.journals.current
            if current is not None and (current.segment.broken or current.segment.size >= self._max_bytes):
                await self.checkpoint()
            if self._gathering is this_round:
                self._gathering = None
            await carried_out(self._logs.offload, self._carry_out, this_round)
        except get_cancelled_exc_class():
            if self._gathering is not this_round:  # the round was carried out nevertheless
                self._settle(this_round)
            raise
        except BaseException as error:
            this_round.error = error
            self._settle(this_round)
            if not isinstance(error, Exception):
                raise
        else:
            self._settle(this_round)

    def _settle(self, this_round: Round) -> None:
        """Apply the result of a round to its logs, and wake the appends that wait for it."""
        if self._gathering is this_round:
            self._gathering = None
        for each in this_round.landed:
            log = each.log
            if this_round.error is None:
                log.head = each.head
            else:
                self._note_doubt(each, this_round.error)
            log.note_idle()
        self._running = None
        this_round.done.set()

    def _note_doubt(self, landed: LandedAppend, error: BaseException) -> None:
        log = landed.log
        reason, remedy = (
            (reason_of(error), remedy_of(error)) if isinstance(error, OSError) else (error, "check the disk")
        )
        log.doubt = AppendInDoubt(
            f"{log.path}: the journal could not be written ({reason}); {remedy}, then retry with the same command id"
        )
        log.doubt.__cause__ = error
        log.unjournaled = True
        landed.outcome = InDoubt(log.doubt)
        self._logs.open_files.drop(log)
        log.roll_back(landed.before, landed.offset)

    # -- in a worker thread

    def _carry_out(self, this_round: Round) -> None:
        try:
            self.journals.write(this_round.landed)
        except BaseException as error:  # noqa: BLE001  # reported to the callers, not raised in the thread
            this_round.error = error

    # -- checkpoints

    async def checkpoint(self) -> None:
        """Flush the files of all sessions that the journal covers, and retire it."""
        retired = self.journals.current
        if retired is None:
            return
        cancellation: BaseException | None = None
        jobs = [_Flush(self._logs.disk, path) for path in retired.refs]
        try:
            await self._syncer.run(jobs)
        except get_cancelled_exc_class() as error:  # the jobs were completed nevertheless
            cancellation = error
        for job in jobs:
            if job.error is not None:
                retired.failed.add(job.path)
                self._note_flush_failure(job.path, retired.refs[job.path], job.error)
        try:
            await carried_out(self._logs.offload, self.journals.retire, retired)
        except get_cancelled_exc_class() as error:
            cancellation = error
        self.journals.current = None
        if cancellation is not None:
            raise cancellation

    def _note_flush_failure(self, path: str, ref: str, error: BaseException) -> None:
        """Note that a session file could not be flushed: its bytes have to be written again.

        The next flush may succeed without them.
        """
        log = self._logs.owned.get(ref)
        logger().warning("checkpoint_failed", ref=ref, error=str(error))
        if log is None or log.path != path:
            self._released.note_not_flushed(path)
            return
        self.note_unflushed(log, error)

    def note_unflushed(self, log: Log, error: BaseException) -> None:
        """Note that a log could not be flushed: its bytes have to be written again before the next append."""
        log.note_not_flushed(error)
        if not log.busy:
            self._logs.open_files.drop(log)

    # -- closing

    async def aclose(self) -> None:
        """Flush all files and drop the journal; if a file cannot be flushed, its journal stays for the next host.

        No append may be under way.
        """
        await self.checkpoint()
        self.journals.release_kept()


class _Flush(Struct, eq=False):
    """A job that flushes one file in a worker thread."""

    disk: Disk
    path: str
    error: BaseException | None = None

    def __call__(self) -> None:
        try:
            flush_file(self.disk, self.path)
        except FileNotFoundError:
            pass  # the session was deleted
        except BaseException as error:  # noqa: BLE001  # reported for the session, not raised in the thread
            self.error = error
