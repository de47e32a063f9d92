"""The logs that a search looks through in a store that finds rows by itself: never all of them at once.

If the store's index names few enough entries that may match, only the rows of their logs are asked for; otherwise the
rows come page by page, the most recently used first, until there are enough hits.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import anyio

from ...events.projects import project_hash
from ...events.stores.base import Ref
from ...events.stores.finding import Among, RowQuery
from ...events.stores.search import FindsTexts, IndexUnavailable
from ...projections.summary import SessionSummary
from ..host.listing import Listing
from ..host.runtime import Runtime
from .scope import Lookup, SearchRequest, warn_index_unavailable
from .updating import update_unindexed


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
