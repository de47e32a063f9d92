"""The interface through which views read a session's log, up to its committed end.

The actors implement it, and the views need nothing else of a session.
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
        """The index of its lines."""
        ...

    @property
    def cursor(self) -> Cursor:
        """The end of the visible log."""
        ...

    async def page(self, after: int, through: int) -> tuple[list[Entry], int]:
        """Read the next visible entries of an interval; also return the seq up to which the log was read."""
        ...

    async def entries_at(self, seqs: Sequence[int]) -> dict[int, Entry | None]:
        """Read entries by seq; None for damaged lines."""
        ...

    async def context(self, leaf: int) -> Context:
        """Build the context of a leaf."""
        ...


class Source(Protocol):
    """A session that can be followed."""

    def open_feed(self) -> Feed:
        """Return the session's feed, and count one subscriber more."""
        ...

    def close_feed(self, feed: Feed) -> None:
        """Count one subscriber of a feed less."""
        ...

    async def ready(self) -> LogView:
        """Return the log that the feed publishes, caught up with the file.

        A passivated session is activated, unless its log is being followed.
        """
        ...
