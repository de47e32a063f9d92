"""Entries that were read lately, kept for all sessions of a host within one bound on bytes.

Entries are frozen and keep free JSON raw, so the same object can be given to everyone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from ..events.entries import Entry


class BodyCache:
    """A least-recently-used cache of decoded entries.

    Args:
        max_bytes: How many bytes of lines it may hold; one entry larger than that is not kept.
    """

    __slots__ = ("_entries", "_size", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[tuple[int, int], tuple[Entry | None, int]] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """How many bytes of lines are held."""
        return self._size

    def get(self, log: int, seq: int) -> tuple[Entry | None] | None:
        """Return a log's entry in a tuple, or None where it is not held; a damaged line is held as None."""
        found = self._entries.get((log, seq))
        if found is None:
            return None
        self._entries.move_to_end((log, seq))
        return found[:1]

    def put(self, log: int, seq: int, entry: Entry | None, size: int) -> None:
        """Keep a log's entry, letting go of the least recently used ones where the bound asks for it."""
        if size > self.max_bytes:
            self._size -= self._entries.pop((log, seq), (None, 0))[1]
            return
        self._put((log, seq), (entry, size))
        self._bound()

    def put_run(self, log: int, first: int, entries: Sequence[Entry | None], size: int) -> None:
        """Keep consecutive entries of a log, each of about this size."""
        put = self._put
        for seq, entry in enumerate(entries, first):
            put((log, seq), (entry, size))
        self._bound()

    def _put(self, key: tuple[int, int], held: tuple[Entry | None, int]) -> None:
        before = self._entries.get(key)
        if before is not None:
            self._entries.move_to_end(key)
            self._size -= before[1]
        self._entries[key] = held
        self._size += held[1]

    def _bound(self) -> None:
        while self._size > self.max_bytes:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._size -= dropped
