"""Models of Anthropic, or of any server with its Messages API.

    async with AnthropicModel("claude-sonnet-4-5", context_window=200_000) as model:
        async for event in model.generate(request):
            ...

A request that is refused, or whose answer is cut off or never arrives, raises a `ModelError`. Nothing is retried here,
since the agent loop knows better what a retry costs.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ..actors.agents.model import Completed, ModelEvent, ModelRequest, TextDelta, ThinkingDelta, ToolCallStarted
from ..events.entries import Message
from ..events.errors import ModelError, RequestRefused
from ..events.json_values import JSON, MaybeRaw, json_object, json_value
from ..events.providers.anthropic import AnthropicPrompt, from_anthropic, to_anthropic
from ..events.providers.common import Block
from .calls import CUT_OFF, arguments_of, with_ids, with_names
from .event_stream import EventData, decoded
from .failures import exchange_errors, failed_exchange, failed_request
from .remote import CONNECT_TIMEOUT_S, RemoteModel, require

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types import MessageParam


MAX_TOKENS = 16_384
"""The default limit on an answer, in tokens: the API requires a limit, and all current models accept this one."""

THINKING_TOKENS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384}
"""The thinking budget at each level, in tokens; the client sends at most half of the answer's limit."""

LEAST_THINKING_TOKENS = 1024
"""The minimum thinking budget of the API; below it, thinking is not requested."""

CONTINUE = "(Continue.)"
"""The user's text after an answer that would end a request: newer models refuse that, as all do if a blank ends it."""

