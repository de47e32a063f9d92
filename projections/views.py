"""Views that are followed: one value, folded once for all of its subscribers.

A shared view stands at a place in the session's feed. Whichever subscriber wakes first takes it a step on; the others
find the change made. The writer does nothing for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import anyio

from ..events.errors import LogReplaced, ProjectionFailed, TreeringError
from ..events.stores.base import Cursor
from .changes import Changed
from .failure import Failure
from .feed import EntryAdded, Feed, FeedEvent, LeafChange, Reset
from .source import LogView, Source

V = TypeVar("V")
C = TypeVar("C")
V_co = TypeVar("V_co", covariant=True)

CHANGES_MAX = 1024
"""How many changes a view keeps for slow subscribers; one that missed more gets a snapshot."""
WEIGHT_MAX = 64 * 1024
"""How much the changes that a view keeps may hold together, as `Stepper.weigh` tells; the latest is always kept."""


class Stepper(Protocol[V_co, C]):
    """How one sort of view begins and goes on; it keeps the view's state between the steps."""

    @property
    def name(self) -> str:
        """The view's name."""
        ...

    @property
    def value(self) -> V_co:
        """The view as it stands; what is returned does not change with later steps."""
        ...

    async def begin(self, log: LogView) -> int:
        """Take the log as it is when this is called, or later, and return the ordinal of the last line that is in."""
        ...

    async def step(self, log: LogView, event: EntryAdded | LeafChange) -> Sequence[C]:
        """Go on by one event, and return what it changed; an error leaves the view as it was."""
        ...

    def weigh(self, change: C) -> int:
        """Tell how many entries, or the like, a change holds."""
        ...


class SharedView(Generic[V, C]):
    """One view of one session, shared by its subscribers.

    Attributes:
        cursor: Where in the log the view stands.
        start: The number of the oldest change that is kept.
    """

    def __init__(self, source: Source, stepper: Stepper[V, C]) -> None:
        self._source = source
        self._stepper = stepper
        self._feed: Feed | None = None
        self._subscribers = 0
        self._position = 0
        self._begun = False
        self._lock = anyio.Lock(fast_acquire=True)
        self._changes: deque[Changed[C]] = deque()
        self._weight = 0
        self._failure: Failure | None = None
        self._session_id = ""
        self.cursor = Cursor("", 0)
        self.start = 0

    @property
    def value(self) -> V:
        """The view as it stands."""
        return self._stepper.value

    @property
    def end(self) -> int:
        """The number that the next change gets."""
        return self.start + len(self._changes)

    @property
    def closed(self) -> bool:
        """Whether nothing will follow what is there."""
        return self._feed is not None and self._feed.closed

    def enter(self) -> None:
        """Count one more subscriber."""
        feed = self._source.open_feed()
        if not self._subscribers:
            self._feed = feed
            self.restart()
        self._subscribers += 1

    def leave(self) -> None:
        """Count one subscriber less."""
        assert self._feed is not None
        self._subscribers -= 1
        self._source.close_feed(self._feed)
        if not self._subscribers:
            self._feed = None

    def change(self, number: int) -> Changed[C]:
        """Return a change that is kept."""
        return self._changes[number - self.start]

    async def wait(self) -> None:
        """Wait until the session goes on."""
        feed = self._feed
        assert feed is not None
        if self._position == feed.end:
            await feed.wait()

    def restart(self) -> None:
        """Begin anew with the next subscriber that asks, also after a failure."""
        self._begun, self._failure = False, None

    async def advance(self) -> None:
        """Take the view on to the end of the feed.

        Raises:
            ProjectionFailed: The projection raised; it stands still until it is rebuilt.
            TreeringError: The log cannot be read, or shows no such view as it is; the next call begins anew.
            OSError: Likewise.
        """
        feed = self._feed
        assert feed is not None
        if self._begun and self._position == feed.end and self._failure is None:
            return
        async with self._lock:
            if self._failure is not None:
                raise self._failure.error()
            try:
                await self._advance(feed)
            except ProjectionFailed as error:
                self._failure = Failure.told_by(error)
                raise
            except (TreeringError, OSError):
                self._begun = False
                raise
            except Exception as error:
                self._failure = Failure.of(self._stepper.name, self._session_id, error)
                raise self._failure.error() from error

    async def _advance(self, feed: Feed) -> None:
        """Go on event by event. The log may be let go or replaced while a step is awaited, so it is looked at again."""
        log = await self._look()
        while not self._begun or self._position != feed.end:
            try:
                log = await self._go_on(feed, log)
            except LogReplaced:
                generation, log = log.cursor.generation, await self._look()
                if log.cursor.generation == generation:
                    raise
                self._begun = False

    async def _go_on(self, feed: Feed, log: LogView) -> LogView:
        """Begin, or go on by one event; return the log to go on with."""
        if not self._begun or self._position < feed.start:
            return await self._begin(feed)
        event = feed.at(self._position)
        if isinstance(event, Reset):
            self._begun = False
        elif isinstance(event, EntryAdded) and event.entry.seq > log.index.head:
            log = await self._look()
            self._begun = self._begun and event.entry.seq <= log.index.head
        else:
            await self._step(log, event)
            self._position += 1
        return log

    async def _look(self) -> LogView:
        """Return the log, and note where it is another one than the view was made of."""
        log = await self._source.ready()
        self._session_id = log.index.header.id
        if self.cursor.generation not in ("", log.cursor.generation):
            self._begun = False
        return log

    async def _begin(self, feed: Feed) -> LogView:
        log = await self._source.ready()
        position, generation = feed.end, log.cursor.generation
        seq = await self._stepper.begin(log)
        self.start = self.end + 1
        self._changes.clear()
        self._weight = 0
        self.cursor, self._position, self._begun = Cursor(generation, seq), position, True
        return log

    async def _step(self, log: LogView, event: FeedEvent) -> None:
        if isinstance(event, EntryAdded):
            if event.entry.seq <= self.cursor.seq:
                return
            cursor = Cursor(log.cursor.generation, event.entry.seq)
        elif isinstance(event, LeafChange):
            cursor = self.cursor
        else:
            return
        changes = await self._stepper.step(log, event)
        self.cursor = cursor
        for change in changes:
            self._changes.append(Changed(cursor, change))
            self._weight += self._stepper.weigh(change)
        while len(self._changes) > CHANGES_MAX or (self._weight > WEIGHT_MAX and len(self._changes) > 1):
            self._weight -= self._stepper.weigh(self._changes.popleft().change)
            self.start += 1
