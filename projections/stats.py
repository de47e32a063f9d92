"""The figures of a session: how many messages, how many runs of tools, how many tokens, over all branches."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ..events.entries import Entry, Header, MessageEntry, ToolExecutionEntry
from .base import OWN
from .tokens import Tokenizer, entry_tokens


class SessionStats(Struct, frozen=True):
    """The figures of a session.

    Attributes:
        message_count: All messages.
        tool_execution_count: The records of runs of tools.
        total_tokens: What all messages take, in tokens, compacted and abandoned ones included.
        user_message_count: Messages of users.
        assistant_message_count: Messages of assistants.
    """

    message_count: int = 0
    tool_execution_count: int = 0
    total_tokens: int = 0
    user_message_count: int = 0
    assistant_message_count: int = 0


class StatsProjection:
    """The fold of the figures; the change that a message or a record makes is the figures after it.

    Args:
        tokenizer: What counts tokens; an estimate by bytes where none is given.
    """

    name = OWN + "stats"

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer

    def initial(self, header: Header) -> SessionStats:
        """Return the figures of a session without entries."""
        return SessionStats()

    def apply(self, value: SessionStats, entry: Entry) -> tuple[SessionStats, SessionStats | None]:
        """Take in an entry; see `Projection.apply`."""
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
        """Return the figures as bytes for a checkpoint."""
        return msgspec.json.encode(value)

    def load(self, blob: bytes) -> SessionStats:
        """Return the figures that were dumped."""
        return msgspec.json.decode(blob, type=SessionStats)
