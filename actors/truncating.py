"""Truncating: of a history only the last messages stay in the context; the log keeps them all.

It is a compaction whose summary is empty, so that every view and every other program that knows compactions follows. The
cut is put where no tool result is parted from its call, further back where it has to be: rather a message more than half
a unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from ..events.entries import Compaction, CompactionEntry, Payload, SessionInfo
from ..events.errors import InvalidInput, UnsafeCut
from ..projections.context import boundary, build, plan
from ..projections.cuts import safe_cuts, unsafe_reason
from ..projections.tokens import ByteEstimator, count_messages
from .decide import command_entry_id

if TYPE_CHECKING:
    from .commands import AppendOptions
    from .conversing import Conversing


async def truncated(session: Conversing, keep_last: int, summary: str | None, options: AppendOptions) -> str | None:
    """Cut a session's history short; see `Session.truncate_history`."""
    if keep_last < 0:
        raise InvalidInput(f"{keep_last} messages cannot be kept: give a number from 0 on")
    said = () if summary is None else (SessionInfo(summary=summary),)
    cut = await _cut_before(session, options.get("command_id"), len(said))
    if isinstance(cut, UnsetType):
        cut = await _cut(session, keep_last)
    payloads: tuple[Payload, ...] = said if cut is None else (*said, cut)
    if not payloads:
        return None
    ids = await session.append_many(payloads, **options)
    return None if cut is None else ids[-1]


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


async def _cut(session: Conversing, keep_last: int) -> Compaction | None:
    """Make the compaction that keeps the last messages, or None where the context shows no more than those.

    Raises:
        UnsafeCut: A tool call waits for its result.
    """
    log = await session.log()
    index, leaf = log.index, log.index.leaf
    first = boundary(index, leaf)
    chosen = plan(index, leaf, (await log.entries_at([first]))[first] if first else None)
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
    before = count_messages([each.message for each in messages], ByteEstimator())
    if not keep_last:
        return Compaction("", None, before)
    wanted = shown[-keep_last]
    place = max((cut for cut in safe_cuts(path) if cut <= wanted), default=0)
    return Compaction("", path[place].id, before) if place else None
