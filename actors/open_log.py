"""A log that is open: its index, and the way to what its lines say.

Owner and follower alike read through this. It folds what is new, reads bodies in pages, and keeps decoded entries in
the host's cache. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeVar

import msgspec
from msgspec import Raw

from ..events.block import size_of
from ..events.dialects.base import Dialect
from ..events.entries import NEVER_COMPLETED, Entry, Header, OpaqueEntry
from ..events.errors import LogReplaced, NotLive, SessionNotFound
from ..events.ids import RECENT_MAX
from ..events.index import LogIndex
from ..events.kinds import Kind
from ..events.stores.base import Blob, Cursor, LocalStore, Page, Ref
from ..events.telemetry import logger
from ..projections.context import Context, ContextPlan, boundary, build, plan
from ..projections.feed import EntryAdded, Feed, LeafChange
from .leaf_record import decode_leaf
from .runtime import Runtime

T = TypeVar("T")

_SCAN_INLINE_MAX = 64 * 1024
_BODIES_AT_ONCE = 256
_RUN_MIN = 64
_WARNINGS_MAX = 16
_LOOKS_MAX = 64
_numbers = count(1)


class OpenLog:
    """The index and the bodies of one log.

    Attributes:
        ref: The log's name in the store.
        index: What is known of its lines.
        dialect: How its lines are written.
        generation: The history that the index belongs to.
        feed: What subscribers share, while there are any.
        replaced: Whether a read found another log in its place.
    """

    __slots__ = (
        "_damaged",
        "_number",
        "_runtime",
        "_withheld",
        "dialect",
        "feed",
        "generation",
        "index",
        "ref",
        "replaced",
        "snapshot_at",
    )

    def __init__(self, runtime: Runtime, ref: Ref, header: Header, dialect: Dialect, generation: str) -> None:
        self._runtime = runtime
        self._number = next(_numbers)
        self.ref = ref
        self.index = LogIndex(header, model_changes_win=dialect.model_changes_win)
        self.dialect = dialect
        self.generation = generation
        self.feed: Feed | None = None
        self.snapshot_at = 0
        self.replaced = False
        self._damaged: list[int] = []
        self._withheld: dict[int, tuple[Entry | None, int]] = {}

    @classmethod
    def peek(cls, runtime: Runtime, ref: Ref, birth: Header | None) -> tuple[LogIndex, str]:
        """Read a log's index at once, without taking the session up.

        Args:
            runtime: The host's seams; its store must be a `LocalStore`.
            ref: The name of the log.
            birth: The header of a session that may not have been written to yet.

        Raises:
            SessionNotFound: There is no such log, and no header was given.
            NotLive: The store cannot read without waiting.
        """
        try:
            log = cls.look(runtime, ref)
        except SessionNotFound:
            if birth is None:
                raise
            return LogIndex(birth), ""
        return log.index, log.generation

    @classmethod
    def look(cls, runtime: Runtime, ref: Ref) -> OpenLog:
        """Fold a log at once, as it is now; its bodies are not kept.

        Raises:
            SessionNotFound: There is no such log.
            NotLive: The store cannot read without waiting.
        """
        store = runtime.store
        if not isinstance(store, LocalStore):
            raise NotLive(f"session {ref!r} is passivated and its store is remote: await `refresh` first")
        for _ in range(_LOOKS_MAX - 1):
            with suppress(LogReplaced):  # archiving moves the log while it is read
                return cls._look(runtime, store, ref)
        return cls._look(runtime, store, ref)

    @classmethod
    def _look(cls, runtime: Runtime, store: LocalStore, ref: Ref) -> OpenLog:
        look = store.peek(ref)
        log = cls(runtime, ref, look.opening.header, look.opening.dialect, look.opening.head.generation)
        snapshot = look.load("index")
        if snapshot is not None:
            log.restore(snapshot)
        more = True
        while more:
            page = look.read(log.index.seen)
            more = page.more and bool(page.lines)
            log._fold_page(page)
        log.restore_leaf(look.load("leaf"))
        return log

    @property
    def cursor(self) -> Cursor:
        """Where the visible log ends."""
        return Cursor(self.generation, self.index.head)

    # -- taking in lines

    async def take_up(self) -> None:
        """Fold the whole log, from its snapshot where a valid one is there, and put the leaf where it was moved to."""
        store = self._runtime.store
        snapshot = await store.load(self.ref, "index")
        if snapshot is not None:
            await self._runtime.offload(self.restore, snapshot)
        await self.scan()
        self.restore_leaf(await store.load(self.ref, "leaf"))

    def restore(self, blob: Blob) -> None:
        """Take the index from a snapshot, where it is one of this log."""
        if blob.head.generation != self.generation:
            return
        index = LogIndex.restore(blob.data, self.index.header, model_changes_win=self.dialect.model_changes_win)
        if index is not None and index.head == blob.head.seq:
            self.index = index
            self.snapshot_at = index.head

    def restore_leaf(self, blob: Blob | None) -> None:
        """Move the leaf to where its record says, as long as nothing but entries aside was appended since."""
        record = decode_leaf(blob.data) if blob is not None else None
        if blob is None or record is None or blob.head.generation != self.generation:
            return
        seq = self.index.find(record.leaf) if record.leaf is not None else 0
        if self.index.tip <= blob.head.seq and (seq or record.leaf is None):
            self.index.move_leaf(seq)

    async def find_leaf(self) -> None:
        """Move the leaf to where its record says now, and notify subscribers where that is elsewhere."""
        before = self.index.leaf
        self.restore_leaf(await self._runtime.store.load(self.ref, "leaf"))
        if self.feed is not None and self.index.leaf != before:
            self.feed.publish(LeafChange(self.index.leaf))

    async def scan(self) -> None:
        """Fold the whole log, off the event loop where it is large; nobody else may use the log meanwhile."""
        more = True
        while more:
            page = await self._runtime.store.read(self.ref, self.generation, self.index.seen)
            more = page.more and bool(page.lines)
            if size_of(page.lines) <= _SCAN_INLINE_MAX:
                self._fold_page(page)
            else:
                await self._runtime.offload(self._fold_page, page)
        await self._warn_of_damage()

    async def catch_up(self) -> None:
        """Fold the lines that were appended since.

        Raises:
            LogReplaced: The log has another generation now.
        """
        more = True
        while more:
            page = await self._runtime.store.read(self.ref, self.generation, self.index.seen)
            more = page.more and bool(page.lines)
            self._fold_page(page)
        await self._warn_of_damage()

    def _fold_page(self, page: Page) -> None:
        known = self.index.seen - page.first + 1  # what another task took in while this page was read
        lines = page.lines[known:] if known else page.lines
        first = page.first + known
        entries = self.dialect.decode_all(lines, first)
        self._damaged += [seq for seq, entry in enumerate(entries, first) if entry is None]
        if self.feed is None:
            self.index.fold_all(entries)
        else:
            for seq, entry in enumerate(entries, first):
                self.index.fold(entry)
                self._publish(seq, entry, len(lines[seq - first]))
        self.index.ids.settle(above=RECENT_MAX)

    async def _warn_of_damage(self) -> None:
        """Say where the damaged lines are that were just folded; they are kept and skipped."""
        if not self._damaged:
            return
        damaged, self._damaged = self._damaged, []
        shown = damaged[:_WARNINGS_MAX]
        store = self._runtime.store
        found = await self._runtime.offload(store.places, self.ref, shown) if isinstance(store, LocalStore) else {}
        for seq in shown:
            where = str(found[seq]) if seq in found else self.ref
            logger().warning("line_damaged", session_id=self.index.header.id, where=where, seq=seq)
        if len(damaged) > len(shown):
            logger().warning("more_lines_damaged", session_id=self.index.header.id, count=len(damaged) - len(shown))

    def appended(self, entries: Sequence[Entry], lines: Sequence[bytes]) -> None:
        """Take in what one command just wrote here."""
        taken_in = self.index.seen - entries[0].seq + 1  # by a reader that was quicker
        if taken_in > 0:
            entries, lines = entries[taken_in:], lines[taken_in:]
            self.index.fold_all(entries)
        else:
            self.index.fold_batch(entries)
        put, number = self._runtime.bodies.put, self._number
        for entry, line in zip(entries, lines, strict=True):
            put(number, entry.seq, entry, len(line))
            if self.feed is not None:
                self._publish(entry.seq, entry, len(line))

    def attach(self, feed: Feed | None) -> None:
        """Tell subscribers of what is appended from here on, lines that are withheld as yet included."""
        self.feed = feed
        self._withheld = {entry.seq: (entry, 0) for entry in self.index.withheld}

    def _publish(self, seq: int, entry: Entry | None, size: int) -> None:
        """Tell the subscribers of the lines that became visible: a batch's when it is whole, or torn for good."""
        if self.feed is None:
            return
        self._withheld[seq] = (entry, size)
        if next(iter(self._withheld)) > self.index.head:
            return  # a long batch adds its lines one by one, and none shows before the last
        for each in sorted(seq for seq in self._withheld if seq <= self.index.head):
            held, length = self._withheld.pop(each)
            shown = self._shown(each, held)
            if shown is not None:
                self.feed.publish(EntryAdded(shown, self.index.leaf, self.generation), length)

    # -- reading

    async def entries_at(self, seqs: Sequence[int]) -> dict[int, Entry | None]:
        """Read entries by ordinal; None for damaged lines."""
        cache = self._runtime.bodies
        found: dict[int, Entry | None] = {}
        missing: list[int] = []
        for seq in seqs:
            held = cache.get(self._number, seq)
            if held is None:
                missing.append(seq)
            else:
                found[seq] = held.entry
        runs, scattered = _runs(missing)
        for first, last in runs:
            while first <= last:
                page = await self._page(first - 1, last)
                if not page.lines:
                    scattered += range(first, last + 1)  # the store says what is the matter with them
                    break
                entries = self.dialect.decode_all(page.lines, first)
                if Kind.ABORTED in self.index.kinds[first : page.last + 1] or not all(entries):
                    entries = [self._shown(seq, entry) for seq, entry in enumerate(entries, first)]
                size = size_of(page.lines) // len(entries)
                if size * len(missing) <= cache.max_bytes:  # more than fits would let go of all, and be gone at the end
                    cache.put_run(self._number, first, entries, size)
                found.update(enumerate(entries, first))
                first = page.last + 1
        for start in range(0, len(scattered), _BODIES_AT_ONCE):
            part = scattered[start : start + _BODIES_AT_ONCE]
            lines = await self.lines_at(part)
            for seq, line in zip(part, lines, strict=True):
                entry = self._shown(seq, self.dialect.decode(line, seq))
                cache.put(self._number, seq, entry, len(line))
                found[seq] = entry
        return found

    async def entries_in(self, seqs: Sequence[int]) -> list[Entry]:
        """Read the entries of ordinals, in the order asked for; damaged lines are left out."""
        found = await self.entries_at(seqs)
        return [entry for seq in seqs if (entry := found[seq]) is not None]

    async def lines_at(self, seqs: Sequence[int]) -> list[bytes]:
        """Read lines as they stand in the log, in the order asked for."""
        store = self._runtime.store
        return await self._read(lambda generation: store.bodies(self.ref, generation, seqs))

    async def _page(self, after: int, through: int) -> Page:
        store = self._runtime.store
        return await self._read(lambda generation: store.read(self.ref, generation, after, through=through))

    async def _read(self, reading: Callable[[str], Awaitable[T]]) -> T:
        """Read, and read again where the owner brought the log back meanwhile: the same bytes in another file."""
        while True:
            generation = self.generation
            try:
                return await reading(generation)
            except LogReplaced:
                if self.generation == generation:
                    self.replaced = True
                    raise

    async def page(self, after: int, through: int) -> tuple[list[Entry], int]:
        """Read the next visible entries of an interval; damaged lines are left out.

        Returns:
            The entries, and the ordinal up to which the log was read: `through` when nothing is left.
        """
        page = await self._page(after, through)
        shown: list[Entry] = []
        for seq, line in enumerate(page.lines, page.first):
            entry = self._shown(seq, self.dialect.decode(line, seq))
            if entry is not None:
                shown.append(entry)
        return shown, page.last if page.lines else through

    def _shown(self, seq: int, entry: Entry | None) -> Entry | None:
        """Show a line of a batch that was never completed as an opaque entry, and no line that has no id."""
        if entry is None or entry.id is None:
            return None
        if seq > self.index.head or self.index.kinds[seq] != Kind.ABORTED:
            return entry
        return OpaqueEntry(
            type=entry.type,
            id=entry.id,
            parent_id=entry.parent_id,
            timestamp=entry.timestamp,
            raw=entry.raw if isinstance(entry, OpaqueEntry) else Raw(msgspec.json.encode(entry)),
            seq=seq,
            aside=entry.aside,
            batch=entry.batch,
            reason=NEVER_COMPLETED,
        )

    async def context(self, leaf: int) -> Context:
        """Build the context of a leaf, reading only the bodies that it shows."""
        chosen = await self.plan(leaf)
        return build(self.index, chosen, await self.entries_at(chosen.needed))

    async def plan(self, leaf: int) -> ContextPlan:
        """Say which entries the context of a leaf is built of."""
        first = boundary(self.index, leaf)
        at_boundary = (await self.entries_at([first]))[first] if first else None
        return plan(self.index, leaf, at_boundary)


def _runs(seqs: Sequence[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Part ordinals into long runs, by their first and last, and the others."""
    runs: list[tuple[int, int]] = []
    others: list[int] = []
    start = 0
    for at in range(1, len(seqs) + 1):
        if at < len(seqs) and seqs[at] == seqs[at - 1] + 1:
            continue
        if at - start >= _RUN_MIN:
            runs.append((seqs[start], seqs[at - 1]))
        else:
            others += seqs[start:at]
        start = at
    return runs, others
