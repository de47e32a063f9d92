"""One-line descriptions of entries for people: the role or type, and a preview of the content."""

from __future__ import annotations

import re

import click
from msgspec import Raw

from ..events.content import Content, ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart
from ..events.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelEntry,
    ToolExecutionEntry,
    UsageEntry,
)
from .output import clean, short_line
from .rows import in_zone

_PREVIEW_CHARS = 90
"""The maximum length of the preview of an entry."""

LABEL_CHARS_MAX = 80
"""The maximum length of a label."""

ROLE_CHARS_MAX = 40
"""The maximum length of a role, or of an unknown type of entries."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[45][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_COLORS = {"user": "cyan", "assistant": "green", "tool": "yellow", "compaction": "magenta", "branch_summary": "magenta"}


def short(entry_id: str | None) -> str:
    """Return an id for display: the first 8 digits of a uuid, which `--leaf` accepts too; any other id whole."""
    if entry_id is None:
        return "-"
    return entry_id[:8] if _UUID.fullmatch(entry_id) else clean(entry_id)


def role_of(entry: Entry) -> str:
    """Return the role of a message, or the type of any other entry."""
    if isinstance(entry, MessageEntry):
        return short_line(entry.message.role, ROLE_CHARS_MAX)
    return short_line(entry.type, ROLE_CHARS_MAX)


def colored(name: str) -> str:
    """Return a role or entry type in its color."""
    color = _COLORS.get(name)
    return click.style(name, fg=color) if color else click.style(name, dim=True)


def preview_of(entry: Entry, chars_max: int = _PREVIEW_CHARS) -> str:
    """Return a one-line preview of what an entry says."""
    return short_line(_content_text(entry), chars_max)


def line_of(entry: Entry) -> str:
    """Return the line of an entry in a list of entries; the time is in the system's zone."""
    name = role_of(entry)
    time = f"{in_zone(entry.timestamp):%Y-%m-%d %H:%M:%S}"
    aside = " (aside)" if entry.aside else ""
    what = preview_of(entry)
    return f"{entry.seq:>5}  {time}  {short(entry.id)}  {colored(name)}{aside}{': ' if what else ''}{what}"


def part_text(part: Content) -> str:
    """Return the text that people see for a part of a message."""
    match part:
        case TextPart():
            return part.text.content
        case ThinkingPart():
            return f"(thinking) {part.thinking.content}"
        case ImagePart():
            return f"[image {part.image.source.media_type}]"
        case ToolUsePart():
            return f"calls {part.tool_use.name}({_json(part.tool_use.raw_input)})"
        case ToolResultPart():
            return f"{'failed: ' if part.tool_result.is_error else ''}{_result(part)}"


def _result(part: ToolResultPart) -> str:
    content = part.tool_result.content
    return content if isinstance(content, str) else "\n".join(part_text(each) for each in content)


def _content_text(entry: Entry) -> str:
    match entry:
        case MessageEntry():
            message = entry.message
            parts = [part for part in message.content if not isinstance(part, ThinkingPart)] or message.content
            spoken = " ".join(part_text(part) for part in parts)
            return spoken or (f"ran {message.bash.command}" if message.bash else "") or message.error or ""
        case ModelChangeEntry():
            return f"{entry.model_change.provider}/{entry.model_change.model_id}"
        case ThinkingLevelEntry():
            return entry.thinking_level.thinking_level
        case LabelEntry():
            return f"{short(entry.label.target_id)} {entry.label.label or '(removed)'}"
        case SessionInfoEntry():
            info = entry.session_info
            return info.name or info.summary or info.status or ""
        case CompactionEntry():
            return entry.compaction.summary
        case BranchSummaryEntry():
            return entry.branch_summary.summary
        case CustomEntry():
            return entry.custom.custom_type
        case CustomMessageEntry():
            custom = entry.custom_message
            return f"{custom.custom_type}: {' '.join(part_text(part) for part in custom.content)}"
        case ToolExecutionEntry():
            run = entry.tool_execution
            return f"{run.tool_name} {'done' if run.success else 'failed'}"
        case UsageEntry():
            usage = entry.usage.usage
            return f"{entry.usage.kind}: {usage.input_tokens} in, {usage.output_tokens} out"
        case ContextEditEntry():
            edit = entry.context_edit
            return f"{short(edit.target_id)} {'left out' if edit.replacement is None else 'replaced'}"
        case _:
            return "" if entry.reason == "unknown type" else entry.reason


def _json(raw: Raw) -> str:
    text = bytes(raw).decode(errors="replace")
    return "" if text == "{}" else text
