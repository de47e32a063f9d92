"""Entries that were read lately, kept for all sessions of a host within one bound on bytes.

Entries are frozen and keep free JSON raw, so the same object can be given to everyone. The garbage collector would look
at a hundred thousand of them again and again; so they stand a few neighbours together in plain dicts, which it passes
over as long as nothing in them is of interest to it, and only those are kept in the order of their use.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct

from ..events.entries import Entry

_SEQ_BITS = 40
"""How many bits of a key are the ordinal; those above are the number of the log."""

_NEIGHBOUR_BITS = 5
"""How many bits of the ordinal tell neighbours apart, which are kept and let go together."""


class Held(Struct, frozen=True, gc=False):
    """An entry that is kept, None for a damaged line, and how many bytes its line has."""

    entry: Entry | None
    size: int


class BodyCache:
    """A least-recently-used cache of decoded entries.

    Args:
        max_bytes: How many bytes of lines it may hold; one entry larger than that is not kept.
    """

    __slots__ = ("_neighbours", "_size", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._neighbours: OrderedDict[int, dict[int, Held]] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """How many bytes of lines are held."""
        return self._size

    def get(self, log: int, seq: int) -> Held | None:
        """Return what is held of a log's entry, or None where nothing is."""
        key = (log << _SEQ_BITS | seq) >> _NEIGHBOUR_BITS
        neighbours = self._neighbours.get(key)
        if neighbours is None:
            return None
        self._neighbours.move_to_end(key)
        return neighbours.get(seq)

    def put(self, log: int, seq: int, entry: Entry | None, size: int) -> None:
        """Keep a log's entry, letting go of the least recently used ones where the bound asks for it."""
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
        neighbours[seq] = Held(entry, size)
        self._size += size
        while self._size > self.max_bytes:
            _, let_go = self._neighbours.popitem(last=False)
            self._size -= sum(each.size for each in let_go.values())

    def put_run(self, log: int, first: int, entries: Sequence[Entry | None], size: int) -> None:
        """Keep consecutive entries of a log, each of about this size."""
        for seq, entry in enumerate(entries, first):
            self.put(log, seq, entry, size)
