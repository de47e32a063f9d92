"""Following a session: its entries from any place on, or a view and its changes.

A subscription notes where the log ends and where the shared feed stands, without an await between the two. It reads the
log up to that end and then goes on in the feed, so there is no gap and no duplicate. When it has fallen behind the feed,
it does the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Generic, Never, Self, TypeVar, cast

from anyio.lowlevel import checkpoint

from ..events.entries import Entry
from ..events.errors import Closed, InvalidInput, LogReplaced
from ..events.stores.base import Cursor
from .changes import Changed, Snapshot
from .feed import Feed, News, Reset, Transient
from .source import Source
from .views import SharedView

V = TypeVar("V")
C = TypeVar("C")
T = TypeVar("T", bound=Transient)
"""What is shown between the entries, if anything is."""


def not_open() -> Closed:
    """Say that a subscription was not entered, or left again."""
    return Closed("the subscription is not open: use it as `async with session.subscribe() as ...`")


class EntryFollowing(Generic[T]):
    """What the two subscriptions to entries have in common.

    Args:
        source: The session.
        after: The cursor, or the ordinal, of the last entry that the subscriber has.

    Raises:
        InvalidInput: What it is to go on after is neither a cursor nor an ordinal.
    """

    def __init__(self, source: Source, after: Cursor | int = 0) -> None:
        seq = cast("object", after.seq if isinstance(after, Cursor) else after)  # whatever it is declared to be
        if not isinstance(seq, int) or seq < 0:
            raise InvalidInput(
                f"no entry has the ordinal {seq!r}: give a number from 0 on, or the cursor of a subscription"
            )
        self._source = source
        self._has_cursor = isinstance(after, Cursor)  # a bare ordinal may lie ahead of the log
        self._generation = (after.generation or None) if isinstance(after, Cursor) else None
        self._seq = after.seq if isinstance(after, Cursor) else after
        self._feed: Feed | None = None
        self._position = -1
        self._through = 0
        self._ready: Iterator[Entry | Reset | T] = iter(())

    @property
    def cursor(self) -> Cursor:
        """Where to go on from later: after the last entry that was yielded or is about to be."""
        return Cursor(self._generation or "", self._seq)

    @property
    def lag(self) -> int:
        """How many events of the feed wait for this subscriber."""
        return 0 if self._feed is None else self._feed.end - max(self._position, self._feed.start)

    async def __aenter__(self) -> Self:
        feed = self._source.open_feed()
        try:
            self._ready = iter(await self._join(feed))
        except BaseException:
            self._source.close_feed(feed)
            raise
        self._feed = feed
        feed.readers.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._feed is not None:
            feed, self._feed = self._feed, None
            feed.readers.discard(self)
            self._source.close_feed(feed)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry | Reset | T:
        for item in self._ready:
            return item
        self._ready = iter(await self._wait())
        return next(self._ready)

    async def receive_many(self) -> Sequence[Entry | Reset | T]:
        """Wait for what comes next and return all that is there, at least one."""
        return tuple(self._ready) or await self._wait()

    async def _wait(self) -> Sequence[Entry | Reset | T]:
        """Wait for what comes next, from the feed, or from the log where the feed has gone on without us."""
        feed = self._feed
        if feed is None:
            raise not_open()
        items: Sequence[Entry | Reset | T] = ()
        while not items:
            if self._position < feed.start:
                items = await self._join(feed)
                self._position = feed.latest_transients()
            elif self._seq < self._through:
                items = await self._read_log()
            elif self._position < feed.end:
                items = self._take(feed.news(self._position))
            elif feed.closed:
                raise StopAsyncIteration
            else:
                await feed.wait()
        return items

    async def _join(self, feed: Feed) -> Sequence[Reset]:
        """Note up to where the log is to be read and where the feed goes on from there; return a reset if it is needed."""
        cursor = (await self._source.ready()).cursor
        self._position, self._through = feed.end, cursor.seq
        known = self._generation
        self._generation = cursor.generation or None
        if known not in (None, cursor.generation) or (known and self._has_cursor and self._seq > cursor.seq):
            self._seq = 0
            return [Reset(Cursor(cursor.generation, 0))]
        return ()

    async def _read_log(self) -> Sequence[Entry]:
        await checkpoint()  # who has a long way to go lets others have their turn
        log = await self._source.ready()
        if log.cursor.generation != self._generation:
            self._position = -1
            return ()
        try:
            entries, self._seq = await log.page(self._seq, self._through)
            self._has_cursor = True
        except LogReplaced:
            if (await self._source.ready()).cursor.generation == self._generation:
                raise
            self._position = -1
            return ()
        return entries

    def _take(self, news: News) -> Sequence[Entry | T]:
        """Take what is new in the feed."""
        items = self._shown(news)
        if news.last:
            self._has_cursor = True
            if news.first <= self._seq:  # the subscriber asked for what comes later
                items = [each for each in items if isinstance(each, Transient) or each.seq > self._seq]
            self._seq = max(self._seq, news.last)
            self._generation = self._generation or news.generation or None  # a log that was not there when it began
        self._position = -1 if news.reset else news.end  # a reset is found again by `_join`, which yields it
        return items

    def _shown(self, news: News) -> Sequence[Entry | T]:
        """Return what is shown of what is new in the feed."""
        raise NotImplementedError


class EntrySubscription(EntryFollowing[Never]):
    """The entries of a session after a cursor, as they are and as they come.

    Use it as `async with session.subscribe() as entries: async for entry in entries: ...`. A `Reset` among them says that
    the session is another one now, which follows from its first entry on. The iteration ends with the host, or when the
    host deletes the session, with `HostClosed` or `SessionNotFound` where entries are left that can no longer be read;
    that of a read-only handle waits for a file that is gone.
    """

    def _shown(self, news: News) -> Sequence[Entry]:
        return news.entries


class TransientSubscription(EntryFollowing[Transient]):
    """The entries of a session after a cursor, and between them what is shown and never written.

    Use it as `async with session.subscribe(transient=True) as items: async for item in items: ...`; see
    `EntrySubscription`.
    """

    def _shown(self, news: News) -> Sequence[Entry | Transient]:
        return news.shown


class ViewSubscription(Generic[V, C]):
    """A view of a session: first its snapshot, then its changes; another snapshot when too many were missed.

    Use it as `async with session.subscribe("context") as changes: async for change in changes: ...`. The iteration ends
    with the host, or when the host deletes the session, with `HostClosed` or `SessionNotFound` where changes are left that
    can no longer be made out; that of a read-only handle waits for a file that is gone.
    """

    def __init__(self, shared: Callable[[], SharedView[V, C]]) -> None:
        self._shared = shared
        self._view = shared()
        self._at = -1
        self._open = False

    async def __aenter__(self) -> Self:
        view = self._shared()
        if view is not self._view:  # the session was deleted, and is there anew
            self._view, self._at = view, -1
        view.enter()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self._open = False
            self._view.leave()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Snapshot[V] | Changed[C]:
        view = self._view
        while self._open:
            await view.advance()
            if self._at < view.start:
                self._at = view.end
                return Snapshot(view.cursor, view.value)
            if self._at < view.end:
                change = view.change(self._at)
                self._at += 1
                return change
            if view.closed:
                raise StopAsyncIteration
            await view.wait()
        raise not_open()
