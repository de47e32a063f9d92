"""Following a session: its entries from any place on, or a view and its changes.

A subscription reads the log up to the committed end and then joins the shared feed, without an await between the two,
so there is no gap and no duplicate. When it has fallen behind the feed it reads from the log again.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Generic, Self, TypeAlias, TypeVar

from ..events.entries import Entry
from ..events.stores.base import Cursor
from .changes import Changed, Snapshot
from .feed import EntryAdded, Feed, FeedEvent, Reset, Transient
from .source import Source
from .views import SharedView

Followed: TypeAlias = Entry | Transient | Reset
"""What an entry subscription yields."""

V = TypeVar("V")
C = TypeVar("C")


class EntrySubscription:
    """The entries of a session after a cursor, as they are and as they come.

    Use it as `async with session.subscribe() as entries: async for entry in entries: ...`.

    Args:
        source: The session.
        after: The cursor, or the ordinal, of the last entry that the subscriber has.
        transient: Yield transient events too.
    """

    def __init__(self, source: Source, after: Cursor | int = 0, *, transient: bool = False) -> None:
        self._source = source
        self._generation = after.generation if isinstance(after, Cursor) else None
        self._seq = after.seq if isinstance(after, Cursor) else after
        self._transient = transient
        self._feed: Feed | None = None
        self._position = -1
        self._ready: Sequence[Followed] = ()
        self._next = 0

    @property
    def cursor(self) -> Cursor:
        """Where to go on from later: after the last entry that was yielded or is about to be."""
        return Cursor(self._generation or "", self._seq)

    @property
    def lag(self) -> int:
        """How many events of the feed wait for this subscriber."""
        return 0 if self._feed is None else self._feed.end - max(self._position, self._feed.start)

    async def __aenter__(self) -> Self:
        self._feed = self._source.open_feed()
        self._feed.readers.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._feed is not None:
            self._feed.readers.discard(self)
            self._feed = None
            self._source.close_feed()

    def __aiter__(self) -> EntrySubscription:
        return self

    async def __anext__(self) -> Followed:
        while self._next >= len(self._ready):
            await self._fill()
        item = self._ready[self._next]
        self._next += 1
        return item

    async def receive_many(self) -> Sequence[Followed]:
        """Wait for what comes next and return all that is there, at least one."""
        while self._next >= len(self._ready):
            await self._fill()
        items = self._ready[self._next :]
        self._next = len(self._ready)
        return items

    async def _fill(self) -> None:
        """Get the next entries: from the feed, or from the log where the feed has gone on without us."""
        feed = self._feed
        if feed is None:
            raise StopAsyncIteration
        if self._position < feed.start:
            await self._read_log(feed)
        elif self._position == feed.end:
            await feed.wait()
        else:
            events = feed.since(self._position)
            self._position += len(events)
            self._ready, self._next = self._shown(events), 0

    async def _read_log(self, feed: Feed) -> None:
        log = await self._source.ready()
        cursor = log.cursor
        if self._generation not in (None, cursor.generation):
            self._generation, self._seq = cursor.generation, 0
            self._ready, self._next = (Reset(Cursor(cursor.generation, 0)),), 0
        elif self._seq >= cursor.seq:
            self._generation = cursor.generation or None
            self._position = feed.end
        else:
            self._generation = cursor.generation
            entries, self._seq = await log.page(self._seq, cursor.seq)
            self._ready, self._next = entries, 0

    def _shown(self, events: Sequence[FeedEvent]) -> list[Followed]:
        """Pick what this subscriber has not seen; of the transient events between two entries, the latest by name."""
        shown: list[Followed] = []
        latest: dict[str, int] = {}
        for event in events:
            if isinstance(event, EntryAdded):
                if event.entry.seq > self._seq:
                    self._seq = event.entry.seq
                    shown.append(event.entry)
                    latest = {}
            elif isinstance(event, Transient):
                if self._transient:
                    if event.name in latest:
                        shown[latest[event.name]] = event
                    else:
                        latest[event.name] = len(shown)
                        shown.append(event)
            elif isinstance(event, Reset):
                shown.append(event)
                self._generation, self._seq = event.cursor.generation, 0
                self._position = -1
                break
        return shown


class ViewSubscription(Generic[V, C]):
    """A view of a session: first its snapshot, then its changes; another snapshot when too many were missed.

    Use it as `async with session.subscribe("context") as changes: async for change in changes: ...`.
    """

    def __init__(self, view: SharedView[V, C]) -> None:
        self._view = view
        self._at = -1

    async def __aenter__(self) -> ViewSubscription[V, C]:
        self._view.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._view.leave()

    def __aiter__(self) -> ViewSubscription[V, C]:
        return self

    async def __anext__(self) -> Snapshot[V] | Changed[C]:
        view = self._view
        while True:
            await view.advance()
            if self._at < view.start:
                self._at = view.end
                return Snapshot(view.cursor, view.value)
            if self._at < view.end:
                change = view.change(self._at)
                self._at += 1
                return change
            await view.wait()
