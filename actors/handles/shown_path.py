"""A path as contexts show it: its entries with their last edits, and without what was cleared.

Whatever gives a model or a summarizer more than the context reads the path through this, so that what was edited, left
out or cleared does not reappear. The log still has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...projections.context import boundary, clears, first_kept
from ...projections.context_edits import edits_on, last_edits, with_edits

if TYPE_CHECKING:
    from ...events.entries import ContextEdit, Entry
    from ..log.open_log import OpenLog


class ShownPath:
    """One path of a log as contexts show it; created by `ShownPath.to`.

    Attributes:
        start: The seq of its first entry; 0 if nothing was cleared.
    """

    __slots__ = ("_edits", "_leaf", "_log", "start")

    def __init__(self, log: OpenLog, leaf: int, edits: Mapping[int, ContextEdit], start: int) -> None:
        self._log = log
        self._leaf = leaf
        self._edits = edits
        self.start = start

    @classmethod
    async def to(cls, log: OpenLog, leaf: int) -> ShownPath:
        """Determine what is shown of the path to a leaf."""
        edits = last_edits(log.index, await log.entries_in(edits_on(log.index, leaf)))
        return cls(log, leaf, edits, await _start(log, leaf, edits))

    async def entries(self, seqs: Sequence[int] | None = None) -> list[Entry]:
        """Return the shown entries, oldest first: of the whole path, or of the given seqs of it."""
        seqs = self._log.index.path(self._leaf) if seqs is None else seqs
        return with_edits(await self._log.entries_in([seq for seq in seqs if seq >= self.start]), self._edits)


async def _start(log: OpenLog, leaf: int, edits: Mapping[int, ContextEdit]) -> int:
    """Return the seq at which a path begins to be shown: what the last clearing boundary keeps first, or 0."""
    index = log.index
    seq = boundary(index, leaf)
    latest = 0
    while seq:
        entry = (await log.entries_at([seq]))[seq]
        first = first_kept(index, seq, entry)
        latest = latest or first
        if clears(entry, edits):
            return min(first, latest)  # a later compaction may keep more than this one
        seq = index.boundaries[max(index.parents[seq], 0)]
    return 0
