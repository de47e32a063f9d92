"""An open log: its index, and access to its entries.

Owners and followers alike read through this. It folds new lines, and publishes them to subscribers. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeVar

import msgspec
from msgspec import Struct

from ...events.dialects.base import Dialect, size_of
from ...events.entries import Entry, Header
from ...events.errors import LogReplaced, NotLive, SessionNotFound
from ...events.ids import RECENT_MAX
from ...events.index import LogIndex
from ...events.json_values import UNDECODABLE
from ...events.stores.base import Blob, Cursor, Page, Peek, Ref
from ...events.stores.capabilities import LooksAtOnce
from ...events.telemetry import logger
from ...projections.feed import Feed
from ...projections.feed_events import EntryAdded, LeafMove
from ...projections.session_state import SessionState, needed, state_of
from ..host.runtime import Runtime
from .entries import LogEntries

T = TypeVar("T")

TRIES_MAX = 64
"""How often something begins again at most because the log was appended to, moved or replaced in the meantime."""

_SCAN_INLINE_MAX = 64 * 1024
_UNSETTLED_MAX = 4096  # more ids would delay the first search for one on the event loop
_WARNINGS_MAX = 16


class LeafRecord(Struct, frozen=True):
    """Where the leaf was moved to since the last append; None if it was cleared, so that the next entry becomes a root.

    A move of the leaf writes nothing to the log. Its record lies beside the log, and is valid until an entry that
    becomes the leaf is appended::

        {"leaf":"5f0c..."}
    """

    leaf: str | None


def encode_leaf(leaf_id: str | None) -> bytes:
    """Return the record as bytes."""
    return msgspec.json.encode(LeafRecord(leaf_id))


def decode_leaf(data: bytes) -> LeafRecord | None:
    """Return the record, or None if the bytes are not one."""
    try:
        return msgspec.json.decode(data, type=LeafRecord)
    except UNDECODABLE:
        return None


class OpenLog(LogEntries):
    """The index and the entries of one log.

    Attributes:
        feed: The feed of its subscribers, while there are any.
        snapshot_at: The seq at which the index was last restored from a snapshot; 0 without one.
    """

    __slots__ = ("_damaged", "_withheld", "feed", "snapshot_at")

    def __init__(self, runtime: Runtime, ref: Ref, header: Header, dialect: Dialect, generation: str) -> None:
        super().__init__(runtime, ref, header, dialect, generation)
        self.feed: Feed | None = None
        self.snapshot_at = 0
        self._damaged: list[int] = []
        self._withheld: dict[int, tuple[Entry | None, int]] = {}

    @classmethod
    def peek(cls, runtime: Runtime, ref: Ref, new_header: Header | None) -> tuple[LogIndex, str]:
        """Read a log's index without waiting and without activating the session.

        Args:
            runtime: The host's seams; its store must be one that `LooksAtOnce`.
            ref: The name of the log.
            new_header: The header of a session that may have no log yet.

        Raises:
            SessionNotFound: There is no such log, and no header was given.
            NotLive: The store cannot read without waiting, and no header was given.
        """
        if new_header is not None and runtime.looks is None:  # it was not there when the session was made
            return LogIndex(new_header), ""
        try:
            log = cls.look(runtime, ref)
        except SessionNotFound:
            if new_header is None:
                raise
            return LogIndex(new_header), ""
        return log.index, log.generation

    @classmethod
    def look(cls, runtime: Runtime, ref: Ref) -> OpenLog:
        """Fold a log as it is now, without waiting; its bodies are not kept.

        Raises:
            SessionNotFound: There is no such log.
            NotLive: The store cannot read without waiting.
        """
        return cls._look(runtime, ref, lambda log, _: log)

    @classmethod
    def look_at_state(cls, runtime: Runtime, ref: Ref) -> tuple[OpenLog, SessionState]:
        """Fold a log in the same way, and read the entries that say what its session is doing; see `look`."""

        def read(log: OpenLog, peeked: Peek) -> tuple[OpenLog, SessionState]:
            return log, state_of(log.index, log._peeked_at(peeked, needed(log.index)))

        return cls._look(runtime, ref, read)

    @classmethod
    def _look(cls, runtime: Runtime, ref: Ref, read: Callable[[OpenLog, Peek], T]) -> T:
        """Fold a log as it is now, and return what a function reads of it."""
        looks = runtime.looks
        if looks is None:
            raise NotLive(f"session {ref!r} is passivated and its store is remote: await `refresh` first")
        for _ in range(TRIES_MAX - 1):
            with suppress(LogReplaced):  # archiving moves the log while it is read
                return cls._look_once(runtime, looks, ref, read)
        return cls._look_once(runtime, looks, ref, read)

    @classmethod
    def _look_once(cls, runtime: Runtime, looks: LooksAtOnce, ref: Ref, read: Callable[[OpenLog, Peek], T]) -> T:
        peeked = looks.peek(ref)
        log = cls(runtime, ref, peeked.opening.header, peeked.opening.dialect, peeked.opening.head.generation)
        snapshot = peeked.load("index")
        if snapshot is not None:
            log.restore(snapshot)
        more = True
        while more:
            page = peeked.read(log.index.seen)
            more = page.more and bool(page.lines)
            log.fold_page(page)
        log._restore_leaf(peeked.load("leaf"))
        return read(log, peeked)

    def _peeked_at(self, peeked: Peek, seqs: Sequence[int]) -> list[Entry]:
        """Read entries by seq, in ascending order, page by page; damaged lines are left out."""
        entries: list[Entry] = []
        page: Page | None = None
        for seq in seqs:
            if page is None or seq > page.last:
                page = peeked.read(seq - 1)
            entry = self._shown(seq, self.dialect.decode(page.lines[seq - page.first], seq))
            if entry is not None:
                entries.append(entry)
        return entries

    # -- the state of the session

    async def state(self) -> SessionState:
        """Return what the session is doing."""
        return state_of(self.index, await self.entries_in(needed(self.index)))

    def state_in_memory(self) -> SessionState | None:
        """Return what the session is doing if all that is needed for that is in memory, otherwise None."""
        seqs = needed(self.index)
        known, missing = self._runtime.bodies.get(self._number, seqs)
        if missing:
            return None
        return state_of(self.index, [entry for seq in seqs if (entry := known[seq]) is not None])

    @property
    def cursor(self) -> Cursor:
        """The cursor at the end of the visible log."""
        return Cursor(self.generation, self.index.head)

    # -- folding lines

    async def take_up(self, head: int, *, caching: bool = True) -> None:
        """Fold the whole log, starting from a valid snapshot if there is one, and restore the leaf.

        Args:
            head: The seq at which the log ends; a short one has no snapshot.
            caching: Keep the entries of the last page in the cache, since they are likely to be read next.
        """
        store = self._runtime.store
        if head >= self._runtime.limits.snapshot_after_lines:
            snapshot = await store.load(self.ref, "index")
            if snapshot is not None:
                await self._runtime.offload(self.restore, snapshot)
        await self._scan(caching=caching)
        self._restore_leaf(await store.load(self.ref, "leaf"))

    def restore(self, blob: Blob) -> None:
        """Take the index from a snapshot if it belongs to this log."""
        if blob.head.generation != self.generation:
            return
        index = LogIndex.restore(blob.data, self.index.header, model_changes_win=self.dialect.model_changes_win)
        if index is not None and index.head == blob.head.seq:
            self.index = index
            self.snapshot_at = index.head

    def _restore_leaf(self, blob: Blob | None) -> None:
        """Move the leaf to where its record says, unless an entry that became the leaf was appended later."""
        record = decode_leaf(blob.data) if blob is not None else None
        if blob is None or record is None or blob.head.generation != self.generation:
            return
        seq = self.index.find(record.leaf) if record.leaf is not None else 0
        if self.index.tip <= blob.head.seq and (seq or record.leaf is None):
            self.index.move_leaf(seq)

    def follow_leaf(self, record: Blob | None) -> None:
        """Move the leaf to where its record says now, and notify subscribers where that is elsewhere."""
        before = self.index.leaf
        self._restore_leaf(record)
        if self.index.leaf != before:
            self.publish_leaf()

    def publish_leaf(self) -> None:
        """Notify subscribers of where the leaf was moved."""
        if self.feed is not None:
            leaf = self.index.leaf
            self.feed.publish(LeafMove(leaf, self.index.ids[leaf] if leaf else None, self.cursor))

    async def find_leaf(self) -> None:
        """Read the record of the leaf again; see `follow_leaf`."""
        self.follow_leaf(await self._runtime.store.load(self.ref, "leaf"))

    async def _scan(self, *, caching: bool) -> None:
        """Fold the whole log, off the event loop if it is large; nothing else may use the log meanwhile."""
        more = True
        while more:
            page = await self._runtime.store.read(self.ref, self.generation, self.index.seen)
            more = page.more and bool(page.lines)
            size = size_of(page.lines)
            if size <= _SCAN_INLINE_MAX:
                entries = self.fold_page(page)
            else:
                entries = await self._runtime.offload(self.fold_page, page)
            if caching and entries and not more:
                first = page.last + 1 - len(entries)
                visible = entries[: max(0, self.index.head + 1 - first)]
                self._runtime.bodies.put_run(self._number, first, self._all_shown(first, visible), size // len(entries))
        if self.index.ids.unsettled > _UNSETTLED_MAX:
            await self._runtime.offload(self.index.ids.settle)
        await self._warn_of_damage()

    async def catch_up(self) -> None:
        """Fold the lines that were appended since the last read.

        Raises:
            LogReplaced: The log has another generation now.
        """
        more = True
        while more:
            page = await self._runtime.store.read(self.ref, self.generation, self.index.seen)
            more = page.more and bool(page.lines)
            self.fold_page(page)
        await self._warn_of_damage()

    def fold_page(self, page: Page) -> list[Entry | None]:
        """Fold the lines of a page, and return the entries of those that were not known."""
        known = self.index.seen - page.first + 1  # lines that another task folded while this page was read
        lines = page.lines[known:] if known else page.lines
        first = page.first + known
        entries = self.dialect.decode_all(lines, first)
        self._damaged += [seq for seq, entry in enumerate(entries, first) if entry is None]
        if (feed := self.feed) is None:
            self.index.fold_all(entries)
        else:
            for entry, line, seq in zip(entries, lines, count(first)):
                self.index.fold(entry)
                self._publish(feed, seq, entry, len(line))
        self.index.ids.settle(above=RECENT_MAX)
        return entries

    async def _warn_of_damage(self) -> None:
        """Log where the damaged lines are that were just folded; they are kept and skipped."""
        if not self._damaged:
            return
        damaged, self._damaged = self._damaged, []
        shown = damaged[:_WARNINGS_MAX]
        named = self._runtime.places
        places = {} if named is None else await self._runtime.offload(named.places, self.ref, shown)
        for seq in shown:
            where = str(places[seq]) if seq in places else self.ref
            logger().warning("line_damaged", session_id=self.index.header.id, where=where, seq=seq)
        if len(damaged) > len(shown):
            logger().warning("more_lines_damaged", session_id=self.index.header.id, count=len(damaged) - len(shown))

    def appended(self, entries: Sequence[Entry], lines: Sequence[bytes]) -> int:
        """Fold the entries that one command just wrote here, publish them, and return the size of their lines."""
        folded, number, feed, total = self.index.fold_batch(entries), self._number, self.feed, 0
        for entry, line in zip(entries, lines, strict=True):
            size = len(line)
            total += size
            if folded:  # by a reader, which has published it
                folded -= 1
                continue
            self._runtime.bodies.put(number, entry.seq, entry, size)
            if feed is not None:
                self._publish(feed, entry.seq, entry, size)
        return total

    def attach(self, feed: Feed | None) -> None:
        """Publish to this feed what is appended from now on, including lines that are still withheld."""
        self.feed = feed
        self._withheld = {entry.seq: (entry, 0) for entry in self.index.withheld}

    def _publish(self, feed: Feed, seq: int, entry: Entry | None, size: int) -> None:
        """Publish the lines that became visible; a batch does when it is complete, or will never be."""
        self._withheld[seq] = (entry, size)
        if next(iter(self._withheld)) > self.index.head:
            return  # a long batch adds its lines one by one, and none shows before the last
        for each in sorted(seq for seq in self._withheld if seq <= self.index.head):
            withheld, length = self._withheld.pop(each)
            shown = self._shown(each, withheld)
            if shown is not None:
                feed.publish(EntryAdded(shown, self.index.leaf, self.generation), length)
