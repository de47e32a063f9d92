"""The tool that searches: what redaction removes is not found either, nor shown in part."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..actors.search.hits import Hit
from ..actors.session.session import Session
from ..events.entries import Moment
from ..events.errors import LogError, SessionNotFound
from ..events.redaction import Redaction
from ..projections.search.query import Query
from ..projections.search.snippets import snippet
from ..projections.search.texts import entry_text
from .reach import Reach, place_of
from .shown import redacted, within, word

_LOOKED_AT_MAX = 500
"""Hits that one call looks at, whether they are shown or not."""

_ALL = 10**9


class Search(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to search for."""

    query: Annotated[str, Meta(description='Words and "phrases"; there are no operators.', pattern=r"[^\s\"]")]
    session: Annotated[str, Meta(description="Only this session, by its id.")] | None = None
    project: Annotated[str, Meta(description="Only sessions of this folder.", min_length=1)] | None = None
    role: (
        Annotated[str, Meta(description="Only messages of this role, or entries of this type.", min_length=1)] | None
    ) = None
    tool: Annotated[str, Meta(description="Only calls of this tool, and its results.", min_length=1)] | None = None
    after: Annotated[Moment, Meta(description="Only entries of this time or later, with a time zone.")] | None = None
    before: Annotated[Moment, Meta(description="Only entries before this time.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=50)] = 20
    page: Annotated[str, Meta(description="`next` of the page before.")] | None = None


class Found(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry that was found; `read_session` with `around` shows what stands beside it."""

    session: str
    name: str | None = None
    entry: str
    role: str
    at: Moment
    text: str


class FoundPage(Struct, frozen=True):
    """A page of what was found."""

    found: list[Found]
    next: str | None


async def find(reach: Reach, redaction: Redaction, asked: Search) -> FoundPage:
    """Return a page of hits, those of the most recently used session first.

    Raises:
        SessionNotFound: The session does not exist.
        TreeringError: It is no query, or there is no such page.
    """
    query, start, own = Query(asked.query), place_of(asked.page), await reach.own()
    if asked.session is not None:
        own = frozenset([(await reach.row(asked.session)).id])
    reader = _Reader(reach, redaction, query)
    found: list[Found] = []
    places: list[int] = []  # of the hits that are shown
    place, is_last = 0, True
    async with reach.host.search(
        asked.query,
        project=asked.project,
        role=asked.role,
        tool=asked.tool,
        after=asked.after,
        before=asked.before,
        limit=_ALL,
    ) as hits:
        async for hit in hits:
            if own is not None and hit.session_id not in own:
                continue
            place += 1
            if place <= start:
                continue
            if len(found) == asked.limit or place - start > _LOOKED_AT_MAX:
                place, is_last = place - 1, False
                break
            shown = await reader.read(hit)
            if shown is not None:
                found.append(shown)
                places.append(place)
    kept = within(found)
    if len(kept) < len(found):
        place, is_last = places[len(kept) - 1], False
    return FoundPage(kept, None if is_last else str(place))


class _Reader:
    """Reads the entries of hits, which come session by session."""

    def __init__(self, reach: Reach, redaction: Redaction, query: Query) -> None:
        self._reach = reach
        self._redaction = redaction
        self._query = query
        self._session: Session | None = None

    async def read(self, hit: Hit) -> Found | None:
        """Return a hit as it is shown; None if it is gone, or if all that matches is secret."""
        try:
            if self._session is None or self._session.id != hit.session_id:
                self._session = await self._reach.reading(hit.session_id)
            log = await self._session.log()
            sized = await log.sized_entries_in([log.index.seq_of(hit.entry_id)])
        except (SessionNotFound, LogError):  # it was deleted or damaged since it was found
            return None
        for entry, size in sized:
            text = entry_text(await redacted(entry, size, self._redaction))
            if text is not None and self._query.matches(text.text):
                return Found(
                    session=hit.session_id,
                    name=word(hit.name, self._redaction),
                    entry=hit.entry_id,
                    role=word(text.role, self._redaction) or "",
                    at=hit.timestamp,
                    text=snippet(text.text, self._query).text,
                )
        return None
