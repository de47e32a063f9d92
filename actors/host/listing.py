"""The listing: one row for each session of a root, cached until the session's log changes.

Rows are derived data, never the source of truth. A log that cannot be read has a row too, which says why.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Protocol, Self

import anyio
from msgspec import Struct

from ...events.errors import HostClosed, InvalidInput
from ...events.stores.base import Ref
from ...events.stores.finding import RowQuery
from ...projections.summary import SessionSummary
from .runtime import Touched

_DIGITS_MAX = 18

_CHANGES_MAX = 4096
"""How many changes are kept for subscribers that come back."""


class ListPosition(Struct, frozen=True):
    """A place in the changes of a listing: how many there were since the host was opened, or first asked for one.

    Attributes:
        epoch: Names the host's time; a position of another one says nothing.
        n: The number of changes.
    """

    epoch: str
    n: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.n}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the position that a text means.

        Raises:
            InvalidInput: It is none.
        """
        epoch, _, n = text.rpartition("-")
        if not epoch or not (n.isascii() and n.isdigit()) or len(n) > _DIGITS_MAX:
            raise InvalidInput(f"{text!r} is no position of a listing: give what a subscription or a page said")
        return cls(epoch, int(n))


class SessionChanged(Struct, frozen=True):
    """A session's row changed.

    Attributes:
        ref: The name of its log.
        summary: Its row; None if the session no longer exists.
        position: The position after the change.
        gone: The last known row of a session that no longer exists, if it was deleted lately.
    """

    ref: Ref
    summary: SessionSummary | None
    position: ListPosition
    gone: SessionSummary | None = None


class CurrentRows(Protocol):
    """The rows of all sessions, brought up to date: in memory, or in a store."""

    async def find(self, query: RowQuery) -> list[SessionSummary]:
        """Return the rows that are wanted, in order."""
        ...

    async def count(self, query: RowQuery) -> Mapping[str, int]:
        """Return how many rows meet the conditions of a query, for each state."""
        ...

    def pages(self, query: RowQuery) -> AsyncGenerator[list[SessionSummary]]:
        """Yield all rows that are wanted, some at a time."""
        ...


