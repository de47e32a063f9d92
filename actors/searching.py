"""Searching: finds the entries of all sessions of a host that hold a query's words.

In two ways that find the same. A plain scan reads log after log, the most recently used session first, and needs
nothing but the logs. The index (see `search_index`) answers from a file beside them; before it answers, the logs that
changed since are taken in, from their checkpoints on. Where no index is to be had (a root that cannot be written to, an
SQLite without FTS5) the scan answers instead, and a log line says so.

The logs are the truth. A session that cannot be read is named in `Search.findings`, never passed over in silence.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime

import anyio

from ..events.disk import OsDisk
from ..events.errors import HostClosed, InvalidInput, LogReplaced, SessionNotFound, TreeringError
from ..events.findings import Finding
from ..events.offload import carried_out
from ..events.projects import project_hash
from ..events.stores.base import Ref
from ..events.stores.files import FileStore
from ..projections.search.lines import TextReader
from ..projections.search.query import Query
from ..projections.search.snippets import snippet
from ..projections.search.texts import Filters, Said
from ..projections.summary import CORRUPTED, SessionSummary
from .counts import check_count
from .hits import Hit, Search
from .inner_roots import inner_roots
from .listing import Listing
from .naming import check_text, checked_path
from .runtime import Runtime
from .search_feeding import INLINE_MAX, feed, texts_of
from .search_file import IndexUnavailable
from .search_ground import MOST, Ground, Looks, Lookup, Wanted, looks_of, warn
from .search_index import SearchIndex

_LOOKUPS_AT_ONCE = 64


class Searching:
    """Searches the sessions of a host.

    Args:
        runtime: The host's seams.
        listing: The rows of all sessions, archived ones included, the most recently used first.
    """

    def __init__(self, runtime: Runtime, listing: Listing) -> None:
        self._runtime = runtime
        self._listing = listing
        self._listed = 0
        self._index: SearchIndex | None = None
        self._closed = False
        self._turn = anyio.Lock()
        self._ground: Ground | None = None

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
        """Begin a search; see `SessionHost.search`.

        Raises:
            InvalidInput: There is nothing to look for, the project is no path, `limit` or `offset` is no count, a
                time has no zone, or something is of another type.
        """
        check_count("limit", limit)
        check_count("offset", offset)
        _check_types(query, after, before)
        check_text("role", role)
        check_text("tool", tool)
        if any(time is not None and time.tzinfo is None for time in (after, before)):
            raise InvalidInput("after and before need a time zone, so that they can be compared: give datetimes in UTC")
        wanted = Wanted(
            Query(query),
            Filters(role=role, tool=tool, after=after, before=before),
            None if project is None else checked_path(project),
            limit,
            offset,
        )
        return Search(lambda findings: self._hits(wanted, index, findings))

    async def forget(self, ref: Ref) -> None:
        """Take a session that was deleted out of the index, where there is one.

        Whoever feeds the index just now is waited for: he may have read the session before it was deleted.
        """
        index, store = await self._index_for(None), self._runtime.store
        if index is not None:
            async with self._turn:
                try:
                    await self._runtime.offload(index.take_in, (), (ref,))
                except IndexUnavailable as error:
                    warn(error)
        if isinstance(store, FileStore) and isinstance(store.disk, OsDisk):
            await carried_out(self._runtime.offload, _forget_below, store, ref)

    async def aclose(self) -> None:
        """Let go of the index's file for good."""
        self._closed = True
        index, self._index = self._index, None
        if index is not None:
            await self._runtime.offload(index.close)

    # -- hits

    async def _hits(self, wanted: Wanted, index: bool | None, findings: list[Finding]) -> AsyncGenerator[Hit]:
        left, skipped = wanted.limit, wanted.offset
        if not left:
            return
        async with aclosing(self._found(wanted, index, findings)) as found:
            async for row, said in found:
                if skipped:
                    skipped -= 1
                    continue
                large = len(said.text) > INLINE_MAX
                cut = await self._runtime.offload(snippet, said.text, wanted.query) if large else None
                cut = cut or snippet(said.text, wanted.query)
                yield Hit(
                    session_id=row.id,
                    ref=row.ref,
                    name=row.name,
                    entry_id=said.entry_id,
                    role=said.role,
                    timestamp=said.timestamp,
                    snippet=cut.text,
                    ranges=cut.ranges,
                )
                left -= 1
                if not left:
                    return

    async def _found(
        self, wanted: Wanted, with_index: bool | None, findings: list[Finding]
    ) -> AsyncGenerator[tuple[SessionSummary, Said]]:
        """Yield what was found, with its session's row; what the index does not know, or no longer can tell, is scanned."""
        ground, narrowed = await self._ready(wanted, with_index)
        same = None if wanted.project is None else await self._runtime.offload(project_hash, wanted.project)
        lookup = Lookup(ground.index, ground.numbers) if ground.index is not None else None
        waiting: list[SessionSummary] = []
        together = 1
        for row in (*ground.among(narrowed), None):
            if row is not None and same is not None and row.project != wanted.project and row.project_hash != same:
                continue
            if row is not None and lookup is not None and row.ref in lookup.numbers:
                waiting.append(row)
                if len(waiting) < together:
                    continue
                together = min(2 * together, _LOOKUPS_AT_ONCE)
                row = None
            if waiting and lookup is not None:
                taken, waiting = waiting, []
                async with aclosing(self._looked_up(taken, wanted, lookup, findings)) as found:
                    async for each in found:
                        yield each
                if lookup.failed:
                    lookup = None
            if row is None:
                continue
            if row.status == CORRUPTED:
                findings.append(_unreadable(row, row.problem or "the file cannot be read"))
                continue
            async with aclosing(self._scanned(row, wanted, findings)) as scanned:
                async for said in scanned:
                    yield row, said

    async def _looked_up(
        self, rows: Sequence[SessionSummary], wanted: Wanted, lookup: Lookup, findings: list[Finding]
    ) -> AsyncGenerator[tuple[SessionSummary, Said]]:
        """Yield what the index finds in some sessions, and should it fail, what a scan finds there from then on."""
        texts = await self._runtime.offload(lookup.find, rows, wanted)
        for at, row in enumerate(rows):
            last, found = 0, texts[at]
            while found:
                for said in found:
                    yield row, said
                    last = said.seq
                found = await self._runtime.offload(lookup.go_on, row, wanted, last) if len(found) == MOST else []
            if lookup.failed and len(texts[at]) in (0, MOST):
                async with aclosing(self._scanned(row, wanted, findings, after=last)) as scanned:
                    async for said in scanned:
                        yield row, said

    async def _scanned(
        self, row: SessionSummary, wanted: Wanted, findings: list[Finding], *, after: int = 0
    ) -> AsyncGenerator[Said]:
        """Yield what a scan finds in one session after an ordinal."""
        store = self._runtime.store
        try:
            opening = await store.open(row.ref)
            reader = TextReader(opening.dialect, opening.header.id, wanted.query)
            async with aclosing(texts_of(self._runtime, row.ref, opening, reader)) as pages:
                async for texts in pages:
                    for said in texts:
                        if said.seq > after and wanted.filters.accept(said):
                            yield said
        except SessionNotFound:
            return  # deleted meanwhile
        except HostClosed:
            raise
        except LogReplaced:
            findings.append(_unreadable(row, "it was replaced while it was searched: search again"))
        except (TreeringError, OSError) as error:
            findings.append(_unreadable(row, str(error)))

    # -- what there is to search

    async def _ready(self, wanted: Wanted, with_index: bool | None) -> tuple[Ground, set[int] | None]:
        """Return what there is to search as it is now, and the logs that the index narrows it down to, if it does."""
        index = await self._index_for(with_index)
        async with self._turn:
            looks = await self._look()
            ground = self._ground
            listed = self._listed == self._listing.changes
            if looks is None or ground is None or looks != ground.looks or ground.doubtful or not listed:
                ground = Ground(looks, await self._listing.rows())
                self._listed = self._listing.changes
            if index is not None and looks is not None:
                try:
                    await self._runtime.offload(index.known)
                    if ground.changes != index.changes or ground.index is not index:
                        await feed(self._runtime, index, looks)
                        ground = Ground(looks, ground.rows, index, await self._runtime.offload(index.known))
                    self._ground = ground
                    return ground, await self._runtime.offload(index.candidates, wanted.query)
                except IndexUnavailable as error:
                    warn(error)
            self._ground = ground if ground.index is None else Ground(looks, ground.rows)
            return self._ground, None

    async def _look(self) -> Looks | None:
        """Look at all logs, opening none; None where the store cannot."""
        store = self._runtime.store
        return await self._runtime.offload(looks_of, store) if isinstance(store, FileStore) else None

    async def _index_for(self, asked: bool | None) -> SearchIndex | None:
        """Return the index, if one was asked for or is there, and can be; it is not opened yet."""
        store = self._runtime.store
        if self._closed or asked is False or not isinstance(store, FileStore) or not isinstance(store.disk, OsDisk):
            return None
        index = self._index or SearchIndex(store.root)
        there = await self._runtime.offload(index.exists) or (asked and await self._runtime.offload(index.can_be))
        if not there:
            return None
        self._index = self._index or index
        return self._index


def _forget_below(store: FileStore, ref: Ref) -> None:
    """Take a session that was deleted out of the indexes of the folders in the root, which were roots of others."""
    for folder, inner in inner_roots(store, ref):
        index = SearchIndex(folder)
        if index.exists():
            try:
                index.take_in((), (inner,))
            except IndexUnavailable as error:
                warn(error)
            finally:
                index.close()


def _unreadable(row: SessionSummary, problem: str) -> Finding:
    return Finding(row.path or row.ref, None, None, "not_searched", "error", problem)


def _check_types(query: object, *times: object) -> None:
    if not isinstance(query, str):
        raise InvalidInput(f"the query is of type `{type(query).__name__}`: give a string")
    for time in times:
        if time is not None and not isinstance(time, datetime):
            raise InvalidInput(f"a time to search by is of type `{type(time).__name__}`: give a datetime in UTC")
