"""Events of a stream as text: one block each, of which what many followers get is made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from ...events.entries import Entry
from ...events.stores.base import Cursor
from ...projections.feed_events import LeafMove, Transient
from .wire import encode, entry_json, one_line

_SECTIONS_MAX = 64


class TransientEvent(Struct, frozen=True):
    """An event that no log has; in a stream of many sessions with its session."""

    name: str
    data: Any  # any JSON value
    session: str | UnsetType = UNSET


class LeafEvent(Struct, frozen=True):
    """Where the leaf is, and the end of the log then; in a stream of many sessions with its session."""

    leaf: str | None
    cursor: str
    session: str | UnsetType = UNSET


def block(event: str, data: bytes, event_id: str | None = None) -> bytes:
    """Return one event."""
    start = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    return start + b"event: " + event.encode() + b"\ndata: " + one_line(data) + b"\n\n"


def item_block(item: Entry | Transient | LeafMove, generation: str, session: str | None) -> bytes:
    """Return the event of what a subscription yields.

    Args:
        item: What it yields.
        generation: The generation of the log.
        session: The session, in a stream of many.
    """
    named = UNSET if session is None else session
    if isinstance(item, LeafMove):
        return block("leaf", encode(LeafEvent(item.entry_id, str(item.cursor), named)))
    if isinstance(item, Transient):
        return block("transient", encode(TransientEvent(item.name, item.raw, named)))
    cursor = f"{Cursor(generation, item.seq)}"
    event_id = cursor if session is None else f"{session}/{cursor}"
    return b"id: %b\nevent: entry\ndata: %b\n\n" % (event_id.encode(), entry_json(item))


class Encoded:
    """The events of the sections of feeds that were encoded last, for the followers that are at the same place.

    Attributes:
        made: How many sections were encoded.
    """

    def __init__(self) -> None:
        self._sections: dict[tuple[int, str | None], tuple[object, bytes]] = {}
        self.made = 0

    def items(
        self, items: Sequence[Entry | Transient | LeafMove], generation: str, session: str | None = None
    ) -> bytes:
        """Return the events of items, which the feed hands to all its readers at one place as one object."""
        key = id(items), session
        known = self._sections.get(key)
        if known is not None and known[0] is items:
            return known[1]
        self.made += 1
        encoded = b"".join([item_block(item, generation, session) for item in items])
        if isinstance(items, tuple):  # a section; what was read from the log is nobody else's
            self._sections[key] = (items, encoded)
            while len(self._sections) > _SECTIONS_MAX:
                del self._sections[next(iter(self._sections))]
        return encoded
