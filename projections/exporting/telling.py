"""Entries in a few words, as the documents tell them between the messages: plain text, to be escaped by who shows it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ...events.content import JSON, ImageSource, json_value
from ...events.entries import (
    BranchSummaryEntry,
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
from ...events.undecodable import UNDECODABLE
from ...events.wording import counted

Told: TypeAlias = "tuple[str, Raw | None]"
"""A line of plain text, and the free JSON that belongs to it, where there is any."""

LINE_CHARS = 120
"""How long a preview of one line is."""

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
    """Return what the one who speaks is called."""
    if message.role == "custom" and message.custom_type:
        return message.custom_type
    return _NAMES.get(message.role, message.role)


def is_plain(text: str) -> bool:
    """Tell at a look that nothing in a text is Markdown; most of what people say is not, and parsing takes long."""
    return _MARKDOWN.search(text) is None


def one_line(text: str, chars: int = LINE_CHARS) -> str:
    """Return the beginning of a text on one line, with an ellipsis where it goes on."""
    flat = _SPACES.sub(" ", text[: chars * 8]).strip()
    return flat if len(flat) <= chars and len(text) <= chars * 8 else flat[: chars - 1].rstrip() + "…"


def moment(time: datetime) -> str:
    """Return a time as people read it, to the second, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def json_text(raw: Raw) -> str:
    """Return free JSON over several lines, as it was written otherwise."""
    try:
        return msgspec.json.format(bytes(raw), indent=2).decode(errors="replace")
    except UNDECODABLE:
        return bytes(raw).decode(errors="replace")


def arguments_line(raw: Raw) -> str:
    """Return a call's arguments on one line: the value alone of a single one, `name: value` of more."""
    value = json_value(raw)
    if not isinstance(value, dict):
        return one_line(_plain(value))
    if len(value) == 1:
        return one_line(_plain(next(iter(value.values()))))
    return one_line(", ".join(f"{key}: {one_line(_plain(each), 60)}" for key, each in value.items()))


def _plain(value: JSON) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def image_told(source: ImageSource) -> str:
    """Say what an image is without showing it."""
    if source.type == "url":
        return f"Image ({source.media_type})"
    return f"Image ({source.media_type}, {counted(len(source.data) * 3 // 4, 'byte')})"


def usage_told(usage: Usage) -> str:
    """Say what an answer took and cost."""
    parts = [f"{usage.input_tokens:,} in", f"{usage.output_tokens:,} out"]
    if usage.cache_read_tokens:
        parts.append(f"{usage.cache_read_tokens:,} cached")
    if usage.cost:
        parts.append(f"{usage.cost:.4f}")
    return " · ".join(parts)


def duration_told(duration_ms: float) -> str:
    """Say how long something took."""
    return f"{duration_ms:,.0f} ms" if duration_ms < 1000 else f"{duration_ms / 1000:,.1f} s"


def event_told(entry: Entry) -> Told:
    """Tell an entry that is no message and no summary."""
    match entry:
        case ModelChangeEntry(model_change=change):
            return f"Model: {change.provider}/{change.model_id}", None
        case ThinkingLevelEntry(thinking_level=level):
            return f"Thinking level: {level.thinking_level}", None
        case LabelEntry(label=label):
            return (f"Label: {label.label}" if label.label else "Label taken away"), None
        case SessionInfoEntry(session_info=info):
            said = {
                "name": info.name,
                "summary": info.summary,
                "status": info.status,
                "project": info.project,
                "description": info.description,
            }
            told = [f"{name} {one_line(value)!r}" for name, value in said.items() if value is not None]
            return "Session: " + (", ".join(told) or "metadata"), info.raw_metadata
        case CustomEntry(custom=custom):
            return f"Extension: {custom.custom_type}", custom.raw_data
        case ToolExecutionEntry(tool_execution=run):
            told = [f"Tool run: {run.tool_name}", "" if run.success else "failed"]
            told.append("" if run.exit_code is None else f"exit code {run.exit_code}")
            told.append("" if run.duration_ms is None else duration_told(run.duration_ms))
            told.append("" if run.error is None else one_line(run.error))
            return " · ".join(filter(None, told)), None
        case UsageEntry(usage=record):
            return f"Usage of {record.kind}: {usage_told(record.usage)}", record.raw_metadata
        case ContextEditEntry(context_edit=edit):
            what = "left out" if edit.replacement is None else "replaced"
            return f"From here on, contexts show an earlier entry {what}: {edit.target_id}", None
        case OpaqueEntry():
            return f"Unknown entry: {entry.type} ({one_line(entry.reason)})", entry.raw
        case MessageEntry() | CustomMessageEntry() | CompactionEntry() | BranchSummaryEntry():
            return entry.type, None