class Listing(Protocol):
    """The rows of all sessions of a store, of whatever kind.

    Attributes:
        changes: Increases with each change of the rows that leaves no trace in a log, such as when a session was
            accessed.
    """

    changes: int

    async def rows(self) -> list[SessionSummary]:
        """Return the rows of all sessions, the most recently used first."""
        ...

    async def now(self) -> CurrentRows:
        """Return the rows as they are now."""
        ...

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None if the session does not exist."""
        ...

    def last_row(self, ref: Ref) -> SessionSummary | None:
        """Return the last row of a session that no longer exists, if it was deleted lately."""
        ...

    def accessed(self, ref: Ref) -> None:
        """Note that a session was loaded just now."""
        ...

    def forget(self, refs: Iterable[Ref]) -> None:
        """Discard what is known of sessions that no longer exist."""
        ...


class ListingFeed:
    """The recent changes of the rows of a host, numbered and shared by its subscribers.

    The rows of changed sessions are made when a subscriber asks for them, once for all. From the first subscriber or
    position on, it remembers which sessions changed, each once.

    Args:
        listing: The rows.
        touched: Tells which sessions changed, also those that were activated or passivated.

    Attributes:
        epoch: Names the time of this feed.
        end: The number of changes so far.
    """

    def __init__(self, listing: Listing, touched: Touched) -> None:
        self._listing = listing
        self.touched = touched
        self._changed: dict[Ref, None] = {}
        self._recent: deque[SessionChanged] = deque()
        self._is_open = False
        self._turn = anyio.Lock()
        self.epoch = secrets.token_hex(6)
        self.end = 0

    def position(self) -> ListPosition:
        """Return the present position; what changes from now on comes after it."""
        if not self._is_open:
            self._is_open = True
            self.touched.listeners.append(self._changed)
            self.touched.watchers.append(self._changed)
        return ListPosition(self.epoch, self.end)

    def covers(self, position: ListPosition) -> bool:
        """Return whether all changes after a position are kept."""
        return position.epoch == self.epoch and self.end - len(self._recent) <= position.n <= self.end

    def after(self, n: int) -> dict[Ref, SessionChanged]:
        """Return the last change of each session after a position that is covered."""
        kept = self.end - len(self._recent)
        return {change.ref: change for change in islice(self._recent, n - kept, None)}

    async def advance(self) -> None:
        """Make the rows of the sessions that changed.

        Raises:
            HostClosed: The host is closing; what changed remains to be told.
            TreeringError: A row cannot be made; it is tried again the next time.
        """
        async with self._turn:
            while self._changed:
                ref = next(iter(self._changed))
                del self._changed[ref]  # before the await, so that a change during it is reported too
                try:
                    summary = await self._listing.row(ref)
                except BaseException:
                    self._changed[ref] = None
                    raise
                self.end += 1
                gone = self._listing.last_row(ref) if summary is None else None
                self._recent.append(SessionChanged(ref, summary, ListPosition(self.epoch, self.end), gone))
                if len(self._recent) > _CHANGES_MAX:
                    self._recent.popleft()

    @property
    def waiting(self) -> bool:
        """Whether sessions changed whose rows have not been made."""
        return bool(self._changed)


class SessionsSubscription:
    """The current listing, followed by the rows that change through this host.

    Use it as `async with host.subscribe_sessions() as changes: async for change in changes: ...`; the first item is the
    list of all rows, every further one a `SessionChanged`. If a session changes repeatedly, a slow subscriber gets only
    the last change. After too many changes, it gets the list again. A subscription after a position begins with the
    changes since then, if the host still has them, and with the list otherwise. The iteration ends with the host.
    """

    def __init__(self, listing: Listing, feed: ListingFeed, *, after: ListPosition | None = None) -> None:
        if not isinstance(after, ListPosition | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(
                f"`after` is {after!r}: give what `sessions_position()` or a subscription's `position` says"
            )
        self._listing = listing
        self._feed = feed
        self._after = after
        self._n = -1
        self._changed: dict[Ref, SessionChanged] = {}

    @property
    def position(self) -> ListPosition:
        """The position to come back to: that of the last item that was yielded."""
        left = next(iter(self._changed.values()), None)
        return ListPosition(self._feed.epoch, self._n if left is None else left.position.n - 1)

    @property
    def waiting(self) -> bool:
        """Whether there are items that were not yielded."""
        return bool(self._changed) or self._n < self._feed.end or self._feed.waiting

    async def __aenter__(self) -> Self:
        self._feed.position()  # from here on it remembers what changes
        if self._after is not None and self._feed.covers(self._after):
            self._n = self._after.n
        return self

    async def __aexit__(self, *_: object) -> None:
        self._changed.clear()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[SessionSummary] | SessionChanged:
        feed = self._feed
        while not self._changed:
            if self._n < 0 or not feed.covers(ListPosition(feed.epoch, self._n)):
                try:
                    await feed.advance()  # what changed before is in the rows, and is told to others
                except HostClosed:
                    raise StopAsyncIteration from None
                n = feed.end
                rows = await self._listing.rows()
                self._n = n
                return rows
            if self._n < feed.end:
                ordered = sorted(feed.after(self._n).values(), key=lambda change: change.position.n)
                self._changed = {change.ref: change for change in ordered}
                self._n = feed.end
            elif feed.waiting:
                try:
                    await feed.advance()
                except HostClosed:  # while the row was read
                    raise StopAsyncIteration from None
            elif feed.touched.closed:
                raise StopAsyncIteration
            else:
                await feed.touched.wait()
        return self._changed.pop(next(iter(self._changed)))

    async def receive_many(self) -> Sequence[list[SessionSummary] | SessionChanged]:
        """Wait for the next item, and return all that are available, at least one."""
        items = [await anext(self)]
        while self._changed:
            items.append(self._changed.pop(next(iter(self._changed))))
        return items
