"""Writers for pi's lines: for each entry type the name and the keys of its line, in pi's own order.

A dialect selects from these writers and adds its own. They need not represent every field: the dialect adds those that
are missing when the line is read back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    KnownEntry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelEntry,
    ToolExecutionEntry,
    Usage,
    UsageEntry,
    payload_of,
)
from .pi.content import write_content
from .pi.lines import OWN_SESSION_INFO, OWN_TOOL_EXECUTION
from .pi.messages import UNKNOWN, write_message
from .pi.values import milliseconds, write_usage

Written: TypeAlias = tuple[str, dict[str, object]]
"""The type of a line, and its own keys in order."""

Writer: TypeAlias = Callable[[Any], Written]


def _some(**keys: object) -> dict[str, object]:
    """Leave out the keys that are not set."""
    return {key: value for key, value in keys.items() if value is not None}


def _write_message(entry: MessageEntry) -> Written:
    return "message", {"message": write_message(entry.message, milliseconds(entry.timestamp))}


def _write_model_change(entry: ModelChangeEntry) -> Written:
    change = entry.model_change
    return "model_change", {"provider": change.provider, "modelId": change.model_id}


def _write_thinking_level(entry: ThinkingLevelEntry) -> Written:
    return "thinking_level_change", {"thinkingLevel": entry.thinking_level.thinking_level}


def _write_label(entry: LabelEntry) -> Written:
    return "label", _some(targetId=entry.label.target_id, label=entry.label.label)


def _write_session_info(entry: SessionInfoEntry) -> Written:
    if entry.session_info.name is None:  # a session_info line without a name would remove the session's name
        return write_own(OWN_SESSION_INFO, entry)
    return "session_info", {"name": name_on_one_line(entry.session_info.name)}


def write_compaction(entry: CompactionEntry, *, hook_key: str = "fromHook") -> Written:
    """Write a compaction; one that keeps no earlier entry names itself as the first kept entry."""
    payload = entry.compaction
    first_kept = payload.first_kept_entry_id
    keys = {
        "summary": payload.summary,
        "firstKeptEntryId": entry.id if first_kept is None else first_kept,
        "tokensBefore": payload.tokens_before,
        **_some(details=payload.raw_details, usage=_usage_or_none(payload.usage)),
        **({hook_key: True} if payload.from_hook else {}),
        **_some(systemMessage=payload.raw_system_message),
    }
    return "compaction", keys


def write_branch_summary(entry: BranchSummaryEntry, *, hook_key: str = "fromHook") -> Written:
    """Write the summary of a branch."""
    payload = entry.branch_summary
    keys = {
        "fromId": payload.from_id,
        "summary": payload.summary,
        **_some(details=payload.raw_details, usage=_usage_or_none(payload.usage)),
        **({hook_key: True} if payload.from_hook else {}),
    }
    return "branch_summary", keys


def _write_custom(entry: CustomEntry) -> Written:
    return "custom", _some(customType=entry.custom.custom_type, data=entry.custom.raw_data)


def _write_custom_message(entry: CustomMessageEntry) -> Written:
    payload = entry.custom_message
    content = write_content(payload.content, as_text=True)
    keys = _some(customType=payload.custom_type, content=content, display=payload.display, details=payload.raw_details)
    return "custom_message", keys


def _write_context_edit(entry: ContextEditEntry) -> Written:
    payload = entry.context_edit
    new = payload.replacement
    replacement = None if new is None else {"content": write_content(new, as_text=False)}
    return "context_edit", {"targetId": payload.target_id, "replacement": replacement}


def _write_usage(entry: UsageEntry) -> Written:
    payload = entry.usage
    keys = {
        "kind": payload.kind,
        "provider": UNKNOWN if payload.provider is None else payload.provider,
        "model": UNKNOWN if payload.model is None else payload.model,
        "usage": write_usage(payload.usage),
        **_some(note=payload.note),
    }
    return "usage", keys


def _write_tool_execution(entry: ToolExecutionEntry) -> Written:
    return write_own(OWN_TOOL_EXECUTION, entry)


def write_own(custom_type: str, entry: KnownEntry) -> Written:
    """Write an entry for which pi has no type as a custom one, which pi keeps but does not show."""
    return "custom", {"customType": custom_type, "data": payload_of(entry)}


def _usage_or_none(usage: Usage | None) -> dict[str, object] | None:
    return None if usage is None else write_usage(usage)


def name_on_one_line(name: str) -> str:
    """Return a session's name in pi's form: line breaks become a space, the ends are trimmed."""
    return re.sub(r"[\r\n]+", " ", name).strip()


PI_WRITERS: Mapping[str, Writer] = {
    "message": _write_message,
    "model_change": _write_model_change,
    "thinking_level": _write_thinking_level,
    "label": _write_label,
    "session_info": _write_session_info,
    "compaction": write_compaction,
    "branch_summary": write_branch_summary,
    "custom": _write_custom,
    "custom_message": _write_custom_message,
    "context_edit": _write_context_edit,
    "usage": _write_usage,
    "tool_execution": _write_tool_execution,
}
"""The writers of pi 1.5.2, by entry type."""
