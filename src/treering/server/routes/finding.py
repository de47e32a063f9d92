"""Routes that find entries: search in all sessions, or in one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from ...actors.search.hits import Hit
from ...events.entries import Moment
from ..fields import Folder, Limit, Name
from ..pages import Page, check_limit, page_word, read_page
from ..routing import Call, Routes

routes = Routes()


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


class FoundEntry(Struct, frozen=True):
    """A hit: the entry, an excerpt of its text, and where in it the words are, as ranges of characters."""

    session_id: str
    name: str | None
    entry_id: str
    role: str
    timestamp: datetime
    snippet: str
    ranges: tuple[tuple[int, int], ...]


@routes.add("GET", "/v1/search", right="read", query=SearchQuery, reply=Page[FoundEntry])
async def search(call: Call[SearchQuery, None]) -> Page[FoundEntry]:
    """Find entries in all sessions, those of the most recently used session first."""
    return await _search(call, None)


@routes.add(
    "GET", "/v1/sessions/{session_id}/search", right="read", query=SearchQuery, reply=Page[FoundEntry], errors=(404,)
)
async def search_session(call: Call[SearchQuery, None]) -> Page[FoundEntry]:
    """Find entries in one session."""
    await call.service.row(call.principal, call.session_id)
    return await _search(call, call.session_id)


async def _search(call: Call[SearchQuery, None], session_id: str | None) -> Page[FoundEntry]:
    query, host = call.query, call.service.host
    check_limit(query.limit, call.service.limits.page_max)
    start = 0 if query.page is None else read_page(query.page)[0]
    own: set[str] | None = None
    if call.principal.prefix is not None:
        own = {row.id for row in await host.list_sessions(status="any") if call.principal.sees(row.key)}
    hits: list[FoundEntry] = []
    seen = 0
    async with host.search(
        query.q,
        project=query.project,
        role=query.role,
        tool=query.tool,
        after=query.since,
        before=query.until,
        limit=_ALL,
    ) as found:
        async for hit in found:
            if (session_id is not None and hit.session_id != session_id) or (
                own is not None and hit.session_id not in own
            ):
                continue
            seen += 1
            if seen <= start:
                continue
            if len(hits) == query.limit:
                return Page(hits, page_word(start + len(hits), ""))
            hits.append(_found(hit))
    return Page(hits, None)


_ALL = 10**9


def _found(hit: Hit) -> FoundEntry:
    return FoundEntry(**{name: getattr(hit, name) for name in FoundEntry.__struct_fields__})
