"""The labels of a path that becomes a separate session, including those set or removed on other branches.

A label is the same on every branch, and the last label entry in the log wins. A path that leaves its log takes along
the label entries that it lacks, each with its own id and time, below the path's last entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...events.dialects.base import Dialect
from ...events.entries import LabelEntry
from ...events.kinds import Kind

if TYPE_CHECKING:
    from ..log.open_log import OpenLog


async def labels_for(log: OpenLog, path: Sequence[int], through: int, dialect: Dialect) -> list[LabelEntry]:
    """Return the label entries to append to a copy of a path, so that it shows the labels that its log shows.

    They do not become the leaf if the dialect can express that; otherwise each goes below the one before it.

    Args:
        log: The log.
        path: The seqs of the path; its last line is an entry.
        through: The seq of the last line of the log that counts.
        dialect: The dialect of the copy.
    """
    kinds, on_path = log.index.kinds, set(path)
    own: dict[str, str | None] = {}
    last: dict[str, LabelEntry] = {}
    for entry in await log.entries_in([seq for seq in range(1, through + 1) if kinds[seq] == Kind.LABEL]):
        if isinstance(entry, LabelEntry) and log.index.find(entry.label.target_id) in on_path:
            target, label = entry.label.target_id, entry.label.label or None
            last[target] = entry
            if entry.seq in on_path:
                own[target] = label
    missing = [entry for target, entry in last.items() if (entry.label.label or None) != own.get(target)]
    return _below(missing, log.index.ids[path[-1]] if path else None, len(path), dialect)


def _below(labels: Sequence[LabelEntry], parent_id: str | None, head: int, dialect: Dialect) -> list[LabelEntry]:
    aside = dialect.can_append_aside
    entries: list[LabelEntry] = []
    for seq, entry in enumerate(sorted(labels, key=lambda each: each.seq), head + 1):
        entries.append(replace(entry, parent_id=parent_id, seq=seq, aside=aside, command_id=None, batch=None))
        if not aside:
            parent_id = entry.id
    return entries
