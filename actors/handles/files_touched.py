"""The files that were read and modified while some entries were made, in the form that summaries record."""

from __future__ import annotations

from collections.abc import Iterable

from ...events.entries import BranchSummaryEntry, CompactionEntry, Entry
from ...events.json_values import JSON
from ...projections.state import work_of


def files_touched(entries: Iterable[Entry]) -> dict[str, JSON]:
    """Return `{"readFiles": [...], "modifiedFiles": [...]}`: the work of tools, and what earlier summaries recorded.

    A file that was modified is not listed as read. Created and deleted files count as modified.
    """
    entries = list(entries)
    read: dict[str, None] = {}
    modified: dict[str, None] = {}
    for entry in entries:
        recorded = _details(entry)
        read.update(dict.fromkeys(_paths(recorded.get("readFiles"))))
        modified.update(dict.fromkeys(_paths(recorded.get("modifiedFiles"))))
    for touch in work_of(entries).files:
        (read if touch.action == "read" else modified)[touch.path] = None
    return {"readFiles": [path for path in read if path not in modified], "modifiedFiles": list(modified)}


def _details(entry: Entry) -> dict[str, JSON]:
    if isinstance(entry, CompactionEntry):
        details = entry.compaction.details
    elif isinstance(entry, BranchSummaryEntry):
        details = entry.branch_summary.details
    else:
        return {}
    return details if isinstance(details, dict) else {}


def _paths(value: JSON) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
