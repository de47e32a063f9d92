"""What a program gives an agent besides a model and tools: options, hooks, and any object as a session.

The order of a turn is: load the session, pre-generation hooks, requests, post-generation hooks, tools, save. The
post-generation hooks run on each answer when it ends, before its calls are executed. Their result is what is executed,
sent in the next request, saved and returned. A `Session` is saved as things happen; a session that only has the three
members of `ConversationSession` is saved once, at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import anyio
from msgspec import Struct

from ...events.entries import Message, Usage
from ...projections.building.builder import ContextBuilder
from ...projections.building.summaries import DEFAULT_SUMMARIZER_OPTIONS, Summarizer, SummarizerOptions
from ..host.runtime import check_bounds


class AgentOptions(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The settings of an agent.

    Attributes:
        context_window: The tokens that a request and its answer may take together; None takes the model's own value. An
            agent that knows neither sends everything, and compacts when the provider says that it was too much.
        reserve_for_response: The tokens of the window that are reserved for the answer; None reserves a quarter, or
            `max_tokens` if that is more, but leaves a quarter to the conversation.
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


class TurnInput(Struct, frozen=True):
    """The prompt, history and input of a turn.

    Attributes:
        system_prompt: The system prompt of this turn; it is sent first and never saved.
        history: The messages before the turn.
        input: The new messages, which are saved.
    """

    system_prompt: str
    history: tuple[Message, ...]
    input: tuple[Message, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history followed by the input."""
        return (*self.history, *self.input)


Why: TypeAlias = Literal["switch", "retry"]
"""Why the leaf leaves a branch: another entry was chosen, or an answer is generated again."""


class LeftWork(Struct, frozen=True):
    """A branch that the leaf is about to leave.

    Attributes:
        session_id: The session.
        why: Why it is left.
        from_id: The current leaf.
        to_id: The entry that becomes the leaf.
        message_count: The number of messages after the last entry that both branches share.
    """

    session_id: str
    why: Why
    from_id: str
    to_id: str
    message_count: int


PreGeneration: TypeAlias = Callable[[TurnInput], Awaitable[TurnInput | None]]
"""Runs before the first request of a turn; returns a replacement for the turn's input, or None.

A changed history is sent but never saved. The history of a `Session` cannot be changed this way, since its contexts are
built from the log; use `append_context_edit` or a strategy instead.
"""

PostGeneration: TypeAlias = Callable[[Message], Awaitable[Message | None]]
"""Takes an answer and returns a replacement, or None. The arguments of a call may change, and the call is executed with
the changed ones; the calls themselves must stay, with their ids, since results refer to them.

Provider, model, usage and stop reason that the hook leaves out are taken from the original answer.

If a hook raises, is cancelled, or returns a message that cannot be stored, a `Session` stores the model's original
answer with the stop reason "aborted".
"""

LeavePolicy: TypeAlias = Callable[[LeftWork], Awaitable[bool]]
"""Decides, each time the leaf leaves work that no summary covers, whether to summarize it."""


async def summarize_switches(left: LeftWork) -> bool:
    """Summarize a branch that is left for another one, but not an answer that is generated again."""
    return left.why == "switch"


class AgentHooks(Struct, frozen=True, kw_only=True):
    """The hooks of an agent, each list in the order in which they run.

    Attributes:
        pre_generation: Run before the first request of a turn.
        post_generation: Run on each answer before it is saved and its calls are executed.
        leaving: Decides whether work that the leaf leaves gets a summary.
    """

    pre_generation: tuple[PreGeneration, ...] = ()
    post_generation: tuple[PostGeneration, ...] = ()
    leaving: LeavePolicy = summarize_switches


class ConversationSession(Protocol):
    """A session that stores one conversation for an agent: all that an agent needs of one, which any object may have.

        class InMyDatabase:
            id = "customer-7"

            async def messages(self) -> list[Message]: ...
            async def save_turn(self, messages: Sequence[Message], usage: Usage | None) -> None: ...

    `Session` has it too. An agent does more for a `Session`: see `AgentSession`.
    """

    @property
    def id(self) -> str:
        """The id, unique among the sessions of the agent."""
        ...

    async def messages(self) -> Sequence[Message]:
        """Return the messages so far, oldest first."""
        ...

    async def save_turn(self, messages: Sequence[Message], usage: Usage | None, /) -> object:
        """Save the messages of one turn and its usage, atomically."""
        ...
