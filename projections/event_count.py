"""The event count: how many times something was appended to a session.

An event is what one call appended: an entry, or the lines of one batch, such as a turn with its messages. Lines keep the
marks of their batch when they are copied, so a copy counts as its original does.
"""

from __future__ import annotations

from ..events.entries import NEVER_COMPLETED, Entry, Header, OpaqueEntry
from .base import OWN


class EventCount:
    """The fold of events; a change is the new count."""

    name = OWN + "event-count"

    def initial(self, header: Header) -> int:
        """Return no events."""
        return 0

    def apply(self, value: int, entry: Entry) -> tuple[int, int | None]:
        """Take in an entry; see `Projection.apply`."""
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
