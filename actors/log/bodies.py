"""A cache of recently read entries and contexts, shared by all sessions of a host and bounded in bytes.

Entries are frozen and keep free JSON raw, so the same object can be handed to every caller. The garbage collector would
visit a hundred thousand of them again and again. So a few neighbours at a time are kept in a plain dict, which it skips
as long as nothing in it is tracked; only these dicts are kept in the order of their use.

The latest context of a log is kept too, so that the next one is made by extending it. It keeps the entries that it
shows alive, so it counts as many bytes as they do, even if they are in the cache as well.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ...events.entries import Entry
from ...projections.building.pairing import PairedMessages
from ...projections.context import Context

_SEQ_BITS = 40
"""How many bits of a key hold the seq; those above hold the number of the log."""

_NEIGHBOUR_BITS = 5
"""How many low bits of a seq distinguish neighbours, which are kept and evicted together."""
_NEIGHBOURS = 1 << _NEIGHBOUR_BITS


class CachedBody(Struct, frozen=True, gc=False):
    """A cached entry, None for a damaged line, and the size of its line in bytes."""

    entry: Entry | None
    size: int


class KeptContext(Struct, gc=False):
    """The latest context of a log.

    Attributes:
        context: The context.
        size: The size of the lines of the entries that it shows, in bytes.
        paired: What was made of the messages of this context, or of one that it extends.
    """

    context: Context
    size: int
    paired: PairedMessages | None = None


class BodyCache:
    """A least-recently-used cache of decoded entries, and of one context for each log.

    Args:
        max_bytes: How many bytes of lines it may hold; a single entry or context larger than that is not kept.
    """

    __slots__ = ("_contexts", "_neighbours", "_size", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._neighbours: OrderedDict[int, dict[int, CachedBody]] = OrderedDict()
        self._contexts: dict[int, KeptContext] = {}  # each has a place in the order, under a negative key
        self._size = 0

    @property
    def size(self) -> int:
        """How many bytes of lines are held."""
        return self._size

    def get(self, log: int, seqs: Sequence[int]) -> tuple[dict[int, Entry | None], list[int]]:
        """Return the entries of a log that are cached, and the seqs of those that are not."""
        entry_by_seq: dict[int, Entry | None] = {}
        missing: list[int] = []
        for seq, cached in zip(seqs, self._used(log, seqs), strict=True):
            if cached is None:
                missing.append(seq)
            else:
                entry_by_seq[seq] = cached.entry
        return entry_by_seq, missing

    def _used(self, log: int, seqs: Iterable[int]) -> Iterator[CachedBody | None]:
        """Yield what is cached for each of a log's entries, and mark it as recently used."""
        last_key, neighbours = -1, None
        for seq in seqs:
            key = (log << _SEQ_BITS | seq) >> _NEIGHBOUR_BITS
            if key != last_key:
                last_key, neighbours = key, self._neighbours.get(key)
                if neighbours is not None:
                    self._neighbours.move_to_end(key)
            yield None if neighbours is None else neighbours.get(seq)

    def put(self, log: int, seq: int, entry: Entry | None, size: int) -> None:
        """Cache a log's entry, evicting the least recently used ones if the bound requires it."""
        if size > self.max_bytes:
            return
        key = (log << _SEQ_BITS | seq) >> _NEIGHBOUR_BITS
        neighbours = self._neighbours.get(key)
        if neighbours is None:
            neighbours = self._neighbours[key] = {}
        else:
            self._neighbours.move_to_end(key)
            if seq in neighbours:
                self._size -= neighbours[seq].size
        neighbours[seq] = CachedBody(entry, size)
        self._size += size
        if self._size > self.max_bytes:
            self._evict()

    def put_run(self, log: int, first: int, entries: Sequence[Entry | None], size: int) -> None:
        """Cache consecutive entries of a log, each of about this size."""
        bodies = [CachedBody(entry, size) for entry in entries]
        at = 0
        while at < len(bodies) and size <= self.max_bytes:
            seq = first + at
            key = (log << _SEQ_BITS | seq) >> _NEIGHBOUR_BITS
            until = min(len(bodies), at + _NEIGHBOURS - seq % _NEIGHBOURS)
            neighbours = self._neighbours.setdefault(key, {})
            self._neighbours.move_to_end(key)
            replaced = [neighbours[each].size for each in range(seq, first + until) if each in neighbours]
            neighbours.update(zip(range(seq, first + until), bodies[at:until], strict=True))
            self._size += size * (until - at) - sum(replaced)
            self._evict()
            at = until

    def size_of(self, log: int, seqs: Sequence[int]) -> int | None:
        """Return the size of the lines of a log's entries, in bytes; None if one of them is not cached."""
        size = 0
        for cached in self._used(log, seqs):
            if cached is None:
                return None
            size += cached.size
        return size

    def context(self, log: int) -> KeptContext | None:
        """Return the context of a log that was kept last."""
        kept = self._contexts.get(log)
        if kept is not None:
            self._neighbours.move_to_end(~log)
        return kept

    def put_context(self, log: int, kept: KeptContext) -> None:
        """Keep the context of a log instead of the one before, evicting other things if the bound requires it."""
        replaced = self._contexts.pop(log, None)
        if replaced is not None:
            del self._neighbours[~log]
            self._size -= replaced.size
        if 0 < kept.size <= self.max_bytes:
            self._contexts[log] = kept
            self._neighbours[~log] = {}
            self._size += kept.size
            self._evict()

    def _evict(self) -> None:
        """Evict what was least recently used until the bound is kept."""
        while self._size > self.max_bytes:
            key, evicted = self._neighbours.popitem(last=False)
            self._size -= self._contexts.pop(~key).size if key < 0 else sum(each.size for each in evicted.values())
