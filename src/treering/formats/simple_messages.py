"""The messages of a path in the simple form of programs whose messages are a role and a text.

Those programs have one message per tool result and no place for treering's other entry types: an extension's message
and a branch summary become user text, the form in which a model receives them. A compaction summary does not become a
message; each format decides where to keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from ..events.content import (
    Content,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResult,
    ToolResultPart,
    ToolUse,
    ToolUsePart,
    plain_text,
)
from ..events.content import text as text_part
from ..events.entries import BranchSummaryEntry, CustomMessageEntry, Entry, Message, MessageEntry
from ..events.providers.common import rendered
from .chain import derived_id


class SimpleMessage(Struct, frozen=True):
    """One message with one role.

    Attributes:
        id: The entry's id, or one derived from it for the second and later messages of an entry.
        entry_id: The id of the entry that it comes from.
        time: The entry's time.
        message: The message, of role user, assistant, system or tool; a tool message has exactly one result.
    """

    id: str
    entry_id: str
    time: datetime
    message: Message

    @property
    def role(self) -> str:
        """The message's role."""
        return self.message.role

    @property
    def shown(self) -> tuple[Content, ...]:
        """Its content; for a tool message, the content of the result."""
        result = self.result
        if result is None:
            return self.message.content
        return (text_part(result.content),) if isinstance(result.content, str) else result.content

    @property
    def text(self) -> str:
        """Its text, with a placeholder for each image, for programs that support only text."""
        return "\n".join(
            f"[image: {part.image.source.media_type}]" if isinstance(part, ImagePart) else part.text.content
            for part in self.shown
            if isinstance(part, (TextPart, ImagePart))
        )

    @property
    def words(self) -> str:
        """Its text, without images."""
        return plain_text(self.shown)

    @property
    def images(self) -> list[ImagePart]:
        """Its images."""
        return [part for part in self.shown if isinstance(part, ImagePart)]

    @property
    def thought(self) -> str:
        """The model's thinking."""
        return "\n".join(part.thinking.content for part in self.message.content if isinstance(part, ThinkingPart))

    @property
    def calls(self) -> list[ToolUse]:
        """The tool calls."""
        return [part.tool_use for part in self.message.content if isinstance(part, ToolUsePart)]

    @property
    def result(self) -> ToolResult | None:
        """The tool result; None if this is not a tool message."""
        results = [part.tool_result for part in self.message.content if isinstance(part, ToolResultPart)]
        return results[0] if results else None


def simple_messages(entries: Iterable[Entry]) -> Iterator[SimpleMessage]:
    """Yield the messages of entries, oldest first."""
    for entry in entries:
        message = message_of(entry)
        if message is None or entry.id is None or is_empty_answer(message):
            continue
        for position, part in enumerate(_split_results(message)):
            message_id = entry.id if position == 0 else derived_id("spoken", entry.id, str(position))
            yield SimpleMessage(message_id, entry.id, entry.timestamp, part)


def message_of(entry: Entry) -> Message | None:
    """Return an entry's message in the form in which a model receives it; None if the entry has no message."""
    if isinstance(entry, MessageEntry):
        return rendered(entry.message)
    if isinstance(entry, CustomMessageEntry):
        return rendered(Message("custom", entry.custom_message.content))
    if isinstance(entry, BranchSummaryEntry) and entry.branch_summary.summary:
        return rendered(Message("branchSummary", (text_part(entry.branch_summary.summary),)))
    return None


def is_system(entry: Entry) -> bool:
    """Tell whether an entry is a system message; those before a compaction still count after it."""
    return isinstance(entry, MessageEntry) and entry.message.role == "system"


def is_empty_answer(message: Message) -> bool:
    """Tell whether an answer failed before it had content; providers reject a request with such an answer."""
    return message.role == "assistant" and not message.content


def _split_results(message: Message) -> Iterator[Message]:
    """Yield one message for each tool result, then one with the remaining content."""
    results = [part for part in message.content if isinstance(part, ToolResultPart)]
    for part in results:
        yield replace(message, role="tool", content=(part,))
    rest = tuple(part for part in message.content if not isinstance(part, ToolResultPart))
    if rest or not results:
        yield replace(message, content=rest) if results else message
