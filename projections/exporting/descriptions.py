"""Short descriptions of entries for the documents, as plain text that the caller must escape."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ...events.content import ImageSource
from ...events.entries import (
    BranchSummaryEntry,
    Compaction,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    Message,
    MessageEntry,
    ModelChangeEntry,
    OpaqueEntry,
    SessionInfoEntry,
    ThinkingLevelEntry,
    ToolExecutionEntry,
    Usage,
    UsageEntry,
)
from ...events.json_values import JSON, UNDECODABLE, json_value
from ...events.texts import counted

Description: TypeAlias = "tuple[str, Raw | None]"
"""A line of plain text, and the JSON data that belongs to it, if any."""

LINE_CHARS = 120
"""The length of a one-line preview."""

_SPACES = re.compile(r"\s+")
_MARKDOWN = re.compile(r"[*_`#<\[\]|~\\&!\r\t\f\v]|^ *(?:[-+>=]|[0-9]+[.)])|^ {4}", re.MULTILINE)
_NAMES = {
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool",
    "system": "System",
    "bashExecution": "Command",
    "branchSummary": "Summary of another branch",
    "compactionSummary": "Summary of what came before",
}


def speaker(message: Message) -> str:
    """Return the display name of a message's author."""
    if message.role == "custom" and message.custom_type:
        return message.custom_type
    return _NAMES.get(message.role, message.role)


def is_plain(text: str) -> bool:
    """Return whether a text has no Markdown, which is true of most messages and saves them the slow parsing."""
    return _MARKDOWN.search(text) is None


def one_line(text: str, chars: int = LINE_CHARS) -> str:
    """Return the beginning of a text on one line, with an ellipsis if it was cut off."""
    flat = _SPACES.sub(" ", text[: chars * 8]).strip()
    return flat if len(flat) <= chars and len(text) <= chars * 8 else flat[: chars - 1].rstrip() + "…"


def moment(time: datetime) -> str:
    """Return a time in readable form, to the second, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def json_text(raw: Raw) -> str:
    """Return JSON indented, or the original text if it cannot be parsed."""
    try:
        return msgspec.json.format(bytes(raw), indent=2).decode(errors="replace")
    except UNDECODABLE:
        return bytes(raw).decode(errors="replace")


def arguments_line(raw: Raw) -> str:
    """Return a call's arguments on one line: only the value of a single argument, `name: value` of several."""
    value = json_value(raw)
    if not isinstance(value, dict):
        return one_line(_plain(value))
    if len(value) == 1:
        return one_line(_plain(next(iter(value.values()))))
    return one_line(", ".join(f"{key}: {one_line(_plain(each), 60)}" for key, each in value.items()))


def _plain(value: JSON) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def describe_image(source: ImageSource) -> str:
    """Return a description of an image."""
    if source.type == "url":
        return f"Image ({source.media_type})"
    return f"Image ({source.media_type}, {counted(len(source.data) * 3 // 4, 'byte')})"


def describe_usage(usage: Usage) -> str:
    """Return a description of usage: tokens and cost."""
    parts = [f"{usage.input_tokens:,} in", f"{usage.output_tokens:,} out"]
    if usage.cache_read_tokens:
        parts.append(f"{usage.cache_read_tokens:,} cached")
    if usage.cost:
        parts.append(f"{usage.cost:.4f}")
    return " · ".join(parts)


def describe_duration(duration_ms: float) -> str:
    """Return a description of a duration."""
    return f"{duration_ms:,.0f} ms" if duration_ms < 1000 else f"{duration_ms / 1000:,.1f} s"


def describe_compaction(compaction: Compaction) -> str:
    """Return the title of a compaction's summary."""
    return f"What came before was compacted ({counted(compaction.tokens_before, 'token')})"


def describe_result(text: str, *, is_error: bool) -> str:
    """Return that a tool failed, or else the size of its result."""
    if is_error:
        return "failed"
    return counted(text.count("\n") + 1, "line") if text else "empty"


def describe_event(entry: Entry) -> Description:
    """Return a description of an entry that is neither a message nor a summary."""
    match entry:
        case ModelChangeEntry(model_change=change):
            return f"Model: {change.provider}/{change.model_id}", None
        case ThinkingLevelEntry(thinking_level=level):
            return f"Thinking level: {level.thinking_level}", None
        case LabelEntry(label=label):
            return (f"Label: {label.label}" if label.label else "Label taken away"), None
        case SessionInfoEntry(session_info=info):
            fields = {
                "name": info.name,
                "summary": info.summary,
                "status": info.status,
                "project": info.project,
                "description": info.description,
            }
            parts = [f"{name} {one_line(value)!r}" for name, value in fields.items() if value is not None]
            if info.archived is not None:
                parts.append("archived" if info.archived else "brought back")
            return "Session: " + (", ".join(parts) or "metadata"), info.raw_metadata
        case CustomEntry(custom=custom):
            return f"Extension: {custom.custom_type}", custom.raw_data
        case ToolExecutionEntry(tool_execution=run):
            parts = [f"Tool run: {run.tool_name}", "" if run.success else "failed"]
            parts.append("" if run.exit_code is None else f"exit code {run.exit_code}")
            parts.append("" if run.duration_ms is None else describe_duration(run.duration_ms))
            parts.append("" if run.error is None else one_line(run.error))
            return " · ".join(filter(None, parts)), None
        case UsageEntry(usage=record):
            return f"Usage of {record.kind}: {describe_usage(record.usage)}", record.raw_metadata
        case ContextEditEntry(context_edit=edit):
            effect = "left out" if edit.replacement is None else "replaced"
            return f"From here on, contexts show an earlier entry {effect}: {edit.target_id}", None
        case OpaqueEntry():
            return f"Unknown entry: {entry.type} ({one_line(entry.reason)})", entry.raw
        case MessageEntry() | CustomMessageEntry() | CompactionEntry() | BranchSummaryEntry():
            return entry.type, None
