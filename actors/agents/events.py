"""The events of a turn, as an agent streams them, and the requests as they were sent.

The last event of a turn is its `TurnEnd`. The pieces of an answer (`TextDelta`, `ThinkingDelta`, `ToolCallStarted`) are
streamed and never stored; after a `Retrying`, discard the pieces since the last `MessageEnd`. Requests are not stored,
since they can be rebuilt from the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Self, TypeAlias

import anyio
import msgspec
from msgspec import Raw, Struct

from ...events.content import plain_text
from ...events.entries import Message, Usage
from ...events.errors import Closed, TreeringError
from ...events.json_values import JSON, json_object
from ...projections.building.builder import ContextBuildResult
from ..session.compaction import CompactionReport
from ..session.open_calls import OpenCall, Recovery
from .model import ModelRequest, TextDelta, ThinkingDelta, ToolCallStarted


class SentContext(Struct, frozen=True):
    """One request as it was sent, and how its context was built.

    Attributes:
        number: The number of the request, counted per agent from 1.
        session_id: The session of the request; None without one.
        request: The request to the model: messages, tools and limits.
        built: How the conversation in it was built: strategy, counts, budget.
    """

    number: int
    session_id: str | None
    request: ModelRequest
    built: ContextBuildResult

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages exactly as they were sent, the system prompt included."""
        return self.request.messages

    @property
    def strategy(self) -> str:
        """The name of the strategy that made the conversation fit."""
        return self.built.strategy

    def counts(self) -> dict[str, JSON]:
        """Return the strategy by which the conversation was built, and its counts of messages and tokens."""
        built = self.built
        return {
            "number": self.number,
            "session_id": self.session_id,
            "strategy": built.strategy,
            "tokens_used": built.tokens_used,
            "token_budget": built.token_budget,
            "counts": {
                "original": built.original_message_count,
                "included": built.included_message_count,
                "summarized": built.summarized_message_count,
                "dropped": built.dropped_message_count,
                "masked": built.masked_message_count,
                "sent": len(self.messages),
            },
        }

    def to_json(self) -> dict[str, JSON]:
        """Return the request as plain JSON values, which the caller may modify."""
        fields = {
            "tools": [each.name for each in self.request.tools],
            "messages": [{"role": each.role, "content": each.content} for each in self.messages],
        }
        return self.counts() | json_object(Raw(msgspec.json.encode(fields)))


class SentRequests:
    """The latest request of an agent, and the means to wait for the next one.

    Attributes:
        last: The latest request; None before the first one.
    """

    def __init__(self) -> None:
        self.last: SentContext | None = None
        self._changed: anyio.Event | None = None

    def add(self, session_id: str | None, request: ModelRequest, built: ContextBuildResult) -> SentContext:
        """Record a request that is about to be sent, and wake the subscribers."""
        number = 1 if self.last is None else self.last.number + 1
        self.last = SentContext(number, session_id, request, built)
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        return self.last

    async def after(self, number: int) -> SentContext:
        """Wait for a request with a higher number, and return the latest."""
        while self.last is None or self.last.number <= number:
            if self._changed is None:
                self._changed = anyio.Event()
            await self._changed.wait()
        return self.last


class RequestSubscription(AsyncIterator[SentContext]):
    """Iterates over an agent's requests: first the latest, if there was one, then each as it is sent.

        async with agent.follow_requests() as requests:
            async for sent in requests:
                print(sent.strategy, sent.built.tokens_used, "of", sent.built.token_budget)

    A slow subscriber gets the latest request and misses those in between: a subscription holds at most one request.
    """

    def __init__(self, requests: SentRequests) -> None:
        self._requests = requests
        self._seen_number = 0
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open = False

    async def __anext__(self) -> SentContext:
        if not self._open:
            raise Closed("the subscription is not open: use it as `async with agent.follow_requests() as requests`")
        sent = await self._requests.after(self._seen_number)
        self._seen_number = sent.number
        return sent


class Recovered(Struct, frozen=True):
    """The session had been interrupted, and was repaired before the turn began."""

    recovery: Recovery


class RequestSent(Struct, frozen=True):
    """A request is about to be sent to the model."""

    sent: SentContext


class MessageEnd(Struct, frozen=True):
    """The model's answer is complete; a `Session` has stored it.

    Attributes:
        message: The answer, as returned by the hooks.
        entry_id: Its entry; None without a `Session`.
    """

    message: Message
    entry_id: str | None = None


class ToolExecutionEnd(Struct, frozen=True):
    """A call was executed; a `Session` has stored its result.

    Attributes:
        call_id: The call.
        name: The tool.
        message: The result, as sent to the model.
        is_error: Whether the tool failed.
        duration_ms: How long it ran, in milliseconds; None for an external result.
        entry_id: The result's entry; None without a `Session`.
    """

    call_id: str
    name: str
    message: Message
    is_error: bool
    duration_ms: float | None
    entry_id: str | None = None


class Retrying(Struct, frozen=True):
    """A request failed and will be made again.

    Attributes:
        error: Why it failed.
        attempt: The number of attempts so far.
        delay_s: Seconds until the next attempt.
        entry_id: The entry of the partial answer, on a side branch; None if nothing was stored.
    """

    error: TreeringError
    attempt: int
    delay_s: float
    entry_id: str | None = None


class Compacted(Struct, frozen=True):
    """The session was compacted, because its context exceeded the window minus the reserve."""

    report: CompactionReport


class NotCompacted(Struct, frozen=True):
    """Compaction failed; the turn continues with the first strategy that fits.

    Attributes:
        error: Why it failed; an error of another type raised by a custom summarizer is its `__cause__`.
    """

    error: TreeringError


class Turn(Struct, frozen=True):
    """A finished or suspended turn.

    Attributes:
        messages: The messages of the turn, in order: the input, the answers, the tool results.
        usage: The usage of all requests of the turn together.
        stop_reason: Why the last answer ended, as the model said; "suspended" if calls wait for external results.
        pending: The calls that wait; see `AgentSession.resume`.
        sent: The last request.
        entry_ids: The entries of the messages, in the same order; empty without a `Session`.
    """

    messages: tuple[Message, ...]
    usage: Usage
    stop_reason: str | None
    pending: tuple[OpenCall, ...] = ()
    sent: SentContext | None = None
    entry_ids: tuple[str, ...] = ()

    @property
    def answer(self) -> Message | None:
        """The last answer, or None if the model has not answered."""
        return next((each for each in reversed(self.messages) if each.role == "assistant"), None)

    @property
    def text(self) -> str:
        """The text of the last answer."""
        return "" if self.answer is None else plain_text(self.answer.content)


class TurnEnd(Struct, frozen=True):
    """The turn is over."""

    turn: Turn


AgentEvent: TypeAlias = (
    Recovered
    | RequestSent
    | TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | MessageEnd
    | ToolExecutionEnd
    | Retrying
    | Compacted
    | NotCompacted
    | TurnEnd
)
"""Any event of a turn."""
