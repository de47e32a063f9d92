"""Safe cuts: where the kept part of a path may begin without parting a tool call from its result.

A call and its results are one unit, and so is a batch of parallel calls with all of its results: kept whole or not at
all. A path may be cut before a user's message, before an assistant's message without calls, before an assistant's message
whose calls are all answered further down, and before anything that is no message, unless that lies inside a unit. While
the last calls are unanswered no cut is safe at all, because the compaction would come between a call and its result.

Positions count the entries of the path from 0; a cut at a position keeps the entry there and all after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from ..events.content import ToolResultPart, ToolUsePart
from ..events.entries import Entry, MessageEntry


def safe_cuts(entries: Sequence[Entry]) -> list[int]:
    """Return the positions on a path before which it may be cut; none while the last calls are unanswered."""
    pairs = _Pairs(entries)
    if pairs.waiting:
        return []
    return [
        position
        for position, (entry, inside) in enumerate(zip(entries, pairs.inside(len(entries)), strict=True))
        if not inside and position not in pairs.unanswered and _may_begin(entry)
    ]


def stable_cuts(entries: Sequence[Entry]) -> list[int]:
    """Return the safe cuts that are not before an assistant's message with calls: no turn is taken up in its middle."""
    return [position for position in safe_cuts(entries) if not _calls(entries[position])]


def find_safe_cut(entries: Sequence[Entry], keep_tokens: int, count: Callable[[Entry], int]) -> str | None:
    """Choose the first entry to keep, so that about `keep_tokens` are kept.

    Of the cuts that keep no more than that, the one that keeps most is taken, a stable one if there is any. Where even the
    last of them keeps more, that one is taken.

    Args:
        entries: The entries of the path, oldest first; those that the context shows are enough.
        keep_tokens: How many tokens the kept entries may count.
        count: The size of an entry in tokens.

    Returns:
        The id of the entry, or None where there is nothing to cut off, or no place to do it safely.
    """
    wanted = _start_of_last(entries, keep_tokens, count)
    if wanted == 0:
        return None
    cuts = [position for position in safe_cuts(entries) if position > 0]
    if not cuts:
        return None
    fitting = [position for position in cuts if position >= wanted]
    stable = [position for position in fitting if not _calls(entries[position])]
    return entries[(stable or fitting or cuts[-1:])[0]].id


def unsafe_reason(entries: Sequence[Entry], first_kept: int = 0) -> str | None:
    """Say why a path must not be cut at a position, or None where it may be.

    Args:
        entries: The entries of the path, or only those that would be kept. Calls that wait for their results are seen
            among the given entries alone, so the path says more.
        first_kept: The position of the first entry to keep; the number of entries where none is kept.
    """
    pairs = _Pairs(entries)
    for call_id, call, result in pairs.results:
        if call < first_kept <= result:
            return f"entry {entries[result].id!r} would keep the result of call {call_id!r} without the call"
    for call_id, call in pairs.waiting.items():
        return f"call {call_id!r} of entry {entries[call].id!r} still waits for its result"
    return None


class _Pairs:
    """The calls and results on a path.

    Attributes:
        results: The id of the call, its position (-1 where there is none before the result), that of the result.
        waiting: The unanswered calls since the assistant last spoke, by their ids, with their positions.
        unanswered: The positions of all messages with a call that was not answered.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.results: list[tuple[str, int, int]] = []
        self.waiting: dict[str, int] = {}
        made: dict[str, int] = {}
        unanswered: set[tuple[str, int]] = set()
        for position, entry in enumerate(entries):
            if not isinstance(entry, MessageEntry):
                continue
            if entry.message.role == "assistant":
                # The model was asked again: what it was not told by then no longer holds up a compaction.
                self.waiting = {}
            for part in entry.message.content:
                if isinstance(part, ToolUsePart):
                    call_id = part.tool_use.id
                    made[call_id] = self.waiting[call_id] = position
                    unanswered.add((call_id, position))
                elif isinstance(part, ToolResultPart):
                    call_id = part.tool_result.tool_use_id
                    call = made.get(call_id, -1)
                    self.results.append((call_id, call, position))
                    self.waiting.pop(call_id, None)
                    unanswered.discard((call_id, call))
        self.unanswered = {position for _, position in unanswered}

    def inside(self, length: int) -> list[bool]:
        """Tell of each position whether a cut there would part a result from its call."""
        steps = [0] * (length + 1)
        for _, call, result in self.results:
            steps[call + 1] += 1
            steps[result + 1] -= 1
        return [depth > 0 for depth in accumulate(steps[:-1])]


def _may_begin(entry: Entry) -> bool:
    return not (isinstance(entry, MessageEntry) and entry.message.role == "tool")


def _calls(entry: Entry) -> bool:
    return isinstance(entry, MessageEntry) and entry.message.has_calls


def _start_of_last(entries: Sequence[Entry], tokens: int, count: Callable[[Entry], int]) -> int:
    """Return the position from which on the entries count no more than `tokens`."""
    position = len(entries)
    while position > 0:
        tokens -= count(entries[position - 1])
        if tokens < 0:
            break
        position -= 1
    return position
