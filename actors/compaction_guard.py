"""The guard against compacting for ever.

Each compaction that has a limit notes in its details how large the context is after it, and the limit::

    {"readFiles": [], "modifiedFiles": ["a.py"], "treering": {"tokens_after": 5200, "limit": 4096}}

So the guard needs no memory of its own: what was in vain stands in the log, and stays in force through a restart.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import takewhile

from ..events.content import JSON
from ..events.entries import CompactionEntry
from ..events.errors import CompactionLoop
from ..events.kinds import Kind
from ..projections.context import boundary
from .open_log import OpenLog

NOTE = "treering"
"""The key in a compaction's details under which the sizes stand."""

LOOP_AFTER = 3
"""After how many compactions in vain, one after the other, no other is tried."""


async def refuse_loop(log: OpenLog, leaf: int, last: CompactionEntry, loop_after: int, *, fails: bool) -> None:
    """Refuse another compaction after several in vain, when it would be in vain too, or nobody has asked anything since.

    Args:
        log: The session's log.
        leaf: The leaf that would be compacted.
        last: The latest compaction on its path.
        loop_after: How many in vain are enough.
        fails: The next one, too, would not bring the context below its limit.

    Raises:
        CompactionLoop: It is refused.
    """
    vain = 0
    async with aclosing(_compactions(log, last)) as compactions:
        async for entry in compactions:
            if vain == loop_after or not _was_vain(entry.compaction.details):
                break
            vain += 1
    if vain < loop_after:
        return
    index = log.index
    since = takewhile(lambda seq: seq != last.seq, index.upward(leaf))
    if fails or not any(index.kinds[seq] == Kind.USER for seq in since):
        raise CompactionLoop(
            f"{vain} compactions in a row did not bring the context below its limit: "
            "shorten the system prompt or the last messages, or take a model with a larger window"
        )


async def _compactions(log: OpenLog, last: CompactionEntry) -> AsyncGenerator[CompactionEntry]:
    """Yield the compactions of a path, the latest first."""
    entry: object = last
    while isinstance(entry, CompactionEntry):
        yield entry
        parent = log.index.parents[entry.seq]
        seq = boundary(log.index, parent) if parent > 0 else 0
        entry = (await log.entries_at([seq]))[seq] if seq else None


def _was_vain(details: JSON) -> bool:
    note = details.get(NOTE) if isinstance(details, dict) else None
    if not isinstance(note, dict):
        return False
    after, limit = note.get("tokens_after"), note.get("limit")
    return isinstance(after, int) and isinstance(limit, int) and after > limit
