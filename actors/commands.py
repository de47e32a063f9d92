"""The commands of a session's actor.

A command is a value. It says what its caller wants and what the caller relies on; whether it can be carried out is
decided against the state (`actors.decide`), by the one actor that owns the session.
"""

from __future__ import annotations

from typing import TypeAlias, TypedDict

from msgspec import UNSET, Struct, UnsetType

from ..events.characters import check_text
from ..events.entries import Payload


class AppendOptions(TypedDict, total=False):
    """Options that every append call takes.

    Keys:
        below: The entry to append to; None starts a new root. The default is the leaf.
        aside: Do not make the new entry the leaf; needs `below`.
        expected_leaf: Raise `LeafMoved` unless this entry (None: no entry) is the leaf.
        expected_seq: Raise `LeafMoved` unless the log ends with this seq.
        command_id: The caller's own id for this request. A repeated id appends nothing and returns the same result.
    """

    below: str | None
    aside: bool
    expected_leaf: str | None
    expected_seq: int
    command_id: str


class Append(Struct, frozen=True, gc=False):
    """Append entries, all or none; see `AppendOptions` for what the fields mean."""

    payloads: tuple[Payload, ...]
    below: str | UnsetType | None = UNSET
    aside: bool = False
    expected_leaf: str | UnsetType | None = UNSET
    expected_seq: int | None = None
    command_id: str | None = None


def append_command(payloads: tuple[Payload, ...], options: AppendOptions) -> Append:
    """Return the command to append payloads.

    Raises:
        InvalidInput: The command id is not a string, or contains bytes that are not UTF-8.
    """
    check_text("the command id", options.get("command_id"))
    return Append(payloads, **options)


class MoveLeaf(Struct, frozen=True):
    """Make an entry the leaf, or clear the leaf (None); nothing is written to the log."""

    leaf_id: str | None


class Unarchive(Struct, frozen=True):
    """Bring the session back from the archive; writes nothing if it is not archived."""


class AnswerFromLog(Struct, frozen=True):
    """Reply with entries that are already in the log, looked up by their ids."""

    ids: tuple[str, ...]


Command: TypeAlias = Append | MoveLeaf | Unarchive
"""Everything that callers can ask of an actor."""
