"""The ids of a log's entries: each by its ordinal, and the ordinal by the id.

Ids are kept as one run of bytes with their ends, 8 + len(id) bytes each. Finding goes through a dictionary for what
came lately and, for what a snapshot or a long scan brought, through one sorted array of (crc32 of the id, ordinal)
that costs 8 bytes an entry. A crc only proposes; the id itself decides.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice
from zlib import crc32

RECENT_MAX = 65_536
"""How many ids a scan holds in the dictionary before they are moved into the sorted array."""


class Ids:
    """An append-only column of ids that finds the latest ordinal of each.

    Ordinals count from 1. A line without an id has the empty one, which is never found.
    """

    __slots__ = ("_ends", "_recent", "_sorted", "_text")

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("Q", [0])
        self._sorted = array("Q")
        self._recent: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, entry_id: str) -> None:
        """Add the id of the next ordinal; the empty string for a line that has none."""
        self._text += entry_id.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._text))
        if entry_id:
            self._recent[entry_id] = len(self._ends) - 1

    def extend(self, entry_ids: Sequence[str]) -> None:
        """Add the ids of the next ordinals, none of them empty: the same as appending each."""
        first, end = len(self._ends), len(self._text)
        self._text += "".join(entry_ids).encode("utf-8", "surrogatepass")
        lengths = list(map(len, entry_ids))
        if end + sum(lengths) != len(self._text):  # some are not ASCII
            lengths = [len(entry_id.encode("utf-8", "surrogatepass")) for entry_id in entry_ids]
        self._ends.extend(islice(accumulate(lengths, initial=end), 1, None))
        self._recent.update(zip(entry_ids, range(first, first + len(entry_ids)), strict=True))

    def __getitem__(self, seq: int) -> str:
        """Return the id of an ordinal."""
        return self._text[self._ends[seq - 1] : self._ends[seq]].decode("utf-8", "surrogatepass")

    def find(self, entry_id: object) -> int:
        """Return the latest ordinal that has this id, or 0, as for anything that is no text."""
        if not isinstance(entry_id, str):
            return 0
        seq = self._recent.get(entry_id)
        if seq is not None:
            return seq
        if not self._sorted or not entry_id:
            return 0
        crc = crc32(entry_id.encode("utf-8", "surrogatepass"))
        first = bisect_left(self._sorted, crc << 32)
        last = bisect_right(self._sorted, crc << 32 | 0xFFFFFFFF, lo=first)
        for position in range(last - 1, first - 1, -1):
            seq = self._sorted[position] & 0xFFFFFFFF
            if self[seq] == entry_id:
                return seq
        return 0

    def settle(self, *, above: int = 0) -> None:
        """Move the recent ids into the sorted array, where there are more than `above` of them."""
        if len(self._recent) <= above:
            return
        crcs = (crc32(entry_id.encode("utf-8", "surrogatepass")) for entry_id in self._recent)
        pairs = list(self._sorted)
        pairs += [crc << 32 | seq for crc, seq in zip(crcs, self._recent.values(), strict=True)]
        pairs.sort()
        self._sorted = array("Q", pairs)
        self._recent = {}

    def dump(self) -> tuple[memoryview, memoryview, memoryview]:
        """Return the column as three runs of bytes for a snapshot."""
        self.settle()
        return memoryview(bytes(self._text)), memoryview(self._ends.tobytes()), memoryview(self._sorted.tobytes())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return NotImplemented
        return self._ends == other._ends and self._text == other._text

    __hash__ = None  # type: ignore[assignment]  # it changes with every id

    @classmethod
    def restore(cls, text: memoryview, ends: memoryview, ordered: memoryview) -> Ids:
        """Make a column of what `dump` returned."""
        ids = cls()
        ids._text = bytearray(text)
        ids._ends = array("Q")
        ids._ends.frombytes(ends)
        ids._sorted.frombytes(ordered)
        return ids
