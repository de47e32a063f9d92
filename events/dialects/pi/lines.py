"""The lines of pi, one struct per type: the entries that they decode to, and how each entry is written.

A dialect selects its lines and its writers from these and adds its own. A writer returns the name and the keys of a
line, in pi's own order. It need not represent every field: the dialect adds those that are missing when the line is
read back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ...content import NonEmpty
from ...entries import (
    PAYLOADS,
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
    KnownEntry,
    Label,
    LabelEntry,
    MessageEntry,
    ModelChange,
    ModelChangeEntry,
    Moment,
    Payload,
    SessionInfo,
    SessionInfoEntry,
    ThinkingLevel,
    ThinkingLevelEntry,
    Usage,
    UsageEntry,
    UsageRecord,
    payload_of,
)
from ..base import as_string, attempt, in_utc
from .content import read_content, write_content
from .messages import UNKNOWN, Body, write_message
from .values import (
    ABSENT,
    READ_ERRORS,
    Mark,
    as_flag,
    as_number,
    entry_of,
    milliseconds,
    name_on_one_line,
    none_if_absent,
    read_usage,
    write_usage,
    written_usage,
)

_OWN = "treering."
"""The beginning of the custom type of an entry that pi cannot represent; its type follows."""


class Line(Struct, tag_field="type", rename="camel", kw_only=True):
    """The keys that all lines have. Unknown keys are ignored."""

    id: NonEmpty
    parent_id: str | None = None
    timestamp: Moment
    treering: Mark | None = None

    def _payload(self) -> Payload:
        """Return the line's payload.

        Raises:
            ValueError: The line does not make sense.
        """
        raise NotImplementedError

    def entry(self, seq: int) -> KnownEntry:
        """Return the line's entry."""
        return entry_of(self._payload(), seq, self.id, self.parent_id, in_utc(self.timestamp), self.treering)


class MessageLine(Line, tag="message", kw_only=True):
    """A message of one of the usual roles and shapes."""

    message: Body

    def entry(self, seq: int) -> KnownEntry:
        """Return the line's entry; a fast path, since most lines are messages."""
        time = in_utc(self.timestamp)
        message = self.message.message(milliseconds(time))
        if self.treering is not None:
            return entry_of(message, seq, self.id, self.parent_id, time, self.treering)
        return MessageEntry(id=self.id, parent_id=self.parent_id, timestamp=time, seq=seq, message=message)


class ModelChangeLine(Line, tag="model_change", kw_only=True):
    """A change of the model, in pi's form or in oh-my-pi's, whose older files look like pi's."""

    provider: str | None = None
    model_id: str | None = None
    model: str | None = None
    role: str | None = None

    def _payload(self) -> Payload:
        """Return the line's payload.

        Raises:
            ValueError: The model is for another role than the one that answers, or the line names no model.
        """
        provider, model_id = self.provider, self.model_id
        if self.model is not None and not (provider and model_id):
            if self.role not in (None, "default"):
                raise ValueError(f"the model of the role {self.role!r}, which does not answer")
            provider, _, model_id = self.model.partition("/")
        if not provider or not model_id:
            raise ValueError("a model_change must name a provider and a model")
        return ModelChange(provider, model_id)


class ThinkingLevelLine(Line, tag="thinking_level_change", kw_only=True):
    """A change of the thinking level; null turns thinking off."""

    thinking_level: str | None

    def _payload(self) -> Payload:
        return ThinkingLevel("off" if self.thinking_level is None else self.thinking_level)


class LabelLine(Line, tag="label", kw_only=True):
    """A bookmark; without a label it is removed."""

    target_id: NonEmpty
    label: str | None = None

    def _payload(self) -> Payload:
        return Label(self.target_id, self.label)


class SessionInfoLine(Line, tag="session_info", kw_only=True):
    """The session's name; an empty or absent one removes it."""

    name: str | None = None

    def _payload(self) -> Payload:
        return SessionInfo((self.name or "").strip())


class CompactionLine(Line, tag="compaction", kw_only=True):
    """A compaction. One that names itself as the first kept entry keeps no earlier entry."""

    summary: str | None = None
    first_kept_entry_id: Raw = ABSENT
    tokens_before: Raw = ABSENT
    details: Raw = ABSENT
    usage: Raw = ABSENT
    from_hook: Raw = ABSENT
    from_extension: Raw = ABSENT
    system_message: Raw = ABSENT

    def _payload(self) -> Payload:
        return Compaction(
            self.summary or "",
            attempt(as_string, self.first_kept_entry_id),
            max(0, int(attempt(as_number, self.tokens_before) or 0.0)),
            none_if_absent(self.details),
            read_usage(self.usage)[0],
            bool(attempt(as_flag, self.from_hook) or attempt(as_flag, self.from_extension)),
            none_if_absent(self.system_message),
        )


