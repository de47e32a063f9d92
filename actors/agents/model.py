"""What an agent asks of a model: a request goes out, pieces of an answer come back, and last the whole answer.

Any object with these members is a model; it needs no base class. Nothing here speaks to a provider.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol, TypeAlias

from msgspec import Raw, Struct

from ...events.content import JSON, ToolUse, json_object, raw_json
from ...events.entries import Message
from ...events.showing import shown

MALFORMED_ARGUMENTS = "malformed_arguments"
"""The only key of a call's input whose arguments, as the model wrote them, are no JSON object; they stand under it."""


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told of it.

    Attributes:
        name: What the model calls it.
        description: What it does, and when to use it.
        raw_parameters: The JSON schema of its arguments, an object.
    """

    name: str
    description: str
    raw_parameters: Raw = Raw(b'{"type":"object","properties":{}}')

    __repr__ = shown

    @classmethod
    def of(cls, name: str, description: str, parameters: Mapping[str, object]) -> ToolSpec:
        """Describe a tool whose arguments a JSON schema describes."""
        return cls(name, description, raw_json(dict(parameters)))

    @property
    def parameters(self) -> dict[str, JSON]:
        """The JSON schema, decoded afresh for this caller."""
        return json_object(self.raw_parameters)


class ModelRequest(Struct, frozen=True, kw_only=True):
    """What a model is sent.

    Attributes:
        messages: The context, oldest first; system messages stand where they were put, mostly first.
        tools: The tools that the model may call.
        max_tokens: How long the answer may be; the client's own bound where it is None.
        thinking_level: "off", "minimal", "low", "medium" or "high"; a client ignores what its model has no place for.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    thinking_level: str | None = None


class TextDelta(Struct, frozen=True):
    """A piece of the answer's text."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """A piece of what the model thinks."""

    text: str


class ToolCallStarted(Struct, frozen=True):
    """The model begins to call a tool; the arguments are in the completed message."""

    call_id: str
    name: str


class Completed(Struct, frozen=True):
    """The whole answer: the last thing that a stream yields.

    The message has the role assistant and carries provider, model, usage and `stop_reason`: "stop", "length" (cut at
    `max_tokens`), "tool_use" or "refusal".
    """

    message: Message


def malformed_arguments(call: ToolUse) -> str | None:
    """Return what a model wrote in place of a call's arguments, or None where they are a JSON object.

    A client keeps such a call, so that the model can be told of it; it must not be carried out.
    """
    given = call.input
    written = given.get(MALFORMED_ARGUMENTS)
    return written if len(given) == 1 and isinstance(written, str) else None


ModelEvent: TypeAlias = TextDelta | ThinkingDelta | ToolCallStarted | Completed
"""What comes of an answer; the last one is `Completed`."""


class Model(Protocol):
    """A model that answers.

    Attributes:
        provider: Who serves it.
        model_id: What it is called there.
        context_window: How many tokens request and answer may take together; None where that is not known.
    """

    @property
    def provider(self) -> str: ...
    @property
    def model_id(self) -> str: ...
    @property
    def context_window(self) -> int | None: ...

    def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer a request, piece by piece; closing the iterator gives the answer up.

        Raises:
            RequestTooLong: The request is more than the model's window holds.
            RequestRefused: The provider will never serve this request.
            RateLimited: The provider asks to come again later.
            ModelUnavailable: The provider cannot be reached, or failed.
            AnswerCutOff: The connection ended in the middle of the answer.
        """
        ...
