"""Views that are followed: one value, folded once for all of its subscribers.

A shared view stands at a place in the session's feed. Whichever subscriber wakes first takes it a step on; the others
find the change made. The writer does nothing for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import anyio

from ..events.errors import ProjectionFailed, TreeringError
from ..events.stores.base import Cursor
from ..events.telemetry import logger
from .changes import Changed
from .feed import EntryAdded, Feed, FeedEvent, LeafMoved, Reset
from .source import LogView, Source

V = TypeVar("V")
C = TypeVar("C")
V_co = TypeVar("V_co", covariant=True)
C_co = TypeVar("C_co", covariant=True)

CHANGES_MAX = 1024
"""How many changes a view keeps for slow subscribers; one that missed more gets a snapshot."""


class Stepper(Protocol[V_co, C_co]):
    """How one sort of view begins and goes on; it keeps the view's state between the steps."""

    @property
    def name(self) -> str:
        """The view's name."""
        ...

    @property
    def value(self) -> V_co:
        """The view as it stands; what is returned does not change with later steps."""
        ...

    async def begin(self, log: LogView) -> None:
        """Take the log as it is when this is called, whatever is appended meanwhile."""
        ...

    async def step(self, log: LogView, event: EntryAdded | LeafMoved) -> Sequence[C_co]:
        """Go on by one event, and return what it changed."""
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
        self._position = -1
        self._lock = anyio.Lock()
        self._changes: list[Changed[C]] = []
        self._failure: ProjectionFailed | None = None
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
    def followed(self) -> bool:
        """Whether anybody subscribes to it."""
        return self._subscribers > 0

    def enter(self) -> None:
        """Count one more subscriber."""
        feed = self._source.open_feed()
        if not self._subscribers:
            self._feed, self._position = feed, -1
        self._subscribers += 1

    def leave(self) -> None:
        """Count one subscriber less."""
        self._subscribers -= 1
        self._source.close_feed()
        if not self._subscribers:
            self._feed = None

    def change(self, number: int) -> Changed[C]:
        """Return a change that is kept."""
        return self._changes[number - self.start]

    async def wait(self) -> None:
        """Wait until the session goes on."""
        feed = self._feed
        assert feed is not None
        if self._position >= feed.end:
            await feed.wait()

    def restart(self) -> None:
        """Begin anew with the next subscriber that asks, also after a failure."""
        self._position, self._failure = -1, None

    async def advance(self) -> None:
        """Take the view on to the end of the feed.

        Raises:
            ProjectionFailed: The projection raised; it stands still until it is rebuilt.
        """
        feed = self._feed
        assert feed is not None
        if self._position == feed.end and self._failure is None:
            return
        async with self._lock:
            if self._failure is not None:
                raise self._failure
            log = await self._source.ready()
            try:
                await self._advance(feed, log)
            except TreeringError:
                raise
            except Exception as error:
                name, session_id = self._stepper.name, log.index.header.id
                logger().exception("projection_failed", projection=name, session_id=session_id)
                self._failure = ProjectionFailed(
                    f"the projection {name!r} raised {type(error).__name__}: mend it and rebuild the view"
                )
                self._failure.__cause__ = error
                raise self._failure from error

    async def _advance(self, feed: Feed, log: LogView) -> None:
        while self._position < feed.end:
            if self._position < feed.start:
                await self._begin(feed, log)
                continue
            event = feed.at(self._position)
            if isinstance(event, Reset):
                await self._begin(feed, log)
                continue
            await self._step(log, event)
            self._position += 1
        if self._position < 0:
            await self._begin(feed, log)

    async def _begin(self, feed: Feed, log: LogView) -> None:
        position, cursor = feed.end, log.cursor
        await self._stepper.begin(log)
        self.start = self.end + 1
        self._changes = []
        self.cursor, self._position = cursor, position

    async def _step(self, log: LogView, event: FeedEvent) -> None:
        if not isinstance(event, (EntryAdded, LeafMoved)):
            return
        changes = await self._stepper.step(log, event)
        if isinstance(event, EntryAdded):
            self.cursor = Cursor(log.cursor.generation, event.entry.seq)
        self._changes.extend(Changed(self.cursor, change) for change in changes)
        dropped = len(self._changes) - CHANGES_MAX
        if dropped > 0:
            del self._changes[:dropped]
            self.start += dropped
