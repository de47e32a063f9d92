"""The part of a session's handle that tells what a model saw at an entry, or would be sent there.

A request is not stored. It is built again from the path as it was: with the summaries that had been stored by then, and
the strategies of the given builder.
"""

from __future__ import annotations

from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from ...events.entries import MessageEntry
from ...events.index import LogIndex
from ...events.kinds import Kind
from ...projections.building.budget import UNBOUNDED, ContextBudget, calculate_budget, checked_budget
from ...projections.building.builder import ContextBuilder
from ...projections.building.report import (
    ContextInput,
    ContextItem,
    ContextReport,
    HiddenRange,
    hidden_range,
    items_of,
    parts_of,
)
from ...projections.context import RELEVANT, boundary, clears, first_kept
from ...projections.context_edits import edits_on, last_edits
from ..log.open_log import OpenLog
from .fitting import Fitting, built_from, checked_builder
from .reading import read_log
from .shown_path import AT_ONCE


class Explaining(Fitting):
    """The call that explains a context."""

    __slots__ = ()

    async def context_report(
        self, entry_id: str | None = None, *, budget: ContextBudget | None = None, builder: ContextBuilder | None = None
    ) -> ContextReport:
        """Return what a model saw at an entry: what was sent, masked, summarized or cut, and the tokens of each part.

        Of a model's answer, this is the context that it answers; of any other entry, the context of the path to it.
        Nothing is written and no model is called.

        Args:
            entry_id: The entry; by default the leaf, as the next request will show it.
            budget: The budget of the request; by default that of the window in the session's metadata. If there is
                none, nothing is left out for want of room.
            builder: Builds the context; by default one with the default strategies.

        Raises:
            ContextOverflow: Not even the minimal context fits.
            CorruptTree: The path runs into a cycle.
            EntryNotFound: The session has no such entry.
        """
        info = self._index().info
        window = info.provider.context_window if info.provider is not None else 0
        if budget is not None:
            budget = checked_budget(budget)
            window = budget.model_context_window
        elif window:
            budget = calculate_budget(window)
        else:
            budget = replace(calculate_budget(0), available_tokens=UNBOUNDED)
        known, chosen = window or None, budget
        used = checked_builder(builder)
        return await read_log(self, lambda log: _report(log, entry_id, known, chosen, used))


async def _report(
    log: OpenLog, entry_id: str | None, window: int | None, budget: ContextBudget, builder: ContextBuilder
) -> ContextReport:
    index = log.index
    seq = index.path_end(entry_id)
    is_answer = entry_id is not None and index.kinds[seq] == Kind.ASSISTANT
    leaf = max(index.parents[seq], 0) if is_answer else seq
    source, result = await built_from(log, builder, budget, leaf, before=seq if is_answer else None)
    plan = await log.plan(leaf)
    first = boundary(index, leaf)
    wanted = sorted({*plan.kept, first} - {0})
    entries = await log.entries_in(wanted)
    edits = last_edits(index, await log.entries_in(edits_on(index, leaf)))
    given = ContextInput(await log.context(leaf), entries, edits, source, index.find)
    items: list[ContextItem] = []
    for item in items_of(given, result, builder.tokenizer):
        items.append(item)
        if not len(items) % AT_ONCE:
            await checkpoint()  # a path of 100,000 messages takes seconds
    answer = (await log.entries_at([seq]))[seq] if is_answer else None
    return ContextReport(
        index.ids[seq] if seq else None,
        index.ids[leaf] if leaf else None,
        is_answer,
        window,
        result.strategy,
        result.tokens_used,
        parts_of(items, budget, result.tokens_used, window),
        await _hidden(log, leaf, first),
        tuple(items),
        result.failures,
        given.context.warnings,
        answer.message.usage if isinstance(answer, MessageEntry) else None,
        _previous_call(index, seq),
        _next_call(index, seq),
    )


async def _hidden(log: OpenLog, leaf: int, first: int) -> HiddenRange | None:
    """Return what the latest compaction or reset of a path hides, or None if it hides nothing."""
    if not first:
        return None
    index = log.index
    entry = (await log.entries_at([first]))[first]
    stop = first_kept(index, first, entry)
    last = max(index.parents[stop], 0)
    above = [seq for seq in index.upward(last) if index.kinds[seq] in RELEVANT] if last else []
    if entry is None or not above:
        return None
    edits = last_edits(index, await log.entries_in(edits_on(index, leaf)))
    return hidden_range(entry, index.ids[last], len(above), cleared=clears(entry, edits))


def _previous_call(index: LogIndex, seq: int) -> str | None:
    """Return the answer before an entry on its path."""
    above = max(index.parents[seq], 0)
    calls = (each for each in index.upward(above) if index.kinds[each] == Kind.ASSISTANT)
    found = next(calls, 0) if above else 0
    return index.ids[found] if found else None


def _next_call(index: LogIndex, seq: int) -> str | None:
    """Return the answer after an entry: on the path to the leaf, or else on the path to the newest entry below it."""
    leaf = index.leaf
    if not leaf or not index.is_ancestor(seq, leaf):
        leaf = _newest_below(index, seq)
    found = 0
    for each in index.upward(leaf) if leaf else ():
        if each == seq:
            break
        if index.kinds[each] == Kind.ASSISTANT:
            found = each
    return index.ids[found] if found else None


def _newest_below(index: LogIndex, seq: int) -> int:
    """Return the last entry of the log that is below an entry, or the entry itself."""
    parents, below, newest = index.parents, bytearray(index.head + 1), seq
    below[seq] = 1
    for each in range(seq + 1, index.head + 1):
        if parents[each] > 0 and below[parents[each]]:
            below[each], newest = 1, each
    return newest
