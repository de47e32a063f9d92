"""What a session stores: entries, their payloads, and messages with their content.

An entry is one line of the log. It has an `id`, a `parent_id`, a `timestamp`, a type, and the payload of that type
under the type's name; `Session.append` takes any payload. A message consists of parts; functions make both::

    from treering import MessageEntry, Usage, message, plain_text, text
    from treering.entries import Label

    answer = await session.append(message("assistant", ["Here:", text("42")], usage=Usage(12, 3)))
    await session.append(Label(answer, "the answer"))
    async for entry in session.iter_entries():
        if isinstance(entry, MessageEntry):
            said = entry.message.role, plain_text(entry.message.content)

What a newer program wrote is an `OpaqueEntry`: a valid parent that contributes nothing. `isinstance` selects entries of
one type, also for a type checker; `type` is a string, since a file may hold types that treering does not know.
"""

from .events.content import (
    Content,
    ContentLike,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    file_text,
    image,
    plain_text,
    text,
    thinking,
    tool_result,
    tool_use,
)
from .events.entries import (
    BashExecution,
    BranchSummary,
    BranchSummaryEntry,
    Compaction,
    CompactionEntry,
    ContextEdit,
    ContextEditEntry,
    Custom,
    CustomEntry,
    CustomMessage,
    CustomMessageEntry,
    Entry,
    Header,
    Label,
    LabelEntry,
    Message,
    MessageEntry,
    ModelChange,
    ModelChangeEntry,
    OpaqueEntry,
    Payload,
    Provider,
    SessionInfo,
    SessionInfoEntry,
    ThinkingLevel,
    ThinkingLevelEntry,
    ToolExecution,
    ToolExecutionEntry,
    Usage,
    UsageEntry,
    UsageRecord,
    message,
)

__all__ = [
    "BashExecution",
    "BranchSummary",
    "BranchSummaryEntry",
    "Compaction",
    "CompactionEntry",
    "Content",
    "ContentLike",
    "ContextEdit",
    "ContextEditEntry",
    "Custom",
    "CustomEntry",
    "CustomMessage",
    "CustomMessageEntry",
    "Entry",
    "Header",
    "ImagePart",
    "Label",
    "LabelEntry",
    "Message",
    "MessageEntry",
    "ModelChange",
    "ModelChangeEntry",
    "OpaqueEntry",
    "Payload",
    "Provider",
    "SessionInfo",
    "SessionInfoEntry",
    "TextPart",
    "ThinkingLevel",
    "ThinkingLevelEntry",
    "ThinkingPart",
    "ToolExecution",
    "ToolExecutionEntry",
    "ToolResultPart",
    "ToolUsePart",
    "Usage",
    "UsageEntry",
    "UsageRecord",
    "file_text",
    "image",
    "message",
    "plain_text",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
]
