"""The system message that a compaction stores: the content of the context's system messages up to the compaction.

A compaction takes the place of what came before it, but instructions are not history: without a stored message, those
that are cut off would be lost, and programs differ in whether they show those that are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Raw

from ..events.content import plain_text
from ..events.entries import CompactionEntry, Entry, MessageEntry
from ..events.index import LogIndex
from ..events.json_values import JSON, raw_json
from ..events.kinds import Kind
from ..projections.context import ContextMessage, ContextPlan, boundary, build, first_kept

_SHOWN = frozenset({Kind.SYSTEM, Kind.CONTEXT_EDIT})


def system_message(
    index: LogIndex, leaf: int, path: Iterable[int], entries: Mapping[int, Entry | None], new_entries: Sequence[Entry]
) -> Raw | None:
    """Return the system message for a compaction to store, or None if the context shows no system message.

    Args:
        index: The log's index.
        leaf: The seq of the last committed entry of the path that is compacted.
        path: The seqs of that path, as far up as a system message may be shown.
        entries: The entries at these seqs.
        new_entries: The entries between the leaf and the compaction.
    """
    end = boundary(index, leaf)
    held = entries.get(end)
    previous = held if isinstance(held, CompactionEntry) else None
    stop = first_kept(index, end, held)
    kept = tuple(seq for seq in path if seq >= stop and index.kinds[seq] in _SHOWN)
    plan = ContextPlan(leaf, end if previous is not None else 0, 0, 0, kept)
    system = [each for each in build(index, plan, entries, sections=False).messages if each.role == "system"]
    for entry in new_entries:
        if isinstance(entry, MessageEntry) and entry.message.role == "system":
            system.append(ContextMessage(entry.id, entry.message))
        elif isinstance(entry, CompactionEntry) and entry.compaction.raw_system_message is None:
            system.clear()
    return _stored(system, previous)


def _stored(system: Sequence[ContextMessage], previous: CompactionEntry | None) -> Raw | None:
    if not system:
        return None
    stored = previous.compaction.raw_system_message if previous is not None else None
    if stored is not None and previous is not None and [each.entry_id for each in system] == [previous.id]:
        return stored
    joined = "\n\n".join(filter(None, (plain_text(each.content) for each in system)))
    return raw_json({"role": "system", "content": [{"type": "text", "text": joined}], **_declared(system)})


def _declared(system: Iterable[ContextMessage]) -> dict[str, JSON]:
    """Return what pi's system messages declare beside their text; later messages override earlier ones."""
    sections: dict[str, JSON] = {}
    tools: dict[str, JSON] = {}
    for each in system:
        metadata = each.message.metadata
        if isinstance(changed := metadata.get("sections"), dict):
            sections |= changed
        for name in _by_name(metadata.get("toolsRemoved")):
            tools.pop(name, None)
        tools |= _by_name(metadata.get("toolsAdded"))
    present: dict[str, JSON] = {name: body for name, body in sections.items() if body is not None}
    declared: dict[str, JSON] = {"sections": present, "toolsAdded": [*tools.values()]}
    return {name: value for name, value in declared.items() if value}


def _by_name(tools: JSON) -> dict[str, JSON]:
    """Return the tools in a list, by name."""
    listed = [each for each in tools if isinstance(each, dict)] if isinstance(tools, list) else []
    return {name if isinstance(name := each.get("name"), str) else "": each for each in listed}
