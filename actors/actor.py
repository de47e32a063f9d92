"""The actor that owns one session and is the only one that writes its log.

Commands come in through a bounded mailbox. Whatever waits is taken as one batch: decided against the state, written in
one go, made durable, folded, published, answered. While nothing waits, a command runs to completion on its caller's
task, in the same steps and with the same results, and no task is needed; with the first contention the mailbox serves,
by a task that ends when it is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled
from msgspec import UNSET
from msgspec.structs import replace

from ..events.entries import SessionInfo
from ..events.errors import (
    AppendFailed,
    DialectCannot,
    LogReplaced,
    SessionNotFound,
    TreeringError,
)
from ..events.stores import base as stores
from ..events.stores.base import ArchivingStore, Committed, Cursor, Failed, Fenced, Lease, Outcome
from ..events.telemetry import logger
from ..projections import feed
from ..projections.summary import ACTIVE, ARCHIVED
from .commands import Append, Command, AnswerFromLog, MoveLeaf, Unarchive
from .decide import NO_ENTRIES, Draft, Entries, decide, decide_move, sets_status, needs_own_write, seqs_to_read
from .leaf_record import encode_leaf
from .mail import Decision, CommandResult, Mail, unreachable_error
from .mailbox import Mailbox
from .open_log import OpenLog
from .runtime import Runtime

_TRIES_MAX = 64
_SNAPSHOT_SHARE = 100
"""Of how many lines one has to be new before a snapshot is rewritten: the longer the log, the more that costs."""


class _Begun(NamedTuple):
    """An append that was decided, and that the store could not write at once."""

    decided: Decision
    request: stores.Append
    started: float


class SessionActor:
    """Owns one session's log from activation to passivation.

    Attributes:
        log: The log: its index and the way to its bodies.
        recent: Whether it was used since the host last looked for idle sessions.
        torn: The torn tail that was repaired when the session was taken up, until somebody has been told of it.
    """

    __slots__ = ("_header_block", "_lease", "_mailbox", "_runtime", "_stale", "log", "recent", "torn")

    def __init__(self, runtime: Runtime, lease: Lease, log: OpenLog, *, header_block: bytes | None) -> None:
        self._runtime = runtime
        self._lease = lease
        self._header_block = header_block
        self._mailbox = Mailbox(runtime)
        self._stale = lease.packed  # so that nothing is appended before it is unpacked
        self.log = log
        self.recent = True
        self.torn = lease.torn

    @property
    def lease(self) -> Lease:
        """The right to append to the log."""
        return self._lease

    @property
    def written(self) -> bool:
        """Whether the log is there, as far as is known: its header goes with the first append."""
        return self._header_block is None

    @property
    def archived(self) -> bool:
        """Whether the session is archived: whatever is to be written brings it back first."""
        return self.log.index.info.status == ARCHIVED

    @property
    def mailbox_depth(self) -> int:
        """How many commands wait."""
        return self._mailbox.depth

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return self._mailbox.idle

    # -- taking commands

    async def perform(self, command: Command) -> CommandResult:
        """Carry out a command and return what it made.

        A caller that is cancelled has its command not taken, or carried out whole.
        """
        request: Command | AnswerFromLog = command
        if isinstance(command, Append) and not self._mailbox.serving and not self._stale and not self.archived:
            await checkpoint_if_cancelled()
            done = self._perform_now(command)
            if isinstance(done, _Begun):
                return await self._perform_waiting(command, done)
            if isinstance(done, list):
                runtime = self._runtime
                if runtime.timer() - runtime.turn_at > runtime.limits.inline_for_s:
                    await cancel_shielded_checkpoint()
                    runtime.turn_at = runtime.timer()
                return done
            request = done
        mail = Mail(request)
        await self._mailbox.put(mail, self._run)
        return await mail.reply()

    # -- carrying them out

    def _perform_now(self, command: Append) -> CommandResult | Append | AnswerFromLog | _Begun:
        """Carry out an append without waiting, or return what is left to do through the mailbox."""
        draft = Draft(self.log.index)
        if seqs_to_read(draft, command):
            return command
        decided = self._decide(draft, command, NO_ENTRIES)
        request = self._request([decided])
        started = self._runtime.timer()
        try:
            outcome = self._runtime.store.try_append(request)
        except BaseException:
            self._stale = True
            raise
        if outcome is None:
            return _Begun(decided, request, started)
        if isinstance(outcome, Fenced):
            return command
        if isinstance(outcome, Committed):
            if self._as_expected(request, outcome):
                self._take_in([decided], outcome, started)
                return decided.entries
            self._stale = True
            return AnswerFromLog(decided.ids)
        self._stale = True
        self._runtime.counters.failures += 1
        raise outcome.error

    async def _perform_waiting(self, command: Append, begun: _Begun) -> CommandResult:
        """Carry out an append that was decided, on its caller's task, where the store takes its time."""
        self._mailbox.serving = True
        try:
            outcome: Outcome | Exception
            try:
                (outcome,) = await self._runtime.store.append([begun.request])
            except anyio.get_cancelled_exc_class():  # and yet it was appended, or may have been
                self._stale = True
                self._mailbox.leave(Mail(AnswerFromLog(begun.decided.ids)))
                raise
            except Exception as error:  # noqa: BLE001 - the mailbox's way tells what that means
                outcome = error
            if isinstance(outcome, Committed) and self._as_expected(begun.request, outcome):
                self._take_in([begun.decided], outcome, begun.started)
                return begun.decided.entries
            begun.decided.mail = mail = Mail(command)
            with anyio.CancelScope(shield=True):
                await self._run([mail], (begun, outcome))
        finally:
            self._mailbox.release(self._run)
        return await mail.reply()

    async def _run(self, mails: list[Mail], begun: tuple[_Begun, Outcome | Exception] | None = None) -> None:
        """Carry out a batch; every command has its reply when this returns.

        Args:
            mails: The commands.
            begun: The first attempt, where it was made before, and what became of it.
        """
        waiting = mails
        try:
            if begun is not None:
                (attempt, outcome) = begun
                if isinstance(outcome, Exception):
                    raise outcome
                waiting = await self._settle([attempt.decided], attempt.request, outcome, attempt.started)
                if not waiting:
                    return
            for _ in range(_TRIES_MAX):
                waiting = await self._attempt(waiting)
                if not waiting:
                    return
            raise AppendFailed("another program keeps appending to this log: try again when it is quiet")
        except TreeringError as error:
            self._refuse(mails, error)
        except OSError as error:
            self._stale = True
            for mail in mails:
                self._refuse([mail], unreachable_error(mail.command, self.log.ref, error, written=mail.written))
        except Exception as error:  # noqa: BLE001 - whatever went wrong, every caller gets an answer
            self._stale = True
            logger().error("actor_failed", session_id=self.log.index.header.id, error=type(error).__qualname__)
            self._refuse(mails, error)

    @staticmethod
    def _refuse(mails: Sequence[Mail], error: Exception) -> None:
        for mail in mails:
            if not mail.answered:
                mail.refuse(error)

    async def _attempt(self, mails: Sequence[Mail]) -> list[Mail]:
        """Carry out what can be carried out against the state as it is, and return what has to be tried again."""
        if self._stale:
            await self._recover()
        left = deque(mails)
        while left:
            group = await self._next_group(left)
            again = await self._commit(group) if group else []
            if again or self._stale:
                return [*again, *(mail for mail in left if not mail.answered)]
        return []

    async def _next_group(self, left: deque[Mail]) -> list[Decision]:
        """Take the next commands that can be written in one go, and carry out those among them that write nothing.

        Args:
            left: The commands, from which those that are dealt with are taken.
        """
        draft = Draft(self.log.index)
        group: list[Decision] = []
        while left:
            mail = left[0]
            command = mail.command
            alone = self.archived or needs_own_write(draft, command)
            if alone and group:
                break
            if self.archived and not isinstance(command, AnswerFromLog) and not sets_status(command):
                await self._bring_back(mail, command)
                if self._stale:
                    break
                draft = Draft(self.log.index)
                command = _relying_on_nothing(command)
            left.popleft()
            if not mail.answered:
                decided = await self._decide_or_answer(draft, mail, command)
                if decided is not None:
                    group.append(decided)
            if alone:
                break
        return group

    async def _decide_or_answer(self, draft: Draft, mail: Mail, command: Command | AnswerFromLog) -> Decision | None:
        """Decide what is to be written, or carry out a command that writes nothing, which then has its reply."""
        if isinstance(command, Append):
            return await self._decide_mail(draft, mail, command)
        if isinstance(command, MoveLeaf):
            await self._move(mail, command)
        elif isinstance(command, Unarchive):
            mail.answer([])
        else:
            await self._answer_landed(mail, command.ids)
        return None

    async def _bring_back(self, mail: Mail, command: Command) -> None:
        """Say that the session is archived no longer, if the command will be carried out then.

        One that will not be, since it is refused or was carried out before, has its reply when this returns.
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
        active = Append((SessionInfo(status=ACTIVE),))
        decided = self._decide(Draft(self.log.index), active, NO_ENTRIES)
        decided.mail = errand = Mail(active)
        await self._commit([decided])
        if errand.answered:
            try:
                await errand.reply()
            except TreeringError as error:
                mail.refuse(error)

    async def _decide_mail(self, draft: Draft, mail: Mail, command: Append) -> Decision | None:
        """Decide one command of a batch, or reply where it is refused or was carried out before."""
        try:
            seqs = seqs_to_read(draft, command)
            entries = await self.log.entries_at(seqs) if seqs else NO_ENTRIES
            decided = self._decide(draft, command, entries)
        except LogReplaced:
            raise
        except TreeringError as error:
            mail.refuse(error)
            return None
        if not decided.lines:
            mail.answer(decided.entries)
            return None
        decided.mail = mail
        for entry in decided.entries:
            draft.add(entry)
        return decided

    def _decide(self, draft: Draft, command: Append, entries: Entries) -> Decision:
        """Decide a command and write its lines; what is kept of an entry is what its line says."""
        dialect = self.log.dialect
        made, new = decide(draft, command, self._runtime.now(), self._runtime.new_id, dialect, entries)
        if not new:
            return Decision(list(made), [])
        if command.aside and not dialect.can_append_aside:
            raise DialectCannot(
                f"a {dialect.name} file cannot say that an entry does not become the leaf: use a native session"
            )
        decided = Decision([], [])
        for entry in made:
            line, read = dialect.write(entry)
            decided.entries.append(read)
            decided.lines.append(line)
        return decided

    # -- writing

    def _request(self, group: Sequence[Decision]) -> stores.Append:
        lines = tuple(group[0].lines) if len(group) == 1 else tuple(line for each in group for line in each.lines)
        return stores.Append(
            self._lease,
            Cursor(self.log.generation, self.log.index.seen),
            lines,
            len(group) == 1 and len(lines) > 1,
            self._header_block,
            self.log.dialect,
        )

    @staticmethod
    def _as_expected(request: stores.Append, outcome: Committed) -> bool:
        """Tell whether the lines landed where they were meant to, with no other program's before them."""
        return outcome.head.seq == request.expected_head.seq + len(request.lines)

    async def _commit(self, group: Sequence[Decision]) -> list[Mail]:
        """Write a group of commands and reply to each, or return those that have to be decided again."""
        request = self._request(group)
        started = self._runtime.timer()
        outcome = self._runtime.store.try_append(request)
        if outcome is None:
            (outcome,) = await self._runtime.store.append([request])
        return await self._settle(group, request, outcome, started)

    async def _settle(
        self, group: Sequence[Decision], request: stores.Append, outcome: Outcome, started: float
    ) -> list[Mail]:
        mails = [each.mail for each in group if each.mail is not None]
        if isinstance(outcome, Committed):
            if self._as_expected(request, outcome):
                self._take_in(group, outcome, started)
                for each in group:
                    if each.mail is not None:
                        each.mail.answer(each.entries)
            else:
                _note_written(mails)
                await self._recover()
                for each in group:
                    if each.mail is not None:
                        await self._answer_landed(each.mail, each.ids)
            return []
        self._stale = True
        if isinstance(outcome, Fenced):
            return mails
        self._runtime.counters.failures += 1
        if isinstance(outcome, Failed):
            if outcome.head.seq > request.expected_head.seq:
                _note_written(mails)
            await self._answer_prefix(group, outcome)
        self._refuse(mails, outcome.error)
        return []

    def _take_in(self, group: Sequence[Decision], outcome: Committed, started: float) -> None:
        """Make what was committed part of the state and of every view."""
        log = self.log
        log.generation = outcome.head.generation
        self._header_block = None
        size = 0
        count = 0
        try:
            for each in group:
                log.appended(each.entries, each.lines)
                size += sum(map(len, each.lines))
                count += len(each.lines)
        except BaseException:
            self._stale = True
            raise
        self._runtime.counters.committed(count, size, self._runtime.timer() - started)
        if self._runtime.touched.listeners:
            self._runtime.touched.add(log.ref)

    async def _answer_prefix(self, group: Sequence[Decision], outcome: Failed) -> None:
        """Reply to the commands of a failed write whose lines landed whole."""
        await self._recover()
        for each in group:
            if each.mail is not None and all(self.log.index.find(entry_id) for entry_id in each.ids):
                await self._answer_landed(each.mail, each.ids)

    async def _answer_landed(self, mail: Mail, ids: Sequence[str]) -> None:
        """Reply with entries that are in the log."""
        seqs = [self.log.index.find(entry_id) for entry_id in ids]
        if not all(seqs):
            mail.refuse(AppendFailed("another program removed what was just appended: append it again"))
            return
        mail.answer(await self.log.entries_in(seqs))

    # -- the leaf

    async def _move(self, mail: Mail, command: MoveLeaf) -> None:
        index = self.log.index
        try:
            seq = decide_move(index, command)
            if self._header_block is None:
                head = Cursor(self.log.generation, index.seen)
                await self._runtime.store.save(self._lease, "leaf", head, encode_leaf(command.entry_id))
        except (TreeringError, OSError) as error:
            mail.refuse(error)
            return
        index.move_leaf(seq)
        if self.log.feed is not None:
            self.log.feed.publish(feed.LeafMoved(seq))
        mail.answer([])

    # -- the log as others leave it

    async def refresh(self) -> None:
        """Take in what another program may have appended to a file that is shared with it."""
        if self.log.dialect.shared and self._header_block is None and not self._mailbox.serving:
            try:
                await self.log.catch_up()
            except LogReplaced:
                self._stale = True
                mail = Mail(AnswerFromLog(()))
                await self._mailbox.put(mail, self._run)
                with suppress(LogReplaced):  # it is served from here on, and subscribers were told
                    await mail.reply()

    async def _recover(self) -> None:
        """Look at the log again after an error, another program's append, or a doubt.

        Raises:
            LogReplaced: It is another log now; from here on, that one is served.
        """
        if self._lease.packed and isinstance(self._runtime.store, ArchivingStore):
            self._lease = await self._runtime.store.unpack(self._lease)
            self.log.generation = self._lease.head.generation  # another file, with the same bytes
        head = await self._runtime.store.resolve(self._lease)
        if self._header_block is not None and head.seq == 0 and not head.generation:
            self._stale = False
            return
        if head.generation != self.log.generation and self.log.generation:
            await self._reopen(head)
            self._stale = False
            raise LogReplaced(
                f"{self.log.ref} was replaced, shortened or removed by another program: read the session again"
            )
        self.log.generation = head.generation
        await self.log.catch_up()
        self._header_block = None
        self._stale = False
        if self._runtime.touched.listeners:
            self._runtime.touched.add(self.log.ref)

    async def _reopen(self, head: Cursor) -> None:
        """Serve the log that stands where the old one was."""
        old = self.log
        try:
            opening = await self._runtime.store.open(old.ref)
        except SessionNotFound:
            self._header_block = old.dialect.encode_header(old.index.header)
            log = OpenLog(self._runtime, old.ref, old.index.header, old.dialect, head.generation)
        else:
            log = OpenLog(self._runtime, old.ref, opening.header, opening.dialect, opening.head.generation)
            await log.catch_up()
        followers = old.feed
        old.attach(None)
        self.log = log
        log.attach(followers)
        if followers is not None:
            followers.publish(feed.Reset(Cursor(log.generation, 0)))

    # -- passivation

    async def quiet(self) -> None:
        """Wait until every command that was accepted has its answer."""
        await self._mailbox.quiet()

    async def passivate(self) -> None:
        """Keep the index's snapshot where the log has grown enough, and let the log go."""
        index = self.log.index
        kept = self.log.snapshot_at
        enough = max(self._runtime.limits.snapshot_after_lines, kept // _SNAPSHOT_SHARE)
        try:
            if index.head - kept >= enough and self._header_block is None and not self._stale:
                await self._runtime.store.save(self._lease, "index", self.log.cursor, index.dump())
        finally:
            self._mailbox.close()
            await self._runtime.store.release([self._lease])


def _note_written(mails: Sequence[Mail]) -> None:
    for mail in mails:
        mail.written = True


def _relying_on_nothing(command: Command) -> Command:
    """Return a command without its expectations, which the state met before the session was brought back for it."""
    if isinstance(command, Append):
        return replace(command, expected_leaf=UNSET, expected_seq=None)
    return replace(command, expected_leaf=UNSET) if isinstance(command, MoveLeaf) else command
