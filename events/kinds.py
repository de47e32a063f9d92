"""The kinds of lines, as small numbers that the index stores.

Kinds distinguish only what is needed to find, order and count entries without reading them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .content import plain_text
from .entries import Entry, Message, MessageEntry, OpaqueEntry


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
    OTHER_MESSAGE: Final = 7
    MODEL_CHANGE: Final = 8
    THINKING_LEVEL: Final = 9
    LABEL: Final = 10
    SESSION_INFO: Final = 11
    COMPACTION: Final = 12
    BRANCH_SUMMARY: Final = 13
    CUSTOM: Final = 14
    CUSTOM_MESSAGE: Final = 15
    TOOL_EXECUTION: Final = 16
    USAGE: Final = 17
    CONTEXT_EDIT: Final = 18
    RESET: Final = 19
    FIRST_UNKNOWN: Final = 32
    LAST: Final = 0xFFFF


MESSAGE_KINDS: Final = range(Kind.USER, Kind.OTHER_MESSAGE + 1)
"""The kinds that are messages."""

_BY_TYPE: Final = {
    "model_change": Kind.MODEL_CHANGE,
    "thinking_level": Kind.THINKING_LEVEL,
    "label": Kind.LABEL,
    "session_info": Kind.SESSION_INFO,
    "compaction": Kind.COMPACTION,
    "branch_summary": Kind.BRANCH_SUMMARY,
    "custom": Kind.CUSTOM,
    "custom_message": Kind.CUSTOM_MESSAGE,
    "tool_execution": Kind.TOOL_EXECUTION,
    "usage": Kind.USAGE,
    "context_edit": Kind.CONTEXT_EDIT,
}
KIND_OF_ROLE: Final = {"user": Kind.USER, "assistant": Kind.ASSISTANT, "tool": Kind.TOOL, "system": Kind.SYSTEM}
"""The kind of a message with this role; with any other role it is `Kind.OTHER_MESSAGE`."""
_OTHER_MESSAGE: Final = Kind.OTHER_MESSAGE

RESET_TYPE: Final = "reset_boundary"
"""The type of omp's entry that hides everything before it on the path from contexts."""

TYPE_NAMES: Final = {
    Kind.DAMAGED: "damaged",
    Kind.ABORTED: "aborted",
    Kind.RESET: RESET_TYPE,
    **dict.fromkeys(MESSAGE_KINDS, "message"),
    **{kind: name for name, kind in _BY_TYPE.items()},
}
"""The name of each kind's entry type."""


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
    return _BY_TYPE[entry.type]


def names_model(message: Message) -> bool:
    """Return whether the message states which model answers from here on the path."""
    return message.role == "assistant" and message.provider is not None and message.model is not None


def is_asked(message: Message) -> bool:
    """Return whether a message with the role `user` was written by a user and not by the program.

    Importers mark messages that the program wrote as `is_meta` in their metadata.
    """
    return message.raw_metadata is None or message.metadata.get("is_meta") is not True


def asked_text(message: Message) -> str:
    """Return the text of a message with the role `user` without what the program wrote around the user's words.

    Importers tell where these begin and end as `asked` in the metadata.
    """
    if not is_asked(message):
        return ""
    words = plain_text(message.content)
    match None if message.raw_metadata is None else message.metadata.get("asked"):
        case [int(start), int(end)]:
            return words[max(0, start) : max(0, end)]
        case _:
            return words


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
