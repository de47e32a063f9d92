"""The edits of a context: how an entry of the path is shown from some later entry on, or left out.

An edit is an entry. It changes no line: contexts apply it to the entry that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ..events.content import Content, ImagePart, TextPart, ToolResult, ToolResultPart, ToolUsePart
from ..events.entries import ContextEdit, ContextEditEntry, CustomMessageEntry, Entry, MessageEntry
from ..events.index import LogIndex

LEFT_OUT = "[result left out]"
"""The content of a tool result that an edit left out, while its call is shown."""

_EDITABLE = frozenset({"user", "assistant", "tool", "custom"})


NO_EDIT = ContextEdit("-", ())


def edits_on(index: LogIndex, leaf: int) -> list[int]:
    """Return the seqs of the edits on the path to `leaf`, in path order."""
    seqs: list[int] = []
    seq = index.edits[leaf]
    while seq:
        seqs.append(seq)
        parent = index.parents[seq]
        seq = index.edits[parent] if parent > 0 else 0
    return seqs[::-1]


def last_edits(index: LogIndex, entries: Iterable[Entry | None]) -> dict[int, ContextEdit]:
    """Return the last of the edits among entries of a path for each target, by the seq of the target."""
    return {
        referenced(index, entry.context_edit.target_id, entry.seq): entry.context_edit
        for entry in entries
        if isinstance(entry, ContextEditEntry)
    }


def with_edits(entries: Iterable[Entry], edits: Mapping[int, ContextEdit]) -> list[Entry]:
    """Return the entries of a path with their edits applied, without those that an edit leaves out.

    A tool result stays the answer to its call: a replacement without a result part becomes the content of the result,
    and a result that was left out says so (`LEFT_OUT`) while its call is shown. The call was answered, so it must not
    look like one that waits.
    """
    if not edits:
        return list(entries)
    shown: list[Entry] = []
    calls: set[str] = set()
    for entry in entries:
        edit = edits.get(entry.seq)
        result = entry if edit is None else edited(entry, edit, calls)
        if result is None:
            continue
        shown.append(result)
        if isinstance(result, MessageEntry):
            calls.update(part.tool_use.id for part in result.message.content if isinstance(part, ToolUsePart))
    return shown


def edited(entry: Entry, edit: ContextEdit, calls: AbstractSet[str]) -> Entry | None:
    """Return an entry with an edit applied, or None if the edit leaves it out.

    Args:
        entry: The entry.
        edit: Its last edit.
        calls: The ids of the calls that are shown before it.
    """
    replacement = edit.replacement
    if isinstance(entry, CustomMessageEntry):
        custom = entry.custom_message
        return None if replacement is None else replace(entry, custom_message=replace(custom, content=replacement))
    if not isinstance(entry, MessageEntry) or (replacement is not None and entry.message.role not in _EDITABLE):
        return None if replacement is None else entry
    message = entry.message
    results = [part.tool_result for part in message.content if isinstance(part, ToolResultPart)]
    content: tuple[Content, ...]
    if replacement is None:
        content = _left_out([each for each in results if each.tool_use_id in calls])
        if not content:
            return None
    elif results and not any(isinstance(part, ToolResultPart) for part in replacement):
        answer = tuple(part for part in replacement if isinstance(part, (TextPart, ImagePart)))
        content = (ToolResultPart(replace(results[0], content=answer)), *_left_out(results[1:]))
    else:
        content = replacement
    return replace(entry, message=replace(message, content=content))


def _left_out(results: Iterable[ToolResult]) -> tuple[ToolResultPart, ...]:
    """Return the results with `LEFT_OUT` as their content."""
    return tuple(ToolResultPart(replace(each, content=LEFT_OUT)) for each in results)


def referenced(index: LogIndex, entry_id: str, before: int) -> int:
    """Return the seq to which an id in the line `before` refers: the latest earlier line with that id, or 0."""
    seq = index.find(entry_id)
    if seq < before:
        return seq
    # A later line has the same id, or the reference points forward: both are damage, so the scan may be slow.
    return next((each for each in range(before - 1, 0, -1) if index.ids[each] == entry_id), 0)
