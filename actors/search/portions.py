"""The pieces in which the search index is updated: portions of a log's texts, and the checkpoints between them."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from ...events.disk import FileStat
from ...events.stores.base import Ref
from ...projections.search.texts import EntryText

FileStamp: TypeAlias = str
"""Identifies the state of a log's file without opening it; it changes when the file is written to or replaced."""

UNFINISHED: FileStamp = ""
"""The stamp of a log of which more must be indexed; it equals that of no file."""


def stamp_of(stat: FileStat) -> FileStamp:
    """Return a file's stamp: its size, modification time and inode."""
    return f"{stat.size} {stat.modified_ns} {stat.inode}"  # text, since the numbers may exceed SQLite's


class Checkpoint(Struct, frozen=True):
    """How far a log is indexed: the generation, the last line's seq, and its checksum."""

    generation: str = ""
    seq: int = 0
    crc: int = 0


class IndexedLog(Struct, frozen=True):
    """What the index knows about a log: its number, the stamp of its file when it was indexed, and the checkpoint."""

    number: int
    stamp: FileStamp
    checkpoint: Checkpoint


class Portion(Struct, frozen=True):
    """Texts of one log, to be added to the index.

    Attributes:
        ref: The log.
        stamp: The stamp of its file before it was read; `UNFINISHED` when another portion follows.
        before: The checkpoint that the texts follow; None if they are the first of the log.
        after: The checkpoint that is valid once they are indexed.
        texts: The texts.
    """

    ref: Ref
    stamp: FileStamp
    before: Checkpoint | None
    after: Checkpoint
    texts: list[EntryText]
