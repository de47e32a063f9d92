"""An answer of OpenAI's chat completions, put together from the chunks of its stream.

    {"choices": [{"delta": {"content": "Let me"}}]}
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "read", "arguments": ""}}]}}]}
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{\\"path\\": 1}"}}]}}]}
    {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}}

The many servers that speak this differ: some send thoughts beside the content, under one of two names; some number all
parallel calls 0, or none, and tell them apart by their ids; some give calls no ids; some name a call only after its
beginning, some in every fragment of it; some say "stop" where tools are called.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..actors.agents.model import ModelEvent, TextDelta, ThinkingDelta, ToolCallStarted
from ..events.content import JSON, MaybeRaw
from ..events.entries import Message, Usage
from ..events.providers.openai import REFUSAL, from_openai
from .arguments import arguments_of

_STOP_REASONS = {"length": "length", "content_filter": REFUSAL, "tool_calls": "tool_use", "function_call": "tool_use"}


class _Function(Struct):
    name: str | None = None
    arguments: str | None = None


class _Fragment(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None  # llama.cpp, LM Studio, vLLM, DeepSeek
    reasoning: str | None = None  # Ollama, OpenRouter
    tool_calls: list[_Fragment] | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Details(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class Chunk(Struct):
    """A chunk, as far as it is read; with an `error`, the answer is none."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: MaybeRaw = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
"""Decodes the data of an event."""


class _Call:
    """A call whose arguments are still coming."""

    def __init__(self, given_id: str | None) -> None:
        self.given_id = given_id
        self.id = given_id or f"call_{uuid4().hex}"
        self.name = ""
        self.arguments: list[str] = []

    def goes_on_with(self, fragment: _Fragment, function: _Function) -> bool:
        """Tell whether a fragment under the same number belongs to this call."""
        if fragment.id and self.given_id:
            return fragment.id == self.given_id or not function.name
        if not function.name or not self.name:
            return True
        # Without an id, a name begins another call, unless it is the same one again and something is left to be said.
        return function.name == self.name and not (function.arguments and _is_whole("".join(self.arguments)))


class OpenAIAnswer:
    """What has come of an answer.

    Attributes:
        begun: Whether anything has come.
    """

    def __init__(self) -> None:
        self.begun = False
        self._text: list[str] = []
        self._thought: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._open: dict[int | None, _Call] = {}
        self._finish: str | None = None
        self._usage: Usage | None = None

    @property
    def whole(self) -> bool:
        """Whether the answer has said why it ended; what its connection does after that is of no matter."""
        return self._finish is not None

    def take(self, chunk: Chunk) -> Iterator[ModelEvent]:
        """Take a chunk in, and yield what an agent is told of it."""
        self.begun = True
        if chunk.usage is not None:
            self._usage = _counted(chunk.usage)
        for choice in chunk.choices or ():
            self._finish = choice.finish_reason or self._finish
            if choice.delta is not None:
                yield from self._take(choice.delta)

    def _take(self, delta: _Delta) -> Iterator[ModelEvent]:
        thought = delta.reasoning_content or delta.reasoning
        if thought:
            self._thought.append(thought)
            yield ThinkingDelta(thought)
        for said, into in ((delta.content, self._text), (delta.refusal, self._refusal)):
            if said:
                into.append(said)
                yield TextDelta(said)
        for fragment in delta.tool_calls or ():
            yield from self._take_call(fragment)

    def _take_call(self, fragment: _Fragment) -> Iterator[ModelEvent]:
        function = fragment.function or _Function()
        call = self._open.get(fragment.index)
        if call is None or not call.goes_on_with(fragment, function):
            call = self._open[fragment.index] = _Call(fragment.id)
            self._calls.append(call)
        if function.name and not call.name:
            call.name = function.name
            yield ToolCallStarted(call.id, call.name)
        if function.arguments:
            call.arguments.append(function.arguments)

    def message(self, provider: str, model_id: str) -> Message:
        """Return the whole answer."""
        cut = self._finish == "length"
        calls: list[JSON] = []
        for call in self._calls:
            arguments = arguments_of("".join(call.arguments), cut=cut and call is self._calls[-1])
            calls.append({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        said: dict[str, JSON] = {
            "role": "assistant",
            "content": "".join(self._text) or None,
            "refusal": "".join(self._refusal) or None,
            "reasoning_content": "".join(self._thought) or None,
            "tool_calls": calls,
        }
        message = from_openai(said)
        reason = _STOP_REASONS.get(self._finish or "", "tool_use" if calls else "stop")
        return replace(
            message,
            provider=provider,
            model=model_id,
            usage=self._usage,
            stop_reason=message.stop_reason or reason,
        )


def _is_whole(arguments: str) -> bool:
    """Tell whether arguments are JSON, so that nothing can follow them."""
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _counted(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details or _Details()
    read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    sent, answered = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return Usage(
        input_tokens=max(0, sent - read - written),
        output_tokens=answered,
        cache_read_tokens=read,
        cache_write_tokens=written,
        total_tokens=usage.total_tokens or sent + answered,
    )
