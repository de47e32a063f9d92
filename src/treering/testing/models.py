"""A model for tests that answers from a script and records its requests.

    model = ScriptedModel(["Hello!", answer(tool_use("1", "read", {"path": "a"})), "It says: a"])
    turn = await AgentSession(model, tools=[read]).respond("What is in a?")
    assert model.requests[0].messages[-1].role == "user"

A step of a script is a text, a whole message, an error to raise, or one of the classes below. A script may also be a
function that returns the step for each request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import TypeAlias

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ..actors.agents.model import PIECE_CHARS, ModelEvent, ModelRequest, TextDelta, replayed
from ..events.content import ContentLike, ToolUsePart, as_content
from ..events.entries import Message, Usage
from ..events.errors import RequestTooLong
from ..projections.tokens import Tokenizer, count_messages


class Broken(Struct, frozen=True):
    """An answer that is interrupted: some text, then an error."""

    text: str
    error: Exception


class Stalled(Struct, frozen=True):
    """An answer that stalls forever after some text; `reached` is set at that point."""

    text: str
    reached: anyio.Event


Step: TypeAlias = str | Message | Exception | Broken | Stalled
"""The response to one request."""

Script: TypeAlias = Iterable[Step] | Callable[[ModelRequest], Step]
"""The responses to all requests, in order."""


class ScriptedModel:
    """A model that answers from a script.

    If a message of the script has no usage, the model counts the request and the answer, as a provider would.

    Args:
        script: The steps, or a function that returns them. A request after the last step fails the test.
        context_window: Its context window, in tokens; a longer request raises `RequestTooLong`.
        provider: The name of its provider.
        model_id: Its name at the provider.
        tokenizer: Counts tokens; by default an estimate from the number of bytes.
        piece_chars: How many characters of a text are streamed at once.

    Attributes:
        requests: The requests so far, in order.
    """

    def __init__(
        self,
        script: Script,
        *,
        context_window: int | None = None,
        provider: str = "script",
        model_id: str = "scripted",
        tokenizer: Tokenizer | None = None,
        piece_chars: int = PIECE_CHARS,
    ) -> None:
        self.provider = provider
        self.model_id = model_id
        self.context_window = context_window
        self.requests: list[ModelRequest] = []
        self._step = script if callable(script) else _in_order(script)
        self._tokenizer = tokenizer
        self._piece_chars = piece_chars

    @property
    def last_request(self) -> ModelRequest:
        """The latest request."""
        return self.requests[-1]

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer a request from the script; see `Model.generate`."""
        self.requests.append(request)
        size = count_messages(request.messages, self._tokenizer)
        if self.context_window is not None and size > self.context_window:
            raise RequestTooLong(
                f"the request takes {size} tokens, and the window holds {self.context_window}",
                needed=size,
                available=self.context_window,
            )
        step = self._step(request)
        if isinstance(step, Exception):
            raise step
        message = _message_of(step)
        if isinstance(step, (Broken, Stalled)):
            async with aclosing(replayed(message, piece_chars=self._piece_chars)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, TextDelta):
                        yield piece
            if isinstance(step, Broken):
                raise step.error
            step.reached.set()
            await anyio.sleep_forever()
        if message.usage is None:
            output = count_messages((message,), self._tokenizer)
            message = replace(message, usage=Usage(size, output, total_tokens=size + output))
        message = replace(message, provider=message.provider or self.provider, model=message.model or self.model_id)
        async with aclosing(replayed(message, piece_chars=self._piece_chars)) as pieces:
            async for piece in pieces:
                yield piece


def answer(content: ContentLike, *, usage: Usage | None = None, stop_reason: str | None = None) -> Message:
    """Make an answer for a script.

    Args:
        content: A text, a part such as a call, or a sequence of both.
        usage: The usage that the provider reports; by default the model counts it.
        stop_reason: Why the answer ends; by default "tool_use" if the content has a call, otherwise "stop".
    """
    parts = as_content(content)
    calls = any(isinstance(part, ToolUsePart) for part in parts)
    return Message("assistant", parts, usage=usage, stop_reason=stop_reason or ("tool_use" if calls else "stop"))


def _message_of(step: str | Message | Broken | Stalled) -> Message:
    if isinstance(step, Message):
        return step
    return answer(step if isinstance(step, str) else step.text)


def _in_order(script: Iterable[Step]) -> Callable[[ModelRequest], Step]:
    steps = iter(list(script))

    def step(request: ModelRequest) -> Step:
        for each in steps:
            return each
        raise AssertionError("the script has no step for this request: the agent made more requests than expected")

    return step
