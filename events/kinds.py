"""The kinds of lines, as small numbers that the index stores.

Kinds distinguish only what is needed to find, order and count entries without reading them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .entries import (
    ENTRY_TYPES,
    PAYLOADS,
    BranchSummaryEntry,
    Column,
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
    Payload,
    SessionInfoEntry,
    ThinkingLevelEntry,
    ToolExecutionEntry,
    UsageEntry,
)


class Kind:
    """The kind of a line.

    The numbers are stored in snapshots: never change the meaning of one; add new ones at the end, below
    `FIRST_UNKNOWN`. From there on, an index numbers the unknown types that occur in its log.
    """

    DAMAGED: Final = 0
    ABORTED: Final = 1
    USER: Final = 3
    ASSISTANT: Final = 4
    TOOL: Final = 5
    SYSTEM: Final = 6
    OTHER_MESSAGE: Final = MessageEntry.kind
    MODEL_CHANGE: Final = ModelChangeEntry.kind
    THINKING_LEVEL: Final = ThinkingLevelEntry.kind
    LABEL: Final = LabelEntry.kind
    SESSION_INFO: Final = SessionInfoEntry.kind
    COMPACTION: Final = CompactionEntry.kind
    BRANCH_SUMMARY: Final = BranchSummaryEntry.kind
    CUSTOM: Final = CustomEntry.kind
    CUSTOM_MESSAGE: Final = CustomMessageEntry.kind
    TOOL_EXECUTION: Final = ToolExecutionEntry.kind
    USAGE: Final = UsageEntry.kind
    CONTEXT_EDIT: Final = ContextEditEntry.kind
    RESET: Final = 19
    FIRST_UNKNOWN: Final = 32
    LAST: Final = 0xFFFF


MESSAGE_KINDS: Final = range(Kind.USER, Kind.OTHER_MESSAGE + 1)
"""The kinds that are messages."""

KIND_OF_ROLE: Final = {"user": Kind.USER, "assistant": Kind.ASSISTANT, "tool": Kind.TOOL, "system": Kind.SYSTEM}
"""The kind of a message with this role; with any other role it is `Kind.OTHER_MESSAGE`."""
_OTHER_MESSAGE: Final = Kind.OTHER_MESSAGE

RESET_TYPE: Final = "reset_boundary"
"""The type of omp's entry that hides everything before it on the path from contexts."""


TYPE_NAMES: Final = {
    Kind.DAMAGED: "damaged",
    Kind.ABORTED: "aborted",
    Kind.RESET: RESET_TYPE,
    **{entry.kind: name for name, entry in ENTRY_TYPES.items()},
    **dict.fromkeys(MESSAGE_KINDS, "message"),
}
"""The name of each kind's entry type."""

CONTRIBUTING_KINDS: Final = frozenset(
    ENTRY_TYPES[name].kind for name, payload in PAYLOADS.items() if payload.as_message is not Payload.as_message
)
"""The kinds, apart from messages, whose entries contribute messages to contexts."""


def kinds_marking(column: Column) -> frozenset[int]:
    """Return the kinds whose entries mark a column of the index."""
    resets = {Kind.RESET} if column == "boundaries" else frozenset[int]()
    return frozenset({*resets, *(each.kind for each in ENTRY_TYPES.values() if each.marks == column)})


def kind_of_message(message: Message) -> int:
    """Return the kind of a message, which follows from its role."""
    return KIND_OF_ROLE.get(message.role, _OTHER_MESSAGE)


def kinds_of_messages(entries: Sequence[MessageEntry]) -> list[int]:
    """Return the kind of each message; faster than one call for each."""
    kind_of_role = KIND_OF_ROLE.get
    return [kind_of_role(entry.message.role, _OTHER_MESSAGE) for entry in entries]


def kind_of(entry: Entry) -> int | None:
    """Return the kind of an entry, or None if its type is unknown."""
    if isinstance(entry, MessageEntry):
        return kind_of_message(entry.message)
    if isinstance(entry, OpaqueEntry):
        return Kind.RESET if entry.type == RESET_TYPE else None
    return entry.kind


class UnknownTypes:
    """The types of a log's entries that are not among the kinds, numbered from `Kind.FIRST_UNKNOWN` in order of use.

    Args:
        names: The types that were numbered already, by number.

    Attributes:
        names: The types by number. All types for which no number is left share `Kind.LAST`.
    """

    __slots__ = ("_numbers", "names")

    def __init__(self, names: dict[int, str] | None = None) -> None:
        self.names: dict[int, str] = {} if names is None else names
        self._numbers = {name: number for number, name in self.names.items() if number != Kind.LAST}

    def number_of(self, entry_type: str) -> int:
        """Return the number of a type, which is new if the type is."""
        number = self._numbers.get(entry_type)
        if number is None:
            number = Kind.FIRST_UNKNOWN + len(self.names)
            if number >= Kind.LAST:
                self.names[Kind.LAST] = "unknown"
                return Kind.LAST
            self._numbers[entry_type] = number
            self.names[number] = entry_type
        return number
