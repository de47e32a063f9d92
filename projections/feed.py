"""What happens in one session, kept for a while for whoever follows it.

A feed is a short run of recent events that all subscribers share. Each subscriber holds only its position in it; the
writer adds an event and wakes them all at once, so a subscriber that sleeps costs nothing and one that has fallen
behind the feed reads on from the log. A feed exists while somebody is subscribed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeAlias

from anyio import Event
from msgspec import Raw, Struct

from ..events.content import JSON, json_value, raw_json
from ..events.entries import Entry
from ..events.stores.base import Cursor


class EntryAdded(Struct, frozen=True, gc=False):
    """An entry was appended; `leaf` is the ordinal of the leaf after it, `generation` the history that both belong to."""

    entry: Entry
    leaf: int
    generation: str


class LeafChange(Struct, frozen=True, gc=False):
    """The leaf was moved without an append; `leaf` is its ordinal, 0 for none."""

    leaf: int


class Transient(Struct, frozen=True):
    """Something that is shown and never written: token deltas, progress.

    Between two entries, a slow subscriber gets the latest one of each `name` only.
    """

    name: str
    raw: Raw

    @property
    def data(self) -> JSON:
        """What the sender said, decoded afresh for this subscriber."""
        return json_value(self.raw)


def transient(name: str, data: object) -> Transient:
    """Make a transient event of any JSON value."""
    return Transient(name, raw_json(data))


class Reset(Struct, frozen=True):
    """The log is another one now: what was received before belongs to a history that is over.

    It comes where another session took the place of this one, where the file was replaced or shortened from outside, and
    may come where an archived session is brought back. `cursor` is where the new history is read from: all of it follows.
    """

    cursor: Cursor


FeedEvent: TypeAlias = EntryAdded | LeafChange | Transient | Reset
"""Anything that a feed carries."""


class News(Struct, frozen=True):
    """What a stretch of a feed holds for those who read entries, made once for all who stand at its start.

    Attributes:
        start: The position of its first event.
        end: The position after its last event.
        first, last: The ordinals of the first and the last entry in it; 0 where there is none.
        generation: The history that the entries belong to.
        entries: The entries in it, up to a reset.
        shown: The entries, and of the transient events between two of them the latest of each name.
        reset: Whether it ends with a reset; what follows that is not in it.
    """

    start: int
    end: int
    first: int
    last: int
    generation: str
    entries: tuple[Entry, ...]
    shown: tuple[Entry | Transient, ...]
    reset: bool


class Reader(Protocol):
    """Whoever reads a feed."""

    @property
    def lag(self) -> int:
        """How many events wait for it."""
        ...


class Feed:
    """The recent events of one session.

    Args:
        events_max: How many events are kept.
        bytes_max: How many bytes of lines the kept events may stand for.

    Attributes:
        start: The position of the oldest event that is kept.
        end: The position after the last event.
        subscribers: How many follow it.
        readers: Those of them that read events one by one, for statistics.
        closed: Nothing will follow what is there.
    """

    __slots__ = (
        "_event",
        "_events",
        "_left",
        "_news",
        "_size",
        "_sizes",
        "bytes_max",
        "closed",
        "end",
        "events_max",
        "readers",
        "start",
        "subscribers",
    )

    def __init__(self, events_max: int = 1024, bytes_max: int = 8 * 1024 * 1024) -> None:
        self.events_max = events_max
        self.bytes_max = bytes_max
        self.start = self.end = 0
        self.subscribers = 0
        self.readers: set[Reader] = set()
        self.closed = False
        self._left: tuple[Cursor, int] | None = None
        self._news: News | None = None
        self._events: list[FeedEvent] = []
        self._sizes: list[int] = []
        self._size = 0
        self._event: Event | None = None

    @property
    def size(self) -> int:
        """How many bytes of lines the kept events stand for."""
        return self._size

    @property
    def lag_max(self) -> int:
        """How many events wait for the slowest reader."""
        return max((reader.lag for reader in self.readers), default=0)

    def publish(self, event: FeedEvent, size: int = 0) -> None:
        """Add an event that stands for so many bytes of lines, and wake the subscribers."""
        self._events.append(event)
        self.end += 1
        self._sizes.append(size)
        self._size += size
        if len(self._events) > self.events_max or self._size > self.bytes_max:
            self._forget()
        self._wake()

    def news(self, position: int) -> News:
        """Return what happened from a position on, which must not lie before `start`."""
        news = self._news
        if news is None or news.start != position or news.end != self.end:
            news = self._news = _news(position, self._events[position - self.start :])
        return news

    def at(self, position: int) -> FeedEvent:
        """Return the event at a position, which must not lie before `start`."""
        return self._events[position - self.start]

    def latest_transients(self) -> int:
        """Return the position of the transient events that came last and that no entry has followed yet."""
        latest = len(self._events)
        while latest and isinstance(self._events[latest - 1], Transient):
            latest -= 1
        return self.start + latest

    def wait(self) -> Awaitable[None]:
        """Wait for the next event."""
        if self._event is None:
            self._event = Event()
        return self._event.wait()

    # -- the log behind it

    def let_go(self, cursor: Cursor, leaf: int) -> None:
        """Note where the log and its leaf stand when it is let go while somebody is subscribed."""
        self._left = cursor, leaf

    def taken_up(self, cursor: Cursor, leaf: int) -> None:
        """Go on with a log that was let go; where others wrote to it meanwhile, the subscribers look at it anew."""
        left, self._left = self._left, None
        if left is None or left == (cursor, leaf):
            return
        if left[0].generation not in ("", cursor.generation):
            self.publish(Reset(Cursor(cursor.generation, 0)))
        else:
            self._skip()

    def replaced(self, cursor: Cursor) -> None:
        """Note that another log was written in the place of one that was let go."""
        self.taken_up(cursor, 0)

    def close(self) -> None:
        """End it: the subscribers get what is there, and no more."""
        self.closed = True
        self._wake()

    def _skip(self) -> None:
        """Leave events out that nobody here has seen: all subscribers fall behind, and read on from the log."""
        self.start = self.end = self.end + 1
        self._news = None
        self._events.clear()
        self._sizes.clear()
        self._size = 0
        self._wake()

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()
            self._event = None

    def _forget(self) -> None:
        """Let go of the older half, and of more where large entries ask for it."""
        drop = (len(self._events) + 1) // 2
        size = self._size - sum(self._sizes[:drop])
        while size > self.bytes_max and drop < len(self._events):
            size -= self._sizes[drop]
            drop += 1
        del self._events[:drop], self._sizes[:drop]
        self._news = None
        self._size = size
        self.start += drop


def _news(start: int, events: Sequence[FeedEvent]) -> News:
    entries: list[Entry] = []
    shown: list[Entry | Transient] = []
    latest: dict[str, int] = {}
    generation = ""
    reset = False
    for event in events:
        if isinstance(event, EntryAdded):
            generation = event.generation
            entries.append(event.entry)
            shown.append(event.entry)
            latest = {}
        elif isinstance(event, Transient):
            if event.name in latest:
                shown[latest[event.name]] = event
            else:
                latest[event.name] = len(shown)
                shown.append(event)
        elif isinstance(event, Reset):
            reset = True
            break
    first, last = (entries[0].seq, entries[-1].seq) if entries else (0, 0)
    return News(start, start + len(events), first, last, generation, tuple(entries), tuple(shown), reset)
