"""Views with subscribers: one value, folded once for all of them.

A shared view has a position in the session's feed. The subscriber that wakes first advances it; the others find the
change already made. The writer does no work for it. A `Stepper` says how one kind of view advances: those of the named
views are beside their views, and `FoldStepper` is that of every projection. A subscriber receives a snapshot of the
view, then its changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

import anyio
from msgspec import Struct

from ..events.errors import LogReplaced, ProjectionFailed, TreeringError
from ..events.stores.base import Cursor
from ..events.telemetry import failure_of, logger
from .base import Projection
from .feed import Feed, LogView, Source
from .feed_events import EntryAdded, FeedEvent, LeafMove, Reset
from .session_state import SessionState, StateFold, folded, needed

V = TypeVar("V")
C = TypeVar("C")
V_co = TypeVar("V_co", covariant=True)


class Snapshot(Struct, Generic[V], frozen=True):
    """The whole view at `cursor`; it replaces the subscriber's previous value."""

    cursor: Cursor
    value: V


class Changed(Struct, Generic[C], frozen=True):
    """The change of the view in the step to `cursor`."""

    cursor: Cursor
    change: C


class Failure(Struct, frozen=True):
    """The reason why a projection does not advance: remembered until it is rebuilt, and reported by a new exception.

    Raising the same exception object again and again would accumulate the tracebacks of all callers, and keep their
    frames alive.

    Attributes:
        message: The error message for callers.
        cause: The exception that the projection raised.
    """

    message: str
    cause: BaseException | None

    @classmethod
    def of(cls, name: str, session_id: str, error: Exception) -> Self:
        """Log an exception that a projection raised, and remember it."""
        logger().error("projection_failed", projection=name, session_id=session_id, **failure_of(error))
        return cls(f"the projection {name!r} raised {type(error).__name__}: fix it and call `rebuild`", error)

    @classmethod
    def from_error(cls, error: ProjectionFailed) -> Self:
        """Remember a failure that has been logged already."""
        return cls(str(error), error.__cause__)

    def error(self) -> ProjectionFailed:
        """Return a new exception for this failure, to be raised once."""
        error = ProjectionFailed(self.message)
        error.__cause__ = self.cause
        return error


CHANGES_MAX = 1024
"""The number of changes that a view retains for slow subscribers; a subscriber that missed more gets a snapshot."""
WEIGHT_MAX = 64 * 1024
"""The maximum total weight of the retained changes, by `Stepper.weigh`; the latest change is always retained."""
_NOWHERE = -1
"""The position of a view that must be built, or built again."""


class Stepper(Protocol[V_co, C]):
    """The initialization and the steps of one kind of view; it holds the view's state between the steps."""

    @property
    def name(self) -> str:
        """The view's name."""
        ...

    @property
    def value(self) -> V_co:
        """The current view; later steps do not modify the returned value."""
        ...

    async def begin(self, log: LogView) -> int:
        """Initialize the view from the log as of this call or later, and return the seq of the last included line."""
        ...

    async def step(self, log: LogView, event: EntryAdded | LeafMove) -> Sequence[C]:
        """Advance by one event, and return its changes; an error leaves the view unchanged."""
        ...

    def weigh(self, change: C) -> int:
        """Return the weight of a change, such as its number of entries."""
        ...


