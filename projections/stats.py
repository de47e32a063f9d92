"""The statistics of a session: its numbers of messages, tool executions, tokens and events, over all branches.

An event is the result of one append: an entry, or the lines of one batch, such as a turn with its messages. Lines keep
the marks of their batch when they are copied, so a copy has the same count as its original.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ..events.entries import NEVER_COMPLETED, Entry, Header, MessageEntry, OpaqueEntry, ToolExecutionEntry
from .base import OWN
from .tokens import Tokenizer, entry_tokens


class SessionStats(Struct, frozen=True):
    """The statistics of a session.

    Attributes:
        message_count: The number of messages.
        tool_execution_count: The number of records of tool executions.
        total_tokens: The tokens of all messages, compacted and abandoned ones included.
        user_message_count: The number of user messages.
        assistant_message_count: The number of assistant messages.
    """

    message_count: int = 0
    tool_execution_count: int = 0
    total_tokens: int = 0
    user_message_count: int = 0
    assistant_message_count: int = 0


class StatsProjection:
    """The fold of the statistics; the change that a message or a record makes is the statistics after it.

    Args:
        tokenizer: Counts the tokens; by default they are estimated from bytes.
    """

    name = OWN + "stats"

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer

    def initial(self, header: Header) -> SessionStats:
        """Return the statistics of a session without entries."""
        return SessionStats()

    def apply(self, value: SessionStats, entry: Entry) -> tuple[SessionStats, SessionStats | None]:
        """Fold an entry; see `Projection.apply`."""
        is_message = isinstance(entry, MessageEntry)
        if not is_message and not isinstance(entry, ToolExecutionEntry):
            return value, None
        role = entry.message.role if isinstance(entry, MessageEntry) else ""
        after = SessionStats(
            value.message_count + is_message,
            value.tool_execution_count + (not is_message),
            value.total_tokens + (entry_tokens(entry, self._tokenizer) if is_message else 0),
            value.user_message_count + (role == "user"),
            value.assistant_message_count + (role == "assistant"),
        )
        return after, after

    def dump(self, value: SessionStats) -> bytes:
        """Return the statistics as bytes for a checkpoint."""
        return msgspec.json.encode(value)

    def load(self, blob: bytes) -> SessionStats:
        """Return the statistics that were dumped."""
        return msgspec.json.decode(blob, type=SessionStats)


class EventCount:
    """The fold of events; a change is the new count."""

    name = OWN + "event-count"

    def initial(self, header: Header) -> int:
        """Return 0."""
        return 0

    def apply(self, value: int, entry: Entry) -> tuple[int, int | None]:
        """Fold an entry; see `Projection.apply`."""
        torn = isinstance(entry, OpaqueEntry) and entry.reason == NEVER_COMPLETED
        if torn or (entry.batch is not None and entry.batch.i):
            return value, None
        return value + 1, value + 1

    def dump(self, value: int) -> bytes:
        """Return the count as bytes for a checkpoint."""
        return str(value).encode()

    def load(self, blob: bytes) -> int:
        """Return the count that was dumped."""
        return int(blob)
