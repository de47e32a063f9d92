"""The feed: the recent events of one session, shared by its subscribers; and the interface through which views read.

Each subscriber holds only its position in the feed. The writer adds an event and wakes all subscribers at once, so a
waiting subscriber costs nothing, and one that has fallen behind the feed continues from the log. A feed exists while
the session has subscribers.

Subscriptions and views read a session through a `Source`, up to the committed end of its log, and need nothing else of
it. The actors implement it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Protocol, TypeAlias

from anyio import Event
from msgspec import Raw, Struct

from ..events.entries import Entry
from ..events.index import LogIndex
from ..events.json_values import JSON, json_value, raw_json
from ..events.kinds import Kind
from ..events.stores.base import Cursor
from .context import Context


class EntryAdded(Struct, frozen=True, gc=False):
    """An entry was appended; `leaf` is the seq of the leaf after it, `generation` the generation of both."""

    entry: Entry
    leaf: int
    generation: str


class LeafMove(Struct, frozen=True):
    """The leaf was moved without an append, or is told to a subscriber that has just caught up with the log.

    Attributes:
        leaf: The seq of the leaf; 0 for none.
        entry_id: Its id; None for none.
        cursor: The end of the log at that moment.
    """

    leaf: int
    entry_id: str | None
    cursor: Cursor


class Transient(Struct, frozen=True):
    """An event that is never written to the log, such as a token delta or progress.

    Between two entries, a slow subscriber gets only the latest event of each `name`; pieces of a text are joined, see
    `TextPiece`.
    """

    name: str
    raw: Raw

    @property
    def data(self) -> JSON:
        """The data of the event, decoded again for each caller."""
        return json_value(self.raw)


def transient(name: str, data: object) -> Transient:
    """Make a transient event from any JSON value."""
    return Transient(name, raw_json(data))


class TextPiece(Transient, frozen=True):
    """A piece of a text that is being written, such as an answer: its place in the text is known, so none is lost.

    A slow subscriber gets neighbouring pieces joined. One that comes late gets all of the text so far, from offset 0.
    Apply a piece by its offset: 0 replaces the text, the length of the text continues it, and a piece that ends within
    it is known already. `data` has the fields `message`, `offset`, `end` and `text`.

    Attributes:
        message: Names the text among those of its session; a new one means that the text before is given up.
        offset: Where in the text the piece begins, in characters.
        text: The piece.
    """

    message: str
    offset: int
    text: str

    @property
    def end(self) -> int:
        """Where in the text the piece ends, in characters."""
        return self.offset + len(self.text)


def text_piece(name: str, message: str, offset: int, text: str) -> TextPiece:
    """Make a piece of a text."""
    data = {"message": message, "offset": offset, "end": offset + len(text), "text": text}
    return TextPiece(name, raw_json(data), message, offset, text)


TEXT_CHARS_MAX = 1024 * 1024
"""How much of a text that is being written is kept for subscribers that come late."""


class RunningText(Struct):
    """A text that is being written: its message, its pieces from the beginning on, and the end of the log then."""

    message: str
    pieces: list[str]
    length: int
    since: int


class RunningTexts:
    """The texts of one session that are being written, by the name of their events.

    A text is over when an assistant's message follows in the log, or when another text of its name begins.
    """

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[str, RunningText] = {}

    def add(self, name: str, message: str, text: str, head: Callable[[], int]) -> TextPiece:
        """Add the next piece of a text, and return it.

        Args:
            name: The name of the event.
            message: The text; another one than before begins anew.
            text: The piece.
            head: Returns the seq of the last line of the log, for the beginning of a text.
        """
        running = self._texts.get(name)
        if running is None or running.message != message:
            running = self._texts[name] = RunningText(message, [], 0, head())
        offset = running.length
        running.length += len(text)
        if running.length <= TEXT_CHARS_MAX:
            running.pieces.append(text)
        else:
            running.pieces.clear()
        return text_piece(name, message, offset, text)

    def take(self, piece: TextPiece, head: Callable[[], int]) -> None:
        """Take a piece that another host made; one that neither begins its text nor continues what is here is known."""
        running = self._texts.get(piece.name)
        if piece.offset == 0:
            self._texts[piece.name] = RunningText(piece.message, [piece.text], piece.end, head())
        elif running is not None and (running.message, running.length) == (piece.message, piece.offset):
            self.add(piece.name, piece.message, piece.text, head)

    def so_far(self, index: LogIndex) -> list[TextPiece]:
        """Return the texts that are not over, each as one piece from its beginning on; none that became too long."""
        texts: list[TextPiece] = []
        for name, running in list(self._texts.items()):
            if Kind.ASSISTANT in index.kinds[running.since + 1 :]:
                del self._texts[name]
            elif running.pieces:
                running.pieces = ["".join(running.pieces)]
                texts.append(text_piece(name, running.message, 0, running.pieces[0]))
        return texts


class Reset(Struct, frozen=True):
    """The log has been replaced: the entries received before belong to an old generation.

    Sent when another session took the place of this one or the file was replaced or shortened from outside, not when
    the session is archived or brought back. `cursor` is the start of the new generation, all of whose entries follow.
    """

    cursor: Cursor


FeedEvent: TypeAlias = EntryAdded | LeafMove | Transient | Reset
"""Any event of a feed."""


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
