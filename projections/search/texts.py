"""The searchable text of an entry: messages of users, models and tools, and information about the session.

Not searched are images, the data of extensions, usage records, records of tool executions (their arguments are in the
call, their output in the result), and opaque entries.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...events.content import ToolUsePart
from ...events.entries import (
    Entry,
    Message,
    OpaqueEntry,
    payload_of,
)


class EntryText(Struct, frozen=True):
    """The searchable text of an entry.

    Attributes:
        seq: Its seq in the log.
        entry_id: Its id.
        role: The role of a message, or the type of any other entry.
        tools: The tools that it calls, or whose result it holds.
        timestamp: When it was appended.
        text: Its text.
    """

    seq: int
    entry_id: str
    role: str
    tools: tuple[str, ...]
    timestamp: datetime
    text: str


class Filters(Struct, frozen=True, kw_only=True):
    """Conditions on entries.

    Attributes:
        role: Only entries of this role or type.
        tool: Only entries that call this tool or hold its result.
        after: Only entries appended at this time or later.
        before: Only entries appended before this time.
    """

    role: str | None = None
    tool: str | None = None
    after: datetime | None = None
    before: datetime | None = None

    def accept(self, text: EntryText) -> bool:
        """Return whether an entry meets the conditions, regardless of its text."""
        return (
            (self.role is None or text.role == self.role)
            and (self.tool is None or self.tool in text.tools)
            and (self.after is None or text.timestamp >= self.after)
            and (self.before is None or text.timestamp < self.before)
        )


def entry_text(entry: Entry) -> EntryText | None:
    """Return the searchable text of an entry, or None if it has none."""
    if isinstance(entry, OpaqueEntry):
        return None
    payload = payload_of(entry)
    text = "\n".join(part for part in payload.searched() if part)
    if not text or not entry.id:
        return None
    role, tools = (payload.role, _tools(payload)) if isinstance(payload, Message) else (entry.type, ())
    return EntryText(entry.seq, entry.id, role, tools, entry.timestamp, text)


def _tools(message: Message) -> tuple[str, ...]:
    called = [part.tool_use.name for part in message.content if isinstance(part, ToolUsePart)]
    return tuple(dict.fromkeys([*called, *([message.tool_name] if message.tool_name else [])]))
