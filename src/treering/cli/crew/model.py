"""The model of the demo: it gives the answers of a story, at the pace of a real one."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from random import Random

from msgspec import Raw

from ...actors.agents.model import Completed, ModelEvent, ModelRequest, TextDelta, ThinkingDelta, replayed
from ...events.content import Content, text, thinking, tool_use
from ...events.entries import Message, Usage
from ...events.errors import ModelUnavailable, RequestRefused
from ...projections.tokens import count_messages
from .pace import Pace
from .script import Answer, Words

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