_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class AnthropicModel(RemoteModel["AsyncAnthropic"]):
    """A model behind Anthropic's Messages API; requires the extra `anthropic`.

    Inside `async with model:` it keeps its connections between requests, for the event loop in which it was entered.
    Otherwise each request has its own connection.

    Args:
        model_id: The provider's name of the model.
        base_url: Where it is served; by default Anthropic, or the address that its library finds in the environment.
        api_key: The key. By default the library looks for it in the environment, but only without a `base_url`: such a
            key is never sent to another address.
        provider: The provider's name in sessions.
        context_window: How many tokens request and answer may take together, if known.
        max_tokens: The limit on an answer, including thinking, unless a request overrides it.
        timeout_s: How long to wait for the next piece of an answer, in seconds.
        cache: How long the provider caches the beginning of a request, so that the next one pays a tenth for it; None
            disables caching. Writing to the cache costs a quarter more ("1h": twice as much), so it pays off from the
            second request on: use it for a conversation, and not for a model that only makes summaries.
        thinking: How to request thinking: "budget" with a number of tokens, "adaptive" with an effort, as newer models
            require. If None, thinking levels are ignored.
        options: Other fields of every request, such as `temperature`, under the API's names.

    Raises:
        InvalidInput: The address is not a URL.
        ExtraMissing: The package `anthropic` is not installed.
    """

    def __init__(
        self,
        model_id: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str = "anthropic",
        context_window: int | None = None,
        max_tokens: int = MAX_TOKENS,
        timeout_s: float = 600.0,
        cache: Literal["5m", "1h"] | None = "5m",
        thinking: Literal["budget", "adaptive"] | None = None,
        options: Mapping[str, JSON] | None = None,
    ) -> None:
        require("anthropic", "anthropic")
        super().__init__(model_id, provider, context_window, base_url=base_url, api_key=api_key, timeout_s=timeout_s)
        self._max_tokens = max_tokens
        self._cache: Literal["5m", "1h"] | None = cache
        self._thinking: Literal["budget", "adaptive"] | None = thinking
        self._options = dict(options or {})

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer a request, piece by piece; closing the iterator closes the connection.

        Calls whose arguments are not a JSON object are kept and marked: see `malformed_arguments`.

        Raises:
            RequestTooLong: The request exceeds the model's window.
            RequestRefused: The provider rejects this request for good.
            RateLimited: The provider asks to retry later.
            ModelUnavailable: The provider cannot be reached, or failed.
            AnswerCutOff: The connection ended in the middle of the answer.
            InvalidEntry: The answer holds a block that a message cannot hold.
        """
        answer = AnthropicAnswer()
        named = with_names(request.messages, {tool.name for tool in request.tools})
        prompt = to_anthropic(with_ids(named, _CALL_ID, unique=True), provider=self._provider)
        if prompt.messages and prompt.messages[-1]["role"] == "assistant":
            prompt.messages.append({"role": "user", "content": [{"type": "text", "text": CONTINUE}]})
        limit = self._max_tokens if request.max_tokens is None else request.max_tokens
        fields = self._fields(request, prompt, limit)
        messages = cast("list[MessageParam]", prompt.messages)  # the library's types, as plain dicts
        with self._missing_key_refused():
            async with (
                self._exchange(answer) as client,
                client.messages.with_streaming_response.create(
                    model=self._model_id, messages=messages, max_tokens=limit, stream=True, extra_body=fields
                ) as response,
                aclosing(EventData(response.http_response)) as events,
            ):
                async for data in events:
                    event = decoded(data, decode_event)
                    if event.raw_error is not None and not answer.whole:
                        raise failed_request(self._provider, None, {}, json_value(event.raw_error))
                    for model_event in answer.take(event):
                        yield model_event
                    if event.type == "message_stop":
                        await events.finish()
                        break
        yield Completed(answer.message(self._provider, self._model_id))

    @contextmanager
    def _missing_key_refused(self) -> Generator[None]:
        """Translate the error by which the library reports a missing key."""
        try:
            yield
        except TypeError as error:
            if "authentication" not in str(error):
                raise
            message = f"{self._provider} requires an API key: set ANTHROPIC_API_KEY in the environment"
            raise RequestRefused(message) from error

    def _client(self) -> AsyncAnthropic:
        from anthropic import AnthropicError, AsyncAnthropic, Timeout

        timeout = Timeout(self._timeout_s, connect=min(self._timeout_s, CONNECT_TIMEOUT_S))
        try:
            return AsyncAnthropic(api_key=self._api_key, base_url=self._base_url, timeout=timeout, max_retries=0)
        except AnthropicError as error:
            raise RequestRefused(f"cannot send requests to {self._provider}: {error}") from error

    def _fields(self, request: ModelRequest, prompt: AnthropicPrompt, limit: int) -> dict[str, object]:
        """Return the fields of a request besides its messages, and set its cache marks."""
        tools: list[Block] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        if self._cache is not None:
            _mark_cached(prompt, tools, self._cache)
        fields: dict[str, object] = {}
        if prompt.system:
            fields["system"] = prompt.system
        if tools:
            fields["tools"] = tools
        return {**fields, **self._thinking_fields(request.thinking_level, limit), **self._options}

    def _thinking_fields(self, level: str | None, limit: int) -> dict[str, object]:
        if self._thinking is None or level is None or level == "off":
            return {}
        if self._thinking == "adaptive":
            effort = "low" if level == "minimal" else level
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
        tokens = min(THINKING_TOKENS.get(level, THINKING_TOKENS["high"]), limit // 2)
        return {"thinking": {"type": "enabled", "budget_tokens": tokens}} if tokens >= LEAST_THINKING_TOKENS else {}

    def _errors(self) -> tuple[type[Exception], ...]:
        from anthropic import AnthropicError

        return exchange_errors(AnthropicError)

    def _error_of(self, error: Exception, *, begun: bool) -> ModelError:
        from anthropic import APIConnectionError, APIStatusError

        if isinstance(error, APIStatusError):
            return failed_request(self._provider, error.status_code, error.response.headers, error.body)
        return failed_exchange(self._provider, error, APIConnectionError, begun=begun)


def _mark_cached(prompt: AnthropicPrompt, tools: list[Block], ttl: Literal["5m", "1h"]) -> None:
    """Mark the ends of the parts that stay the same from request to request.

    Tools and system prompt come first and never change. The next request begins with everything up to the user's last
    turn, and the previous one ended with the turn before it, however many blocks lie between. The API accepts four
    marks.
    """
    mark: JSON = {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}
    first = prompt.system or tools
    if first:
        first[-1]["cache_control"] = mark
    turns = [message["content"] for message in prompt.messages if message["role"] == "user"]
    for content in turns[-2:]:
        last = content[-1] if isinstance(content, list) and content else None
        if isinstance(last, dict):
            last["cache_control"] = mark


_STOP_REASONS = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_use",
    "refusal": "refusal",
}


class _Usage(Struct, omit_defaults=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Start(Struct):
    usage: _Usage | None = None


class _Delta(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    stop_reason: str | None = None


class StreamEvent(Struct):
    """An event of any type, with the fields that are read; with `error`, there is no answer."""

    type: str
    index: int = -1
    message: _Start | None = None
    raw_block: MaybeRaw = msgspec.field(name="content_block", default=None)
    delta: _Delta | None = None
    usage: _Usage | None = None
    raw_error: MaybeRaw = msgspec.field(name="error", default=None)


decode_event = msgspec.json.Decoder(StreamEvent).decode
"""Decodes the data of an event."""


class _Block:
    """An incomplete block; `fields` is its beginning."""

    def __init__(self, fields: dict[str, JSON]) -> None:
        self.fields = fields
        self.type = fields.get("type")
        self.pieces: list[str] = []

    def read(self, *, cut: bool) -> dict[str, JSON]:
        """Return the block with its pieces joined."""
        pieces = "".join(self.pieces)
        if self.type == "tool_use" and (pieces or cut or not self.fields.get("input")):
            return {**self.fields, "input": msgspec.json.decode(arguments_of(pieces, cut=cut))}
        if self.type in {"text", "thinking"}:
            return {**self.fields, str(self.type): pieces}
        return self.fields


class AnthropicAnswer:
    """An answer of Anthropic's Messages API, assembled from the events of its stream.

        {"type": "message_start", "message": {"usage": {"input_tokens": 25, "cache_read_input_tokens": 1800, ...}, ...}}
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}
        {"type": "content_block_stop", "index": 0}
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}}
        {"type": "message_stop"}

    Citations are left out, since a message has no place for them. A block of an unexpected kind is rejected.

    Attributes:
        begun: Whether anything has arrived.
    """

    def __init__(self) -> None:
        self.begun = False
        self._blocks: dict[int, _Block] = {}
        self._stop_reason: str | None = None
        self._usage = _Usage()

    @property
    def whole(self) -> bool:
        """Whether the answer has a stop reason; what its connection does after that does not matter."""
        return self._stop_reason is not None

    def take(self, event: StreamEvent) -> Iterator[ModelEvent]:
        """Add an event to the answer, and yield the resulting model events."""
        self.begun = True
        if event.message is not None:
            self._count(event.message.usage)
        self._count(event.usage)
        if event.raw_block is not None:
            block = self._blocks[event.index] = _Block(json_object(event.raw_block))
            if block.type == "tool_use":
                yield ToolCallStarted(str(block.fields.get("id")), str(block.fields.get("name")))
            first = {name: str(block.fields.get(name) or "") for name in ("text", "thinking")}
            yield from self._grow(block, _Delta(**first))
        if event.delta is not None:
            self._stop_reason = event.delta.stop_reason or self._stop_reason
            if event.index in self._blocks:
                yield from self._grow(self._blocks[event.index], event.delta)

    def _grow(self, block: _Block, delta: _Delta) -> Iterator[ModelEvent]:
        if delta.signature:
            block.fields["signature"] = delta.signature
        if delta.text:
            block.pieces.append(delta.text)
            yield TextDelta(delta.text)
        elif delta.thinking:
            block.pieces.append(delta.thinking)
            yield ThinkingDelta(delta.thinking)
        elif delta.partial_json:
            block.pieces.append(delta.partial_json)

    def _count(self, usage: _Usage | None) -> None:
        """Update the usage: later counts are totals that replace earlier ones, but not every count is repeated."""
        if usage is not None:
            later = {name: count for name, count in asdict(usage).items() if count is not None}
            self._usage = replace(self._usage, **later)

    def message(self, provider: str, model_id: str) -> Message:
        """Return the complete answer.

        Raises:
            InvalidEntry: It contains a block that a message cannot hold.
        """
        reason = _STOP_REASONS.get(self._stop_reason or "")
        last = max(self._blocks, default=-1)
        content: list[JSON] = [
            block.read(cut=reason in CUT_OFF and index == last)
            for index, block in sorted(self._blocks.items())
            if block.type not in {"text", "thinking"} or block.pieces or block.fields.get("signature")
        ]
        usage = {name: count for name, count in asdict(self._usage).items() if count is not None}
        message = from_anthropic({"role": "assistant", "content": content, "usage": usage})
        default = "tool_use" if message.has_calls else "stop"
        return replace(message, provider=provider, model=model_id, stop_reason=reason or default)
