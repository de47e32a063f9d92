"""Models behind OpenAI's Chat Completions API: those of OpenAI, Ollama, llama.cpp, LM Studio, vLLM and others.

    model = OpenAIModel("qwen3:8b", base_url="http://localhost:11434/v1", provider="ollama", context_window=32_768)
    async with model:
        async for event in model.generate(request):
            ...

A request that is refused, or whose answer is cut off or never arrives, raises a `ModelError`. Nothing is retried here,
since the agent loop knows better what a retry costs.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, cast
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..actors.agents.model import (
    Completed,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallStarted,
    ToolSpec,
)
from ..events.entries import Message, Usage
from ..events.errors import ModelError, RequestRefused
from ..events.json_values import JSON, MaybeRaw, json_value
from ..events.providers.openai import REFUSAL, from_openai, to_openai
from .calls import CUT_OFF, arguments_of, with_ids, with_names
from .event_stream import EventData, decoded
from .failures import exchange_errors, failed_exchange, failed_request
from .remote import CONNECT_TIMEOUT_S, RemoteModel, require

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletionMessageParam


KEY = "OPENAI_API_KEY"
"""The environment variable with the key, used if neither a key nor an address is given."""

_CALL_ID = re.compile(r".{1,40}", re.DOTALL)


class OpenAIModel(RemoteModel["AsyncOpenAI"]):
    """A model behind OpenAI's Chat Completions API; requires the extra `openai`.

    Inside `async with model:` it keeps its connections between requests, for the event loop in which it was entered.
    Otherwise each request has its own connection.

    Args:
        model_id: The server's name of the model.
        base_url: Where it is served, with the final `/v1`; by default OpenAI, or the address that its library finds in
            the environment.
        api_key: The key. By default it comes from `OPENAI_API_KEY`, but only without a `base_url`: that key is never
            sent to another address.
        provider: The provider's name in sessions.
        context_window: How many tokens request and answer may take together, if known. Set it for local servers: some
            of them silently truncate a request that is too long.
        max_tokens: The limit on an answer, unless a request overrides it; by default the server's own.
        timeout_s: How long to wait for the next piece of an answer, in seconds.
        thinks: Whether the model accepts a thinking level, as `reasoning_effort`. Otherwise levels are ignored, since
            models that do not think reject them.
        thinking_field: The field in which the thinking of earlier answers is sent back; by default it is left out. The
            thinking models of DeepSeek and Moonshot refuse a history of calls without it: "reasoning_content".
        max_tokens_field: The name of the limit on an answer. By default it is "max_completion_tokens", which OpenAI's
            newer models require, or, with a `base_url`, "max_tokens", since many other servers know only that.
        options: Other fields of every request, such as `temperature`, under the server's names.

    Raises:
        InvalidInput: The address is not a URL.
        ExtraMissing: The package `openai` is not installed.
    """

    def __init__(
        self,
        model_id: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str = "openai",
        context_window: int | None = None,
        max_tokens: int | None = None,
        timeout_s: float = 600.0,
        thinks: bool = False,
        thinking_field: Literal["reasoning_content", "reasoning"] | None = None,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
        options: Mapping[str, JSON] | None = None,
    ) -> None:
        require("openai", "openai")
        super().__init__(model_id, provider, context_window, base_url=base_url, api_key=api_key, timeout_s=timeout_s)
        self._max_tokens = max_tokens
        self._thinks = thinks
        self._thinking_field = thinking_field
        self._max_tokens_field = max_tokens_field or ("max_completion_tokens" if base_url is None else "max_tokens")
        self._options = dict(options or {})

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer a request, piece by piece; closing the iterator closes the connection.

        Calls whose arguments are not a JSON object are kept and marked: see `malformed_arguments`.

        Raises:
            RequestTooLong: The request exceeds the model's window.
            RequestRefused: The server rejects this request for good.
            RateLimited: The server asks to retry later.
            ModelUnavailable: The server cannot be reached, or failed.
            AnswerCutOff: The connection ended in the middle of the answer.
        """
        answer = OpenAIAnswer()
        named = with_names(map(self._without_refusal, request.messages), {tool.name for tool in request.tools})
        sent = with_ids(named, _CALL_ID)
        converted = to_openai(sent, thinking_field=self._thinking_field, provider=self._provider)
        messages = cast("list[ChatCompletionMessageParam]", converted)  # the library's types, as plain dicts
        async with (
            self._exchange(answer) as client,
            client.chat.completions.with_streaming_response.create(
                model=self._model_id, messages=messages, stream=True, extra_body=self._fields(request)
            ) as response,
            aclosing(EventData(response.http_response)) as events,
        ):
            async for data in events:
                if data == b"[DONE]":
                    await events.finish()
                    break
                chunk = decoded(data, decode_chunk)
                if chunk.error is not None and not answer.whole:
                    raise failed_request(self._provider, None, {}, json_value(chunk.error))
                for event in answer.take(chunk):
                    yield event
        yield Completed(answer.message(self._provider, self._model_id))

    def _client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, OpenAIError, Timeout

        timeout = Timeout(self._timeout_s, connect=min(self._timeout_s, CONNECT_TIMEOUT_S))
        try:
            return AsyncOpenAI(api_key=self._api_key, base_url=self._base_url, timeout=timeout, max_retries=0)
        except OpenAIError as error:
            if self._api_key is None and not os.environ.get(KEY):
                raise RequestRefused(f"{self._provider} requires an API key: set {KEY} in the environment") from error
            raise RequestRefused(f"cannot send requests to {self._provider}: {error}") from error

    def _without_refusal(self, message: Message) -> Message:
        """Make a refusal an ordinary text for other servers than OpenAI's: most reject content of any other type."""
        if self._base_url is None or message.stop_reason != REFUSAL:
            return message
        return replace(message, stop_reason=None)

    def _fields(self, request: ModelRequest) -> dict[str, object]:
        """Return the fields of a request besides its messages."""
        fields: dict[str, object] = {"stream_options": {"include_usage": True}}
        if request.tools:
            fields["tools"] = [_to_tool(tool) for tool in request.tools]
        limit = self._max_tokens if request.max_tokens is None else request.max_tokens
        if limit is not None:
            fields[self._max_tokens_field] = limit
        if self._thinks and request.thinking_level not in {None, "off"}:
            fields["reasoning_effort"] = request.thinking_level
        return {**fields, **self._options}

    def _errors(self) -> tuple[type[Exception], ...]:
        from openai import OpenAIError

        return exchange_errors(OpenAIError)

    def _error_of(self, error: Exception, *, begun: bool) -> ModelError:
        from openai import APIConnectionError, APIStatusError

        if isinstance(error, APIStatusError):
            return failed_request(self._provider, error.status_code, error.response.headers, error.body)
        return failed_exchange(self._provider, error, APIConnectionError, begun=begun)


