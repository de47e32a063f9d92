"""The path as contexts show it: its entries with their last edits, and nothing of what was cleared.

Whatever tells a model or a summarizer of more than the context itself reads the path through this: what a person
edited, left out or cleared away does not come back by another door. The log still has it, for those who read entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..projections.context import boundary, clears, edits_on, first_kept, last_edits, with_edits

if TYPE_CHECKING:
    from ..events.entries import ContextEdit, Entry
    from .open_log import OpenLog


class ShownPath:
    """One path of a log as contexts show it; `ShownPath.to` makes one.

    Attributes:
        start: The ordinal of its first entry; 0 where nothing was cleared.
    """

    __slots__ = ("_edits", "_leaf", "_log", "start")

    def __init__(self, log: OpenLog, leaf: int, edits: Mapping[int, ContextEdit], start: int) -> None:
        self._log = log
        self._leaf = leaf
        self._edits = edits
        self.start = start

    @classmethod
    async def to(cls, log: OpenLog, leaf: int) -> ShownPath:
        """Find out what of the path to a leaf is shown."""
        edits = last_edits(log.index, await log.entries_in(edits_on(log.index, leaf)))
        return cls(log, leaf, edits, await _start(log, leaf, edits))

    async def entries(self, seqs: Sequence[int] | None = None) -> list[Entry]:
        """Return the entries, oldest first; of some ordinals of the path, where they are given."""
        seqs = self._log.index.path(self._leaf) if seqs is None else seqs
        return with_edits(await self._log.entries_in([seq for seq in seqs if seq >= self.start]), self._edits)


async def _start(log: OpenLog, leaf: int, edits: Mapping[int, ContextEdit]) -> int:
    """Return the ordinal from which on a path is shown: what the last boundary that clears keeps first, or 0."""
    index = log.index
    seq = boundary(index, leaf)
    latest = 0
    while seq:
        entry = (await log.entries_at([seq]))[seq]
        kept = first_kept(index, seq, entry)
        latest = latest or kept
        if clears(entry, edits):
            return min(kept, latest)  # a later compaction may keep more than this one did
        seq = index.boundaries[max(index.parents[seq], 0)]
    return 0
