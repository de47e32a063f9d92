"""The events of a feed: entries, moves of the leaf, resets, and what is never written to the log."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Raw, Struct

from ..events.entries import Entry
from ..events.json_values import JSON, json_value, raw_json
from ..events.stores.base import Cursor


class EntryAdded(Struct, frozen=True, gc=False):
    """An entry was appended; `leaf` is the seq of the leaf after it, `generation` the generation of both."""

    entry: Entry
    leaf: int
    generation: str


class LeafMove(Struct, frozen=True):
    """The leaf was moved without an append, or is told to a subscriber that has just caught up with the log.

    Attributes:
        leaf: The seq of the leaf; 0 for none.
        entry_id: Its id; None for none.
        cursor: The end of the log at that moment.
    """

    leaf: int
    entry_id: str | None
    cursor: Cursor


class Transient(Struct, frozen=True):
    """An event that is never written to the log, such as a token delta or progress.

    Between two entries, a slow subscriber gets only the latest event of each `name`; pieces of a text are joined, see
    `TextPiece`.
    """

    name: str
    raw: Raw

    @property
    def data(self) -> JSON:
        """The data of the event, decoded again for each caller."""
        return json_value(self.raw)


def transient(name: str, data: object) -> Transient:
    """Make a transient event from any JSON value."""
    return Transient(name, raw_json(data))


class TextPiece(Transient, frozen=True):
    """A piece of a text that is being written, such as an answer: its place in the text is known, so none is lost.

    A slow subscriber gets neighbouring pieces joined. One that comes late gets all of the text so far, from offset 0.
    Apply a piece by its offset: 0 replaces the text, the length of the text continues it, and a piece that ends within
    it is known already. `data` has the fields `message`, `offset`, `end` and `text`.

    Attributes:
        message: Names the text among those of its session; a new one means that the text before is given up.
        offset: Where in the text the piece begins, in characters.
        text: The piece.
    """

    message: str
    offset: int
    text: str

    @property
    def end(self) -> int:
        """Where in the text the piece ends, in characters."""
        return self.offset + len(self.text)


def text_piece(name: str, message: str, offset: int, text: str) -> TextPiece:
    """Make a piece of a text."""
    data = {"message": message, "offset": offset, "end": offset + len(text), "text": text}
    return TextPiece(name, raw_json(data), message, offset, text)


class Reset(Struct, frozen=True):
    """The log has been replaced: the entries received before, and a cursor kept of them, are of an old generation.

    Sent when another session took the place of this one or the file was replaced or shortened from outside, not when
    the session is archived or brought back. `cursor` is the start of the new generation, all of whose entries follow.
    """

    cursor: Cursor


FeedEvent: TypeAlias = EntryAdded | LeafMove | Transient | Reset
"""Any event of a feed."""
