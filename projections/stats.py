"""The statistics of a session: its numbers of messages, tool executions and tokens, over all branches."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ..events.entries import Entry, Header, MessageEntry, ToolExecutionEntry
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