class SharedView(Generic[V, C]):
    """One view of one session, shared by its subscribers.

    Attributes:
        cursor: The place in the log up to which the view is folded.
        start: The number of the oldest retained change.
    """

    def __init__(self, source: Source, stepper: Stepper[V, C]) -> None:
        self._source = source
        self._stepper = stepper
        self._feed: Feed | None = None
        self._subscribers = 0
        self._position = _NOWHERE
        self._lock = anyio.Lock(fast_acquire=True)
        self._changes: deque[Changed[C]] = deque()
        self._weight: int
        self._failure: Failure | None = None
        self._session_id: str
        self.cursor = Cursor("", 0)
        self.start = 0

    @property
    def value(self) -> V:
        """The current view."""
        return self._stepper.value

    @property
    def end(self) -> int:
        """The number of the next change."""
        return self.start + len(self._changes)

    @property
    def closed(self) -> bool:
        """Whether no more changes will follow."""
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
        """Return a retained change."""
        return self._changes[number - self.start]

    async def wait(self) -> None:
        """Wait for the next event of the session."""
        feed = self._feed
        assert feed is not None
        if self._position == feed.end:
            await feed.wait()

    def restart(self) -> None:
        """Rebuild the view when a subscriber next advances it, also after a failure."""
        self._position, self._failure = _NOWHERE, None

    async def advance(self) -> None:
        """Advance the view to the end of the feed.

        Raises:
            ProjectionFailed: The projection raised; it does not advance until it is rebuilt.
            TreeringError: The log cannot be read, or the view cannot be built from it; the next call starts over.
            OSError: Likewise.
        """
        feed = self._feed
        assert feed is not None
        if self._position == feed.end and self._failure is None:
            return
        async with self._lock:
            if self._failure is not None:
                raise self._failure.error()
            try:
                await self._advance(feed)
            except ProjectionFailed as error:
                self._failure = Failure.from_error(error)
                raise
            except (TreeringError, OSError):
                self._position = _NOWHERE
                raise
            except Exception as error:
                self._failure = Failure.of(self._stepper.name, self._session_id, error)
                raise self._failure.error() from error

    async def _advance(self, feed: Feed) -> None:
        """Advance event by event. The log may be passivated or replaced while a step is awaited, so check it again."""
        log = await self._current_log()
        may_retry = True
        while self._position != feed.end:
            try:
                log = await self._advance_once(feed, log)
                may_retry = True
            except LogReplaced:
                generation, log = log.cursor.generation, await self._current_log()
                if log.cursor.generation == generation:  # as after the session was archived and brought back
                    if not may_retry:
                        raise
                    may_retry = False
                self._position = _NOWHERE

    async def _advance_once(self, feed: Feed, log: LogView) -> LogView:
        """Build the view, or advance it by one event; return the log for the next call."""
        if self._position < feed.start:
            return await self._begin(feed)
        event = feed.at(self._position)
        if isinstance(event, Reset) or (isinstance(event, EntryAdded) and event.entry.seq > log.index.head):
            self._position = _NOWHERE  # this log is not the one with the entry: it was opened again meanwhile
        else:
            await self._step(log, event)
            self._position += 1
        return log

    async def _current_log(self) -> LogView:
        """Return the log, and discard the view if it was built from another generation."""
        log = await self._source.ready()
        self._session_id = log.index.header.id
        if self.cursor.generation not in ("", log.cursor.generation):
            self._position = _NOWHERE
        return log

    async def _begin(self, feed: Feed) -> LogView:
        log = await self._source.ready()
        position, generation = feed.end, log.cursor.generation
        seq = await self._stepper.begin(log)
        self.start = self.end + 1
        self._changes.clear()
        self._weight = 0
        self.cursor, self._position = Cursor(generation, seq), position
        return log

    async def _step(self, log: LogView, event: FeedEvent) -> None:
        if isinstance(event, EntryAdded):
            if event.entry.seq <= self.cursor.seq:
                return
            cursor = Cursor(log.cursor.generation, event.entry.seq)
        elif isinstance(event, LeafMove):
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


Fold: TypeAlias = Callable[[LogView, Projection[V, C]], Awaitable[tuple[V, int]]]
"""Returns a projection's value over a log's entries, and the seq of the last line that it includes."""


class FoldStepper(Generic[V, C]):
    """A projection, built-in or custom.

    Args:
        projection: The projection.
        fold: Computes its value, from a checkpoint if there is one.
    """

    def __init__(self, projection: Projection[V, C], fold: Fold[V, C]) -> None:
        self._projection = projection
        self._fold = fold
        self._value: tuple[V] | None = None

    @property
    def name(self) -> str:
        """The projection's name."""
        return self._projection.name

    @property
    def value(self) -> V:
        """The projection's current value."""
        if self._value is None:
            raise ProjectionFailed(f"the projection {self.name!r} has no value yet: wait for its first snapshot")
        return self._value[0]

    async def begin(self, log: LogView) -> int:
        """Compute the value over all entries."""
        value, seq = await self._fold(log, self._projection)
        self._value = (value,)
        return seq

    async def step(self, log: LogView, event: EntryAdded | LeafMove) -> Sequence[C]:
        """Fold one entry; a move of the leaf changes nothing."""
        if not isinstance(event, EntryAdded):
            return ()
        value, change = self._projection.apply(self.value, event.entry)
        self._value = (value,)
        return () if change is None else (change,)

    def weigh(self, change: C) -> int:
        """Count a change as one."""
        return 1


class StateStepper:
    """The state of the session as a view; a change is the state after it."""

    name = "session_state"
    read_by: ClassVar[str] = "await session.state()"

    def __init__(self) -> None:
        self._fold: StateFold
        self._state: SessionState

    @property
    def value(self) -> SessionState:
        """The current state."""
        return self._state

    async def begin(self, log: LogView) -> int:
        """Read the entries from the last answer on."""
        index = log.index
        head = index.head
        await self._read(log, index.tip)
        return head

    async def _read(self, log: LogView, seq: int) -> None:
        index = log.index
        seqs = needed(index, seq)
        entries = await log.entries_at(seqs)
        self._fold = folded(index, [entry for each in seqs if (entry := entries[each]) is not None])
        self._fold.tip = index.ids[seq] if seq else None
        self._state = self._fold.state(index)

    async def step(self, log: LogView, event: EntryAdded | LeafMove) -> Sequence[SessionState]:
        """Fold an entry that follows the last one; after a move to another branch, read the state there."""
        if not isinstance(event, EntryAdded) or not log.index.becomes_leaf(event.entry):
            return ()
        before, entry = self._state, event.entry
        if entry.parent_id == self._fold.tip and entry.parent_id is not None:
            self._fold.add(entry)
            self._state = self._fold.state(log.index)
        else:
            await self._read(log, entry.seq)
        return () if self._state == before else (self._state,)

    def weigh(self, change: SessionState) -> int:
        """Count a change as one."""
        return 1
