"""The lines of pi, one struct per type, and the entries that they decode to.

A dialect selects its types from these structs. `camel_writers` encodes entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..content import NonEmpty
from ..entries import (
    BranchSummary,
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    KnownEntry,
    Label,
    MessageEntry,
    ModelChange,
    Moment,
    Payload,
    SessionInfo,
    ThinkingLevel,
    ToolExecution,
    Usage,
    UsageRecord,
    entry_class,
)
from .base import as_string, attempt, in_utc
from .pi.content import read_content
from .pi.messages import UNKNOWN, Body
from .pi.values import (
    ABSENT,
    READ_ERRORS,
    Mark,
    as_flag,
    as_number,
    milliseconds,
    none_if_absent,
    read_usage,
    with_fields,
)

OWN_TOOL_EXECUTION = "treering.tool_execution"
"""The custom type of a `ToolExecution`, for which pi has no type."""

OWN_SESSION_INFO = "treering.session_info"
"""The custom type of a `SessionInfo` without a name, which pi cannot represent."""

_OWN: Mapping[str, type[ToolExecution | SessionInfo]] = {
    OWN_TOOL_EXECUTION: ToolExecution,
    OWN_SESSION_INFO: SessionInfo,
}


def entry_of(
    payload: Payload, seq: int, entry_id: str, parent_id: str | None, time: datetime, mark: Mark | None
) -> KnownEntry:
    """Make an entry from a line's payload and the fields that its mark adds."""
    if mark is not None and mark.fields is not None:
        payload = with_fields(payload, mark.fields)
    kind = entry_class(payload)
    fields: dict[str, Any] = {
        "id": entry_id,
        "parent_id": parent_id,
        "timestamp": time,
        "seq": seq,
        "command_id": mark.command_id if mark else None,
        "batch": mark.batch if mark else None,
        kind.type: payload,
    }
    return kind(**fields)


# -- reading


class Line(Struct, tag_field="type", rename="camel", kw_only=True):
    """The keys that all lines have. Unknown keys are ignored."""

    id: NonEmpty
    parent_id: str | None = None
    timestamp: Moment
    treering: Mark | None = None

    def payload(self) -> Payload:
        """Return the line's payload.

        Raises:
            ValueError: The line does not make sense.
        """
        raise NotImplementedError

    def entry(self, seq: int) -> KnownEntry:
        """Return the line's entry."""
        return entry_of(self.payload(), seq, self.id, self.parent_id, in_utc(self.timestamp), self.treering)


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

    def payload(self) -> Payload:
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

    def payload(self) -> Payload:
        """Return the line's payload."""
        return ThinkingLevel("off" if self.thinking_level is None else self.thinking_level)


class LabelLine(Line, tag="label", kw_only=True):
    """A bookmark; without a label it is removed."""

    target_id: NonEmpty
    label: str | None = None

    def payload(self) -> Payload:
        """Return the line's payload."""
        return Label(self.target_id, self.label)


class SessionInfoLine(Line, tag="session_info", kw_only=True):
    """The session's name; an empty or absent one removes it."""

    name: str | None = None

    def payload(self) -> Payload:
        """Return the line's payload."""
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

    def payload(self) -> Payload:
        """Return the line's payload."""
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

    def payload(self) -> Payload:
        """Return the line's payload."""
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

    def payload(self) -> Payload:
        """Return the line's payload."""
        own = _OWN.get(self.custom_type)
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

    def payload(self) -> Payload:
        """Return the line's payload."""
        content, _ = read_content(self.content)
        return CustomMessage(
            self.custom_type or UNKNOWN, content, attempt(as_flag, self.display) is True, none_if_absent(self.details)
        )


class ContextEditLine(Line, tag="context_edit", kw_only=True):
    """Other content for an earlier entry, or its removal from contexts."""

    target_id: NonEmpty
    replacement: dict[str, Raw] | None = None

    def payload(self) -> Payload:
        """Return the line's payload."""
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

    def payload(self) -> Payload:
        """Return the line's payload."""
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
