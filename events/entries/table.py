"""The table of entry types: every type that treering knows, by its name and by its payload.

A new type is its payload and its entry class, in `records` or `contextual`, and its place in `KnownEntry`. Everything
else reads from there: the dialects how a line is written and read, the index what it notes, contexts, search, documents
and listings what they show. A type that pi does not know is written to pi's files as a custom entry
`treering.<type>`, which pi keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias, get_args

from ..errors import InvalidEntry
from .base import Batch, OpaqueEntry
from .contextual import BranchSummaryEntry, CompactionEntry, ContextEditEntry, CustomMessageEntry
from .message import Message, MessageEntry, Payload
from .records import (
    CustomEntry,
    LabelEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelEntry,
    ToolExecutionEntry,
    UsageEntry,
)

KnownEntry: TypeAlias = (
    MessageEntry
    | ModelChangeEntry
    | ThinkingLevelEntry
    | LabelEntry
    | SessionInfoEntry
    | CompactionEntry
    | BranchSummaryEntry
    | CustomEntry
    | CustomMessageEntry
    | ToolExecutionEntry
    | UsageEntry
    | ContextEditEntry
)
"""An entry of a type that treering knows."""

Entry: TypeAlias = KnownEntry | OpaqueEntry
"""Any entry."""

ENTRY_TYPES: Mapping[str, type[KnownEntry]] = {entry.type: entry for entry in get_args(KnownEntry)}
"""The entry classes by the name of their type."""

_BY_NAME = {each.__name__: each for each in Payload.__subclasses__()}

PAYLOADS: Mapping[str, type[Payload]] = {
    name: _BY_NAME[entry.__annotations__[name]] for name, entry in ENTRY_TYPES.items()
}
"""The payload classes by the name of their type."""

ENTRY_CLASSES: Mapping[type[Payload], type[KnownEntry]] = {PAYLOADS[name]: each for name, each in ENTRY_TYPES.items()}
"""The entry classes by the class of their payload."""


def entry_class(payload: Payload) -> type[KnownEntry]:
    """Return the entry class that carries such a payload.

    Raises:
        InvalidEntry: The value is not a payload.
    """
    try:
        return ENTRY_CLASSES[type(payload)]
    except KeyError:
        raise InvalidEntry(
            f"a value of type `{type(payload).__name__}` cannot be appended: give a payload, such as "
            "`message(role, content)`"
        ) from None


def entry_of(
    payload: Payload,
    *,
    id: str,
    parent_id: str | None,
    timestamp: datetime,
    seq: int = 0,
    aside: bool = False,
    command_id: str | None = None,
    batch: Batch | None = None,
) -> KnownEntry:
    """Return the entry that carries a payload; see `EntryBase` for the fields.

    Raises:
        InvalidEntry: The value is not a payload.
    """
    if type(payload) is Message:  # nearly all are, and naming the field is five times as fast as the general way
        return MessageEntry(
            id=id,
            parent_id=parent_id,
            timestamp=timestamp,
            seq=seq,
            aside=aside,
            command_id=command_id,
            batch=batch,
            message=payload,
        )
    kind = entry_class(payload)
    payload_field: dict[str, Any] = {kind.type: payload}
    return kind(
        id=id,
        parent_id=parent_id,
        timestamp=timestamp,
        seq=seq,
        aside=aside,
        command_id=command_id,
        batch=batch,
        **payload_field,
    )


def payload_of(entry: KnownEntry) -> Payload:
    """Return the payload of an entry: its content without its place in the tree."""
    payload: Payload = getattr(entry, entry.type)
    return payload
