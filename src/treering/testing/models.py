"""A model for tests: it answers as its script says, and remembers what it was asked.

    model = ScriptedModel(["Hello!", answer(tool_use("1", "read", {"path": "a"})), "It says: a"])
    turn = await AgentSession(model, tools=[read]).respond("What is in a?")
    assert model.requests[0].messages[-1].role == "user"

A step of a script is a text, a whole message, an error to raise, or one of the things below. A script that is a function
makes the step for each request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import TypeAlias

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ..actors.agents.model import ModelEvent, ModelRequest, TextDelta
from ..actors.agents.replaying import PIECE_CHARS, replayed
from ..events.content import ContentLike, ToolUsePart, as_content
from ..events.entries import Message, Usage
from ..events.errors import RequestTooLong
from ..projections.tokens import Tokenizer, count_messages


class Broken(Struct, frozen=True):
    """An answer that breaks off: some text, and then an error."""

    text: str
    error: Exception


class Stalled(Struct, frozen=True):
    """An answer that says some text, and then nothing for ever; `reached` is set when it gets there."""

    text: str
    reached: anyio.Event


Step: TypeAlias = str | Message | Exception | Broken | Stalled
"""What becomes of one request."""

Script: TypeAlias = Iterable[Step] | Callable[[ModelRequest], Step]
"""What becomes of all requests, in their order."""


class ScriptedModel:
    """Answers as its script says.

    Where a message of the script tells no usage, the model counts the request and the answer as if it were the provider.

    Args:
        script: The steps, or a function that makes them. A request after the last step fails the test.
        context_window: The window that it says to have, in tokens; a longer request raises `RequestTooLong`.
        provider: Who serves it.
        model_id: What it is called there.
        tokenizer: What counts; an estimate by bytes where none is given.
        piece_chars: How many characters of a text come at once.

    Attributes:
        requests: What it was asked, in order.
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
        """What it was asked last."""
        return self.requests[-1]

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer a request as the script says; see `Model.generate`."""
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
        said = _answer_of(step)
        if isinstance(step, (Broken, Stalled)):
            async with aclosing(replayed(said, piece_chars=self._piece_chars)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, TextDelta):
                        yield piece
            if isinstance(step, Broken):
                raise step.error
            step.reached.set()
            await anyio.sleep_forever()
        if said.usage is None:
            told = count_messages((said,), self._tokenizer)
            said = replace(said, usage=Usage(size, told, total_tokens=size + told))
        said = replace(said, provider=said.provider or self.provider, model=said.model or self.model_id)
        async with aclosing(replayed(said, piece_chars=self._piece_chars)) as pieces:
            async for piece in pieces:
                yield piece


def answer(content: ContentLike, *, usage: Usage | None = None, stop_reason: str | None = None) -> Message:
    """Make an answer for a script.

    Args:
        content: A text, a part such as a call, or a sequence of both.
        usage: What the provider is to have counted; the model counts where none is given.
        stop_reason: Why the answer ends; "tool_use" or "stop" where none is given, as the content has it.
    """
    parts = as_content(content)
    calls = any(isinstance(part, ToolUsePart) for part in parts)
    return Message("assistant", parts, usage=usage, stop_reason=stop_reason or ("tool_use" if calls else "stop"))


def _answer_of(step: str | Message | Broken | Stalled) -> Message:
    if isinstance(step, Message):
        return step
    return answer(step if isinstance(step, str) else step.text)


def _in_order(script: Iterable[Step]) -> Callable[[ModelRequest], Step]:
    steps = iter(list(script))

    def step(request: ModelRequest) -> Step:
        for each in steps:
            return each
        raise AssertionError("the script has no step for this request: the agent asks more often than it should")

    return step
