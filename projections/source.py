"""What the views read from: a session's log, as far as it is committed.

The actors implement this; the views ask for no more than this of a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..events.entries import Entry
from ..events.index import LogIndex
from ..events.stores.base import Cursor
from .context import Context
from .feed import Feed


class LogView(Protocol):
    """A log that is open for reading."""

    @property
    def index(self) -> LogIndex:
        """What is known of its lines."""
        ...

    @property
    def cursor(self) -> Cursor:
        """Where the visible log ends."""
        ...

    async def page(self, after: int, through: int) -> tuple[list[Entry], int]:
        """Read the next visible entries of an interval, and say up to which ordinal was read."""
        ...

    async def entries_at(self, seqs: Sequence[int]) -> dict[int, Entry | None]:
        """Read entries by ordinal; None for damaged lines."""
        ...

    async def context(self, leaf: int) -> Context:
        """Build the context of a leaf."""
        ...


class Source(Protocol):
    """A session that can be followed."""

    def open_feed(self) -> Feed:
        """Return the session's feed, and count one more subscriber."""
        ...

    def close_feed(self, feed: Feed) -> None:
        """Count one subscriber of a feed less."""
        ...

    async def ready(self) -> LogView:
        """Return the session's log, caught up with the file; it is taken up where it was let go."""
        ...
