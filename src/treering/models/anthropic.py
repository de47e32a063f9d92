"""Models of Anthropic, or of any server with its Messages API.

    async with AnthropicModel("claude-sonnet-4-5", context_window=200_000) as model:
        async for event in model.generate(request):
            ...

A request that is refused, or whose answer is cut off or never arrives, raises a `ModelError`. Nothing is retried here,
since the agent loop knows better what a retry costs.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Literal, cast

from ..actors.agents.model import Completed, ModelEvent, ModelRequest
from ..events.content import JSON, json_value
from ..events.errors import ModelError, RequestRefused
from ..events.providers.anthropic import AnthropicPrompt, to_anthropic
from ..events.providers.common import Block
from .anthropic_answer import AnthropicAnswer, decode_event
from .connecting import CONNECT_TIMEOUT_S, require
from .event_stream import EventData, decoded
from .failures import exchange_errors, failed_exchange, failed_request
from .remote import RemoteModel
from .sent_calls import with_ids, with_names

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types import MessageParam

MAX_TOKENS = 16_384
"""The default limit on an answer, in tokens: the API requires a limit, and all current models accept this one."""

THINKING_TOKENS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384}
"""The thinking budget at each level, in tokens; the client sends at most half of the answer's limit."""

LEAST_THINKING_TOKENS = 1024
"""The minimum thinking budget of the API; below it, thinking is not requested."""

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
