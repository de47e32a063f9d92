"""Routes of outlines: the entries of a path without their bodies, and the branches beside an entry."""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeVar
from urllib.parse import quote

import anyio.to_thread
from msgspec import Struct

from ...actors.log.open_log import OpenLog
from ...events.index import LogIndex
from ...projections.outline import OutlineItem, PathPart, descendants, item_of, part_of, place_on, siblings
from ..http.fields import Count, Limit, Name
from ..http.pages import check_limit
from ..http.problems import Malformed
from ..preconditions import state_tag
from ..routing import Call, ReadQuery, Routes

routes = Routes()

T = TypeVar("T")

_INLINE_MAX = 20_000
"""Lines of a log up to which its index is looked through on the event loop."""

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
        limit: The maximum number of entries.
    """

    leaf: Name | None = None
    before: Name | None = None
    after: Name | None = None
    around: Name | None = None
    types: tuple[Chosen, ...] = ()
    limit: Limit = 500


class OutlinePage(Struct, frozen=True):
    """A part of a path.

    Attributes:
        items: Its entries, in the order of the path.
        before: What to pass as `before` for the previous part; null at the beginning.
        after: What to pass as `after` for the next part; null at the end.
        start: The place of the first entry, from 0; the length of the path if there is none.
        total: How many entries there are in all parts.
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


@routes.add(
    "GET",
    "/v1/sessions/{session_id}/outline",
    right="read",
    query=OutlineQuery,
    reply=OutlinePage,
    errors=(404, 409),
    tagged=True,
)
async def get_outline(call: Call[OutlineQuery, None]) -> OutlinePage:
    """Return a part of a path without the bodies of its entries, by default its end."""
    session, query = await call.reading(), call.query
    check_limit(query.limit, call.service.limits.page_max)
    if sum(each is not None for each in (query.before, query.after, query.around)) > 1:
        raise Malformed("give one of `before`, `after` and `around`")
    call.unless_known(f"{state_tag(session)}/{quote(repr(query))}")
    log = await session.log()
    leaf = log.index.path_end(query.leaf)
    part = part_of(
        log.index,
        leaf,
        query.limit,
        before=query.before,
        after=query.after,
        around=query.around,
        types=query.types,
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


async def looked_through(index: LogIndex, look: partial[T]) -> T:
    """Return what a look through all lines of an index finds, made in a thread if there are many."""
    return look() if index.head <= _INLINE_MAX else await anyio.to_thread.run_sync(look)


@routes.add(
    "GET",
    "/v1/sessions/{session_id}/branches/{entry_id}",
    right="read",
    query=ReadQuery,
    reply=Siblings,
    errors=(404, 409),
    tagged=True,
)
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
