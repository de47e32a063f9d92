"""The feed: the recent events of one session, shared by its subscribers; and the interface through which views read.

Each subscriber holds only its position in the feed. The writer adds an event and wakes all subscribers at once, so a
waiting subscriber costs nothing, and one that has fallen behind the feed continues from the log. A feed exists while
the session has subscribers.

Subscriptions and views read a session through a `Source`, up to the committed end of its log, and need nothing else of
it. The actors implement it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from itertools import takewhile
from typing import Protocol

from anyio import Event

from ..events.entries import Entry
from ..events.index import LogIndex
from ..events.stores.base import Cursor
from .context import Context
from .feed_events import EntryAdded, FeedEvent, LeafMove, Reset, TextPiece, Transient, text_piece
from .running_texts import RunningTexts


class FeedSection:
    """The events of a feed from one position to another, prepared once for all subscribers that are at its start.

    Args:
        start: The position of its first event.
        events: The events.

    Attributes:
        start: The position of its first event.
        end: The position after its last event.
        first: The seq of its first entry; 0 if it has none.
        last: The seq of its last entry; 0 if it has none.
        generation: The generation of the entries.
        entries: Its entries, up to a reset.
        reset: Whether it was cut at a reset; later events are not included.
    """

    __slots__ = ("_events", "_shown", "end", "entries", "first", "generation", "last", "reset", "start")

    def __init__(self, start: int, events: Sequence[FeedEvent]) -> None:
        added = [event for event in takewhile(_is_no_reset, events) if isinstance(event, EntryAdded)]
        self.start = start
        self.end = start + len(events)
        self.entries: tuple[Entry, ...] = tuple([event.entry for event in added])
        self.first, self.last = (self.entries[0].seq, self.entries[-1].seq) if added else (0, 0)
        self.generation = added[-1].generation if added else ""
        self.reset = any(isinstance(event, Reset) for event in events)
        self._events: Sequence[FeedEvent] = events
        self._shown: dict[tuple[bool, bool], tuple[Entry | Transient | LeafMove, ...]] = {}

    def shown(self, *, transient: bool, leaf: bool) -> tuple[Entry | Transient | LeafMove, ...]:
        """Return the entries with what is between them, the same object for all who ask for the same.

        Args:
            transient: With the latest transient event of each name between two entries, and the joined pieces of texts.
            leaf: With the latest move of the leaf between two entries.
        """
        known = self._shown.get((transient, leaf))
        if known is None:
            known = self._shown[transient, leaf] = tuple(_between(self._events, transient=transient, leaf=leaf))
        return known


class Reader(Protocol):
    """A reader of a feed."""

    @property
    def lag(self) -> int:
        """The number of events that it has not read yet."""
        ...


class Feed:
    """The recent events of one session.

    Args:
        events_max: The maximum number of retained events.
        bytes_max: The maximum total size of the lines of the retained events, in bytes.
        texts: The texts of the session that are being written, which outlive the feed.

    Attributes:
        start: The position of the oldest retained event.
        end: The position after the last event.
        resets: How many resets were published.
        subscribers: The number of subscribers.
        readers: The subscribers that read events one by one, for statistics.
        closed: Whether no more events will follow.
        texts: The texts of the session that are being written.
    """

    __slots__ = (
        "_event",
        "_events",
        "_section",
        "_size",
        "_sizes",
        "bytes_max",
        "closed",
        "end",
        "events_max",
        "readers",
        "resets",
        "start",
        "subscribers",
        "texts",
    )

    def __init__(
        self, events_max: int = 1024, bytes_max: int = 8 * 1024 * 1024, texts: RunningTexts | None = None
    ) -> None:
        self.events_max = events_max
        self.bytes_max = bytes_max
        self.start = self.end = 0
        self.resets = 0
        self.subscribers = 0
        self.readers: set[Reader] = set()
        self.closed = False
        self.texts = RunningTexts() if texts is None else texts
        self._section: FeedSection | None = None
        self._events: list[FeedEvent] = []
        self._sizes: list[int] = []
        self._size = 0
        self._event: Event | None = None

    @property
    def size(self) -> int:
        """The total size of the lines of the retained events, in bytes."""
        return self._size

    @property
    def lag_max(self) -> int:
        """The number of events that the slowest reader has not read yet."""
        return max((reader.lag for reader in self.readers), default=0)

    def publish(self, event: FeedEvent, size: int = 0) -> None:
        """Add an event whose lines have `size` bytes, and wake the subscribers."""
        self._events.append(event)
        self.end += 1
        self._sizes.append(size)
        self._size += size
        if len(self._events) > self.events_max or self._size > self.bytes_max:
            self._drop_oldest()
        self._wake()

    def reset(self, generation: str) -> None:
        """Note that the log was replaced by one with this generation, which may be that of before."""
        self.resets += 1
        self.publish(Reset(Cursor(generation, 0)))

    def section(self, position: int) -> FeedSection:
        """Return the events from a position on, which must not be less than `start`."""
        section = self._section
        if section is None or section.start != position or section.end != self.end:
            section = self._section = FeedSection(position, self._events[position - self.start :])
        return section

    def at(self, position: int) -> FeedEvent:
        """Return the event at a position, which must not be less than `start`."""
        return self._events[position - self.start]

    def latest_transients(self) -> int:
        """Return the position where the trailing transient events begin: those that nothing has followed yet."""
        trailing = takewhile(lambda event: isinstance(event, Transient), reversed(self._events))
        return self.end - sum(1 for _ in trailing)

    def wait(self) -> Awaitable[None]:
        """Wait for the next event."""
        if self._event is None:
            self._event = Event()
        return self._event.wait()

    def resume(self, before: tuple[Cursor, int], now: tuple[Cursor, int]) -> None:
        """Note that the log was opened again: subscribers read what others added to it, or all of another log.

        Args:
            before: The end and the leaf up to which this feed has the log.
            now: The end and the leaf that it has now.
        """
        (known, _), (cursor, _) = before, now
        if known.generation not in ("", cursor.generation) or cursor.seq < known.seq:
            self.reset(cursor.generation)
        elif before != now:
            self._skip()

    def close(self) -> None:
        """End the feed: the subscribers get the events that are left, and no more."""
        self.closed = True
        self._wake()

    def _skip(self) -> None:
        """Skip events that never reached the feed: all subscribers fall behind, and continue from the log."""
        self.start = self.end = self.end + 1
        self._section = None
        self._events.clear()
        self._sizes.clear()
        self._size = 0
        self._wake()

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()
            self._event = None

    def _drop_oldest(self) -> None:
        """Drop the older half of the events, and more if that leaves too many bytes."""
        drop = (len(self._events) + 1) // 2
        size = self._size - sum(self._sizes[:drop])
        while size > self.bytes_max and drop < len(self._events):
            size -= self._sizes[drop]
            drop += 1
        del self._events[:drop], self._sizes[:drop]
        self._section = None
        self._size = size
        self.start += drop


def _is_no_reset(event: FeedEvent) -> bool:
    return not isinstance(event, Reset)


def _between(events: Sequence[FeedEvent], *, transient: bool, leaf: bool) -> list[Entry | Transient | LeafMove]:
    """Return entries, and the latest of what is between two of them, up to a reset."""
    shown: list[Entry | Transient | LeafMove] = []
    latest: dict[str | None, int] = {}
    joined: dict[int, list[TextPiece]] = {}
    for event in takewhile(_is_no_reset, events):
        if isinstance(event, EntryAdded):
            shown.append(event.entry)
            latest = {}
        elif isinstance(event, LeafMove):
            if leaf:
                _put(shown, latest, None, event)
        elif isinstance(event, Transient) and transient:
            at = latest.get(event.name)
            pieces = None if at is None else joined.get(at)
            if pieces is not None and at is not None and isinstance(event, TextPiece) and _continues(pieces[-1], event):
                pieces.append(event)
                continue
            at = _put(shown, latest, event.name, event)
            if isinstance(event, TextPiece):
                joined[at] = [event]
    for at, pieces in joined.items():
        if len(pieces) > 1 and shown[at] is pieces[0]:
            first = pieces[0]
            shown[at] = text_piece(first.name, first.message, first.offset, "".join([each.text for each in pieces]))
    return shown


def _put(
    shown: list[Entry | Transient | LeafMove],
    latest: dict[str | None, int],
    name: str | None,
    event: Transient | LeafMove,
) -> int:
    """Show an event in the place of the one of its name since the last entry, and return the place."""
    at = latest.get(name)
    if at is None:
        at = latest[name] = len(shown)
        shown.append(event)
    else:
        shown[at] = event
    return at


def _continues(before: TextPiece, piece: TextPiece) -> bool:
    return before.message == piece.message and before.end == piece.offset


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
