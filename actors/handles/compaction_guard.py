"""The guard against endless compaction.

Each compaction that has a limit records in its details how large the context is after it, and the limit::

    {"readFiles": [], "modifiedFiles": ["a.py"], "treering": {"tokens_after": 5200, "limit": 4096}}

So the guard needs no memory of its own: failed compactions are recorded in the log, and still count after a restart.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import takewhile

from ...events.entries import CompactionEntry
from ...events.errors import CompactionLoop
from ...events.json_values import JSON
from ...events.kinds import Kind
from ...projections.context import boundary
from ..log.open_log import OpenLog

NOTE = "treering"
"""The key in a compaction's details that holds the sizes."""

LOOP_AFTER = 3
"""How many failed compactions in a row stop further ones."""


async def check_for_loop(log: OpenLog, leaf: int, last: CompactionEntry, *, fails: bool) -> None:
    """Refuse another compaction after several that failed to reach the limit.

    It is refused if it would fail as well, or if no user message followed the last one.

    Args:
        log: The session's log.
        leaf: The leaf that would be compacted.
        last: The latest compaction on its path.
        fails: Whether the next one would not bring the context below its limit either.

    Raises:
        CompactionLoop: It is refused.
    """
    failed_count = 0
    async with aclosing(_compactions(log, last)) as compactions:
        async for entry in compactions:
            if failed_count == LOOP_AFTER or not _has_failed(entry.compaction.details):
                break
            failed_count += 1
    if failed_count < LOOP_AFTER:
        return
    index = log.index
    newer_seqs = takewhile(lambda seq: seq != last.seq, index.upward(leaf))
    if fails or not any(index.kinds[seq] == Kind.USER for seq in newer_seqs):
        raise CompactionLoop(
            f"{failed_count} compactions in a row did not bring the context below its limit: "
            "shorten the system prompt or the last messages, or use a model with a larger window"
        )


async def _compactions(log: OpenLog, last: CompactionEntry) -> AsyncGenerator[CompactionEntry]:
    """Yield the compactions of a path, the latest first."""
    entry: object = last
    while isinstance(entry, CompactionEntry):
        yield entry
        parent = log.index.parents[entry.seq]
        seq = boundary(log.index, parent) if parent > 0 else 0
        entry = (await log.entries_at([seq]))[seq] if seq else None


def _has_failed(details: JSON) -> bool:
    note = details.get(NOTE) if isinstance(details, dict) else None
    if not isinstance(note, dict):
        return False
    tokens_after, limit = note.get("tokens_after"), note.get("limit")
    return isinstance(tokens_after, int) and isinstance(limit, int) and tokens_after > limit
