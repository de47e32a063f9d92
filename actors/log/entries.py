"""The entries of an open log: read in pages, decoded, and kept in the host's cache."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count, pairwise
from typing import TypeVar

import msgspec
from anyio.lowlevel import checkpoint
from msgspec import Raw, Struct
from msgspec.structs import replace

from ...events.dialects.base import Dialect, size_of
from ...events.entries import NEVER_COMPLETED, Entry, Header, OpaqueEntry
from ...events.errors import LogReplaced, SessionNotFound
from ...events.index import LogIndex
from ...events.kinds import Kind
from ...events.stores.base import Page, Ref
from ...projections.building.pairing import PairedMessages
from ...projections.building.state_of_work import Work
from ...projections.context import Context, ContextPlan, boundary, build, extended_to, plan, plan_since
from ...projections.tokens import Tokenizer, counts_whole_messages
from ..host.runtime import Runtime
from .bodies import KeptContext

T = TypeVar("T")

_BODIES_AT_ONCE = 256
_RUN_MIN = 64
_PAIRED_AT_ONCE = 4096
_numbers = count(1)


class KeptWork(Struct, frozen=True):
    """The work on the path that was asked for last.

    Attributes:
        work: The fold, which a longer path goes on with.
        leaf: The seq of the end of the path.
        marks: The index, the path's last compaction or reset, and its last edit: a path with others is shown otherwise.
    """

    work: Work
    leaf: int
    marks: tuple[LogIndex, int, int]


class LogEntries:
    """The entries of one log, by the index of its lines.

    Attributes:
        ref: The log's name in the store.
        index: What is known about its lines.
        dialect: The dialect of its lines.
        generation: The history that the index belongs to.
        replaced: Whether a read found another log in its place, or none.
        work: The work on the path that was asked for last.
    """

    __slots__ = ("_fates", "_number", "_runtime", "dialect", "generation", "index", "ref", "replaced", "work")

    def __init__(self, runtime: Runtime, ref: Ref, header: Header, dialect: Dialect, generation: str) -> None:
        self._runtime = runtime
        self._number = next(_numbers)
        self._fates = runtime.whole_logs.fates(ref)
        self.ref = ref
        self.index = LogIndex(header, model_changes_win=dialect.model_changes_win)
        self.dialect = dialect
        self.generation = generation
        self.replaced = False
        self.work: KeptWork | None = None

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

    async def sized_entries_in(self, seqs: Sequence[int]) -> list[tuple[Entry, int]]:
        """Read entries by seq, each with the length of its line; damaged lines are left out.

        They are neither taken from the cache nor kept there: a list of entries is no sign that their bodies are needed.
        """
        sized: list[tuple[Entry, int]] = []
        for start in range(0, len(seqs), _BODIES_AT_ONCE):
            part = seqs[start : start + _BODIES_AT_ONCE]
            for seq, line in zip(part, await self.lines_at(part), strict=True):
                entry = self._shown(seq, self.dialect.decode(line, seq))
                if entry is not None:
                    sized.append((entry, len(line)))
        return sized

    async def lines_at(self, seqs: Sequence[int]) -> list[bytes]:
        """Read raw lines by seq, in the requested order."""
        store = self._runtime.store
        return await self._read(lambda generation: store.bodies(self.ref, generation, seqs))

    async def _page(self, after: int, through: int) -> Page:
        store = self._runtime.store
        return await self._read(lambda generation: store.read(self.ref, generation, after, through=through))

    async def _read(self, reading: Callable[[str], Awaitable[T]]) -> T:
        """Read lines of the log.

        Raises:
            LogReplaced: Another log is in its place.
            SessionNotFound: The log was deleted, by this host or by someone else.
        """
        generation = self.generation
        try:
            return await reading(generation)
        except SessionNotFound:
            self.replaced = True
            raise
        except LogReplaced:
            await self._fates.check(generation)
            self.replaced = True
            await self._runtime.store.open(self.ref)  # which says if there is none any more
            raise

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

    async def paired(self, context: Context, tokenizer: Tokenizer) -> PairedMessages:
        """Return the messages of a context of this log as they can be sent, with their sizes."""
        kept = self._runtime.bodies.context(self._number)
        paired = None if kept is None else kept.paired
        messages, end = context.messages, 0 if paired is None else len(paired.originals)
        if not counts_whole_messages(tokenizer):  # in slices that grow, since each copies what was paired before
            while (end := end + max(_PAIRED_AT_ONCE, end // 8)) < len(messages):
                paired = PairedMessages.of(messages[:end], tokenizer, paired)
                await checkpoint()
        paired = PairedMessages.of(messages, tokenizer, paired)
        kept = self._runtime.bodies.context(self._number)  # perhaps another one by now
        if kept is None or kept.context is not context:
            return replace(paired, derived={})  # what is derived from another path is not for the kept one
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
