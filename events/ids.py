"""The ids of a log's entries: the id of each seq, and the seq of each id.

Ids are stored as one run of bytes. Their ends, 8 bytes each, are stored only if the ids differ in length, as uuids do
not. Recent ids are found through a dictionary; those from a snapshot or a long scan through one sorted array of
(crc32 of the id, seq) that costs 8 bytes an entry. The crc only yields candidates; the id itself is then compared.
Ids that are added many at a time are put into neither before one of them is looked for, which a scan seldom does.

What a snapshot holds is not copied: at the size of a long session, most of the time to restore it would be spent on
getting fresh memory from the operating system.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain, islice
from zlib import crc32

RECENT_MAX = 65_536
"""How many ids a scan holds before they are moved into the sorted array."""


class Ids:
    """An append-only column of ids that finds the latest seq of each.

    Seqs count from 1. A line without an id has the empty one, which is never found.
    """

    __slots__ = ("_count", "_ends", "_recent", "_restored", "_sorted", "_text", "_unlisted", "_width")

    def __init__(self) -> None:
        self._restored = memoryview(b"")
        self._text = bytearray()  # what follows the restored text
        self._count = 0
        self._width = 0
        self._ends: array[int] | None = None
        self._sorted: Sequence[int] = ()
        self._recent: dict[str, int] = {}
        self._unlisted: list[str] = []

    def __len__(self) -> int:
        return self._count

    @property
    def unsettled(self) -> int:
        """How many ids are not in the sorted array."""
        return len(self._recent) + len(self._unlisted)

    def append(self, entry_id: str) -> None:
        """Add the id of the next seq; the empty string for a line that has none."""
        try:
            data = entry_id.encode()
        except UnicodeEncodeError:  # half a surrogate pair
            data = entry_id.encode("utf-8", "surrogatepass")
        if self._ends is None and len(data) != self._width:
            self._note_lengths({len(data)})
        if self._unlisted:
            self._list_all()
        self._text += data
        self._count += 1
        if self._ends is not None:
            self._ends.append(self._ends[-1] + len(data))
        if entry_id:
            self._recent[entry_id] = self._count

    def extend(self, entry_ids: Sequence[str]) -> None:
        """Add the ids of the next seqs, none of them empty; equivalent to appending each."""
        data = "".join(entry_ids).encode("utf-8", "surrogatepass")
        lengths = list(map(len, entry_ids))
        if sum(lengths) != len(data):  # some are not ASCII
            lengths = [len(entry_id.encode("utf-8", "surrogatepass")) for entry_id in entry_ids]
        if self._ends is None:
            self._note_lengths(set(lengths))
        if self._ends is not None:
            self._ends.extend(islice(accumulate(lengths, initial=self._ends[-1]), 1, None))
        self._text += data
        self._count += len(entry_ids)
        self._unlisted += entry_ids

    def _list_all(self) -> None:
        """Put the ids that were added many at a time into the dictionary."""
        self._recent.update(zip(self._unlisted, self._unlisted_seqs(), strict=True))
        self._unlisted = []

    def _unlisted_seqs(self) -> range:
        return range(self._count - len(self._unlisted) + 1, self._count + 1)

    def _note_lengths(self, lengths: set[int]) -> None:
        """Store the ends from here on, unless all ids, including the next ones, have one length."""
        if not self._count and len(lengths) == 1:
            (self._width,) = lengths
        elif lengths and lengths != {self._width}:
            self._ends = self._all_ends()

    def _all_ends(self) -> array[int]:
        if self._ends is not None:
            return self._ends
        return array("Q", [self._width * seq for seq in range(self._count + 1)])

    def __getitem__(self, seq: int) -> str:
        """Return the id of a seq, the empty one for 0.

        Raises:
            IndexError: The log has no such seq.
        """
        if not 0 <= seq <= self._count:
            raise IndexError(f"seq {seq} is out of range: the last one is {self._count}")
        end = self._width * seq if self._ends is None else self._ends[seq]
        start = end - self._width if self._ends is None else self._ends[seq - 1]
        later = start - len(self._restored)
        data = self._restored[start:end] if later < 0 else self._text[later : end - len(self._restored)]
        return str(data, "utf-8", "surrogatepass")

    def has(self, seq: int) -> bool:
        """Tell whether a seq has an id that is not empty, without making it.

        Raises:
            IndexError: The log has no such seq.
        """
        if not 0 <= seq <= self._count:
            raise IndexError(f"seq {seq} is out of range: the last one is {self._count}")
        if self._ends is None:
            return seq > 0 and self._width > 0
        return seq > 0 and self._ends[seq] > self._ends[seq - 1]

    def find(self, entry_id: object) -> int:
        """Return the latest seq that has this id; 0 if there is none, or if the value is not a text."""
        if not isinstance(entry_id, str):
            return 0
        if self._unlisted:
            self._list_all()
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
        """Move the recent ids into the sorted array if there are more than `above` of them."""
        if self.unsettled <= above:
            return
        seqs = chain(self._recent.values(), self._unlisted_seqs())
        ids = chain(self._recent, self._unlisted)
        pairs = list(self._sorted)
        pairs += [crc32(each.encode("utf-8", "surrogatepass")) << 32 | seq for each, seq in zip(ids, seqs, strict=True)]
        pairs.sort()
        self._sorted = array("Q", pairs)
        self._recent = {}
        self._unlisted = []

    def dump(self) -> tuple[memoryview, memoryview, memoryview]:
        """Return the column as three runs of bytes for a snapshot; ids of one length have that length as their ends."""
        self.settle()
        uniform = self._ends is None and self._width > 0
        ends = array("Q", [self._width]) if uniform else self._all_ends()
        ordered = array("Q", self._sorted)
        return memoryview(self._all_text()), memoryview(ends.tobytes()), memoryview(ordered.tobytes())

    def _all_text(self) -> bytes:
        return b"".join((self._restored, self._text))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return NotImplemented
        return self._all_text() == other._all_text() and self._all_ends() == other._all_ends()

    __hash__ = None  # type: ignore[assignment]  # it changes with every id

    @classmethod
    def restore(cls, text: memoryview, ends: memoryview, ordered: memoryview) -> Ids:
        """Rebuild a column from what `dump` returned; the views stay in use."""
        ids = cls()
        ids._restored = text
        stored_ends = array("Q")
        stored_ends.frombytes(ends)
        if len(stored_ends) == 1 and stored_ends[0]:
            ids._width = stored_ends[0]
            ids._count = len(text) // ids._width
        elif len(stored_ends) > 1:
            ids._ends = stored_ends
            ids._count = len(stored_ends) - 1
        if len(ordered) % 8:
            raise ValueError(f"{len(ordered)} bytes of sorted ids are not a multiple of item size 8")
        ids._sorted = ordered.cast("Q")
        return ids
