"""Entries that were read lately, kept for all sessions of a host within one bound on bytes.

Entries are frozen and keep free JSON raw, so the same object can be given to everyone. Nothing that is kept here for an
entry is of interest to the garbage collector, which would otherwise look at tens of thousands of them again and again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct

from ..events.entries import Entry

_SEQ_BITS = 40
"""How many bits of a key are the ordinal; those above are the number of the log."""


class Held(Struct, frozen=True, gc=False):
    """An entry that is kept, None for a damaged line, and how many bytes its line has."""

    entry: Entry | None
    size: int


class BodyCache:
    """A least-recently-used cache of decoded entries.

    Args:
        max_bytes: How many bytes of lines it may hold; one entry larger than that is not kept.
    """

    __slots__ = ("_entries", "_size", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[int, Held] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """How many bytes of lines are held."""
        return self._size

    def get(self, log: int, seq: int) -> Held | None:
        """Return what is held of a log's entry, or None where nothing is."""
        key = log << _SEQ_BITS | seq
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, log: int, seq: int, entry: Entry | None, size: int) -> None:
        """Keep a log's entry, letting go of the least recently used ones where the bound asks for it."""
        key = log << _SEQ_BITS | seq
        before = self._entries.pop(key, None)
        if before is not None:
            self._size -= before.size
        if size > self.max_bytes:
            return
        self._entries[key] = Held(entry, size)
        self._size += size
        while self._size > self.max_bytes:
            self._size -= self._entries.popitem(last=False)[1].size

    def put_run(self, log: int, first: int, entries: Sequence[Entry | None], size: int) -> None:
        """Keep consecutive entries of a log, each of about this size."""
        for seq, entry in enumerate(entries, first):
            self.put(log, seq, entry, size)
