"""Routes of outlines: the entries of a path without their bodies, and the branches beside an entry."""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeVar
from urllib.parse import quote

import anyio.to_thread
from msgspec import Struct

from ...actors.log.open_log import OpenLog
from ...events.errors import EntryNotFound
from ...events.index import LogIndex
from ...projections.outline import (
    OutlineItem,
    PathPart,
    descendants,
    is_failure,
    is_place,
    item_of,
    may_fail,
    part_of,
    place_on,
    siblings,
)
from ..http.fields import Count, Limit, Name
from ..http.pages import check_limit
from ..http.problems import Malformed
from ..preconditions import state_tag
from ..routing import Call, ReadQuery, Routes

routes = Routes()

T = TypeVar("T")

_INLINE_MAX = 20_000
"""Lines of a log up to which its index is looked through on the event loop."""

_LOOKED_THROUGH_MAX = 4_000
"""Entries that one request for places looks through."""
_LOOKED_THROUGH_BYTES_MAX = 16 << 20
_AT_ONCE = 200

Chosen = Literal["user", "assistant", "tool", "system", "compaction", "branch_summary", "custom", "custom_message"]
"""What an outline may be limited to."""


class OutlineQuery(ReadQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of which path.

    Attributes:
        leaf: The end of the path; by default the session's leaf.
        before: The entry before which the part ends.
        after: The entry after which it begins.
        around: The entry in its middle; without any of the three, the part is the end of the path.
        types: Messages of these roles and entries of these types alone.
        places: Only entries worth jumping to: prompts, summaries, labelled ones, the first ones of branches, and those
            that say that something went wrong. Each part looks through so many entries at most; it may have none.
        limit: The maximum number of entries.
    """

    leaf: Name | None = None
    before: Name | None = None
    after: Name | None = None
    around: Name | None = None
    types: tuple[Chosen, ...] = ()
    places: bool = False
    limit: Limit = 500


class OutlinePage(Struct, frozen=True):
    """A part of a path.

    Attributes:
        items: Its entries, in the order of the path.
        before: What to pass as `before` for the previous part; null at the beginning.
        after: What to pass as `after` for the next part; null at the end.
        start: The place of the first entry, from 0; the length of the path if there is none.
        total: How many entries there are in all parts; with `places`, how many the path has.
        leaf: The end of the path.
        cursor: The end of the log.
    """

    items: list[OutlineItem]
    before: str | None
    after: str | None
    start: Count
    total: Count
    leaf: str | None
    cursor: str


class Sibling(Struct, frozen=True):
    """One of the ways that a path goes on after an entry.

    Attributes:
        item: Its first entry.
        leaf: The last entry that was appended below it, itself if there is none: the end of a path to show.
        entries: How many entries it has, with the first.
        on_path: Whether the path to the session's leaf goes there.
    """

    item: OutlineItem
    leaf: str
    entries: Count
    on_path: bool


class Siblings(Struct, frozen=True):
    """The ways that a path goes on beside an entry, that entry included, in the order of the log."""

    items: list[Sibling]
    cursor: str


@routes.read("/v1/sessions/{session_id}/outline", OutlinePage, query=OutlineQuery, errors=(404, 409, 422))
async def get_outline(call: Call[OutlineQuery, None]) -> OutlinePage:
    """Return a part of a path without the bodies of its entries, by default its end."""
    session, query = await call.reading(), call.query
    check_limit(query.limit, call.service.limits.page_max)
    if sum(each is not None for each in (query.before, query.after, query.around)) > 1:
        raise Malformed("give one of `before`, `after` and `around`", status=422)
    if query.places and (query.types or query.after is not None or query.around is not None):
        raise Malformed("`places` are read from the end: give `before` beside it alone", status=422)
    call.unless_known(f"{state_tag(session)}/{quote(repr(query))}")
    log = await session.log()
    leaf = log.index.path_end(query.leaf)
    if query.places:
        part = await places_of(log, leaf, query.limit, before=query.before)
    else:
        part = part_of(
            log.index, leaf, query.limit, before=query.before, after=query.after, around=query.around, types=query.types
        )
    items = await items_of(log, leaf, part)
    cursor, end = str(log.cursor), log.index.ids[leaf] if leaf else None
    start = items[0].place if items else part.total
    return OutlinePage(items, part.before, part.after, start, part.total, end, cursor)


async def items_of(log: OpenLog, leaf: int, part: PathPart) -> list[OutlineItem]:
    """Read the entries of a part, and return what a list shows of them."""
    index = log.index
    kept = (await log.plan(leaf)).kept if index.boundaries[leaf] else ()
    first_shown = kept[0] if kept else index.boundaries[leaf]
    children = await looked_through(index, partial(siblings, index, part.seqs))
    places = dict(zip(part.seqs, part.places, strict=True))
    return [
        item_of(
            index, entry, size, places[entry.seq], children[max(index.parents[entry.seq], 0)], first_shown=first_shown
        )
        for entry, size in await log.sized_entries_in(part.seqs)
    ]


async def places_of(log: OpenLog, leaf: int, limit: int, *, before: str | None = None) -> PathPart:
    """Return the entries of the end of a path that are worth jumping to.

    Args:
        log: The log.
        leaf: The seq at which the path ends.
        limit: The maximum number of entries.
        before: The entry before which the part ends.

    Raises:
        EntryNotFound: `before` is not on the path.
    """
    index = log.index
    path = index.path(leaf)
    start = len(path)
    if before is not None:
        place = place_on(path, index.seq_of(before))
        if place is None:
            raise EntryNotFound(before)
        start = place
    first = max(0, start - _LOOKED_THROUGH_MAX)
    children = await looked_through(index, partial(siblings, index, path[first:start]))
    found: list[int] = []
    read_bytes = 0
    while start > first and len(found) < limit and read_bytes < _LOOKED_THROUGH_BYTES_MAX:
        last, start = start, max(first, start - _AT_ONCE)
        seqs = path[start:last]
        known = {seq for seq in seqs if is_place(index, seq, children[max(index.parents[seq], 0)])}
        for entry, size in await log.sized_entries_in([seq for seq in seqs if may_fail(index, seq)]):
            read_bytes += size
            if is_failure(entry):
                known.add(entry.seq)
        found = [place for place, seq in enumerate(seqs, start) if seq in known] + found
    if len(found) > limit:
        found = found[-limit:]
        start = found[0]
    return PathPart([path[place] for place in found], found, len(path), index.ids[path[start]] if start else None, None)


async def looked_through(index: LogIndex, look: partial[T]) -> T:
    """Return what a look through all lines of an index finds, made in a thread if there are many."""
    return look() if index.head <= _INLINE_MAX else await anyio.to_thread.run_sync(look)


@routes.read("/v1/sessions/{session_id}/branches/{entry_id}", Siblings)
async def get_branches(call: Call[ReadQuery, None]) -> Siblings:
    """Return the ways that a path goes on beside an entry: each with its newest leaf, and how much is below it."""
    session, entry_id = await call.reading(), call.names["entry_id"]
    call.unless_known(f"{state_tag(session)}/{quote(entry_id)}")
    log = await session.log()
    index = log.index
    seq = index.seq_of(entry_id)
    beside = (await looked_through(index, partial(siblings, index, [seq])))[max(index.parents[seq], 0)]
    last, count = await looked_through(index, partial(descendants, index))
    place = len(index.path(seq)) - 1
    items = await items_of(log, index.leaf, PathPart(beside, [place] * len(beside), len(beside), None, None))
    path = index.path(index.leaf)
    shown = [
        Sibling(item, index.ids[last[item.seq]], count[item.seq], place_on(path, item.seq) is not None)
        for item in items
    ]
    return Siblings(shown, str(log.cursor))
