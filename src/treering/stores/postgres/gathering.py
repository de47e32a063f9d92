"""Gathers questions: those that come together go to the database in one statement.

When a host takes over the sessions of one that died, it acquires a thousand logs at the same moment, and reads each of
them; when it closes, it releases them. No task or thread is dedicated to this: whoever finds a place for one more
statement leads the next one. A question that comes alone is asked alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Generic, TypeVar

from anyio import Event
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled

from ...events.offload import Offload, carried_out, seen_through

Q = TypeVar("Q")
A = TypeVar("A")


class _Asked(Generic[Q, A]):
    """A question that waits for its answer."""

    __slots__ = ("answers", "error", "is_taken", "question", "woken")

    def __init__(self, question: Q) -> None:
        self.question = question
        self.answers: list[A] = []
        self.error: BaseException | None = None
        self.is_taken = False
        self.woken = Event()

    @property
    def is_done(self) -> bool:
        return bool(self.answers) or self.error is not None


def up_to(most: int) -> Callable[[Sequence[object]], list[bool]]:
    """Return a choice of the questions that go together: the first ones, up to a number."""
    return lambda questions: [n < most for n in range(len(questions))]


class Gatherer(Generic[Q, A]):
    """Asks one kind of question for all callers of a store.

    Args:
        answer: Returns the answers to some questions, or the errors for single ones, in order; it blocks.
        offload: Runs blocking work.
        together: Returns for each question that waits whether it goes into the next statement; the first one does.
        at_once: How many statements are under way at the same time.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Sequence[A | Exception]],
        offload: Offload,
        together: Callable[[Sequence[Q]], Sequence[bool]],
        at_once: int,
    ) -> None:
        self._answer = answer
        self._offload = offload
        self._together = together
        self._at_once = at_once
        self._waiting: list[_Asked[Q, A]] = []
        self._under_way = 0

    async def ask(self, question: Q) -> A:
        """Return the answer to a question, unless the caller is cancelled already; see `carry_out`."""
        await checkpoint_if_cancelled()
        return await self.carry_out(question)

    async def carry_out(self, question: Q) -> A:
        """Return the answer to a question; a caller that is cancelled by force is told so when the answer is there."""
        self._waiting.append(asked := _Asked[Q, A](question))
        cancellation = await seen_through(partial(self._take_part, asked), lambda: asked.is_done)
        if cancellation is not None:
            raise cancellation
        if asked.error is not None:
            raise asked.error
        return asked.answers[0]

    async def _take_part(self, asked: _Asked[Q, A]) -> None:
        """Lead, or wait for whoever does."""
        if asked.is_taken or self._under_way >= self._at_once:
            asked.woken = Event()
            await asked.woken.wait()
        else:
            await self._lead()

    async def _lead(self) -> None:
        """Ask what all callers wait for."""
        self._under_way += 1
        batch: list[_Asked[Q, A]] = []
        try:
            await cancel_shielded_checkpoint()  # lets all that are ready join
            goes = self._together([each.question for each in self._waiting])
            batch = [*compress(self._waiting, goes)]
            self._waiting = [each for each, now in zip(self._waiting, goes, strict=True) if not now]
            for each in batch:
                each.is_taken = True
            if batch:
                await self._ask(batch)
        finally:
            self._under_way -= 1
            for each in batch:
                each.woken.set()
            if self._waiting:
                self._waiting[0].woken.set()  # it leads the next one

    async def _ask(self, batch: Sequence[_Asked[Q, A]]) -> None:
        """Ask some questions; each has an answer or an error when this ends, also by a cancellation."""
        try:
            await carried_out(self._offload, self._note_answers, batch)
        except Exception as error:  # noqa: BLE001  # no thread could be started: the callers get it
            for each in batch:
                each.error = error

    def _note_answers(self, batch: Sequence[_Asked[Q, A]]) -> None:
        try:
            answers = self._answer([each.question for each in batch])
        except BaseException as error:  # noqa: BLE001  # the callers get it
            for each in batch:
                each.error = error
            return
        for each, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                each.error = answer
            else:
                each.answers.append(answer)
