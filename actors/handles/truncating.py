"""Truncation: only the last messages of a history stay in the context; the log keeps them all.

Truncating appends a compaction with an empty summary, so every view follows, and so does every other program that knows
compactions. The cut never separates a tool result from its call: if necessary it is made further back, which keeps a
few messages more.

A cut, or that none is needed, is valid for the path that it was computed for, so what follows from it is appended only
if the leaf has not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from ...events.arguments import check_count, check_text
from ...events.entries import Compaction, CompactionEntry, Payload, SessionInfo
from ...events.errors import LeafMoved, UnsafeCut
from ...projections.context import build
from ...projections.cuts import safe_cuts, unsafe_reason
from ...projections.tokens import ByteEstimator, context_tokens
from ..commands import Append, AppendOptions
from ..decide import command_entry_id

if TYPE_CHECKING:
    from ..log.open_log import OpenLog
    from ..session.conversing import Conversing


_EXPECTATIONS = frozenset({"expected_leaf", "expected_seq"})


async def truncate(session: Conversing, keep_last: int, summary: str | None, options: AppendOptions) -> str | None:
    """Truncate a session's history; see `Session.truncate_history`."""
    check_count("keep_last", keep_last)
    check_text("the command id", options.get("command_id"))
    Append((), **options)  # rejects unknown options, even if nothing is to be cut
    infos = () if summary is None else (SessionInfo(summary=summary),)
    has_expectations = not _EXPECTATIONS.isdisjoint(options)
    leaf = head = 0
    while True:
        cut = await _earlier_cut(session, options.get("command_id"), len(infos))
        append_options = options
        if isinstance(cut, UnsetType):
            log = await session.log()
            leaf, leaf_id, head = log.index.leaf, log.index.leaf_id, log.index.head
            cut = await _cut(log, keep_last)
            append_options = _expecting_leaf(options, leaf_id)
        payloads: tuple[Payload, ...] = infos if cut is None else (*infos, cut)
        if not payloads:
            return None
        try:
            ids = await session.append_many(payloads, **append_options)
        except LeafMoved:
            index = (await session.log()).index
            if has_expectations or max((seq for seq in index.path(index.leaf) if seq <= head), default=0) != leaf:
                raise
            continue  # the same path has grown meanwhile, so the last messages are different ones now
        return None if cut is None else ids[-1]


def _expecting_leaf(options: AppendOptions, leaf_id: str | None) -> AppendOptions:
    """Return the options of an append that is valid below this leaf only.

    Raises:
        LeafMoved: The caller expects another leaf.
    """
    if options.get("expected_leaf", leaf_id) != leaf_id:
        raise LeafMoved(
            f"the leaf is {leaf_id!r}, not {options.get('expected_leaf')!r}: read the session again and decide again"
        )
    return {**options, "expected_leaf": leaf_id}


async def _earlier_cut(session: Conversing, command_id: str | None, position: int) -> Compaction | UnsetType | None:
    """Return the compaction that this command appended earlier as its payload at `position`; unset if there is none.

    The history is shorter by now, so a cut computed again would make it a different command.
    """
    if command_id is None:
        return UNSET
    index = (await session.log()).index
    seqs = [index.find(command_entry_id(index.header.id, command_id, each)) for each in range(position + 1)]
    if not any(seqs):
        return UNSET
    if not seqs[position]:
        return None
    entry = await session.entry(index.ids[seqs[position]])
    return entry.compaction if isinstance(entry, CompactionEntry) else UNSET


async def _cut(log: OpenLog, keep_last: int) -> Compaction | None:
    """Return the compaction that keeps the last messages, or None if the context shows no more than those.

    Raises:
        UnsafeCut: A tool call waits for its result.
    """
    index, leaf = log.index, log.index.leaf
    context_plan = await log.plan(leaf)
    entries = await log.entries_at(context_plan.needed)
    messages = build(index, context_plan, entries).messages
    path = [entry for seq in context_plan.kept if (entry := entries[seq]) is not None]
    places = {entry.id: place for place, entry in enumerate(path)}
    # system messages stay whatever is cut off: the compaction stores what they say
    shown = [places[each.entry_id] for each in messages if each.entry_id in places and each.role != "system"]
    if len(shown) <= keep_last and (keep_last or not messages):
        return None
    open_call = unsafe_reason(path, len(path))
    if open_call is not None:
        raise UnsafeCut(f"{open_call}: append that first, or start over with `set_history`")
    before = context_tokens(messages, ByteEstimator())
    if not keep_last:
        return Compaction("", None, before)
    first_kept = shown[-keep_last]
    place = max((cut for cut in safe_cuts(path) if cut <= first_kept), default=0)
    return Compaction("", path[place].id, before) if place else None
