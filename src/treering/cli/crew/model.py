"""The model of the demo, which answers by the script, and its time: both begin some minutes ago and catch up."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from random import Random
from time import monotonic

import anyio
from msgspec import Raw

from ...actors.agents.model import Completed, ModelEvent, ModelRequest, TextDelta, ThinkingDelta, replayed
from ...events.content import Content, text, thinking, tool_use
from ...events.entries import Message, Usage
from ...events.errors import ModelUnavailable, RequestRefused
from ...projections.tokens import count_messages
from .script import Answer, Words

_STEP_S = 0.25
_PAUSE_S = 0.0005  # until the next step, if whoever is awake needs no longer


class Pace:
    """The clock of a host, and the sleep of its agents.

    Args:
        behind_s: How long ago the time of the demo begins.
    """

    def __init__(self, behind_s: float = 0.0) -> None:
        self._behind_s = behind_s
        self._step = anyio.Event()

    def __call__(self) -> datetime:
        """Return the time of the demo."""
        return datetime.now(UTC) - timedelta(seconds=self._behind_s)

    async def sleep(self, seconds: float) -> None:
        """Sleep for some seconds of the demo."""
        until = self._now_s() + seconds
        while (remaining := until - self._now_s()) > 0:
            with anyio.move_on_after(remaining):
                await self._step.wait()

    async def catch_up(self) -> None:
        """Let the time run to the present, as fast as those who sleep in it can do what they wake up for."""
        while self._behind_s > 0:
            self._behind_s = max(0.0, self._behind_s - _STEP_S)
            self._step.set()
            self._step = anyio.Event()
            await anyio.sleep(_PAUSE_S)

    def _now_s(self) -> float:
        return monotonic() - self._behind_s


_PIECE_CHARS = 24
_CHARS_PER_S = 220.0
_PRICES = (3e-6, 15e-6)  # of a token that is read, and of one that is written


class StoryModel:
    """A model that gives the answers of a story in order.

    Args:
        model_id: Its name.
        pace: How fast time passes.
        random: Decides how long it takes.
        words: The words of the story.
    """

    provider = "demo"
    context_window = 32_000

    def __init__(self, model_id: str, pace: Pace, random: Random, words: Words) -> None:
        self.model_id = model_id
        self._pace = pace
        self._random = random
        self._words = words
        self._answers: deque[Answer] = deque()

    def expect(self, answers: list[Answer]) -> None:
        """Prepare for the requests of a turn."""
        self._answers = deque(answers)

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Give the next answer of the story, or a word of thanks if it has none; see `Model.generate`."""
        answer = self._answers.popleft() if self._answers else Answer(said=["Noted. I take that into account."])
        message = self._message(answer, request)
        await self._pace.sleep(self._random.uniform(0.6, 2.5))
        async with aclosing(replayed(message, piece_chars=_PIECE_CHARS)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completed) and answer.failure is not None:
                    kind = RequestRefused if answer.is_final else ModelUnavailable
                    raise kind(self._words.fill(answer.failure))
                yield piece
                if isinstance(piece, (TextDelta, ThinkingDelta)):
                    await self._pace.sleep(len(piece.text) / _CHARS_PER_S)

    def _message(self, answer: Answer, request: ModelRequest) -> Message:
        content: list[Content] = []
        if answer.thinking:
            content.append(thinking(self._words.fill(answer.thinking)))
        if answer.said:
            content.append(text(self._words.fill(answer.said).strip()))
        for each in answer.calls:
            arguments = Raw(self._words.fill(each.arguments).encode())
            content.append(tool_use(f"call_{self._random.getrandbits(40):010x}", each.tool, arguments))
        read = count_messages(request.messages)
        written = count_messages((Message("assistant", tuple(content)),))
        cost = read * _PRICES[0] + written * _PRICES[1]
        usage = Usage(read, written, total_tokens=read + written, cost=round(cost, 6))
        return Message(
            "assistant",
            tuple(content),
            provider=self.provider,
            model=self.model_id,
            usage=usage,
            stop_reason="tool_use" if answer.calls else "stop",
        )
