"""What a path says, in the plain terms of programs whose messages are a role and a text.

Those programs have one message for each result of a tool, and no place for what only some programs know: an extension's
message and the summary of a branch are told as a user's text, as a model is told them. A summary that stands for earlier
messages is no message; where it is kept is the format's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from ..content import (
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
from ..content import text as text_part
from ..entries import BranchSummaryEntry, CustomMessageEntry, Entry, Message, MessageEntry
from ..providers.rendering import rendered
from .chain import derived_id


class Said(Struct, frozen=True):
    """One message of one role.

    Attributes:
        id: The entry's id, or one that follows from it where an entry says several messages.
        entry_id: The entry that says it.
        time: When it was said.
        message: The message: of role user, assistant, system or tool, a tool's with one result.
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
        """What it says and shows; a tool's message what the tool answered."""
        result = self.result
        if result is None:
            return self.message.content
        return (text_part(result.content),) if isinstance(result.content, str) else result.content

    @property
    def text(self) -> str:
        """What it says in words; images are named, for programs that have words alone."""
        return "\n".join(
            f"[image: {part.image.source.media_type}]" if isinstance(part, ImagePart) else part.text.content
            for part in self.shown
            if isinstance(part, (TextPart, ImagePart))
        )

    @property
    def words(self) -> str:
        """What it says in words, without its images."""
        return plain_text(self.shown)

    @property
    def images(self) -> list[ImagePart]:
        """What it shows."""
        return [part for part in self.shown if isinstance(part, ImagePart)]

    @property
    def thought(self) -> str:
        """What the model thought before."""
        return "\n".join(part.thinking.content for part in self.message.content if isinstance(part, ThinkingPart))

    @property
    def calls(self) -> list[ToolUse]:
        """The calls of tools."""
        return [part.tool_use for part in self.message.content if isinstance(part, ToolUsePart)]

    @property
    def result(self) -> ToolResult | None:
        """What a tool answered."""
        results = [part.tool_result for part in self.message.content if isinstance(part, ToolResultPart)]
        return results[0] if results else None


def spoken(entries: Iterable[Entry]) -> Iterator[Said]:
    """Yield the messages that entries say, oldest first."""
    for entry in entries:
        message = message_of(entry)
        if message is None or entry.id is None:
            continue
        for position, part in enumerate(_parted(message)):
            said_id = entry.id if position == 0 else derived_id("spoken", entry.id, str(position))
            yield Said(said_id, entry.id, entry.timestamp, part)


def message_of(entry: Entry) -> Message | None:
    """Return the message that an entry says, as a model is told it; None where it says none."""
    if isinstance(entry, MessageEntry):
        return rendered(entry.message)
    if isinstance(entry, CustomMessageEntry):
        return rendered(Message("custom", entry.custom_message.content))
    if isinstance(entry, BranchSummaryEntry) and entry.branch_summary.summary:
        return rendered(Message("branchSummary", (text_part(entry.branch_summary.summary),)))
    return None


def _parted(message: Message) -> Iterator[Message]:
    """Yield one message for each result, then what else the message says."""
    results = [part for part in message.content if isinstance(part, ToolResultPart)]
    for part in results:
        yield replace(message, role="tool", content=(part,))
    rest = tuple(part for part in message.content if not isinstance(part, ToolResultPart))
    if rest or not results:
        yield replace(message, content=rest) if results else message
