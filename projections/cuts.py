"""Safe cuts: where the kept part of a path may begin without separating a tool call from its result.

A call and its results are one unit, and so is a batch of parallel calls with all of its results: kept whole or not at
all. A path may be cut before a user message, before an assistant message without calls, before an assistant message
whose calls are all answered further down, and before anything that is not a message, unless it lies inside a unit.
While the last calls are unanswered no cut is safe, because the compaction would come between a call and its result.

Positions count the entries of the path from 0; a cut at a position keeps the entry there and all later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from ..events.content import ToolResultPart, ToolUsePart
from ..events.entries import Entry, MessageEntry


def safe_cuts(entries: Sequence[Entry]) -> list[int]:
    """Return the positions at which a path may be cut; none while the last calls are unanswered."""
    pairs = _Pairs(entries)
    if pairs.waiting:
        return []
    inside = pairs.inside(len(entries))
    return [
        position
        for position, entry in enumerate(entries)
        if not (inside[position] or position in pairs.unanswered)
        and not (isinstance(entry, MessageEntry) and entry.message.role == "tool")
    ]


def stable_cuts(entries: Sequence[Entry]) -> list[int]:
    """Return the safe cuts that are not before an assistant message with calls, so that no turn is split."""
    return [position for position in safe_cuts(entries) if not _has_calls(entries[position])]


def find_safe_cut(entries: Sequence[Entry], keep_tokens: int, count: Callable[[Entry], int]) -> str | None:
    """Choose the first entry to keep, so that about `keep_tokens` are kept.

    Of the safe cuts that keep at most that many tokens, choose the one that keeps most, a stable one if there is any.
    If every safe cut keeps more, choose the last one.

    Args:
        entries: The entries of the path, oldest first; those that the context shows are enough.
        keep_tokens: The number of tokens to keep.
        count: Returns the size of an entry in tokens.

    Returns:
        The id of the entry, or None if there is nothing to cut off or no safe cut.
    """
    earliest = _start_of_last(entries, keep_tokens, count)
    if earliest == 0:
        return None
    cuts = [position for position in safe_cuts(entries) if position > 0]
    if not cuts:
        return None
    fitting = [position for position in cuts if position >= earliest]
    stable = [position for position in fitting if not _has_calls(entries[position])]
    return entries[(stable or fitting or cuts[-1:])[0]].id


def unsafe_reason(entries: Sequence[Entry], first_kept: int = 0) -> str | None:
    """Return why a path must not be cut at a position, or None if it may be.

    Args:
        entries: The entries of the path, or only those that would be kept. Calls that wait for results are detected
            among these entries only, so pass the whole path if possible.
        first_kept: The position of the first entry to keep; the number of entries if none is kept.
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
        results: For each result: the id of its call, the call's position (-1 if no call precedes it), its own position.
        waiting: The positions of the unanswered calls of the last assistant message, by call id.
        unanswered: The positions of all messages with a call that was never answered.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.results: list[tuple[str, int, int]] = []
        self.waiting: dict[str, int] = {}
        calls: dict[str, int] = {}
        unanswered: set[tuple[str, int]] = set()
        for position, entry in enumerate(entries):
            if not isinstance(entry, MessageEntry):
                continue
            if entry.message.role == "assistant":
                # The model answered again, so older calls without a result no longer block a compaction.
                self.waiting = {}
            for part in entry.message.content:
                if isinstance(part, ToolUsePart):
                    call_id = part.tool_use.id
                    calls[call_id] = self.waiting[call_id] = position
                    unanswered.add((call_id, position))
                elif isinstance(part, ToolResultPart):
                    call_id = part.tool_result.tool_use_id
                    call = calls.get(call_id, -1)
                    self.results.append((call_id, call, position))
                    self.waiting.pop(call_id, None)
                    unanswered.discard((call_id, call))
        self.unanswered = {position for _, position in unanswered}

    def inside(self, length: int) -> list[bool]:
        """Return for each position whether a cut there would separate a result from its call."""
        steps = [0] * (length + 1)
        for _, call, result in self.results:
            steps[call + 1] += 1
            steps[result + 1] -= 1
        return [depth > 0 for depth in accumulate(steps[:-1])]


def _has_calls(entry: Entry) -> bool:
    return isinstance(entry, MessageEntry) and entry.message.has_calls


def _start_of_last(entries: Sequence[Entry], tokens: int, count: Callable[[Entry], int]) -> int:
    """Return the first position from which the rest of the entries takes at most `tokens`."""
    for position in range(len(entries), 0, -1):
        tokens -= count(entries[position - 1])
        if tokens < 0:
            return position
    return 0
