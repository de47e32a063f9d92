"""Models of Anthropic, or behind any address that speaks its messages interface.

    async with AnthropicModel("claude-sonnet-4-5", context_window=200_000) as model:
        async for event in model.generate(request):
            ...

A request whose answer was cut off, refused or never came raises an error of the tree; nothing is retried here, since
the agent loop knows better what a retry costs.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, cast

from msgspec.structs import replace

from ..actors.agents.model import Completed, ModelEvent, ModelRequest
from ..events.content import JSON, ThinkingPart, json_value
from ..events.entries import Message
from ..events.errors import ModelError, RequestRefused
from ..events.providers.anthropic import AnthropicPrompt, to_anthropic
from ..events.providers.reading import Block
from .anthropic_answer import AnthropicAnswer, decode_event
from .call_ids import with_ids
from .connecting import CONNECT_TIMEOUT_S, require
from .event_stream import EventData, decoded
from .failures import exchange_errors, failed_exchange, failed_request
from .remote import RemoteModel

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types import MessageParam

MAX_TOKENS = 16_384
"""How long an answer may be where nobody says: the interface wants a bound, and all models of today take this one."""

THINKING_TOKENS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384}
"""How many tokens a model may think at each level, where it takes a number; at most half of the answer's bound."""

LEAST_THINKING_TOKENS = 1024
"""The least that the interface takes; below it, a model does not think."""

_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class AnthropicModel(RemoteModel["AsyncAnthropic"]):
    """A model that answers by Anthropic's messages; the extra `anthropic` brings what it needs.

    Entered (`async with model:`) it keeps its connections between requests, for the event loop that it was entered in.
    Otherwise each request has a connection of its own.

    Args:
        model_id: What the model is called there.
        base_url: Where it is served; Anthropic, or what its library finds in the environment, where it is None.
        api_key: The key. What the library finds in the environment is used where neither a key nor an address is given;
            it is never sent to another address.
        provider: Who serves it, as sessions note it.
        context_window: How many tokens request and answer may take together, where that is known.
        max_tokens: How long an answer may be, unless a request says otherwise; thoughts count.
        timeout_s: How long to wait for the next piece of an answer, in seconds.
        cache: How long the provider keeps the beginning of a request, so that the next one pays a tenth for it; None
            for not at all. Keeping costs a quarter more once ("1h": twice as much), so it pays from the second request
            on: right for a conversation, and wrong for a model that only makes summaries.
        thinking: How the model is told to think: "budget" by a number of tokens, "adaptive" by its effort, as newer
            models want it. A thinking level is ignored where it is None.
        options: More fields of every request, such as `temperature`, as the interface names them.

    Raises:
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
        super().__init__(
            model_id,
            base_url=base_url,
            api_key=api_key,
            provider=provider,
            context_window=context_window,
            timeout_s=timeout_s,
        )
        self._max_tokens = max_tokens
        self._cache: Literal["5m", "1h"] | None = cache
        self._thinking: Literal["budget", "adaptive"] | None = thinking
        self._options = dict(options or {})

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Answer a request, piece by piece; closing the iterator closes the connection.

        Calls whose arguments are no JSON object are kept, marked: see `malformed_arguments`.

        Raises:
            RequestTooLong: The request is more than the model's window holds.
            RequestRefused: The provider will never serve this request.
            RateLimited: The provider asks to come again later.
            ModelUnavailable: The provider cannot be reached, or failed.
            AnswerCutOff: The connection ended in the middle of the answer.
            InvalidEntry: The answer holds a block that a message cannot hold.
        """
        answer = AnthropicAnswer()
        prompt = to_anthropic(with_ids(map(self._readable, request.messages), _CALL_ID))
        bound = self._max_tokens if request.max_tokens is None else request.max_tokens
        fields = self._fields(request, prompt, bound)
        messages = cast("list[MessageParam]", prompt.messages)  # the same, as plain dicts
        try:
            async with (
                self._asked(answer) as client,
                client.messages.with_streaming_response.create(
                    model=self._model_id, messages=messages, max_tokens=bound, stream=True, extra_body=fields
                ) as response,
                aclosing(EventData(response.http_response)) as events,
            ):
                async for data in events:
                    event = decoded(data, decode_event)
                    if event.raw_error is not None and not answer.whole:
                        raise failed_request(self._provider, None, {}, json_value(event.raw_error))
                    for told in answer.take(event):
                        yield told
                    if event.type == "message_stop":
                        await events.finish()
                        break
        except TypeError as error:
            if "authentication" not in str(error):
                raise
            # The library's way to say that there is no key, neither given nor in the environment.
            what = f"no request can be made of {self._provider} without a key: set ANTHROPIC_API_KEY in the environment"
            raise RequestRefused(what) from error
        yield Completed(answer.message(self._provider, self._model_id))

    def _client(self) -> AsyncAnthropic:
        from anthropic import AnthropicError, AsyncAnthropic, Timeout

        timeout = Timeout(self._timeout_s, connect=min(self._timeout_s, CONNECT_TIMEOUT_S))
        try:
            return AsyncAnthropic(api_key=self._api_key, base_url=self._base_url, timeout=timeout, max_retries=0)
        except AnthropicError as error:
            raise RequestRefused(f"no request can be made of {self._provider}: {error}") from error

    def _readable(self, message: Message) -> Message:
        """Leave out what a model of another provider thought: its signature is none here, for which a request is refused."""
        if message.provider in {None, self._provider}:
            return message
        return replace(message, content=tuple(part for part in message.content if not isinstance(part, ThinkingPart)))

    def _fields(self, request: ModelRequest, prompt: AnthropicPrompt, bound: int) -> dict[str, object]:
        """Return what a request says beside its messages, and mark what is to be kept of it."""
        tools: list[Block] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        if self._cache is not None:
            _mark(prompt, tools, self._cache)
        fields: dict[str, object] = {}
        if prompt.system:
            fields["system"] = prompt.system
        if tools:
            fields["tools"] = tools
        return {**fields, **self._thoughts(request.thinking_level, bound), **self._options}

    def _thoughts(self, level: str | None, bound: int) -> dict[str, object]:
        if self._thinking is None or level is None or level == "off":
            return {}
        if self._thinking == "adaptive":
            effort = "low" if level == "minimal" else level
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
        tokens = min(THINKING_TOKENS.get(level, THINKING_TOKENS["high"]), bound // 2)
        return {"thinking": {"type": "enabled", "budget_tokens": tokens}} if tokens >= LEAST_THINKING_TOKENS else {}

    def _errors(self) -> tuple[type[Exception], ...]:
        from anthropic import AnthropicError

        return exchange_errors(AnthropicError)

    def _told(self, error: Exception, *, begun: bool) -> ModelError:
        from anthropic import APIConnectionError, APIStatusError

        if isinstance(error, APIStatusError):
            return failed_request(self._provider, error.status_code, error.response.headers, error.body)
        return failed_exchange(self._provider, error, APIConnectionError, begun=begun)


def _mark(prompt: AnthropicPrompt, tools: list[Block], ttl: Literal["5m", "1h"]) -> None:
    """Mark the ends of what stays the same from request to request.

    Tools and system come first and never change; the user's last turn ends what the next request begins with, and the
    one before it what the last request ended with, however many blocks lie between. The interface takes four marks.
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
