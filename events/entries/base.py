"""What all entries share: the header before them, and the fields that each has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Raw, Struct

from ..content import NonEmpty
from ..json_values import JSON, json_value, shown

Count: TypeAlias = Annotated[int, Meta(ge=0)]
"""A number of things: never negative."""

Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""A time with a time zone, so that any two can be compared."""

NATIVE_VERSION = 1
"""The version that a native header carries."""

EPOCH = datetime.fromtimestamp(0, UTC)
"""The time of an entry whose line has none."""

Column: TypeAlias = Literal["boundaries", "models", "levels", "edits"]
"""The columns of the index that hold, for each entry, the latest of some type on its path."""


class Header(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, repr_omit_defaults=True):
    """The first line of a log, which describes the session as a whole.

    `version` is the dialect's own. `parent_session` names the session from which this one was forked, as the dialect
    writes it (an id or a path). `parent_entry` is the entry of that session to which a sub-agent's session belongs.
    `key` is the name under which a program asks for the session.
    """

    id: str
    version: int
    timestamp: Moment
    cwd: str | None = None
    parent_session: str | None = None
    parent_entry: str | None = None
    key: str | None = None
    title: str | None = None

    @property
    def created(self) -> datetime:
        """When the session was created."""
        return self.timestamp


class Batch(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """The mark of a line in an atomic batch: the session that wrote it, and its index `i` (from 0) among `n` lines."""

    session: str
    id: str
    i: int
    n: int


class EntryBase(
    Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True, kw_only=True, repr_omit_defaults=True
):
    """The fields that all entries have.

    Attributes:
        id: Unique within the session.
        parent_id: The entry that this one follows; None at a root.
        timestamp: When it was appended, UTC; never earlier than the entry before it in the log.
        seq: Its seq in the log, from 1; 0 until it is in one.
        aside: Whether it was appended without becoming the leaf, below an entry other than the leaf.
        command_id: The caller's id of the command that appended it.
        batch: Its place in an atomic batch.

    Each type of entries is a subclass with its payload in a field of the type's name, and says of itself:

    Attributes:
        type: The name of the type, which native lines state.
        kind: Its number in the index and its snapshots, from 8 to 31: never another meaning for one that was used.
        marks: The column of the index that points at the latest entry of this type on the path. One that marks
            `boundaries` or `edits` changes what contexts show of earlier entries.
    """

    type: ClassVar[str]
    kind: ClassVar[int]
    marks: ClassVar[Column | None] = None
    id: NonEmpty
    parent_id: str | None
    timestamp: Moment
    seq: int = 0
    aside: bool = False
    command_id: str | None = None
    batch: Batch | None = None


NEVER_COMPLETED = "its batch was never completed"
"""Why a complete line may be opaque: a crash prevented other lines of its batch from being written."""


class OpaqueEntry(Struct, frozen=True, gc=False, kw_only=True, repr_omit_defaults=True):
    """A line of a type or shape that treering does not know: a valid parent that contributes nothing.

    `type` is the type that the line states, `raw` the whole line. `id` is None if the line has none; such a line
    cannot be referred to. `reason` says why the line is opaque.
    """

    type: str
    id: str | None
    parent_id: str | None
    timestamp: Moment
    raw: Raw
    seq: int = 0
    aside: bool = False
    command_id: str | None = None
    batch: Batch | None = None
    reason: str = "unknown type"

    __repr__ = shown

    @property
    def value(self) -> JSON:
        """The whole line, decoded afresh for this caller."""
        return json_value(self.raw)