def _to_tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


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
    """An answer of OpenAI's Chat Completions API, assembled from the chunks of its stream.

        {"choices": [{"delta": {"content": "Let me"}}]}
        {"choices": [{"delta": {"tool_calls": [
            {"index": 0, "id": "call_1", "function": {"name": "read", "arguments": ""}}]}}]}
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{\\"path\\": 1}"}}]}}]}
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}}

    Servers with this API differ: some send thinking beside the content, under one of two names; some number all
    parallel calls 0, or do not number them, and distinguish them by id; some give calls no ids; some name a call only
    after its first fragment, some in every fragment; some report "stop" although tools are called.

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
        reason = _STOP_REASONS.get(self._finish or "", "tool_use" if self._calls else "stop")
        calls: list[JSON] = []
        for call in self._calls:
            arguments = arguments_of("".join(call.arguments), cut=reason in CUT_OFF and call is self._calls[-1])
            calls.append({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        fields: dict[str, JSON] = {
            "role": "assistant",
            "content": "".join(self._text) or None,
            "refusal": "".join(self._refusal) or None,
            "reasoning_content": "".join(self._thinking) or None,
            "tool_calls": calls,
        }
        message = from_openai(fields)
        return replace(
            message, provider=provider, model=model_id, usage=self._usage, stop_reason=message.stop_reason or reason
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
