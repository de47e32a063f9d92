"""Commands for sessions that another host owns, by letters: how they are sent, and how the owner carries them out.

A command is carried out once, however often its letter arrives: an append has a command id, by which the log knows it.
A move of the leaf has none, so a letter with one is never sent again: if its owner dies with it, it is in doubt.

Two tasks of the host do all of this: one looks when something may have arrived, and one writes answers.
"""

from __future__ import annotations

from functools import partial

import anyio

from ...events.entries import Entry
from ...events.errors import AppendInDoubt, HostClosed, LogReplaced, SessionLocked, StoreUnavailable, TreeringError
from ...events.stores.capabilities import Leases
from ...events.stores.hosts import Answer, Inbox, Letter, Whereabouts
from ...events.telemetry import failure_of, logger
from ..commands import Append
from ..log.open_log import OpenLog
from ..log.source import Source
from .calls import Done, Sendable, decode_answer, decode_call, encode_call, encode_done, encode_refusal
from .registry import Registry
from .runtime import Runtime

RUNNING_MAX = 256
"""How many letters a host carries out at the same time; it takes no further ones meanwhile."""

ANSWER_FOR_S = 5.0
"""For how many seconds an answer is waited for, beyond the time after which a silent owner loses its sessions."""

AGAIN_S = 0.5
"""After how many seconds something is tried again that the store refused."""

_LOOK_S = 0.05  # between two looks at who owns a session that changes hands
_LEAVE_FOR_S = 5.0  # how long a host that closes waits for the answers of what it has taken


class _Sent:
    """A letter of this host that waits for its answer."""

    def __init__(self) -> None:
        self.is_posted = False
        self.answer: Answer | None = None
        self.settled = anyio.Event()

    def settle(self, answer: Answer | None) -> None:
        self.answer = answer
        self.settled.set()


