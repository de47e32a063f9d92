"""Subscriptions to a session: to its entries after a cursor, or to a view and its changes.

A subscription notes the end of the log and the end of the shared feed, without an await between the two. It reads the
log up to that end and then continues in the feed, so there is no gap and no duplicate. When it has fallen behind the
feed, it starts over in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import length_hint
from typing import Any, ClassVar, Generic, Never, Protocol, Self, TypeVar, cast

from anyio.lowlevel import checkpoint

from ..events.entries import Entry
from ..events.errors import Closed, InvalidInput, LogReplaced
from ..events.stores.base import Cursor
from .context_changes import ContextStepper
from .feed import Feed, FeedSection, LogView, Source
from .feed_events import LeafMove, Reset, Transient
from .labels import LabelStepper
from .tree import TreeStepper
from .views import Changed, SharedView, Snapshot, StateStepper, Stepper

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
C = TypeVar("C")


class NamedStepper(Stepper[V_co, C], Protocol[V_co, C]):
    """The steps of a view that has a name.

    Attributes:
        read_by: The call that returns the view's value.
    """

    read_by: ClassVar[str]


VIEWS: Mapping[str, type[NamedStepper[Any, Any]]] = {
    each.name: each for each in (ContextStepper, TreeStepper, LabelStepper, StateStepper)
}
"""The views that are subscribed to by name; any projection is one that needs no name."""

T = TypeVar("T", bound=Transient | LeafMove)
"""The type of the events between the entries, if there are any."""


def not_open_error() -> Closed:
    """Return the error for a subscription that was not entered, or was left."""
    return Closed("the subscription is not open: use it as `async with session.subscribe() as ...`")


def refuse_entry_arguments(after: object, transient: object, leaf: object) -> None:
    """Refuse arguments that only a subscription to entries takes; for subscriptions to views.

    Args:
        after: The cursor or seq to follow from; 0 if none is given.
        transient: Whether transient events are requested.
        leaf: Whether moves of the leaf are requested.

    Raises:
        InvalidInput: One of them is given.
    """
    if transient or leaf or after != 0:
        raise InvalidInput("`after`, `transient` and `leaf` are for entries: a view always begins with a snapshot")


class EntryFollowing(Generic[T]):
    """The common base of the two subscriptions to entries.

    Args:
        source: The session.
        after: The cursor, or the seq, of the last entry that the subscriber has.

    Raises:
        InvalidInput: `after` is neither a cursor nor a seq.
    """

    def __init__(self, source: Source, after: Cursor | int = 0) -> None:
        # Declared types are not checked at run time.
        seq = cast("object", after.seq if isinstance(after, Cursor) else after)
        if not isinstance(seq, int) or seq < 0:
            raise InvalidInput(
                f"invalid seq {seq!r}: pass a number from 0 on, or the cursor of a subscription "
                "(`Cursor.parse` reads one)"
            )
        self._source = source
        self._has_cursor = isinstance(after, Cursor)  # a bare seq may lie beyond the end of the log
        self._generation = (after.generation or None) if isinstance(after, Cursor) else None
        self._seq = after.seq if isinstance(after, Cursor) else after
        self._feed: Feed | None = None
        self._position = -1
        self._resets = 0  # how many of the feed's it knows of
        self._through = 0
        self._batch: Sequence[Entry | Reset | T] = ()
        self._ready: Iterator[Entry | Reset | T] = iter(())
        self._replaced = Cursor("", 0)
        self._present: Sequence[T] = ()

    @property
    def cursor(self) -> Cursor:
        """The cursor to resume from: that of the last entry that was yielded.

        Store it after an entry was processed, such as by its text `str(cursor)`, and pass it to `subscribe(after=...)`
        to continue with the next one.
        """
        return self.cursor_before(self._batch, len(self._batch) - length_hint(self._ready))

    def cursor_before(self, items: Sequence[Entry | Reset | T], start: int = 0) -> Cursor:
        """Return the cursor to resume from if the last items were read here but not passed on.

        Args:
            items: The last items.
            start: The index of the first one that was not passed on.
        """
        for item in islice(items, start, None):
            if isinstance(item, Reset):
                return self._replaced
            if not isinstance(item, (Transient, LeafMove)):
                return Cursor(self._generation or "", item.seq - 1)
        return Cursor(self._generation or "", self._seq)

    @property
    def lag(self) -> int:
        """The number of feed events that this subscriber has not read yet."""
        return 0 if self._feed is None else self._feed.end - max(self._position, self._feed.start)

    @property
    def has_all(self) -> bool:
        """Whether it has yielded everything that there is now."""
        feed = self._feed
        return (
            feed is not None
            and self._position == feed.end
            and self._seq >= self._through
            and not self._present
            and not length_hint(self._ready)
        )

    def is_level_with(self, other: EntryFollowing[Any]) -> bool:
        """Return whether this subscription and another one of the session have both yielded everything."""
        return self._feed is other._feed and self.has_all and other.has_all

    async def __aenter__(self) -> Self:
        feed = self._source.open_feed()
        self._resets = feed.resets
        try:
            self._batch = await self._join(feed)
            self._ready = iter(self._batch)
        except BaseException:
            self._source.close_feed(feed)
            raise
        self._feed = feed
        feed.readers.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._feed is not None:
            feed, self._feed = self._feed, None
            cursor = self.cursor  # what was received but not yielded is read again if this is entered again
            self._generation, self._seq, self._ready = cursor.generation or None, cursor.seq, iter(())
            feed.readers.discard(self)
            self._source.close_feed(feed)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry | Reset | T:
        for item in self._ready:
            return item
        self._batch = await self._wait()
        self._ready = iter(self._batch)
        return next(self._ready)

    async def receive_many(self) -> Sequence[Entry | Reset | T]:
        """Wait for the next item, and return all items that are available, at least one."""
        return tuple(self._ready) or await self._wait()

    async def _wait(self) -> Sequence[Entry | Reset | T]:
        """Wait for the next items, from the feed, or from the log if this subscriber has fallen behind the feed."""
        feed = self._feed
        if feed is None:
            raise not_open_error()
        items: Sequence[Entry | Reset | T] = ()
        while not items:
            if self._position < feed.start:
                items = await self._join(feed)
                self._position = feed.latest_transients()
            elif self._seq < self._through:
                items = await self._read_log()
            elif self._present:
                items, self._present = self._present, ()
            elif self._position < feed.end:
                items = self._take(feed.section(self._position))
            elif feed.closed:
                raise StopAsyncIteration
            else:
                await feed.wait()
        return items

    async def _join(self, feed: Feed) -> Sequence[Reset]:
        """Note the end of the log and the matching position in the feed; return a reset if the log was replaced."""
        log = await self._source.ready()
        cursor = log.cursor
        self._position, self._through, self._present = feed.end, cursor.seq, self._present_in(feed, log)
        known, resets = self._generation, self._resets
        self._generation, self._resets = cursor.generation or None, feed.resets
        is_replaced = (
            known != cursor.generation or resets != feed.resets or (self._has_cursor and self._seq > cursor.seq)
        )
        if known is not None and is_replaced:
            self._replaced, self._seq = Cursor(known, self._seq), 0
            return [Reset(Cursor(cursor.generation, 0))]
        return ()

    async def _read_log(self) -> Sequence[Entry]:
        await checkpoint()  # reading a long log must not starve other tasks
        log = await self._source.ready()
        if log.cursor.generation != self._generation:
            self._position = -1
            return ()
        try:
            entries, self._seq = await log.page(self._seq, self._through)
        except LogReplaced:
            log = await self._source.ready()
            if log.cursor.generation != self._generation:
                self._position = -1
                return ()
            # The same file is there again, as after the session was archived and brought back.
            entries, self._seq = await log.page(self._seq, self._through)
        self._has_cursor = True
        return entries

    def _take(self, section: FeedSection) -> Sequence[Entry | T]:
        """Consume new events of the feed, and return the items to yield."""
        items = self._items(section)
        if section.last:
            if section.first <= self._seq:  # the subscriber has these entries already
                items = [each for each in items if isinstance(each, (Transient, LeafMove)) or each.seq > self._seq]
            if section.last >= self._seq:  # otherwise the seq given to begin after still lies ahead of the log
                self._seq, self._has_cursor = section.last, True
            self._generation = self._generation or section.generation or None  # the log did not exist at the beginning
        self._position = -1 if section.reset else section.end  # after a reset `_join` runs again, and yields it
        return items

    def _items(self, section: FeedSection) -> Sequence[Entry | T]:
        """Return the items of new feed events that this kind of subscription yields."""
        raise NotImplementedError

    def _present_in(self, feed: Feed, log: LogView) -> Sequence[T]:
        """Return what no log has, to be yielded once the subscription has caught up with it."""
        return ()


class EntrySubscription(EntryFollowing[Never]):
    """The entries of a session after a cursor: first the existing ones, then new ones as they arrive.

    Use it as `async with session.subscribe() as entries: async for entry in entries: ...`. A `Reset` among them means
    that the log has been replaced; the new log follows from its first entry. The iteration ends when the host closes,
    or when it deletes the session, with `HostClosed` or `SessionNotFound` if some entries can no longer be read. If
    another program removes the file of a session that this host does not own, it waits until there is one again.
    """

    def _items(self, section: FeedSection) -> Sequence[Entry]:
        return section.entries


class TransientSubscription(EntryFollowing[Transient]):
    """The entries of a session after a cursor, with the transient events between them.

    Use it as `async with session.subscribe(transient=True) as items: async for item in items: ...`; see
    `EntrySubscription`.
    """

    def _items(self, section: FeedSection) -> Sequence[Entry | Transient]:
        return cast("Sequence[Entry | Transient]", section.shown(transient=True, leaf=False))  # as was asked

    def _present_in(self, feed: Feed, log: LogView) -> Sequence[Transient]:
        return feed.texts.so_far(log.index)


class EventSubscription(EntryFollowing[Transient | LeafMove]):
    """The entries of a session after a cursor, with the moves of the leaf between them, and transient events if asked.

    Use it as `async with session.subscribe(leaf=True) as items: async for item in items: ...`; see `EntrySubscription`.
    Moves of the leaf are in no log, so a `LeafMove` says where it is once the subscription has caught up with the log,
    also after it fell behind. An entry becomes the leaf by itself, unless it was appended aside.
    """

    def __init__(self, source: Source, after: Cursor | int = 0, *, transient: bool = False) -> None:
        super().__init__(source, after)
        self._transient = transient

    def _items(self, section: FeedSection) -> Sequence[Entry | Transient | LeafMove]:
        return section.shown(transient=self._transient, leaf=True)

    def _present_in(self, feed: Feed, log: LogView) -> Sequence[Transient | LeafMove]:
        leaf = log.index.leaf
        at = LeafMove(leaf, log.index.ids[leaf] if leaf else None, log.cursor)
        return [at, *(feed.texts.so_far(log.index) if self._transient else ())]


class ViewSubscription(Generic[V, C]):
    """A view of a session: first a snapshot, then its changes; another snapshot after too many missed changes.

    Use it as `async with session.subscribe("context") as changes: async for change in changes: ...`. The iteration ends
    when the host closes, or when it deletes the session, with `HostClosed` or `SessionNotFound` if some changes can no
    longer be determined. If another program removes the file of a session that this host does not own, it waits until
    there is one again.
    """

    def __init__(self, shared_view: Callable[[], SharedView[V, C]]) -> None:
        self._shared_view = shared_view
        self._view = shared_view()
        self._change_number = -1
        self._open = False

    async def __aenter__(self) -> Self:
        view = self._shared_view()
        if view is not self._view:  # the session was deleted and created again
            self._view, self._change_number = view, -1
        view.enter()
        self._open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._open:
            self._open = False
            self._view.leave()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Snapshot[V] | Changed[C]:
        view = self._view
        while self._open:
            await view.advance()
            if self._change_number < view.start:
                self._change_number = view.end
                return Snapshot(view.cursor, view.value)
            if self._change_number < view.end:
                change = view.change(self._change_number)
                self._change_number += 1
                return change
            if view.closed:
                raise StopAsyncIteration
            await view.wait()
        raise not_open_error()
