"""The outline of a path: what a list of its entries shows of each, without its body.

Which entries a page has, where they stand and where the path branches is known from the index. Only the entries of the
page are read, for their first words.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypedDict

from msgspec import Struct

from ..events.content import ToolResultPart, ToolUsePart
from ..events.entries import CompactionEntry, Entry, Message, MessageEntry, OpaqueEntry, ToolExecutionEntry, payload_of
from ..events.errors import EntryNotFound
from ..events.index import LogIndex
from ..events.kinds import KIND_OF_ROLE, MESSAGE_KINDS, Kind
from ..events.texts import preview
from .session_state import LINE_CHARS_MAX, CalledTool, called, context_tokens, first_words

_ROLES = {kind: role for role, kind in KIND_OF_ROLE.items()}
_PLACES = frozenset({Kind.USER, Kind.COMPACTION, Kind.BRANCH_SUMMARY})


class ShownResult(Struct, frozen=True, gc=False):
    """The result of a call: the call, whether it is an error, and its size in bytes."""

    call_id: str
    error: bool
    bytes: int


class OutlineItem(Struct, frozen=True, kw_only=True, gc=False):
    """An entry of a path, as a list shows it.

    Attributes:
        id: Its id.
        seq: Its seq.
        parent_id: The entry before it on the path.
        place: Its place on the path, from 0.
        type: Its type.
        role: The role of a message.
        text: How it begins, on one line.
        tools: The calls of an answer.
        results: The results of a message, without their content.
        call_id: The call that a record of an execution belongs to.
        bytes: The length of its line.
        timestamp: When it was appended.
        duration_ms: How long it took, if that was measured.
        tokens: The size of the context at an answer, as the provider counted it; before a compaction what it was.
        model: The model that answered.
        branches: How many entries follow the one before it, itself included.
        branch: Which of them it is, from 1, in the order of the log.
        label: Its label.
        error: What went wrong.
        in_context: Whether a model is shown it, or what comes after it: not before the latest compaction of the path.
    """

    id: str
    seq: int
    parent_id: str | None
    place: int
    type: str
    role: str | None
    text: str
    tools: tuple[CalledTool, ...] = ()
    results: tuple[ShownResult, ...] = ()
    call_id: str | None = None
    bytes: int
    timestamp: datetime
    duration_ms: float | None = None
    tokens: int | None = None
    model: str | None = None
    branches: int
    branch: int
    label: str | None
    error: str | None = None
    in_context: bool


class PathPart(Struct, frozen=True):
    """A part of a path.

    Attributes:
        seqs: The entries of the part, in path order.
        places: Their places on the path.
        total: How many entries there are in all parts.
        before: The entry before which the previous part ends, or None.
        after: The entry after which the next part begins, or None.
    """

    seqs: Sequence[int]
    places: Sequence[int]
    total: int
    before: str | None
    after: str | None


def part_of(
    index: LogIndex,
    leaf: int,
    limit: int,
    *,
    before: str | None = None,
    after: str | None = None,
    around: str | None = None,
    types: Sequence[str] = (),
) -> PathPart:
    """Return a part of the path to a leaf: its end, or what is before, after or around an entry of it.

    Args:
        index: The log's index.
        leaf: The seq at which the path ends.
        limit: The maximum number of entries.
        before: The entry before which the part ends.
        after: The entry after which it begins.
        around: The entry in its middle.
        types: Only entries of these types, or messages of these roles.

    Raises:
        EntryNotFound: An entry is not on the path.
        CorruptTree: The path runs into a cycle.
    """
    path = index.path(leaf)
    shown = [place for place, seq in enumerate(path) if not types or not _names(index, seq).isdisjoint(types)]
    if before is not None:
        end = bisect_left(shown, _place(index, path, before))
        start = max(0, end - limit)
    elif after is not None:
        start = bisect_left(shown, _place(index, path, after) + 1)
        end = min(len(shown), start + limit)
    elif around is not None:
        middle = bisect_left(shown, _place(index, path, around))
        start = max(0, min(middle - limit // 2, len(shown) - limit))
        end = min(len(shown), start + limit)
    else:
        start, end = max(0, len(shown) - limit), len(shown)
    places = shown[start:end]
    seqs = [path[place] for place in places]
    return PathPart(
        seqs,
        places,
        len(shown),
        index.ids[seqs[0]] if seqs and start else None,
        index.ids[seqs[-1]] if seqs and end < len(shown) else None,
    )


def _names(index: LogIndex, seq: int) -> set[str]:
    """Return the words by which an entry is chosen: its type, and its role if the index knows it."""
    return {index.type_of(seq), _ROLES.get(index.kinds[seq], "")}


def _place(index: LogIndex, path: Sequence[int], entry_id: str) -> int:
    place = place_on(path, index.seq_of(entry_id))
    if place is None:
        raise EntryNotFound(entry_id)
    return place


def place_on(path: Sequence[int], seq: int) -> int | None:
    """Return the place of an entry on a path, from 0; None if it is not on it."""
    place = bisect_left(path, seq)
    return place if place < len(path) and path[place] == seq else None


def siblings(index: LogIndex, seqs: Iterable[int]) -> dict[int, list[int]]:
    """Return for each parent of these entries its children, in the order of the log; looks at each line once."""
    parents = index.parents
    wanted = {max(parents[seq], 0) for seq in seqs}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for seq in range(min(wanted, default=0) + 1, index.head + 1):
        parent = max(0, parents[seq])
        if parent in wanted and index.is_entry(seq):
            children[parent].append(seq)
    return children


def is_place(index: LogIndex, seq: int, children: Sequence[int]) -> bool:
    """Tell whether the index knows that an entry is worth jumping to: a prompt, a summary, a label, a branch.

    Args:
        index: The log's index.
        seq: The entry.
        children: The children of its parent.
    """
    return index.kinds[seq] in _PLACES or len(children) > 1 or index.label_of(index.ids[seq]) is not None


def may_fail(index: LogIndex, seq: int) -> bool:
    """Tell whether an entry is one that may say that something went wrong; whether it does is in its body."""
    return index.kinds[seq] in MESSAGE_KINDS


def is_failure(entry: Entry) -> bool:
    """Tell whether a message is an answer that failed, or holds the result of a call that did."""
    if not isinstance(entry, MessageEntry):
        return False
    results = (part.tool_result for part in entry.message.content if isinstance(part, ToolResultPart))
    return _error_of(entry.message) is not None or any(result.is_error for result in results)


def descendants(index: LogIndex) -> tuple[array[int], array[int]]:
    """Return for each entry the last entry below it, itself if there is none, and how many there are, with itself."""
    last = array("I", range(index.head + 1))
    count = array("I", [1]) * (index.head + 1)
    parents = index.parents
    for seq in range(index.head, 0, -1):
        parent = parents[seq]
        if parent > 0 and index.is_entry(seq):
            last[parent] = max(last[parent], last[seq])
            count[parent] += count[seq]
    return last, count


def item_of(
    index: LogIndex, entry: Entry, size: int, place: int, children: Sequence[int], first_shown: int
) -> OutlineItem:
    """Return what a list shows of an entry.

    Args:
        index: The log's index.
        entry: The entry.
        size: The length of its line.
        place: Its place on the path.
        children: The children of its parent.
        first_shown: The seq of the first entry of the path that a model is shown.
    """
    seq = entry.seq
    above = index.parents[seq]
    return OutlineItem(
        id=entry.id or "",
        seq=seq,
        parent_id=index.ids[above] if above > 0 else None,
        place=place,
        type=entry.type,
        role=entry.message.role if isinstance(entry, MessageEntry) else None,
        text=_text_of(entry),
        bytes=size,
        timestamp=entry.timestamp,
        branches=len(children),
        branch=bisect_left(children, seq) + 1,
        label=index.label_of(entry.id),
        in_context=seq >= first_shown,
        **_particulars_of(entry),
    )


def _text_of(entry: Entry) -> str:
    if isinstance(entry, OpaqueEntry):
        return ""
    spoken = first_words(entry.message.content) if isinstance(entry, MessageEntry) else ""
    return spoken or preview(payload_of(entry).preview(lambda entry_id: entry_id), LINE_CHARS_MAX)


class _Particulars(TypedDict, total=False):
    """What an item says of entries of some types only."""

    tools: tuple[CalledTool, ...]
    results: tuple[ShownResult, ...]
    call_id: str | None
    duration_ms: float | None
    tokens: int | None
    model: str | None
    error: str | None


def _particulars_of(entry: Entry) -> _Particulars:
    if isinstance(entry, CompactionEntry):
        return {"tokens": entry.compaction.tokens_before}
    if isinstance(entry, ToolExecutionEntry):
        record = entry.tool_execution
        code = "" if record.exit_code is None else f"exit code {record.exit_code}"
        error = None if record.success else record.error or code or "the call failed"
        return {"call_id": record.tool_call_id, "duration_ms": record.duration_ms, "error": error}
    if not isinstance(entry, MessageEntry):
        return {}
    said = entry.message
    results = tuple(
        ShownResult(part.tool_result.tool_use_id, part.tool_result.is_error, len(part.tool_result.text.encode()))
        for part in said.content
        if isinstance(part, ToolResultPart)
    )
    return {
        "tools": tuple(called(part.tool_use) for part in said.content if isinstance(part, ToolUsePart)),
        "results": results,
        "duration_ms": said.duration_ms,
        "tokens": context_tokens(said),
        "model": said.model,
        "error": _error_of(said),
    }


def _error_of(said: Message) -> str | None:
    return said.error or ("the answer failed" if said.stop_reason == "error" else None)
