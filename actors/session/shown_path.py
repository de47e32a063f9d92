"""One path of a log as contexts show it: edited, and without what was cleared; and the state of the work on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from anyio.lowlevel import checkpoint

from ...events.entries import ContextEdit, Entry
from ...events.index import LogIndex
from ...projections.building.state_of_work import SessionState, Work
from ...projections.context import boundary, clears, first_kept
from ...projections.context_edits import edits_on, last_edits, with_edits
from ..log.entries import KeptWork
from ..log.open_log import OpenLog

AT_ONCE = 200
"""How many entries are accounted for before the event loop serves everything else."""


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


async def state_of_work(log: OpenLog, leaf: int, project_path: str) -> SessionState:
    """Return the state of the work on the path to a leaf, reading only what is new since it was last asked for."""
    known = await grown_state(log, leaf, project_path)
    if known is not None:
        return known
    work = Work()
    for count, entry in enumerate(await (await ShownPath.to(log, leaf)).entries(), 1):
        work.add(entry)
        if not count % AT_ONCE:
            await checkpoint()
    log.work = KeptWork(work, leaf, _marks(log, leaf))
    return work.state(project_path)


async def grown_state(log: OpenLog, leaf: int, project_path: str) -> SessionState | None:
    """Return the state of the work on a path if it goes on from the one that was asked for last, or None."""
    index, kept, marks = log.index, log.work, _marks(log, leaf)
    if kept is None or kept.marks != marks:
        return None
    new = list(takewhile(lambda seq: seq > kept.leaf, index.upward(leaf)))
    if (index.parents[new[-1]] if new else leaf) != kept.leaf:
        return None
    entries = await log.entries_in(new[::-1])
    if log.work is not kept:  # somebody else went on with it meanwhile
        return None
    for entry in entries:
        kept.work.add(entry)
    log.work = KeptWork(kept.work, leaf, marks)
    return kept.work.state(project_path)


def _marks(log: OpenLog, leaf: int) -> tuple[LogIndex, int, int]:
    """Return what two paths have in common if one shows the other as it was, see `KeptWork`."""
    return log.index, log.index.boundaries[leaf], log.index.edits[leaf]
