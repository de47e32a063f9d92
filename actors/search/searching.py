"""Searching: find the entries of all sessions of a host that contain a query's words.

There are two ways, with the same results, over rows in memory or rows that the store finds. A plain scan reads log
after log, the most recently used session first, and needs nothing but the logs. An index answers where the store keeps
one (see `KeepsSearch`); before it answers, changed logs are indexed from their checkpoints on. If it cannot be used
(the root is not writable, or SQLite lacks FTS5), the scan answers instead, and a log line says so.

The logs are the truth. A session that cannot be read is named in `Search.findings`, never skipped silently.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from itertools import groupby, islice

import anyio
from msgspec.structs import replace

from ...events.arguments import check_count, check_text
from ...events.errors import HostClosed, InvalidInput, LogReplaced, SessionNotFound, TreeringError
from ...events.findings import Finding, unreadable
from ...events.offload import carried_out
from ...events.projects import project_hash
from ...events.stores.base import Ref
from ...events.stores.search import EntryText, Filters, FindsTexts, IndexUnavailable, KeepsSearch
from ...projections.search.query import Query
from ...projections.search.snippets import snippet
from ...projections.search.texts import TextReader
from ...projections.summary import SessionSummary
from ..host.listing import Listing
from ..host.names import checked_path
from ..host.runtime import Runtime
from .hits import Hit, Search
from .scope import LOOKUP_MAX, FoundLogs, Lookup, SearchRequest, SearchScope, warn_index_unavailable
from .updating import INLINE_MAX, texts_of, update_index

_LOOKUPS_AT_ONCE = 64


class Searching:
    """The search over the sessions of a host.

    Args:
        runtime: The host's seams.
        listing: The rows of all sessions, archived ones included, the most recently used first.
    """

    def __init__(self, runtime: Runtime, listing: Listing) -> None:
        self._runtime = runtime
        self._listing = listing
        self._listing_changes = 0
        self._index: KeepsSearch | None = None
        self._found: FoundLogs | None = None
        if runtime.scans is None:
            texts = runtime.store.capability(FindsTexts)
            self._index, self._found = texts, FoundLogs(runtime, listing, texts)
        else:
            self._index = runtime.store.capability(KeepsSearch)
        self._turn = anyio.Lock()
        self._scope: SearchScope | None = None

    def search(
        self,
        query: str,
        *,
        project: str | os.PathLike[str] | None,
        role: str | None,
        tool: str | None,
        after: datetime | None,
        before: datetime | None,
        limit: int,
        offset: int,
        index: bool | None,
    ) -> Search:
        """Start a search; see `SessionHost.search`.

        Raises:
            InvalidInput: The query, the role or the tool is empty or no valid text, the project is not a path, `limit`
                or `offset` is not a count, a time has no time zone, or an argument has the wrong type.
        """
        check_count("limit", limit)
        check_count("offset", offset)
        _check_types(query, after, before)
        for name, text in (("role", role), ("tool", tool)):
            check_text(name, text)
            if text == "":
                raise InvalidInput(f"{name} is empty: leave it out to find entries of any {name}")
        if any(time is not None and time.tzinfo is None for time in (after, before)):
            raise InvalidInput("`after` and `before` need a time zone: give datetimes in UTC")
        request = SearchRequest(
            Query(query),
            Filters(role=role, tool=tool, after=after, before=before),
            None if project is None else checked_path(project),
            limit,
            offset,
        )
        return Search(lambda findings: self._hits(request, index, findings))

    async def forget(self, ref: Ref) -> None:
        """Remove a deleted session from the index, and from every other that may hold its texts.

        This waits for a running update of the index, which may have read the session before it was deleted.
        """
        if self._index is not None:
            async with self._turn:
                try:
                    await carried_out(self._runtime.blocking, self._index.forget, ref)
                except IndexUnavailable as error:
                    warn_index_unavailable(error)

    async def aclose(self) -> None:
        """Release the index for good."""
        index, self._index = self._index, None
        if index is not None:
            await self._runtime.blocking(index.close)

    # -- hits

    async def _hits(self, request: SearchRequest, index: bool | None, findings: list[Finding]) -> AsyncGenerator[Hit]:
        left, to_skip = request.limit, request.offset
        if not left:
            return
        async with aclosing(self._matches(request, index, findings)) as matches:
            async for row, text in matches:
                if to_skip:
                    to_skip -= 1
                    continue
                is_large = len(text.text) > INLINE_MAX
                cut = await self._runtime.offload(snippet, text.text, request.query) if is_large else None
                cut = cut or snippet(text.text, request.query)
                yield Hit(
                    session_id=row.id,
                    ref=row.ref,
                    name=row.name,
                    entry_id=text.entry_id,
                    role=text.role,
                    timestamp=text.timestamp,
                    snippet=cut.text,
                    ranges=cut.ranges,
                )
                left -= 1
                if not left:
                    return

    async def _matches(
        self, request: SearchRequest, with_index: bool | None, findings: list[Finding]
    ) -> AsyncGenerator[tuple[SessionSummary, EntryText]]:
        """Yield the matching texts with their sessions' rows; logs that the index does not cover are scanned."""
        index = await self._index_for(with_index)
        if self._found is not None:
            scopes = self._found.scopes(request, is_indexed=index is not None)
        else:
            scopes = self._held(request, index)
        async with aclosing(scopes):
            async for rows, lookup in scopes:
                for is_indexed, group in _groups(rows, {} if lookup is None else lookup.numbers):
                    if is_indexed and lookup is not None and not lookup.failed:
                        found = self._looked_up(group, request, lookup, findings)
                    else:
                        found = self._scanned(group, request, findings)
                    async with aclosing(found) as matches:
                        async for match in matches:
                            yield match

    async def _held(
        self, request: SearchRequest, index: KeepsSearch | None
    ) -> AsyncGenerator[tuple[Sequence[SessionSummary], Lookup | None]]:
        """Yield the rows of all sessions that may match, which memory holds, and the index."""
        scope, candidates = await self._ready(request, index)
        rows, project = scope.rows_of(candidates), request.project
        if project is not None:
            hashed = await self._runtime.offload(project_hash, project)
            rows = [row for row in rows if row.project == project or row.project_hash == hashed]
        indexed = scope.index
        yield rows, None if indexed is None else Lookup(indexed, scope.numbers, candidates, scope.changes)

    async def _scanned(
        self, rows: Sequence[SessionSummary], request: SearchRequest, findings: list[Finding]
    ) -> AsyncGenerator[tuple[SessionSummary, EntryText]]:
        """Yield what a scan finds in some sessions."""
        for row in rows:
            if row.finding is not None:
                findings.append(_not_searched(row.finding))
                continue
            async with aclosing(self._scanned_after(row, request, findings)) as texts:
                async for text in texts:
                    yield row, text

    async def _looked_up(
        self, rows: Sequence[SessionSummary], request: SearchRequest, lookup: Lookup, findings: list[Finding]
    ) -> AsyncGenerator[tuple[SessionSummary, EntryText]]:
        """Yield what the index finds in some sessions; if it fails, continue with what a scan finds there."""
        first_matches = await self._runtime.offload(lookup.find, rows, request)
        for row, texts in zip(rows, first_matches, strict=True):
            last, matches = 0, texts
            while matches:
                for text in matches:
                    yield row, text
                    last = text.seq
                is_full = len(matches) == LOOKUP_MAX
                matches = await self._runtime.offload(lookup.find_next, row, request, last) if is_full else []
            if lookup.failed and len(texts) in (0, LOOKUP_MAX):
                async with aclosing(self._scanned_after(row, request, findings, last)) as scanned:
                    async for text in scanned:
                        yield row, text

    async def _scanned_after(
        self, row: SessionSummary, request: SearchRequest, findings: list[Finding], after: int = 0
    ) -> AsyncGenerator[EntryText]:
        """Yield what a scan finds in one session after a seq."""
        store = self._runtime.store
        try:
            opening = await store.open(row.ref)
            reader = TextReader(opening.dialect, opening.header.id, request.query)
            async with aclosing(texts_of(self._runtime, row.ref, opening, reader)) as pages:
                async for texts in pages:
                    for text in texts:
                        if text.seq > after and request.filters.accept(text):
                            yield text
        except SessionNotFound:
            return  # it was deleted meanwhile
        except HostClosed:
            raise
        except LogReplaced:
            problem = LogReplaced("it was replaced while it was being searched: search again")
            findings.append(_not_searched(unreadable(row.path or row.ref, problem)))
        except (TreeringError, OSError) as error:
            findings.append(_not_searched(unreadable(row.path or row.ref, error)))

    # -- the scope of a search

    async def _ready(
        self, request: SearchRequest, index: KeepsSearch | None
    ) -> tuple[SearchScope, dict[int, list[int]] | None]:
        """Return the current scope, and the entries that the index narrows it down to, if it does; see `candidates`."""
        async with self._turn:
            scans = self._runtime.scans
            stamps = None if scans is None else await self._runtime.blocking(scans.scan)
            scope = self._scope
            is_listed = self._listing_changes == self._listing.changes
            if stamps is None or scope is None or stamps != scope.stamps or scope.has_unreadable or not is_listed:
                scope = SearchScope(stamps, await self._listing.rows())
                self._listing_changes = self._listing.changes
            if index is not None and stamps is not None:
                try:
                    await self._runtime.offload(index.known)
                    if scope.changes != index.changes or scope.index is not index:
                        await update_index(self._runtime, index, stamps)
                        scope = SearchScope(stamps, scope.rows, index, await self._runtime.offload(index.known))
                    self._scope = scope
                    return scope, await self._runtime.offload(index.candidates, request.query)
                except IndexUnavailable as error:
                    warn_index_unavailable(error)
            self._scope = scope if scope.index is None else SearchScope(stamps, scope.rows)
            return self._scope, None

    async def _index_for(self, requested: bool | None) -> KeepsSearch | None:
        """Return the index if it was requested or exists, and is possible."""
        index, blocking = self._index, self._runtime.blocking
        if index is None or requested is False:
            return None
        is_usable = await blocking(index.exists) or (requested and await blocking(index.can_be_created))
        return index if is_usable else None


def _groups(rows: Iterable[SessionSummary], numbers: Mapping[Ref, int]) -> Iterator[tuple[bool, list[SessionSummary]]]:
    """Divide rows into groups, in order: indexed ones, more and more of which are looked up at once, and single others.

    The first hits of a search should come soon, and later ones cheaply.
    """
    size = 1
    for is_indexed, run in groupby(rows, lambda row: row.ref in numbers):
        while group := list(islice(run, size if is_indexed else 1)):
            yield is_indexed, group
            if is_indexed and len(group) == size:
                size = min(2 * size, _LOOKUPS_AT_ONCE)


def _not_searched(finding: Finding) -> Finding:
    """Return the finding of a search on a session that cannot be read."""
    return replace(finding, code="not_searched")


def _check_types(query: object, *times: object) -> None:
    if not isinstance(query, str):
        raise InvalidInput(f"the query is of type `{type(query).__name__}`: give a string")
    check_text("the query", query)
    for time in times:
        if time is not None and not isinstance(time, datetime):
            raise InvalidInput(f"`after` or `before` is of type `{type(time).__name__}`: give a datetime in UTC")
