"""What happens in a turn, as an agent tells it to whoever streams it.

A turn's last event is its `TurnEnd`. What a model says piece by piece (`TextDelta`, `ThinkingDelta`, `ToolCallStarted`)
is shown and never kept; after a `Retrying`, the pieces since the last `MessageEnd` are void.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from ...events.content import plain_text
from ...events.entries import Message, Usage
from ...events.errors import TreeringError
from ..compaction import CompactionReport
from ..open_calls import OpenCall, Recovery
from .model import TextDelta, ThinkingDelta, ToolCallStarted
from .sent import SentContext


class Recovered(Struct, frozen=True):
    """The session had been broken off, and was put right before the turn began."""

    recovery: Recovery


class RequestSent(Struct, frozen=True):
    """A request goes out to the model."""

    sent: SentContext


class MessageEnd(Struct, frozen=True):
    """The model's answer is whole, and kept where the session keeps answers at once.

    Attributes:
        message: The answer, as hooks left it.
        entry_id: Its entry; None where no `Session` keeps it.
    """

    message: Message
    entry_id: str | None = None


class ToolExecutionEnd(Struct, frozen=True):
    """A call was carried out, and its result is kept where the session keeps results at once.

    Attributes:
        call_id: The call.
        name: The tool.
        message: The result, as the model is told it.
        is_error: Whether the tool failed.
        duration_ms: How long it ran, in milliseconds; None where the result came from outside.
        entry_id: The result's entry; None where no `Session` keeps it.
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
        attempt: How many attempts there were.
        delay_s: In how many seconds the next one is made.
        entry_id: The entry of what had come of the answer, on a side branch; None where nothing was kept.
    """

    error: TreeringError
    attempt: int
    delay_s: float
    entry_id: str | None = None


class Compacted(Struct, frozen=True):
    """The session was compacted, because its context passed the window minus the reserve."""

    report: CompactionReport


class NotCompacted(Struct, frozen=True):
    """Compacting failed; the turn goes on with the smallest step of the ladder that fits.

    Attributes:
        error: Why; where a program's own summarizer raised something else, that is its cause.
    """

    error: TreeringError


class Turn(Struct, frozen=True):
    """What a turn came to.

    Attributes:
        messages: What was said in it, in order: the input, the answers, the results of tools.
        usage: What the requests of the turn used together.
        stop_reason: Why the last answer ended, as the model said; "suspended" where calls wait for something outside.
        pending: The calls that wait; see `AgentSession.resume`.
        sent: What was sent last.
        entry_ids: The entries of the messages, in the same order; empty where no `Session` keeps them.
    """

    messages: tuple[Message, ...]
    usage: Usage
    stop_reason: str | None
    pending: tuple[OpenCall, ...] = ()
    sent: SentContext | None = None
    entry_ids: tuple[str, ...] = ()

    @property
    def answer(self) -> Message | None:
        """The last answer, or None where the model has not answered."""
        return next((each for each in reversed(self.messages) if each.role == "assistant"), None)

    @property
    def text(self) -> str:
        """What the last answer says."""
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
"""Anything that happens in a turn."""
