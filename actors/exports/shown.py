"""A path as contexts show it, for the files of programs that have no place for an edit.

An edit changes what contexts show of an earlier entry, or leaves it out. A file that repeated the original would show
the model of the other program what was taken away from the model here, so the entries are written as they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import filterfalse

from msgspec.structs import replace

from ...events.content import Content, ToolResultPart, ToolUsePart
from ...events.entries import (
    CompactionEntry,
    ContextEdit,
    Custom,
    CustomEntry,
    Entry,
    KnownEntry,
    MessageEntry,
    ToolExecutionEntry,
    UsageEntry,
)
from ...formats.dialect_conversion import kept
from ...projections.context import message_of
from ...projections.context_edits import with_edits

LEFT_OUT_TYPE = "treering.left_out"
"""The custom type of the entries that stand for those that an edit leaves out; no file holds them."""


def shown_entries(path: Iterable[Entry], edits: Mapping[int, ContextEdit]) -> list[KnownEntry]:
    """Return the entries of a path as contexts show them.

    Where an edit leaves an entry out, an entry without content takes its place, since a compaction may name it. The
    results and the executions of calls that are left out are left out too, and a turn counts the messages that remain.
    A reset becomes a compaction.

    Args:
        path: The entries.
        edits: The last edit of each of them that has one, by its seq.
    """
    originals = [kept(entry) for entry in path]
    if not edits:
        return originals
    shown_by_seq = {each.seq: each for each in with_edits(originals, edits)}
    entries: list[KnownEntry] = []
    calls: set[str] = set()  # those that are left out
    remaining: list[bool] = []  # for each message so far, whether it is shown
    for original in originals:
        shown = shown_by_seq.get(original.seq)
        if isinstance(original, CompactionEntry) and shown is None:
            entries.append(replace(original, compaction=replace(original.compaction, summary="")))
        elif isinstance(original, ToolExecutionEntry) and original.tool_execution.tool_call_id in calls:
            entries.append(_left_out(original))
        elif isinstance(original, UsageEntry) and original.usage.messages:
            count = sum(remaining[-original.usage.messages :])
            entries.append(replace(original, usage=replace(original.usage, messages=count)))
        elif message_of(original) is None:
            entries.append(original)
        else:
            shown = None if shown is None else without_results(shown, calls)
            calls |= calls_of(original) - calls_of(shown)
            remaining.append(shown is not None)
            entries.append(_left_out(original) if shown is None else kept(shown))
    return entries


def calls_of(entry: Entry | None) -> set[str]:
    """Return the ids of the calls that an entry makes."""
    content = entry.message.content if isinstance(entry, MessageEntry) else ()
    return {part.tool_use.id for part in content if isinstance(part, ToolUsePart)}


def results_of(entry: Entry) -> set[str]:
    """Return the ids of the calls to which an entry has results."""
    content = entry.message.content if isinstance(entry, MessageEntry) else ()
    return {part.tool_result.tool_use_id for part in content if isinstance(part, ToolResultPart)}


def without_results(entry: Entry, calls: AbstractSet[str]) -> Entry | None:
    """Return an entry without the results of these calls, or None if nothing else is in it."""

    def answers(part: Content) -> bool:
        return isinstance(part, ToolResultPart) and part.tool_result.tool_use_id in calls

    if not isinstance(entry, MessageEntry) or not any(map(answers, entry.message.content)):
        return entry
    rest = tuple(filterfalse(answers, entry.message.content))
    return replace(entry, message=replace(entry.message, content=rest)) if rest else None


def _left_out(entry: KnownEntry) -> CustomEntry:
    return CustomEntry(
        id=entry.id, parent_id=entry.parent_id, timestamp=entry.timestamp, seq=entry.seq, custom=Custom(LEFT_OUT_TYPE)
    )
