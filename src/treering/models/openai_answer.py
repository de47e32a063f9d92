"""An answer of OpenAI's Chat Completions API, assembled from the chunks of its stream.

    {"choices": [{"delta": {"content": "Let me"}}]}
    {"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "call_1", "function": {"name": "read", "arguments": ""}}]}}]}
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{\\"path\\": 1}"}}]}}]}
    {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}}

Servers with this API differ: some send thinking beside the content, under one of two names; some number all parallel
calls 0, or do not number them, and distinguish them by id; some give calls no ids; some name a call only after its
first fragment, some in every fragment; some report "stop" although tools are called.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..actors.agents.model import ModelEvent, TextDelta, ThinkingDelta, ToolCallStarted
from ..events.entries import Message, Usage
from ..events.json_values import JSON, MaybeRaw
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
    """A chunk, with the fields that are read; with `error`, there is no answer."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: MaybeRaw = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
"""Decodes the data of an event."""


class _Call:
    """An incomplete call."""

    def __init__(self, sent_id: str | None) -> None:
        self.sent_id = sent_id
        self.id = sent_id or f"call_{uuid4().hex}"
        self.name = ""
        self.arguments: list[str] = []

    def continues_with(self, fragment: _Fragment, function: _Function) -> bool:
        """Return whether a fragment with the same index belongs to this call."""
        if fragment.id and self.sent_id:
            return fragment.id == self.sent_id or not function.name
        if not function.name or not self.name:
            return True
        # Without an id, a name begins another call, unless it repeats this call's name while arguments are incomplete.
        return function.name == self.name and not (function.arguments and _is_complete("".join(self.arguments)))


class OpenAIAnswer:
    """The part of an answer that has arrived.

    Attributes:
        begun: Whether anything has arrived.
    """

    def __init__(self) -> None:
        self.begun = False
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._open: dict[int | None, _Call] = {}
        self._finish: str | None = None
        self._usage: Usage | None = None

    @property
    def whole(self) -> bool:
        """Whether the answer has a finish reason; what its connection does after that does not matter."""
        return self._finish is not None

    def take(self, chunk: Chunk) -> Iterator[ModelEvent]:
        """Add a chunk to the answer, and yield the resulting model events."""
        self.begun = True
        if chunk.usage is not None:
            self._usage = _usage_of(chunk.usage)
        for choice in chunk.choices or ():
            self._finish = choice.finish_reason or self._finish
            if choice.delta is not None:
                yield from self._take(choice.delta)

    def _take(self, delta: _Delta) -> Iterator[ModelEvent]:
        thinking = delta.reasoning_content or delta.reasoning
        if thinking:
            self._thinking.append(thinking)
            yield ThinkingDelta(thinking)
        for piece, pieces in ((delta.content, self._text), (delta.refusal, self._refusal)):
            if piece:
                pieces.append(piece)
                yield TextDelta(piece)
        for fragment in delta.tool_calls or ():
            yield from self._take_call(fragment)

    def _take_call(self, fragment: _Fragment) -> Iterator[ModelEvent]:
        function = fragment.function or _Function()
        call = self._open.get(fragment.index)
        if call is None or not call.continues_with(fragment, function):
            call = self._open[fragment.index] = _Call(fragment.id)
            self._calls.append(call)
        if function.name and not call.name:
            call.name = function.name
            yield ToolCallStarted(call.id, call.name)
        if function.arguments:
            call.arguments.append(function.arguments)

    def message(self, provider: str, model_id: str) -> Message:
        """Return the complete answer."""
        cut = self._finish == "length"
        calls: list[JSON] = []
        for call in self._calls:
            arguments = arguments_of("".join(call.arguments), cut=cut and call is self._calls[-1])
            calls.append({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        fields: dict[str, JSON] = {
            "role": "assistant",
            "content": "".join(self._text) or None,
            "refusal": "".join(self._refusal) or None,
            "reasoning_content": "".join(self._thinking) or None,
            "tool_calls": calls,
        }
        message = from_openai(fields)
        reason = _STOP_REASONS.get(self._finish or "", "tool_use" if calls else "stop")
        return replace(
            message,
            provider=provider,
            model=model_id,
            usage=self._usage,
            stop_reason=message.stop_reason or reason,
        )


def _is_complete(arguments: str) -> bool:
    """Return whether arguments are complete JSON."""
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _usage_of(usage: _Usage) -> Usage:
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
