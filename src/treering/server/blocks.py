"""Events of a stream as text: one block each, of which what many followers get is made once."""

from __future__ import annotations

from collections.abc import Sequence

from ..events.entries import Entry
from ..events.stores.base import Cursor
from .wire import entry_json, one_line


def block(event: str, data: bytes, event_id: str | None = None) -> bytes:
    """Return one event."""
    start = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    return start + b"event: " + event.encode() + b"\ndata: " + one_line(data) + b"\n\n"


def entry_block(entry: Entry, generation: str) -> bytes:
    """Return the event of an entry."""
    return b"id: %b\nevent: entry\ndata: %b\n\n" % (str(Cursor(generation, entry.seq)).encode(), entry_json(entry))


class Encoded:
    """The events of the sections of feeds that were encoded last, for the followers that are at the same place."""

    def __init__(self, sections_max: int = 64) -> None:
        self._max = sections_max
        self._sections: dict[int, tuple[object, bytes]] = {}

    def knows(self, items: Sequence[object]) -> bool:
        """Return whether these are entries that were encoded for another follower."""
        known = self._sections.get(id(items))
        return known is not None and known[0] is items

    def entries(self, items: Sequence[Entry], generation: str) -> bytes:
        """Return the events of entries, which the feed hands to all its readers as one object."""
        known = self._sections.get(id(items))
        if known is not None and known[0] is items:
            return known[1]
        encoded = b"".join([entry_block(entry, generation) for entry in items])
        self._sections[id(items)] = (items, encoded)
        while len(self._sections) > self._max:
            del self._sections[next(iter(self._sections))]
        return encoded
