"""The actor that owns one session and is the only one that writes its log.

Commands arrive through a bounded mailbox. All waiting commands form one batch, which is decided against the state,
written in one call, made durable, folded, published and answered. When nothing is waiting, a command runs to completion
on its caller's task instead, in the same steps and with the same results, so no task is needed. As soon as commands
compete, the mailbox serves them from a task that ends when the mailbox is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import UNSET
from msgspec.structs import replace

from ..events.entries import SessionInfo
from ..events.errors import AppendFailed, LeaseLost, LogReplaced, TreeringError
from ..events.stores import base as stores
from ..events.stores.base import Committed, Failed, Fenced, Outcome
from ..events.stores.capabilities import Leases
from ..events.telemetry import logger
from .commands import (
    AnswerFromLog,
    Append,
    Command,
    CommandResult,
    Decision,
    Mail,
    MoveLeaf,
    Unarchive,
    unreachable_error,
)
from .decide import (
    NO_ENTRIES,
    READS_ENTRIES,
    Draft,
    Entries,
    decide,
    decide_move,
    needs_own_write,
    seqs_to_read,
    sets_status,
)
from .host.runtime import Runtime
from .log.open_log import OpenLog
from .log.owned_log import TRIES_MAX, OwnedLog, outpaced_error
from .mailbox import Mailbox


class _DeferredAppend(NamedTuple):
    """An append that was decided but that the store could not write at once."""

    decision: Decision
    request: stores.Append
    started: float


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

    __slots__ = ("_runtime", "mailbox", "owned", "torn")

    def __init__(self, runtime: Runtime, owned: OwnedLog) -> None:
        self._runtime = runtime
        self.owned = owned
        self.mailbox = Mailbox(runtime)
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

    async def perform(self, command: Command) -> CommandResult:
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
            return await self._perform_deferred(command, _DeferredAppend(decision, request, started))
        return await self._perform_through_mailbox(self._left_to_do(command, decision, outcome))

    # -- carrying them out

    async def _perform_through_mailbox(self, command: Command | AnswerFromLog) -> CommandResult:
        """Queue a command behind those that wait, and return its result."""
        mail = Mail(command)
        await self.mailbox.put(mail, self._run)
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

    async def _perform_deferred(self, command: Append, deferred: _DeferredAppend) -> CommandResult:
        """Carry out an append that was decided, on its caller's task, when the store has to be awaited."""
        await checkpoint_if_cancelled()  # a store may shield all of its waiting; it does not yield otherwise
        self.mailbox.hold()
        try:
            outcome: Outcome | Exception
            try:
                outcome = await self.owned.append(deferred.request)
            except anyio.get_cancelled_exc_class():  # the lines may have been written all the same
                self.owned.stale = True
                self.mailbox.put_unattended(Mail(AnswerFromLog(deferred.decision.ids)))
                raise
            except Exception as error:  # noqa: BLE001 - `_run` below turns it into a reply
                outcome = error
            if isinstance(outcome, Committed) and _landed_as_decided(outcome, deferred.decision):
                self.owned.apply([deferred.decision], outcome, deferred.started)
                return deferred.decision.entries
            deferred.decision.mail = mail = Mail(command)
            with anyio.CancelScope(shield=True):
                await self._run([mail], (deferred, outcome))
        finally:
            self.mailbox.release(self._run)
        return await mail.reply()

    async def _run(
        self, mails: list[Mail], first_try: tuple[_DeferredAppend, Outcome | Exception] | None = None
    ) -> None:
        """Carry out a batch; every command has its reply when this returns.

        Args:
            mails: The commands.
            first_try: An attempt that was already made, and its outcome.
        """
        waiting = mails
        try:
            if first_try is not None:
                (deferred, outcome) = first_try
                if isinstance(outcome, Exception):
                    raise outcome
                waiting = await self._settle([deferred.decision], deferred.request, outcome, deferred.started)
                if not waiting:
                    return
            for _ in range(TRIES_MAX):
                waiting = await self._attempt(waiting)
                if not waiting:
                    return
            raise outpaced_error()
        except LeaseLost as error:
            self._refuse(mails, error)
            self._runtime.lost(self.log.ref)
        except TreeringError as error:
            self._refuse(mails, error)
        except OSError as error:
            self.owned.stale = True
            for mail in mails:
                self._refuse([mail], unreachable_error(mail.command, self.log.ref, error, written=mail.written))
        except Exception as error:  # noqa: BLE001 - every caller gets a reply, whatever went wrong
            self.owned.stale = True
            logger().error("actor_failed", session_id=self.log.index.header.id, error=type(error).__qualname__)
            self._refuse(mails, error)

    @staticmethod
    def _refuse(mails: Sequence[Mail], error: Exception) -> None:
        for mail in mails:
            if not mail.answered:
                mail.refuse(error)

    async def _attempt(self, mails: Sequence[Mail]) -> list[Mail]:
        """Carry out what can be carried out against the current state, and return the commands to try again."""
        if self.owned.stale:
            await self.owned.recover()
        remaining = deque(mails)
        while remaining:
            group = await self._next_group(remaining)
            to_retry = await self._commit(group) if group else []
            if to_retry or self.owned.stale:
                return [*to_retry, *(mail for mail in remaining if not mail.answered)]
        return []

    async def _next_group(self, remaining: deque[Mail]) -> list[Decision]:
        """Decide the next commands that can be written together, and carry out those that write nothing.

        Args:
            remaining: The commands; those that are dealt with are removed from it.
        """
        draft = Draft(self.log.index)
        group: list[Decision] = []
        while remaining:
            mail = remaining[0]
            command = mail.command
            written_alone = self.archived or needs_own_write(draft, command)
            if written_alone and group:
                break
            if self.archived and not isinstance(command, AnswerFromLog) and not sets_status(command):
                await self._unarchive_for(mail, command)
                if self.owned.stale:
                    break
                draft = Draft(self.log.index)
                command = _without_expectations(command)
            remaining.popleft()
            if not mail.answered:
                decision = await self._decide_or_answer(draft, mail, command)
                if decision is not None:
                    group.append(decision)
            if written_alone:
                break
        return group

    async def _decide_or_answer(self, draft: Draft, mail: Mail, command: Command | AnswerFromLog) -> Decision | None:
        """Decide what a command writes; a command that writes nothing is carried out and answered instead."""
        if isinstance(command, Append):
            return await self._decide_mail(draft, mail, command)
        if isinstance(command, MoveLeaf):
            await self._move(mail, command)
        elif isinstance(command, Unarchive):
            mail.answer([])
        else:
            await self._answer_from_log(mail, command.ids)
        return None

    async def _unarchive_for(self, mail: Mail, command: Command) -> None:
        """Append the entry that brings the session back from the archive, if the command is going to be carried out.

        A command that is refused, or was carried out before, has its reply when this returns.
        """
        if isinstance(command, MoveLeaf):
            try:
                decide_move(self.log.index, command)
            except TreeringError as error:
                mail.refuse(error)
        elif isinstance(command, Append):
            await self._decide_mail(Draft(self.log.index), mail, command)
        if mail.answered:
            return
        restoring = Append((SessionInfo(archived=False),))
        decision = self._decide(Draft(self.log.index), restoring)
        decision.mail = status_mail = Mail(restoring)
        await self._commit([decision])
        if status_mail.answered:
            try:
                await status_mail.reply()
            except TreeringError as error:
                mail.refuse(error)

    async def _decide_mail(self, draft: Draft, mail: Mail, command: Append) -> Decision | None:
        """Decide one command of a batch, or reply if it is refused or was carried out before."""
        try:
            seqs = seqs_to_read(draft, command)
            entries = await self.log.entries_at(seqs) if seqs else NO_ENTRIES
            decision = self._decide(draft, command, entries)
        except LogReplaced:
            raise
        except TreeringError as error:
            mail.refuse(error)
            return None
        if not decision.lines:
            mail.answer(decision.entries)
            return None
        decision.mail = mail
        for entry in decision.entries:
            draft.add(entry)
        return decision

    def _decide(self, draft: Draft, command: Append, entries: Entries = NO_ENTRIES) -> Decision:
        return decide(draft, command, self._runtime.now(), self._runtime.new_id, self.log.dialect, entries)

    # -- writing

    async def _commit(self, group: Sequence[Decision]) -> list[Mail]:
        """Write a group of commands and reply to each, or return those that must be decided again."""
        request = self.owned.request(group)
        started = self._runtime.timer()
        outcome = self._runtime.store.try_append(request)
        if outcome is None:
            outcome = await self.owned.append(request)
        return await self._settle(group, request, outcome, started)

    async def _settle(
        self, group: Sequence[Decision], request: stores.Append, outcome: Outcome, started: float
    ) -> list[Mail]:
        mails = [each.mail for each in group if each.mail is not None]
        if isinstance(outcome, Committed):
            if _landed_as_decided(outcome, group[-1]):
                self.owned.apply(group, outcome, started)
                for each in group:
                    if each.mail is not None:
                        each.mail.answer(each.entries)
            else:
                _note_written(mails)
                await self.owned.recover()
                for each in group:
                    if each.mail is not None:
                        await self._answer_from_log(each.mail, each.ids)
            return []
        self.owned.stale = True
        if isinstance(outcome, Fenced):
            return mails
        self._runtime.counters.failures += 1
        if isinstance(outcome, Failed):
            if outcome.head.seq > request.expected_head.seq:
                _note_written(mails)
            await self._answer_prefix(group, outcome)
        self._refuse(mails, outcome.error)
        return []

    async def _answer_prefix(self, group: Sequence[Decision], outcome: Failed) -> None:
        """Reply to those commands of a failed write whose lines landed completely."""
        await self.owned.recover()
        for each in group:
            if each.mail is not None and all(self.log.index.find(entry_id) for entry_id in each.ids):
                await self._answer_from_log(each.mail, each.ids)

    async def _answer_from_log(self, mail: Mail, ids: Sequence[str]) -> None:
        """Reply with entries that are already in the log."""
        seqs = [self.log.index.find(entry_id) for entry_id in ids]
        if not all(seqs):
            mail.refuse(AppendFailed("another program removed the lines that were just appended: append them again"))
            return
        mail.answer(await self.log.entries_in(seqs))

    # -- the leaf

    async def _move(self, mail: Mail, command: MoveLeaf) -> None:
        try:
            await self.owned.move_leaf(command)
        except (LogReplaced, LeaseLost):
            raise
        except (TreeringError, OSError) as error:
            mail.refuse(error)
        else:
            mail.answer([])

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
                await self.mailbox.put(mail, self._run)
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

    async def save_snapshot(self) -> None:
        """Write a snapshot of the index if the log has grown enough."""
        await self.owned.save_snapshot()

    async def leave(self) -> None:
        """Release the log; nothing may be asked of this actor afterwards."""
        self.mailbox.close()
        await self.owned.release()


def _landed_as_decided(outcome: Committed, last: Decision) -> bool:
    """Tell whether the lines have the seqs that were decided, so that no other program's lines came before them."""
    return outcome.head.seq == last.entries[-1].seq


def _note_written(mails: Sequence[Mail]) -> None:
    for mail in mails:
        mail.written = True


def _without_expectations(command: Command) -> Command:
    """Return a command without its expectations, which were met before its session was unarchived for it."""
    if isinstance(command, Append):
        return replace(command, expected_leaf=UNSET, expected_seq=None)
    return command
