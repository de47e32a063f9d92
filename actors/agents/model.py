"""The interface of a model: it takes a request, and yields the pieces of an answer and finally the complete answer.

Any object with these members is a model; it needs no base class. Nothing here talks to a provider.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol, TypeAlias

from anyio.lowlevel import checkpoint
from msgspec import Raw, Struct

from ...events.content import TextPart, ThinkingPart, ToolUse, ToolUsePart
from ...events.entries import Message
from ...events.json_values import JSON, json_object, raw_json, shown

MALFORMED_ARGUMENTS = "malformed_arguments"
"""The only key in the input of a call whose arguments are not a JSON object; its value is the model's text."""


class ToolSpec(Struct, frozen=True):
    """The description of a tool for a model.

    Attributes:
        name: The name by which the model calls it.
        description: What it does, and when to use it.
        raw_parameters: The JSON schema of its arguments, an object.
    """

    name: str
    description: str
    raw_parameters: Raw = Raw(b'{"type":"object","properties":{}}')

    __repr__ = shown

    @classmethod
    def of(cls, name: str, description: str, *, parameters: Mapping[str, object]) -> ToolSpec:
        """Make a description from a JSON schema of the arguments."""
        return cls(name, description, raw_json(dict(parameters)))

    @property
    def parameters(self) -> dict[str, JSON]:
        """The JSON schema, decoded again for each caller."""
        return json_object(self.raw_parameters)


class ModelRequest(Struct, frozen=True, kw_only=True):
    """A request to a model.

    Attributes:
        messages: The context, oldest first; system messages keep their places, usually first.
        tools: The tools that the model may call.
        max_tokens: The maximum length of the answer; None applies the client's own limit.
        thinking_level: "off", "minimal", "low", "medium" or "high"; a client ignores a level that its model lacks.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    thinking_level: str | None = None


class TextDelta(Struct, frozen=True):
    """A piece of the answer's text."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """A piece of the model's thinking."""

    text: str


class ToolCallStarted(Struct, frozen=True):
    """The model has begun to call a tool; the arguments are in the completed message."""

    call_id: str
    name: str


class Completed(Struct, frozen=True):
    """The complete answer: the last event of a stream.

    The message has the role assistant and carries provider, model, usage and `stop_reason`: "stop", "length" (cut at
    `max_tokens`), "tool_use" or "refusal".
    """

    message: Message


def malformed_arguments(call: ToolUse) -> str | None:
    """Return the text that a model wrote in place of a call's arguments, or None if they are a JSON object.

    A client keeps such a call so that the model can be told about it; it must not be executed.
    """
    arguments = call.input
    malformed = arguments.get(MALFORMED_ARGUMENTS)
    return malformed if len(arguments) == 1 and isinstance(malformed, str) else None


ModelEvent: TypeAlias = TextDelta | ThinkingDelta | ToolCallStarted | Completed
"""Any event of an answer's stream; the last one is `Completed`."""


class Model(Protocol):
    """A model that answers.

    Attributes:
        provider: The provider that serves it.
        model_id: Its name at the provider.
        context_window: The tokens that a request and its answer may take together; None if unknown.
    """

    @property
    def provider(self) -> str: ...
    @property
    def model_id(self) -> str: ...
    @property
    def context_window(self) -> int | None: ...

    def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer a request piece by piece; closing the generator cancels the answer.

        Raises:
            RequestTooLong: The request exceeds the model's window.
            RequestRefused: The provider will never serve this request.
            RateLimited: The provider asks to retry later.
            ModelUnavailable: The provider cannot be reached, or failed.
            AnswerCutOff: The connection ended in the middle of the answer.
        """
        ...


PIECE_CHARS = 16
"""The number of characters of a piece."""


async def replayed(message: Message, *, piece_chars: int = PIECE_CHARS) -> AsyncGenerator[ModelEvent]:
    """Yield an answer piece by piece and finally the whole, with a checkpoint before each piece."""
    for part in message.content:
        if isinstance(part, TextPart):
            content = part.text.content
            for start in range(0, len(content), piece_chars):
                await checkpoint()
                yield TextDelta(content[start : start + piece_chars])
        elif isinstance(part, ThinkingPart):
            await checkpoint()
            yield ThinkingDelta(part.thinking.content)
        elif isinstance(part, ToolUsePart):
            await checkpoint()
            yield ToolCallStarted(part.tool_use.id, part.tool_use.name)
    await checkpoint()
    yield Completed(message)
