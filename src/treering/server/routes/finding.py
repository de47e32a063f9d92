"""Routes that find entries: search in all sessions, or in one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from ...actors.search.hits import Hit
from ...events.entries import Moment
from ...events.index import LogIndex
from ...projections.outline import descendants, place_on
from ...wire import FoundEntry, Page
from ..http.fields import Folder, Limit, Name
from ..http.pages import check_limit, page_word, read_page
from ..routing import Call, Routes
from ..waiting import while_there
from .outlines import looked_through

routes = Routes()

_ALL = 10**9


class SearchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to search for: words and "phrases" in `q`, and where; see `SessionHost.search`."""

    q: Annotated[str, Meta(pattern=r"[^\s\"]")]
    project: Folder | None = None
    role: Name | None = None
    tool: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Limit = 50
    page: Name | None = None


class SessionSearchQuery(SearchQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to search for in one session, and the end of the path on which places count; by default its leaf."""

    leaf: Name | None = None


class FoundBranch(Struct, frozen=True):
    """Where an entry is that is not on the path: the entry at which its branch leaves the path, or null; and its leaf.

    Attributes:
        at: The last entry on the path above it.
        leaf: The last entry that was appended below it, itself if there is none: the end of a path to show.
    """

    at: str | None
    leaf: str


class PlacedEntry(FoundEntry, frozen=True):
    """A hit with its seq, and its place on the path from 0, or the branch that it is on."""

    seq: int
    place: int | None
    branch: FoundBranch | None


@routes.add("GET", "/v1/search", right="read", query=SearchQuery, reply=Page[FoundEntry])
async def search(call: Call[SearchQuery, None]) -> Page[FoundEntry]:
    """Find entries in all sessions, those of the most recently used session first."""
    return await _search(call, None)


@routes.add(
    "GET",
    "/v1/sessions/{session_id}/search",
    right="read",
    query=SessionSearchQuery,
    reply=Page[PlacedEntry],
    errors=(404, 409),
)
async def search_session(call: Call[SessionSearchQuery, None]) -> Page[PlacedEntry]:
    """Find entries in one session, each with its place on the path."""
    session = await call.reading()
    page = await _search(call, call.session_id)
    index = (await session.log()).index
    path = index.path(index.path_end(call.query.leaf))
    last = (await looked_through(index, partial(descendants, index)))[0] if page.items else ()
    return Page([_placed(index, path, last, hit) for hit in page.items], page.next)


def _placed(index: LogIndex, path: Sequence[int], last: Sequence[int], hit: FoundEntry) -> PlacedEntry:
    fields = {name: getattr(hit, name) for name in FoundEntry.__struct_fields__}
    seq = index.seq_of(hit.entry_id)
    place = place_on(path, seq)
    branch = None
    if place is None:
        above = next((each for each in index.upward(seq) if place_on(path, each) is not None), 0)
        branch = FoundBranch(index.ids[above] if above else None, index.ids[last[seq]])
    return PlacedEntry(**fields, seq=seq, place=place, branch=branch)


async def _search(
    call: Call[SearchQuery, None] | Call[SessionSearchQuery, None], session_id: str | None
) -> Page[FoundEntry]:
    query, host = call.query, call.service.host
    check_limit(query.limit, call.service.limits.page_max)
    start = 0 if query.page is None else read_page(query.page)[0]
    own = await call.service.ids_of(call.principal)
    hits: list[FoundEntry] = []
    is_last = True
    async with (
        while_there(call),
        host.search(
            query.q,
            project=query.project,
            role=query.role,
            tool=query.tool,
            after=query.since,
            before=query.until,
            limit=_ALL,
        ) as found,
    ):
        seen = 0
        async for hit in found:
            if (session_id is not None and hit.session_id != session_id) or (
                own is not None and hit.session_id not in own
            ):
                continue
            seen += 1
            if seen <= start:
                continue
            if len(hits) == query.limit:
                is_last = False
                break
            hits.append(_found(hit))
    return Page(hits, None if is_last else page_word(start + len(hits), ""))


def _found(hit: Hit) -> FoundEntry:
    return FoundEntry(**{name: getattr(hit, name) for name in FoundEntry.__struct_fields__})
