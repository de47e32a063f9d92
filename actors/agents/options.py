"""The settings of an agent: its window, and the limits on everything that could otherwise run without end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from msgspec import Struct

from ...projections.building.builder import ContextBuilder
from ...projections.building.summaries import DEFAULT_SUMMARIZER_OPTIONS, Summarizer, SummarizerOptions
from ..host.runtime import check_bounds


class AgentOptions(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The settings of an agent.

    Attributes:
        context_window: The tokens that a request and its answer may take together; None takes the model's own value. An
            agent that knows neither sends everything, and compacts when the provider says that it was too much.
        reserve_for_response: The tokens of the window that are reserved for the answer; None reserves a quarter.
        max_tokens: The maximum length of an answer; None applies the client's own limit.
        thinking_level: The thinking level of the model; None takes that of the session.
        auto_compact: Compact a `Session` when the next request would exceed the window minus the reserve.
        builder: Builds contexts and counts tokens; None uses one with the default strategies.
        summarizer: Makes summaries; None uses the agent's model.
        summarizing: The options of the summarizer.
        requests_max: The maximum number of requests in a turn.
        parallel_calls_max: The maximum number of calls of one answer that run at once.
        tool_timeout_s: Seconds after which a tool is cancelled; None sets no timeout.
        attempts_max: The maximum number of attempts at one request, if the provider fails with a transient error.
        backoff_s: Seconds to wait after the first failed attempt; the wait doubles each time.
        backoff_max_s: The longest wait in seconds. If a provider asks for a longer one, the request is not retried.
        stream_events_max: The number of events that a stream buffers before the turn waits for the reader.
        sleep: Waits some seconds; replaceable in tests.
    """

    context_window: int | None = None
    reserve_for_response: int | None = None
    max_tokens: int | None = None
    thinking_level: str | None = None
    auto_compact: bool = True
    builder: ContextBuilder | None = None
    summarizer: Summarizer | None = None
    summarizing: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS
    requests_max: int = 50
    parallel_calls_max: int = 8
    tool_timeout_s: float | None = None
    attempts_max: int = 4
    backoff_s: float = 1.0
    backoff_max_s: float = 60.0
    stream_events_max: int = 64
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep

    def __post_init__(self) -> None:
        """Refuse invalid limits.

        Raises:
            InvalidInput: A limit is not a number, or too small.
        """
        check_bounds(self, _MINIMUMS, may_be_none=_OPTIONAL)

    def delay_s(self, attempt: int, asked_s: float | None = None) -> float | None:
        """Return the seconds to wait after a failed attempt, or None if the request should not be retried.

        Args:
            attempt: The number of attempts so far.
            asked_s: The delay that the provider asked for, in seconds.
        """
        if attempt >= self.attempts_max or (asked_s is not None and asked_s > self.backoff_max_s):
            return None
        doubled = self.backoff_s * 2.0 ** (attempt - 1)
        return min(doubled, self.backoff_max_s) if asked_s is None else max(asked_s, 0.0)


_MINIMUMS = {
    "context_window": 1,
    "reserve_for_response": 0,
    "max_tokens": 1,
    "requests_max": 1,
    "parallel_calls_max": 1,
    "tool_timeout_s": 0,
    "attempts_max": 1,
    "backoff_s": 0,
    "backoff_max_s": 0,
    "stream_events_max": 1,
}
"""The smallest valid value of each limit."""

_OPTIONAL = ("context_window", "reserve_for_response", "max_tokens", "tool_timeout_s")

DEFAULT_AGENT_OPTIONS = AgentOptions()
"""The default settings of an agent."""
