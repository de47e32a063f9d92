"""The actor that owns one session and is the only one that writes its log.

Commands arrive through a bounded mailbox. All waiting commands form one batch, which is decided against the state,
written in one call, made durable, folded, published and answered. When nothing is waiting, a command runs to completion
on its caller's task instead, in the same steps and with the same results, so no task is needed. As soon as commands
compete, the mailbox serves them from a task that ends when the mailbox is empty.
"""

from __future__ import annotations

from contextlib import suppress

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from ..events.entries import Entry
from ..events.errors import LeaseLost, LogReplaced
from ..events.stores.base import Committed, Fenced, Outcome
from ..events.stores.capabilities import Leases
from .batches import BatchWriter, FirstTry, landed_as_decided
from .commands import AnswerFromLog, Append, Command, Decision, Mail
from .decide import READS_ENTRIES, Draft, decide, seqs_to_read
from .host.runtime import Runtime
from .log.open_log import OpenLog
from .log.owned_log import OwnedLog
from .mailbox import Mailbox


class SessionActor:
    """Carries out the commands for one session, from activation to passivation.

    Args:
        runtime: The host's seams.
        owned: The session's log.

    Attributes:
        mailbox: The commands that wait.
        owned: The session's log, and the right to append to it.
        torn: The torn tail that was repaired on activation, until it has been reported.
    """

    __slots__ = ("_batches", "_runtime", "mailbox", "owned", "torn")

    def __init__(self, runtime: Runtime, owned: OwnedLog) -> None:
        self._runtime = runtime
        self.owned = owned
        self.mailbox = Mailbox(runtime)
        self._batches = BatchWriter(runtime, owned)
        self.torn = owned.lease.torn

    @property
    def log(self) -> OpenLog:
        """The log: its index and access to its bodies."""
        return self.owned.log

    @property
    def archived(self) -> bool:
        """Whether the session is archived; any write brings it back first."""
        return self.owned.archived

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return self.mailbox.idle

    # -- accepting commands

    async def perform(self, command: Command) -> list[Entry]:
        """Carry out a command and return the entries that it produced.

        If the caller is cancelled, the command is either not accepted or carried out whole.
        """
        owned, index = self.owned, self.owned.log.index
        if type(command) is not Append or self.mailbox.serving or owned.stale or index.info.archived:
            return await self._perform_through_mailbox(command)
        draft = Draft(index)
        may_read = command.command_id is not None or not READS_ENTRIES.isdisjoint(map(type, command.payloads))
        if may_read and seqs_to_read(draft, command):
            return await self._perform_through_mailbox(command)
        runtime = self._runtime
        decision = decide(draft, command, runtime.now(), runtime.new_id, owned.log.dialect)
        started = runtime.timer()
        request = owned.request((decision,))
        outcome = runtime.store.try_append(request)
        if isinstance(outcome, Committed) and outcome.head.seq == decision.entries[-1].seq:
            owned.apply((decision,), outcome, started)
            return decision.entries
        if outcome is None:
            return await self._perform_deferred(command, FirstTry(decision, request, started))
        return await self._perform_through_mailbox(self._left_to_do(command, decision, outcome))

    # -- carrying them out

    async def _perform_through_mailbox(self, command: Command | AnswerFromLog) -> list[Entry]:
        """Queue a command behind those that wait, and return its result."""
        mail = Mail(command)
        await self.mailbox.put(mail, self._batches.carry_out)
        return await mail.reply()

    def _left_to_do(self, command: Append, decision: Decision, outcome: Outcome) -> Append | AnswerFromLog:
        """Return what is left to do of an append that did not land as it was decided; raise what made it fail."""
        self.owned.stale = True
        if isinstance(outcome, Fenced):
            return command
        if isinstance(outcome, Committed):
            return AnswerFromLog(decision.ids)
        self._runtime.counters.failures += 1
        raise outcome.error

    async def _perform_deferred(self, command: Append, tried: FirstTry) -> list[Entry]:
        """Carry out an append that was decided, on its caller's task, when the store has to be awaited."""
        await checkpoint_if_cancelled()  # a store may shield all of its waiting; it does not yield otherwise
        self.mailbox.hold()
        try:
            outcome: Outcome | Exception
            try:
                outcome = await self.owned.append(tried.request)
            except anyio.get_cancelled_exc_class():  # the lines may have been written all the same
                self.owned.stale = True
                self.mailbox.put_unattended(Mail(AnswerFromLog(tried.decision.ids)))
                raise
            except Exception as error:  # noqa: BLE001 - the batch turns it into a reply
                outcome = error
            if isinstance(outcome, Committed) and landed_as_decided(outcome, tried.decision):
                self.owned.apply([tried.decision], outcome, tried.started)
                return tried.decision.entries
            tried.decision.mail = mail = Mail(command)
            with anyio.CancelScope(shield=True):
                await self._batches.carry_out([mail], (tried, outcome))
        finally:
            self.mailbox.release(self._batches.carry_out)
        return await mail.reply()

    # -- changes by other programs

    async def refresh(self) -> None:
        """Read what other programs did to the file: appended to it, if they share it, or replaced it.

        Raises:
            LeaseLost: Another host may have taken the log.
            StoreUnavailable: Whether it has cannot be found out, or what became of an append.
        """
        leases = self._runtime.leases
        if leases is not None and leases.lease_s:
            await self._agree(leases)
        log = self.log
        if not self.owned.written or self.mailbox.serving or not (log.replaced or log.dialect.shared):
            return
        with self.mailbox.entering():  # so that the session is not passivated meanwhile
            if not log.replaced:
                try:
                    await log.catch_up()
                except LogReplaced:
                    log.replaced = True
            if log.replaced:
                self.owned.stale = True
                mail = Mail(AnswerFromLog(()))
                await self.mailbox.put(mail, self._batches.carry_out)
                with suppress(LogReplaced):  # the new log is served now, and subscribers got a `Reset`
                    await mail.reply()

    async def _agree(self, leases: Leases) -> None:
        """Wait until this log is no older than what any host, which reads the store, can have shown of it."""
        with self.mailbox.entering():  # so that the session is not passivated meanwhile
            await self.mailbox.answered()
            if self.owned.in_doubt:
                await self._perform_through_mailbox(AnswerFromLog(()))
            is_held = await leases.confirm(self.owned.lease)
        if not is_held:
            raise LeaseLost(f"another host has taken {self.log.ref}: read it again")

    # -- passivation

    async def leave(self) -> None:
        """Release the log; nothing may be asked of this actor afterwards."""
        self.mailbox.close()
        await self.owned.release()
