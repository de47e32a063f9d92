"""An open log: its index, and access to its entries.

Owners and followers alike read through this. It folds new lines, reads bodies in pages, and keeps decoded entries in
the host's cache. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count, pairwise
from typing import TypeVar

import msgspec
from msgspec import Raw

from ...events.dialects.base import Dialect, size_of
from ...events.entries import NEVER_COMPLETED, Entry, Header, OpaqueEntry
from ...events.errors import LogReplaced, NotLive, SessionNotFound
from ...events.ids import RECENT_MAX
from ...events.index import LogIndex
from ...events.kinds import Kind
from ...events.stores.base import Blob, Cursor, Page, Ref
from ...events.stores.capabilities import LooksAtOnce
from ...events.telemetry import logger
from ...projections.building.pairing import PairedMessages
from ...projections.context import Context, ContextPlan, boundary, build, extended_to, plan, plan_since
from ...projections.feed import EntryAdded, Feed, LeafChange
from ...projections.tokens import Tokenizer
from ..host.runtime import Runtime
from .bodies import KeptContext

T = TypeVar("T")

_SCAN_INLINE_MAX = 64 * 1024
_BODIES_AT_ONCE = 256
_RUN_MIN = 64
_UNSETTLED_MAX = 4096  # more ids would delay the first search for one on the event loop
_WARNINGS_MAX = 16
_LOOKS_MAX = 64
_numbers = count(1)


class OpenLog:
    """The index and the bodies of one log.

    Attributes:
        ref: The log's name in the store.
        index: What is known about its lines.
        dialect: The dialect of its lines.
        generation: The history that the index belongs to.
        feed: The feed of its subscribers, while there are any.
        replaced: Whether a read found another log in its place.
        snapshot_at: The seq at which the index was last restored from a snapshot; 0 without one.
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
    def peek(cls, runtime: Runtime, ref: Ref, new_header: Header | None) -> tuple[LogIndex, str]:
        """Read a log's index without waiting and without activating the session.

        Args:
            runtime: The host's seams; its store must be one that `LooksAtOnce`.
            ref: The name of the log.
            new_header: The header of a session that may have no log yet.

        Raises:
            SessionNotFound: There is no such log, and no header was given.
            NotLive: The store cannot read without waiting.
        """
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
        looks = runtime.looks
        if looks is None:
            raise NotLive(f"session {ref!r} is passivated and its store is remote: await `refresh` first")
        for _ in range(_LOOKS_MAX - 1):
            with suppress(LogReplaced):  # archiving moves the log while it is read
                return cls._look(runtime, looks, ref)
        return cls._look(runtime, looks, ref)

    @classmethod
    def _look(cls, runtime: Runtime, looks: LooksAtOnce, ref: Ref) -> OpenLog:
        peeked = looks.peek(ref)
        log = cls(runtime, ref, peeked.opening.header, peeked.opening.dialect, peeked.opening.head.generation)
        snapshot = peeked.load("index")
        if snapshot is not None:
            log.restore(snapshot)
        more = True
        while more:
            page = peeked.read(log.index.seen)
            more = page.more and bool(page.lines)
            log._fold_page(page)
        log.restore_leaf(peeked.load("leaf"))
        return log

    @property
    def cursor(self) -> Cursor:
        """The cursor at the end of the visible log."""
        return Cursor(self.generation, self.index.head)

    # -- folding lines

    async def take_up(self, *, caching: bool = True) -> None:
        """Fold the whole log, starting from a valid snapshot if there is one, and restore the leaf.

        Args:
            caching: Keep the entries of the last page in the cache, since they are likely to be read next.
        """
        store = self._runtime.store
        snapshot = await store.load(self.ref, "index")
        if snapshot is not None:
            await self._runtime.offload(self.restore, snapshot)
        await self._scan(caching=caching)
        self.restore_leaf(await store.load(self.ref, "leaf"))

    def restore(self, blob: Blob) -> None:
        """Take the index from a snapshot if it belongs to this log."""
        if blob.head.generation != self.generation:
            return
        index = LogIndex.restore(blob.data, self.index.header, model_changes_win=self.dialect.model_changes_win)
        if index is not None and index.head == blob.head.seq:
            self.index = index
            self.snapshot_at = index.head

    def restore_leaf(self, blob: Blob | None) -> None:
        """Move the leaf to where its record says, unless an entry that became the leaf was appended later."""
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

    async def _scan(self, *, caching: bool) -> None:
        """Fold the whole log, off the event loop if it is large; nothing else may use the log meanwhile."""
        more = True
        while more:
            page = await self._runtime.store.read(self.ref, self.generation, self.index.seen)
            more = page.more and bool(page.lines)
            size = size_of(page.lines)
            if size <= _SCAN_INLINE_MAX:
                entries = self._fold_page(page)
            else:
                entries = await self._runtime.offload(self._fold_page, page)
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
            self._fold_page(page)
        await self._warn_of_damage()

    def _fold_page(self, page: Page) -> list[Entry | None]:
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

    # -- reading

    async def entries_at(self, seqs: Sequence[int]) -> dict[int, Entry | None]:
        """Read entries by seq; None for damaged lines."""
        cache = self._runtime.bodies
        entry_by_seq, missing = cache.get(self._number, seqs)
        runs, scattered = _runs(missing)
        for first, last in runs:
            while first <= last:
                page = await self._page(first - 1, last)
                if not page.lines:
                    scattered += range(first, last + 1)  # reading them one by one reports what is wrong
                    break
                entries = self._all_shown(first, self.dialect.decode_all(page.lines, first))
                size = size_of(page.lines) // len(entries)
                if size * len(missing) <= cache.max_bytes:  # more would only evict everything, itself included
                    cache.put_run(self._number, first, entries, size)
                entry_by_seq.update(enumerate(entries, first))
                first = page.last + 1
        for start in range(0, len(scattered), _BODIES_AT_ONCE):
            part = scattered[start : start + _BODIES_AT_ONCE]
            lines = await self.lines_at(part)
            for seq, line in zip(part, lines, strict=True):
                entry = self._shown(seq, self.dialect.decode(line, seq))
                cache.put(self._number, seq, entry, len(line))
                entry_by_seq[seq] = entry
        return entry_by_seq

    async def entries_in(self, seqs: Sequence[int]) -> list[Entry]:
        """Read entries by seq, in the requested order; damaged lines are left out."""
        entry_by_seq = await self.entries_at(seqs)
        return [entry for seq in seqs if (entry := entry_by_seq[seq]) is not None]

    async def lines_at(self, seqs: Sequence[int]) -> list[bytes]:
        """Read raw lines by seq, in the requested order."""
        store = self._runtime.store
        return await self._read(lambda generation: store.bodies(self.ref, generation, seqs))

    async def _page(self, after: int, through: int) -> Page:
        store = self._runtime.store
        return await self._read(lambda generation: store.read(self.ref, generation, after, through=through))

    async def _read(self, reading: Callable[[str], Awaitable[T]]) -> T:
        """Read, and repeat that if this host archived or unarchived the log meanwhile: the same bytes in another file.

        Raises:
            LogReplaced: Another program replaced the log.
            SessionNotFound: The log was deleted.
        """
        while True:
            generation = self.generation
            try:
                return await reading(generation)
            except LogReplaced:
                later = await self._runtime.moved_logs.later_generation(self.ref, generation)
                if self.generation != generation:
                    continue
                if later is None:
                    self.replaced = True
                    raise
                self.generation = later

    async def page(self, after: int, through: int) -> tuple[list[Entry], int]:
        """Read the next visible entries of an interval; damaged lines are left out.

        Returns:
            The entries, and the seq up to which the log was read: `through` when nothing is left.
        """
        page = await self._page(after, through)
        shown: list[Entry] = []
        for seq, line in enumerate(page.lines, page.first):
            entry = self._shown(seq, self.dialect.decode(line, seq))
            if entry is not None:
                shown.append(entry)
        return shown, page.last if page.lines else through

    def _all_shown(self, first: int, entries: list[Entry | None]) -> list[Entry | None]:
        """Return consecutive entries as readers see them; see `_shown`."""
        if Kind.ABORTED in self.index.kinds[first : first + len(entries)] or not all(entries):
            return [self._shown(seq, entry) for seq, entry in enumerate(entries, first)]
        return entries

    def _shown(self, seq: int, entry: Entry | None) -> Entry | None:
        """Return an entry as readers see it: opaque if its batch was never completed, None if it has no id."""
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
        """Return the context of a leaf, reading only the bodies that it shows, or only those that are new."""
        kept = self._runtime.bodies.context(self._number)
        since = None if kept is None else plan_since(self.index, leaf, kept.context)
        if kept is None or since is None:
            whole = await self.plan(leaf)
            context = build(self.index, whole, await self.entries_at(whole.needed))
            self._keep(context, whole.needed)
        elif leaf == kept.context.leaf:
            context = kept.context
        else:
            context = extended_to(self.index, since, await self.entries_at(since.needed), kept.context)
            self._keep(context, since.needed, kept)
        return context

    def _keep(self, context: Context, seqs: Sequence[int], extended: KeptContext | None = None) -> None:
        """Keep the leaf's context in the cache, unless the entries that were read for it have no room there."""
        cache = self._runtime.bodies
        size = cache.size_of(self._number, seqs) if context.leaf == self.index.leaf else None
        if size is None:
            return
        paired = None
        if extended is not None:
            size, paired = size + extended.size, extended.paired
        cache.put_context(self._number, KeptContext(context, size, paired))

    def paired(self, context: Context, tokenizer: Tokenizer) -> PairedMessages:
        """Return the messages of a context of this log as they can be sent, with their sizes."""
        kept = self._runtime.bodies.context(self._number)
        paired = PairedMessages.of(context.messages, tokenizer, None if kept is None else kept.paired)
        if kept is not None and kept.context is context:
            kept.paired = paired
        return paired

    async def plan(self, leaf: int) -> ContextPlan:
        """Return which entries the context of a leaf is built from."""
        first = boundary(self.index, leaf)
        at_boundary = (await self.entries_at([first]))[first] if first else None
        return plan(self.index, leaf, at_boundary)


def _runs(seqs: Sequence[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Split seqs into long runs of consecutive ones, by first and last, and all others."""
    runs: list[tuple[int, int]] = []
    others: list[int] = []
    breaks = [at for at, (before, seq) in enumerate(pairwise(seqs), 1) if seq != before + 1]
    for start, stop in pairwise([0, *breaks, len(seqs)]):
        if stop - start >= _RUN_MIN:
            runs.append((seqs[start], seqs[stop - 1]))
        else:
            others += seqs[start:stop]
    return runs, others
