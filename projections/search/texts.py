"""The searchable text of an entry: messages of users, models and tools, and information about the session.

Not searched are images, the data of extensions, usage records, records of tool executions (their arguments are in the
call, their output in the result), and opaque entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from ...events.content import Content, TextPart, ThinkingPart, ToolResultPart, ToolUsePart
from ...events.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    Message,
    MessageEntry,
    SessionInfoEntry,
)
from ...events.json_values import JSON


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
    role, tools, parts = entry.type, tuple[str, ...](), list[str]()
    if isinstance(entry, MessageEntry):
        message = entry.message
        role, tools, parts = message.role, _tools(message), [*_texts(message.content), *_beside(message)]
    elif isinstance(entry, CompactionEntry):
        parts = [entry.compaction.summary]
    elif isinstance(entry, BranchSummaryEntry):
        parts = [entry.branch_summary.summary]
    elif isinstance(entry, CustomMessageEntry):
        parts = list(_texts(entry.custom_message.content))
    elif isinstance(entry, ContextEditEntry):
        parts = list(_texts(entry.context_edit.replacement or ()))
    elif isinstance(entry, LabelEntry):
        parts = [entry.label.label or ""]
    elif isinstance(entry, SessionInfoEntry):
        info = entry.session_info
        parts = [info.name or "", info.description or "", info.summary or ""]
    text = "\n".join(part for part in parts if part)
    if not text or not entry.id:
        return None
    return EntryText(entry.seq, entry.id, role, tools, entry.timestamp, text)


def _tools(message: Message) -> tuple[str, ...]:
    called = [part.tool_use.name for part in message.content if isinstance(part, ToolUsePart)]
    return tuple(dict.fromkeys([*called, *([message.tool_name] if message.tool_name else [])]))


def _texts(content: Sequence[Content]) -> Iterator[str]:
    for part in content:
        if isinstance(part, TextPart):
            yield part.text.content
        elif isinstance(part, ThinkingPart):
            yield part.thinking.content
        elif isinstance(part, ToolUsePart):
            yield part.tool_use.name
            yield from _strings(part.tool_use.input)
        elif isinstance(part, ToolResultPart):
            yield part.tool_result.text


def _beside(message: Message) -> Iterator[str]:
    """Yield the texts of a message outside its content."""
    if message.bash is not None:
        yield message.bash.command
        yield message.bash.output
    yield message.error or ""


def _strings(value: JSON) -> Iterator[str]:
    """Yield the strings in a JSON value, in order, without the keys of objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
