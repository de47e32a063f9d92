"""The scope of a search: the sessions that it looks through, in order, and what the index says of them.

Where the rows are in memory, a search finds all sessions by one look, and their stamps tell which are fully indexed. In
a store that finds rows by itself, it never has all of them at once. If the store's index names few enough entries that
may match, only the rows of their logs are asked for; otherwise the rows come page by page, the most recently used
first, until there are enough hits.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing

import anyio
from msgspec import Struct

from ...events.projects import project_hash
from ...events.stores.base import Ref, Stamp
from ...events.stores.finding import Among, RowQuery
from ...events.stores.search import EntryText, Filters, FindsTexts, IndexedLog, IndexUnavailable, KeepsSearch
from ...events.telemetry import logger
from ...projections.search.query import Query
from ...projections.summary import SessionSummary
from ..host.listing import Listing
from ..host.runtime import Runtime
from .updating import is_indexed, update_unindexed

LOOKUP_MAX = 64
"""How many texts of one session are looked up at a time."""

_NOTHING: Mapping[Ref, IndexedLog] = {}


class SearchRequest(Struct, frozen=True):
    """A query, its filters, and which hits are returned."""

    query: Query
    filters: Filters
    project: str | None
    limit: int
    offset: int


class SearchScope:
    """The sessions to search, as found by one look at all logs.

    Args:
        stamps: Their stamps; None if the store has none.
        rows: The rows of all sessions, in the order of their hits.
        index: The index that was brought up to date with these stamps; None for a search without one.
        indexed: What the index knows.

    Attributes:
        changes: The index's count of changes at that time.
        has_unreadable: Whether there is a session that could not be read, which may be readable the next time.
        numbers: The numbers of the logs that are fully indexed.
    """

    def __init__(
        self,
        stamps: Mapping[Ref, Stamp] | None,
        rows: Sequence[SessionSummary],
        index: KeepsSearch | None = None,
        indexed: Mapping[Ref, IndexedLog] = _NOTHING,
    ) -> None:
        self.stamps = stamps
        self.rows = rows
        self.index = index
        self.changes = index.changes if index is not None else -1
        self.has_unreadable = any(row.finding is not None for row in rows)
        self.numbers = {
            ref: indexed[ref].number for ref, stamp in (stamps or {}).items() if is_indexed(ref, stamp, indexed)
        }
        self._positions = {
            number: at for at, row in enumerate(rows) if (number := self.numbers.get(row.ref)) is not None
        }
        self._not_indexed = [at for at, row in enumerate(rows) if row.ref not in self.numbers]

    def rows_of(self, candidates: Iterable[int] | None) -> Sequence[SessionSummary]:
        """Return the rows of some logs, by number, and of all that are not indexed, in order; all rows for None."""
        if candidates is None:
            return self.rows
        positions = [at for number in candidates if (at := self._positions.get(number)) is not None]
        return [self.rows[at] for at in sorted([*positions, *self._not_indexed])]


class Lookup:
    """The index as one search uses it.

    Args:
        index: The index, brought up to date.
        numbers: The numbers of the logs that are fully indexed.
        candidates: The numbers of the entries that may match, by log; None if there are too many. They are used until
            this process changes the index.
        changes: The index's count of changes when it was up to date.

    Attributes:
        numbers: The numbers of the logs in the index.
        failed: Whether the index failed, so that the logs must be scanned.
    """

    def __init__(
        self,
        index: KeepsSearch,
        numbers: Mapping[Ref, int],
        candidates: Mapping[int, Sequence[int]] | None,
        changes: int,
    ) -> None:
        self._index = index
        self._changes = changes
        self._candidates = candidates
        self.numbers = numbers
        self.failed = False

    def find(self, rows: Sequence[SessionSummary], request: SearchRequest) -> list[list[EntryText]]:
        """Return the first matches in each of several sessions; nothing if the index fails."""
        return [self.find_next(row, request, 0) for row in rows]

    def find_next(self, row: SessionSummary, request: SearchRequest, after: int) -> list[EntryText]:
        """Return the next matches in a session after a seq; nothing if the index fails."""
        if self.failed:
            return []
        try:
            log = self.numbers[row.ref]
            known = self._candidates if self._index.changes == self._changes else None
            candidates = None if known is None else known.get(log)  # none if it was indexed anew
            return self._index.find(request.query, request.filters, log, candidates, after=after, limit=LOOKUP_MAX)
        except IndexUnavailable as error:
            warn_index_unavailable(error)
            self.failed = True
            return []


class FoundLogs:
    """The logs of a store that finds rows.

    Args:
        runtime: The host's seams.
        listing: The rows.
        index: The store's index, if it keeps one.
    """

    def __init__(self, runtime: Runtime, listing: Listing, index: FindsTexts | None) -> None:
        self._runtime = runtime
        self._listing = listing
        self._index = index
        self._turn = anyio.Lock()

    async def scopes(
        self, request: SearchRequest, *, is_indexed: bool
    ) -> AsyncGenerator[tuple[Sequence[SessionSummary], Lookup | None]]:
        """Yield rows of sessions that may match, some at a time, each time with the index for them.

        Args:
            request: The search.
            is_indexed: Whether to use the index.
        """
        query = RowQuery()
        if request.project is not None:
            hashed = await self._runtime.offload(project_hash, request.project)
            query = RowQuery(project=(request.project, hashed))
        lookup = None
        index = self._index if is_indexed else None
        if index is not None:
            try:
                lookup, refs = await self._lookup(request, index)
                if refs is not None:
                    query = RowQuery(project=query.project, among=(Among(refs=refs),))
            except IndexUnavailable as error:
                warn_index_unavailable(error)
        async with aclosing(self._pages(query)) as pages:
            async for rows in pages:
                if lookup is not None and index is not None and not lookup.failed:
                    try:
                        lookup.numbers = await self._runtime.offload(index.numbers, [row.ref for row in rows])
                    except IndexUnavailable as error:
                        warn_index_unavailable(error)
                        lookup.failed = True
                yield rows, lookup

    async def _lookup(self, request: SearchRequest, index: FindsTexts) -> tuple[Lookup, frozenset[Ref] | None]:
        """Bring the index up to date, and return the logs that it narrows a search down to; None for all."""
        try:
            async with self._turn:
                left = await update_unindexed(self._runtime, index)
        except IndexUnavailable as error:  # of a role that only reads: what others have indexed is of use
            warn_index_unavailable(error)
            left = await self._runtime.offload(index.unindexed)
        changes = index.changes
        candidates = await self._runtime.offload(index.candidates, request.query)
        lookup = Lookup(index, {}, candidates, changes)
        if candidates is None:
            return lookup, None
        names = await self._runtime.offload(index.names, candidates.keys())
        return lookup, frozenset({*names.values(), *(log.ref for log in left)})

    async def _pages(self, query: RowQuery) -> AsyncGenerator[list[SessionSummary]]:
        """Yield rows in order; those that are used meanwhile, and so go ahead of the rest, come at the end."""
        first, seen, count = None, set[Ref](), 0
        async with aclosing((await self._listing.now()).pages(query)) as pages:
            async for page in pages:
                count += 1
                seen.update(row.ref for row in page)
                first = first or (query.place_of(page[0]) if page else None)
                yield page
        if count < 2:  # it was all of one moment
            return
        async with aclosing((await self._listing.now()).pages(query)) as pages:
            async for page in pages:
                late = [row for row in page if row.ref not in seen]
                seen.update(row.ref for row in late)
                if late:
                    yield late
                if first is not None and query.place_of(page[-1]) <= first:
                    return


def warn_index_unavailable(error: IndexUnavailable) -> None:
    """Log that the index cannot be used, and why."""
    logger().warning("search_index_unavailable", why=str(error))
