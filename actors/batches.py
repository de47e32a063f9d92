"""Batches: how the commands that wait together are decided, written in one call, settled and answered.

Commands that write nothing, or must be written alone, are carried out in their turn between the writes. Each outcome
of a write has one way on: what was committed as decided is folded and answered; what has other lines before it is
answered from the log; what was fenced is decided again against the new state; what failed, or may have, is refused, but
for the commands whose lines landed whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from ..events.entries import SessionInfo
from ..events.errors import AppendFailed, LeaseLost, LogReplaced, TreeringError
from ..events.stores import base as stores
from ..events.stores.base import Committed, Failed, Fenced, Outcome
from ..events.telemetry import logger
from .commands import AnswerFromLog, Append, Command, Decision, Mail, MoveLeaf, Unarchive, unreachable_error
from .decide import NO_ENTRIES, Draft, Entries, decide, decide_move, needs_own_write, seqs_to_read, sets_status
from .host.runtime import Runtime
from .log.open_log import TRIES_MAX, OpenLog
from .log.owned_log import OwnedLog, outpaced_error


class FirstTry(NamedTuple):
    """A write that was begun before its command waited with others: what was decided, and when it began."""

    decision: Decision
    request: stores.Append
    started: float


class BatchWriter:
    """Carries out batches of commands for one session.

    Args:
        runtime: The host's seams.
        owned: The session's log, and the right to append to it.
    """

    __slots__ = ("_owned", "_runtime")

    def __init__(self, runtime: Runtime, owned: OwnedLog) -> None:
        self._runtime = runtime
        self._owned = owned

    @property
    def _log(self) -> OpenLog:
        return self._owned.log

    async def carry_out(
        self, mails: Sequence[Mail], first_try: tuple[FirstTry, Outcome | Exception] | None = None
    ) -> None:
        """Carry out a batch; every command has its reply when this returns.

        Args:
            mails: The commands.
            first_try: A write that was already tried for the only command, and its outcome.
        """
        waiting = mails
        try:
            if first_try is not None:
                (tried, outcome) = first_try
                if isinstance(outcome, Exception):
                    raise outcome
                waiting = await self._settle([tried.decision], tried.request, outcome, tried.started)
                if not waiting:
                    return
            for _ in range(TRIES_MAX):
                waiting = await self._attempt(waiting)
                if not waiting:
                    return
            raise outpaced_error()
        except LeaseLost as error:
            self._refuse(mails, error)
            self._runtime.lost(self._log.ref)
        except TreeringError as error:
            self._refuse(mails, error)
        except OSError as error:
            self._owned.stale = True
            for mail in mails:
                self._refuse([mail], unreachable_error(mail.command, self._log.ref, error, written=mail.written))
        except Exception as error:  # noqa: BLE001 - every caller gets a reply, whatever went wrong
            self._owned.stale = True
            logger().error("actor_failed", session_id=self._log.index.header.id, error=type(error).__qualname__)
            self._refuse(mails, error)

    @staticmethod
    def _refuse(mails: Sequence[Mail], error: Exception) -> None:
        for mail in mails:
            if not mail.answered:
                mail.refuse(error)

    async def _attempt(self, mails: Sequence[Mail]) -> list[Mail]:
        """Carry out what can be carried out against the current state, and return the commands to try again."""
        if self._owned.stale:
            await self._owned.recover()
        remaining = deque(mails)
        while remaining:
            group = await self._next_group(remaining)
            to_retry = await self._commit(group) if group else []
            if to_retry or self._owned.stale:
                return [*to_retry, *(mail for mail in remaining if not mail.answered)]
        return []

    async def _next_group(self, remaining: deque[Mail]) -> list[Decision]:
        """Decide the next commands that can be written together, and carry out those that write nothing.

        Args:
            remaining: The commands; those that are dealt with are removed from it.
        """
        draft = Draft(self._log.index)
        group: list[Decision] = []
        while remaining:
            mail = remaining[0]
            command = mail.command
            written_alone = self._owned.archived or needs_own_write(draft, command)
            if written_alone and group:
                break
            if self._owned.archived and not isinstance(command, AnswerFromLog) and not sets_status(command):
                await self._unarchive_for(mail, command)
                if self._owned.stale:
                    break
                draft = Draft(self._log.index)
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
                decide_move(self._log.index, command)
            except TreeringError as error:
                mail.refuse(error)
        elif isinstance(command, Append):
            await self._decide_mail(Draft(self._log.index), mail, command)
        if mail.answered:
            return
        restoring = Append((SessionInfo(archived=False),))
        decision = self._decide(Draft(self._log.index), restoring)
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
            entries = await self._log.entries_at(seqs) if seqs else NO_ENTRIES
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
        return decide(draft, command, self._runtime.now(), self._runtime.new_id, self._log.dialect, entries)

    # -- writing

    async def _commit(self, group: Sequence[Decision]) -> list[Mail]:
        """Write a group of commands and reply to each, or return those that must be decided again."""
        request = self._owned.request(group)
        started = self._runtime.timer()
        outcome = self._runtime.store.try_append(request)
        if outcome is None:
            outcome = await self._owned.append(request)
        return await self._settle(group, request, outcome, started)

    async def _settle(
        self, group: Sequence[Decision], request: stores.Append, outcome: Outcome, started: float
    ) -> list[Mail]:
        mails = [each.mail for each in group if each.mail is not None]
        if isinstance(outcome, Committed):
            if landed_as_decided(outcome, group[-1]):
                self._owned.apply(group, outcome, started)
                for each in group:
                    if each.mail is not None:
                        each.mail.answer(each.entries)
            else:
                _note_written(mails)
                await self._owned.recover()
                for each in group:
                    if each.mail is not None:
                        await self._answer_from_log(each.mail, each.ids)
            return []
        self._owned.stale = True
        if isinstance(outcome, Fenced):
            return mails
        self._runtime.counters.failures += 1
        if isinstance(outcome, Failed):
            if outcome.head.seq > request.expected_head.seq:
                _note_written(mails)
            await self._answer_landed(group)
        self._refuse(mails, outcome.error)
        return []

    async def _answer_landed(self, group: Sequence[Decision]) -> None:
        """Reply to those commands of a failed write whose lines landed completely."""
        await self._owned.recover()
        for each in group:
            if each.mail is not None and all(self._log.index.find(entry_id) for entry_id in each.ids):
                await self._answer_from_log(each.mail, each.ids)

    async def _answer_from_log(self, mail: Mail, ids: Sequence[str]) -> None:
        """Reply with entries that are already in the log."""
        seqs = [self._log.index.find(entry_id) for entry_id in ids]
        if not all(seqs):
            mail.refuse(AppendFailed("another program removed the lines that were just appended: append them again"))
            return
        mail.answer(await self._log.entries_in(seqs))

    # -- the leaf

    async def _move(self, mail: Mail, command: MoveLeaf) -> None:
        try:
            await self._owned.move_leaf(command)
        except (LogReplaced, LeaseLost):
            raise
        except (TreeringError, OSError) as error:
            mail.refuse(error)
        else:
            mail.answer([])


def landed_as_decided(outcome: Committed, last: Decision) -> bool:
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
