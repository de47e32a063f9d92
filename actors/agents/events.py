"""The events of a turn, as an agent streams them.

The last event of a turn is its `TurnEnd`. The pieces of an answer (`TextDelta`, `ThinkingDelta`, `ToolCallStarted`) are
streamed and never stored; after a `Retrying`, discard the pieces since the last `MessageEnd`.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from ...events.content import plain_text
from ...events.entries import Message, Usage
from ...events.errors import TreeringError
from ..session.compaction import CompactionReport
from ..session.open_calls import OpenCall, Recovery
from .model import TextDelta, ThinkingDelta, ToolCallStarted
from .sent_requests import SentContext


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