class BranchSummaryLine(Line, tag="branch_summary", kw_only=True):
    """The summary of another branch; pi calls a branch that never began "root"."""

    summary: str | None = None
    from_id: Raw = ABSENT
    details: Raw = ABSENT
    usage: Raw = ABSENT
    from_hook: Raw = ABSENT
    from_extension: Raw = ABSENT

    def _payload(self) -> Payload:
        from_id = attempt(as_string, self.from_id)
        return BranchSummary(
            self.summary or "",
            "root" if from_id is None else from_id,
            none_if_absent(self.details),
            read_usage(self.usage)[0],
            bool(attempt(as_flag, self.from_hook) or attempt(as_flag, self.from_extension)),
        )


class CustomLine(Line, tag="custom", kw_only=True):
    """An extension's data, or an entry that treering stores under a custom type of its own."""

    custom_type: NonEmpty
    data: Raw = ABSENT

    def _payload(self) -> Payload:
        own = _OWN_PAYLOADS.get(self.custom_type)
        if own is not None:
            try:
                return msgspec.json.decode(self.data, type=own)
            except READ_ERRORS:
                pass  # another program's data under this name: read as custom data
        return Custom(self.custom_type, none_if_absent(self.data))


class CustomMessageLine(Line, tag="custom_message", kw_only=True):
    """An extension's message to the model."""

    custom_type: str | None = None
    content: Raw = ABSENT
    display: Raw = ABSENT
    details: Raw = ABSENT

    def _payload(self) -> Payload:
        content, _ = read_content(self.content)
        return CustomMessage(
            self.custom_type or UNKNOWN, content, attempt(as_flag, self.display) is True, none_if_absent(self.details)
        )


class ContextEditLine(Line, tag="context_edit", kw_only=True):
    """Other content for an earlier entry, or its removal from contexts."""

    target_id: NonEmpty
    replacement: dict[str, Raw] | None = None

    def _payload(self) -> Payload:
        if self.replacement is None:
            return ContextEdit(self.target_id)
        return ContextEdit(self.target_id, read_content(self.replacement.get("content", ABSENT))[0])


class UsageLine(Line, tag="usage", kw_only=True):
    """Usage that belongs to no message."""

    kind: NonEmpty
    provider: str | None = None
    model: str | None = None
    usage: Raw = ABSENT
    note: str | None = None

    def _payload(self) -> Payload:
        return UsageRecord(self.kind, read_usage(self.usage)[0] or Usage(), self.provider, self.model, self.note)


PI_LINES: tuple[type[Line], ...] = (
    MessageLine,
    ModelChangeLine,
    ThinkingLevelLine,
    LabelLine,
    SessionInfoLine,
    CompactionLine,
    BranchSummaryLine,
    CustomLine,
    CustomMessageLine,
    ContextEditLine,
    UsageLine,
)
"""The line types of pi 1.5.2."""


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
        return write_own(entry)
    return "session_info", {"name": name_on_one_line(entry.session_info.name)}


def write_compaction(entry: CompactionEntry, *, hook_key: str = "fromHook") -> Written:
    """Write a compaction; one that keeps no earlier entry names itself as the first kept entry."""
    payload = entry.compaction
    first_kept = payload.first_kept_entry_id
    keys = {
        "summary": payload.summary,
        "firstKeptEntryId": entry.id if first_kept is None else first_kept,
        "tokensBefore": payload.tokens_before,
        **_some(details=payload.raw_details, usage=written_usage(payload.usage)),
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
        **_some(details=payload.raw_details, usage=written_usage(payload.usage)),
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


def write_own(entry: KnownEntry) -> Written:
    """Write an entry for which pi has no type as a custom one, which pi keeps but does not show."""
    return "custom", {"customType": _OWN + entry.type, "data": payload_of(entry)}


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
}
"""The writers of pi 1.5.2, by entry type; all other types are written by `write_own`."""

_OWN_PAYLOADS: Mapping[str, type[Payload]] = {
    _OWN + name: payload for name, payload in PAYLOADS.items() if name not in PI_WRITERS or payload is SessionInfo
}
