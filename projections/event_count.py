"""The event count: the number of appends to a session.

An event is the result of one append: an entry, or the lines of one batch, such as a turn with its messages. Lines keep the
marks of their batch when they are copied, so a copy has the same count as its original.
"""

from __future__ import annotations

from ..events.entries import NEVER_COMPLETED, Entry, Header, OpaqueEntry
from .base import OWN


class EventCount:
    """The fold of events; a change is the new count."""

    name = OWN + "event-count"

    def initial(self, header: Header) -> int:
        """Return 0."""
        return 0

    def apply(self, value: int, entry: Entry) -> tuple[int, int | None]:
        """Fold an entry; see `Projection.apply`."""
        torn = isinstance(entry, OpaqueEntry) and entry.reason == NEVER_COMPLETED
        if torn or (entry.batch is not None and entry.batch.i):
            return value, None
        return value + 1, value + 1

    def dump(self, value: int) -> bytes:
        """Return the count as bytes for a checkpoint."""
        return str(value).encode()

    def load(self, blob: bytes) -> int:
        """Return the count that was dumped."""
        return int(blob)
