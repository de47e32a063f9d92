"""A model that needs no network and no key: it repeats its input, marked as an echo.

It serves for a first look at `treering chat`, for examples and for experiments. Its answers depend only on the request,
and the usage that it reports is an estimate, since no provider counts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from ..actors.agents.model import ModelEvent, ModelRequest, replayed
from ..events.content import plain_text, text
from ..events.entries import Message, Usage
from ..events.texts import counted
from ..projections.building.pairing import is_request
from ..projections.tokens import Tokenizer, count_messages

WINDOW = 32_768
"""The nominal window of the echo, in tokens."""


class EchoModel:
    """A model that answers with the user's last message and the number of messages it was sent.

    Args:
        context_window: Its nominal window, in tokens.
        tokenizer: Counts the reported usage; by default an estimate.
    """

    provider = "treering"
    model_id = "echo"

    def __init__(self, context_window: int | None = WINDOW, *, tokenizer: Tokenizer | None = None) -> None:
        self.context_window = context_window
        self._tokenizer = tokenizer

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer a request; see `Model.generate`."""
        prompts = [plain_text(each.content) for each in request.messages if is_request(each)]
        last = prompts[-1] if prompts else ""
        reply = f"(echo, {counted(len(request.messages), 'message')}) {last}"
        answer = Message("assistant", (text(reply),), model=self.model_id, provider=self.provider, stop_reason="stop")
        used = count_messages(request.messages, self._tokenizer), count_messages((answer,), self._tokenizer)
        usage = Usage(*used, total_tokens=sum(used))
        async with aclosing(replayed(replace(answer, usage=usage))) as pieces:
            async for piece in pieces:
                yield piece
