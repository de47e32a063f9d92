"""How an agent works: its window, and the bounds of everything that could go on for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from msgspec import Struct

from ...projections.building.builder import ContextBuilder
from ...projections.building.summaries import DEFAULT_SUMMARIZER_OPTIONS, Summarizer, SummarizerOptions
from ..bounds import check_bounds


class AgentOptions(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The settings of an agent.

    Attributes:
        context_window: How many tokens a request and its answer may take together; what the model says where it is None. An agent
            that knows neither sends everything, and compacts when the provider says that it was too much.
        reserve_for_response: How many of them are kept free for the answer; a quarter where it is None.
        max_tokens: How long an answer may be; the client's own bound where it is None.
        thinking_level: At which level the model thinks; the session's own where it is None.
        auto_compact: Compact a `Session` when what the next request takes passes the window minus the reserve.
        builder: What builds contexts and counts tokens; one with the default strategies where it is None.
        summarizer: Makes summaries; the agent's model where it is None.
        summarizing: How the summarizer is asked.
        requests_max: How many requests a turn may take.
        parallel_calls_max: How many calls of one answer run at once.
        tool_timeout_s: After how many seconds a tool is given up; None lets it run.
        attempts_max: How often one request is made, where the provider fails in a way that may pass.
        backoff_s: How many seconds after the first failed attempt the next is made; each time twice as many.
        backoff_max_s: The most seconds that are waited. A provider that asks for more is not waited for.
        stream_events_max: How many events of a stream may wait for its reader before the turn does.
        sleep: Waits some seconds; for tests that hold the time.
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
        """Refuse bounds that nothing would ever get through.

        Raises:
            InvalidInput: One is no number, or too small.
        """
        check_bounds(self, _LEAST, may_be_none=_OPTIONAL)

    def delay_s(self, attempt: int, asked_s: float | None = None) -> float | None:
        """Return how many seconds to wait after a failed attempt, or None where it is not worth waiting.

        Args:
            attempt: How many attempts there were.
            asked_s: In how many seconds the provider asked to come again.
        """
        if attempt >= self.attempts_max or (asked_s is not None and asked_s > self.backoff_max_s):
            return None
        doubled = self.backoff_s * 2.0 ** (attempt - 1)
        return min(doubled, self.backoff_max_s) if asked_s is None else max(asked_s, 0.0)


_LEAST = {
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
"""The least that each bound may be."""

_OPTIONAL = ("context_window", "reserve_for_response", "max_tokens", "tool_timeout_s")

DEFAULT_AGENT_OPTIONS = AgentOptions()
"""The settings of an agent that is given none."""
