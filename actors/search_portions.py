"""What the search index is fed with, and how far: portions of a log's texts, and the checkpoints between them."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from ..events.disk import FileStat
from ..events.stores.base import Ref
from ..projections.search.texts import Said

Look: TypeAlias = str
"""How a log's file looks without being opened; a file that was written to or replaced looks otherwise."""

UNFINISHED: Look = ""
"""How a log looks of which more has to be taken in: like no file."""


def look_of(found: FileStat) -> Look:
    """Return how a file looks: its size, when it was changed, and which one it is."""
    return f"{found.size} {found.modified_ns} {found.inode}"  # numbers that are larger than those of SQLite may be


class Checkpoint(Struct, frozen=True):
    """Up to where the lines of a log are in the index: the history, the last line's ordinal, and its checksum."""

    generation: str = ""
    seq: int = 0
    crc: int = 0


class Known(Struct, frozen=True):
    """What the index knows of a log: its number, how its file looked when it was taken in, and the checkpoint."""

    number: int
    looked: Look
    checkpoint: Checkpoint


class Portion(Struct, frozen=True):
    """Texts of one log that are to be taken in.

    Attributes:
        ref: The log.
        looked: How its file looked before it was read; `UNFINISHED` when another portion follows.
        before: The checkpoint that they follow; None where they begin the log anew.
        after: The checkpoint that holds with them.
        texts: The texts.
    """

    ref: Ref
    looked: Look
    before: Checkpoint | None
    after: Checkpoint
    texts: list[Said]
