"""Truncating: of a history only the last messages stay in the context; the log keeps them all.

It is a compaction whose summary is empty, so that every view and every other program that knows compactions follows.
The cut is put where no tool result is parted from its call, further back where it has to be: rather a message more than
half a unit.

A cut is right for the path that it was made on, so it is appended only if the leaf is still the one that it was made
for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from ..events.entries import Compaction, CompactionEntry, Payload, SessionInfo
from ..events.errors import InvalidInput, LeafMoved, UnsafeCut
from ..projections.context import build
from ..projections.cuts import safe_cuts, unsafe_reason
from ..projections.tokens import ByteEstimator, context_tokens
from .decide import command_entry_id

if TYPE_CHECKING:
    from .commands import AppendOptions
    from .conversing import Conversing
    from .open_log import OpenLog


_EXPECTATIONS = frozenset({"expected_leaf", "expected_seq"})


async def truncate(session: Conversing, keep_last: int, summary: str | None, options: AppendOptions) -> str | None:
    """Cut a session's history short; see `Session.truncate_history`."""
    if keep_last < 0:
        raise InvalidInput(f"{keep_last} messages cannot be kept: give a number from 0 on")
    said = () if summary is None else (SessionInfo(summary=summary),)
    strict = not _EXPECTATIONS.isdisjoint(options)
    while True:
        cut = await _cut_before(session, options.get("command_id"), len(said))
        relied = options
        if isinstance(cut, UnsetType):
            log = await session.log()
            leaf_id = log.index.leaf_id
            cut = await _cut(log, keep_last)
            if cut is not None:
                relied = _relying(options, leaf_id)
        payloads: tuple[Payload, ...] = said if cut is None else (*said, cut)
        if not payloads:
            return None
        try:
            ids = await session.append_many(payloads, **relied)
        except LeafMoved:
            if strict or not await _went_on(session, relied):
                raise
            continue  # more was said meanwhile on the same path: the last messages are others now
        return None if cut is None else ids[-1]


def _relying(options: AppendOptions, leaf_id: str | None) -> AppendOptions:
    """Return the options of an append that is right below one leaf alone.

    Raises:
        LeafMoved: The caller expects another.
    """
    if options.get("expected_leaf", leaf_id) != leaf_id:
        raise LeafMoved(
            f"the leaf is {leaf_id!r} and not {options.get('expected_leaf')!r}: read the session again and decide again"
        )
    return {**options, "expected_leaf": leaf_id}


async def _went_on(session: Conversing, relied: AppendOptions) -> bool:
    """Tell whether the leaf that was relied on lies on the path to the one that there is now."""
    index = (await session.log()).index
    return index.is_ancestor(index.find(relied.get("expected_leaf") or ""), index.leaf)


async def _cut_before(session: Conversing, command_id: str | None, place: int) -> Compaction | UnsetType | None:
    """Return what a command of this id appended as its payload number `place`; unset where it appended nothing.

    Cut anew, the history that is short already would make another command of it.
    """
    if command_id is None:
        return UNSET
    index = (await session.log()).index
    found = [index.find(command_entry_id(index.header.id, command_id, position)) for position in range(place + 1)]
    if not any(found):
        return UNSET
    if not found[place]:
        return None
    entry = await session.entry(index.ids[found[place]])
    return entry.compaction if isinstance(entry, CompactionEntry) else UNSET


async def _cut(log: OpenLog, keep_last: int) -> Compaction | None:
    """Make the compaction that keeps the last messages, or None where the context shows no more than those.

    Raises:
        UnsafeCut: A tool call waits for its result.
    """
    index, leaf = log.index, log.index.leaf
    chosen = await log.plan(leaf)
    entries = await log.entries_at(chosen.needed)
    messages = build(index, chosen, entries).messages
    path = [entry for seq in chosen.kept if (entry := entries[seq]) is not None]
    places = {entry.id: place for place, entry in enumerate(path)}
    shown = [places[each.entry_id] for each in messages if each.entry_id in places]
    if len(shown) <= keep_last and (keep_last or not messages):
        return None
    open_call = unsafe_reason(path, len(path))
    if open_call is not None:
        raise UnsafeCut(f"{open_call}: append that first, or begin anew with `set_history`")
    before = context_tokens(messages, ByteEstimator())
    if not keep_last:
        return Compaction("", None, before)
    wanted = shown[-keep_last]
    place = max((cut for cut in safe_cuts(path) if cut <= wanted), default=0)
    return Compaction("", path[place].id, before) if place else None