class Elsewhere:
    """The commands that come from other hosts, or go to them.

    Args:
        runtime: The host's seams.
        registry: The sessions that this host owns.
        inbox: The letters.
        leases: How long an owner that does not answer keeps its sessions.
    """

    def __init__(self, runtime: Runtime, registry: Registry, inbox: Inbox, leases: Leases | None) -> None:
        self._runtime = runtime
        self._registry = registry
        self._inbox = inbox
        self._wait_s = ANSWER_FOR_S + (0 if leases is None else max(leases.lease_s, leases.wait_s))
        self._sent: dict[str, _Sent] = {}
        self._running = 0
        self._left_some = False  # because as many run as may
        self._answers: dict[str, bytes] = {}
        self._to_answer = anyio.Event()
        self._all_answered = anyio.Event()
        self._closing = False

    # -- sending

    async def perform(self, source: Source, command: Sendable) -> list[Entry]:
        """Have a command carried out by the owner of a session, or here if nobody owns it any more.

        Raises:
            SessionLocked: The owner did not take it in time; nothing was carried out.
            AppendInDoubt: It may have been carried out; an append may be repeated with the same command id.
            TooLarge: The command is too large to be sent.
            TreeringError: The owner refused it.
        """
        until = anyio.current_time() + self._wait_s
        call = encode_call(command, self._runtime.new_id)
        known = decode_call(call)  # with the command id that it got
        while True:
            letter = Letter(self._runtime.new_id(), source.ref, call)
            answer = await self._delivered(letter, until)
            if isinstance(answer, bytes):
                done = decode_answer(answer)
                if isinstance(done, Done):
                    return await self._entries_of(source, done)
                if not isinstance(done.error, SessionLocked):
                    raise done.error
            elif answer is None or answer is Whereabouts.WAITING:
                raise await self._given_up(letter)
            elif answer is not Whereabouts.UNOWNED and not isinstance(known, Append):
                raise AppendInDoubt(f"the host that owned {source.ref} ended meanwhile: look where the leaf is now")
            try:
                actor = await self._registry.activate(source)
            except SessionLocked:  # by whoever was faster
                if anyio.current_time() > until or self._registry.drained_to is not None:
                    raise
                await anyio.sleep(_LOOK_S)
            else:
                return await actor.perform(known)

    async def _delivered(self, letter: Letter, until: float) -> Answer | None:
        """Post a letter, and return its answer, or what became of it; None if this host closes."""
        sent = self._sent[letter.id] = _Sent()
        try:
            while not self._closing and anyio.current_time() < until:
                try:
                    keep_s = until - anyio.current_time()
                    if not await self._runtime.blocking(self._inbox.post, letter, keep_s):
                        return Whereabouts.UNOWNED
                except StoreUnavailable:  # it may have been posted
                    await anyio.sleep(AGAIN_S)
                    continue
                sent.is_posted = True
                with anyio.move_on_after(until - anyio.current_time()):
                    await sent.settled.wait()
                    return sent.answer
            return Whereabouts.WAITING
        finally:
            del self._sent[letter.id]

    async def _given_up(self, letter: Letter) -> TreeringError:
        """Return the error for a letter that had no answer in time."""
        if self._closing:
            reason = "this host closes"
        else:
            reason = f"the host that owns {letter.ref} did not answer within {self._wait_s:g} s"
        try:
            is_withdrawn = await self._runtime.blocking(self._inbox.withdraw, letter.id)
        except (StoreUnavailable, HostClosed):
            is_withdrawn = False
        if is_withdrawn and self._closing:
            return HostClosed(f"{reason}: nothing was carried out")
        if is_withdrawn:
            return SessionLocked(f"{reason}, and nothing was carried out: try again later")
        return AppendInDoubt(f"{reason}, but may have carried out the command: repeat it with the same command id")

    async def _entries_of(self, source: Source, done: Done) -> list[Entry]:
        async def read(log: OpenLog) -> list[Entry]:
            if log.generation != done.generation:
                raise LogReplaced(f"{source.ref} was replaced after the command was carried out: read it anew")
            return await log.entries_in(done.seqs)

        return await source.read(read, read_only=True)

    # -- looking

    async def look(self) -> None:
        """Look for letters and answers whenever some may have arrived, until cancelled."""
        while True:
            try:
                await self._inbox.arrived()
                await self._take()
                await self._collect()
            except StoreUnavailable as error:
                logger().warning("inbox_unavailable", error=str(error))
                await anyio.sleep(AGAIN_S)
            except HostClosed:
                return

    async def _collect(self) -> None:
        """Hand answers to those who wait for them."""
        asked = {letter_id: sent.is_posted for letter_id, sent in self._sent.items()}
        if not asked:
            return
        found = await self._runtime.blocking(self._inbox.answers, list(asked))
        for letter_id, answer in found.items():
            sent = self._sent.get(letter_id)
            is_told = isinstance(answer, bytes) or (asked[letter_id] and answer is not Whereabouts.WAITING)
            if sent is not None and is_told:
                sent.settle(answer)

    # -- carrying out

    async def _take(self) -> None:
        """Take letters, and carry them out on tasks of their own."""
        self._left_some = False
        while not self._closing and (self._registry.live_holders or self._registry.changing):
            if self._running >= RUNNING_MAX:
                self._left_some = True
                return
            letters = await self._runtime.blocking(self._inbox.take, RUNNING_MAX - self._running)
            for letter in letters:
                self._running += 1
                self._runtime.spawn(partial(self._carry_out, letter))
            if not letters:
                return

    async def _carry_out(self, letter: Letter) -> None:
        answer: bytes | None = None
        try:
            answer = await self._answer_to(letter)
        finally:
            self._running -= 1
            if answer is not None:
                self._answers[letter.id] = answer
            self._to_answer.set()

    async def _answer_to(self, letter: Letter) -> bytes:
        try:
            command = decode_call(letter.call)
            source = self._registry.source(letter.ref)
            actor = await self._registry.activate(source)
            entries = await actor.perform(command)
        except TreeringError as error:
            return encode_refusal(error)
        except Exception as error:  # noqa: BLE001  # a letter must not end the host that it is sent to
            logger().error("letter_failed", ref=letter.ref, **failure_of(error))
            return encode_refusal(
                AppendInDoubt(f"the owner of {letter.ref} failed: repeat it with the same command id")
            )
        return encode_done([each.seq for each in entries], actor.log.cursor)

    async def answer(self) -> None:
        """Write the answers to what was carried out, until cancelled."""
        while True:
            await self._to_answer.wait()
            self._to_answer = anyio.Event()
            try:
                await self._write_answers()
                if self._left_some:
                    await self._take()
            except StoreUnavailable as error:
                logger().warning("inbox_unavailable", error=str(error))
                await anyio.sleep(AGAIN_S)
                self._to_answer.set()
            except HostClosed:
                return

    async def _write_answers(self) -> None:
        while self._answers:
            answers = dict(self._answers)
            await self._runtime.blocking(self._inbox.answer, answers)
            for letter_id in answers:
                del self._answers[letter_id]
        if not self._running:
            self._all_answered.set()

    # -- closing

    async def close(self) -> None:
        """Take no more letters, answer those that were taken, and tell whoever waits for an answer."""
        self._closing = True
        for sent in self._sent.values():
            sent.settle(None)
        with anyio.move_on_after(_LEAVE_FOR_S):
            while self._running or self._answers:
                self._all_answered = anyio.Event()
                await self._all_answered.wait()
