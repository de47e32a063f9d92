"""A model that needs no network and no key: it repeats what it is told, and says that it is an echo.

For a first look at `treering chat`, for examples and for trying things out. Its answers are as deterministic as its
requests, and the usage that it reports is the estimate by bytes, since no provider counts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from ..actors.agents.model import ModelEvent, ModelRequest
from ..actors.agents.replaying import replayed
from ..events.content import plain_text, text
from ..events.entries import Message, Usage
from ..events.wording import counted
from ..projections.building.pairing import is_request
from ..projections.tokens import Tokenizer, count_messages

WINDOW = 32_768
"""The window that an echo says to have, in tokens."""


class EchoModel:
    """Answers with what the user said last, and how many messages it was sent.

    Args:
        context_window: The window that it says to have, in tokens.
        tokenizer: What counts the usage that it reports; an estimate by bytes where none is given.
    """

    provider = "treering"
    model_id = "echo"

    def __init__(self, context_window: int | None = WINDOW, *, tokenizer: Tokenizer | None = None) -> None:
        self.context_window = context_window
        self._tokenizer = tokenizer

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer a request; see `Model.generate`."""
        asked = [plain_text(each.content) for each in request.messages if is_request(each)]
        said = asked[-1] if asked else ""
        told = f"(echo, {counted(len(request.messages), 'message')}) {said}"
        answer = Message("assistant", (text(told),), model=self.model_id, provider=self.provider, stop_reason="stop")
        used = count_messages(request.messages, self._tokenizer), count_messages((answer,), self._tokenizer)
        usage = Usage(*used, total_tokens=sum(used))
        async with aclosing(replayed(replace(answer, usage=usage))) as pieces:
            async for piece in pieces:
                yield piece
