"""What can be asked of a session's actor.

A command is a value. It says what its caller wants and what it relies on; whether that can be done is decided against
the state (`actors.decide`), by the one actor that owns the session.
"""

from __future__ import annotations

from typing import TypeAlias, TypedDict

from msgspec import UNSET, Struct, UnsetType

from ..events.entries import Payload


class AppendOptions(TypedDict, total=False):
    """What every append call takes beside what it appends.

    Keys:
        below: The entry to append to; None makes a new root. Without it, the leaf.
        aside: Do not make the new entry the leaf; needs `below`.
        expected_leaf: Refuse with `LeafMoved` unless this entry (None: no entry) is the leaf.
        expected_seq: Refuse with `LeafMoved` unless the log ends with this ordinal.
        command_id: The caller's own id of this request. The same id again appends nothing and answers the same.
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


class MoveLeaf(Struct, frozen=True):
    """Make an entry the leaf, or none of them; nothing is written to the log."""

    entry_id: str | None
    expected_leaf: str | UnsetType | None = UNSET


class Unarchive(Struct, frozen=True):
    """Bring the session back from the archive; where it is not archived, nothing is written."""


class Landed(Struct, frozen=True):
    """Answer with entries that are in the log already, at ordinals that only the log knows."""

    ids: tuple[str, ...]


Command: TypeAlias = Append | MoveLeaf | Unarchive
"""Anything that an actor can be asked to do."""
