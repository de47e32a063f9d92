"""Searching: finds the entries of all sessions of a host that hold a query's words.

In two ways that find the same. A plain scan reads log after log, the most recently used session first, and needs nothing
but the logs. The index (see `search_index`) answers from a file beside them; before it answers, the logs that changed since
are taken in, from their checkpoints on. Where no index is to be had (a root that cannot be written to, an SQLite without
FTS5) the scan answers instead, and a log line says so.

The logs are the truth. A session that cannot be read is named in `Search.findings`, never passed over in silence.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TypeAlias
from zlib import crc32

import anyio
from msgspec import Struct

from ..events.disk import OsDisk
from ..events.errors import InvalidInput, LogReplaced, SessionNotFound, TreeringError
from ..events.findings import Finding
from ..events.projects import project_hash
from ..events.stores.base import Cursor, Opening, Ref
from ..events.stores.files import FileStore
from ..events.telemetry import logger
from ..projections.search.lines import TextReader
from ..projections.search.query import Query
from ..projections.search.snippets import snippet
from ..projections.search.texts import Filters, Said
from ..projections.summary import CORRUPTED, SessionSummary
from .hits import Hit, Search
from .runtime import Runtime
from .search_index import UNFINISHED, Checkpoint, IndexUnavailable, Known, Portion, SearchIndex

Looks: TypeAlias = Mapping[Ref, tuple[int, int]]
"""How the files of all logs look: their sizes, and when they changed last, in nanoseconds."""

_INLINE_MAX = 64 * 1024
_PORTION_CHARS = 4 * 1024 * 1024
_PORTIONS_MAX = 256
_LOOKUPS_AT_ONCE = 64
_MOST = 64
_NOTHING: Mapping[Ref, Known] = {}


class Searching:
    """Searches the sessions of a host.

    Args:
        runtime: The host's seams.
        rows: Gives the rows of all sessions, archived ones included, the most recently used first.
    """

    def __init__(self, runtime: Runtime, rows: Callable[[], Awaitable[list[SessionSummary]]]) -> None:
        self._runtime = runtime
        self._rows = rows
        self._index: SearchIndex | None = None
        self._turn = anyio.Lock()
        self._ground: _Ground | None = None

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
            InvalidInput: There is nothing to look for, a number is negative, or a time has no zone.
        """
        if limit < 0 or offset < 0:
            raise InvalidInput("limit and offset have to be 0 or more")
        if any(time is not None and time.tzinfo is None for time in (after, before)):
            raise InvalidInput("after and before need a time zone, so that they can be compared: give datetimes in UTC")
        wanted = _Wanted(
            Query(query),
            Filters(role=role, tool=tool, after=after, before=before),
            None if project is None else os.fspath(project),
            limit,
            offset,
        )
        return Search(lambda findings: self._hits(wanted, index, findings))

    async def forget(self, ref: Ref) -> None:
        """Take a session that was deleted out of the index, where there is one."""
        index = await self._index_for(None)
        if index is not None:
            try:
                await self._runtime.offload(index.take_in, (), (ref,))
            except IndexUnavailable as error:
                _warn(error)

    async def aclose(self) -> None:
        """Let go of the index's file."""
        index, self._index = self._index, None
        if index is not None:
            await self._runtime.offload(index.close)

    # -- hits

    async def _hits(self, wanted: _Wanted, index: bool | None, findings: list[Finding]) -> AsyncGenerator[Hit]:
        left, skipped = wanted.limit, wanted.offset
        if not left:
            return
        async with aclosing(self._found(wanted, index, findings)) as found:
            async for row, said in found:
                if skipped:
                    skipped -= 1
                    continue
                large = len(said.text) > _INLINE_MAX
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
        self, wanted: _Wanted, with_index: bool | None, findings: list[Finding]
    ) -> AsyncGenerator[tuple[SessionSummary, Said]]:
        """Yield what was found, with its session's row; what the index does not know, or no longer can tell, is scanned."""
        ground, narrowed = await self._ready(wanted, with_index)
        same = None if wanted.project is None else await self._runtime.offload(project_hash, wanted.project)
        lookup = _Lookup(ground.index, ground.numbers) if ground.index is not None else None
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
        self, rows: Sequence[SessionSummary], wanted: _Wanted, lookup: _Lookup, findings: list[Finding]
    ) -> AsyncGenerator[tuple[SessionSummary, Said]]:
        """Yield what the index finds in some sessions, and should it fail, what a scan finds there from then on."""
        texts = await self._runtime.offload(lookup.find, rows, wanted)
        for at, row in enumerate(rows):
            last, found = 0, texts[at]
            while found:
                for said in found:
                    yield row, said
                    last = said.seq
                found = await self._runtime.offload(lookup.go_on, row, wanted, last) if len(found) == _MOST else []
            if lookup.failed and len(texts[at]) in (0, _MOST):
                async with aclosing(self._scanned(row, wanted, findings, after=last)) as scanned:
                    async for said in scanned:
                        yield row, said

    async def _scanned(
        self, row: SessionSummary, wanted: _Wanted, findings: list[Finding], *, after: int = 0
    ) -> AsyncGenerator[Said]:
        """Yield what a scan finds in one session after an ordinal."""
        store = self._runtime.store
        try:
            opening = await store.open(row.ref)
            reader = TextReader(opening.dialect, opening.header.id, wanted.query)
            async with aclosing(self._read(row.ref, opening, reader, 0)) as pages:
                async for texts in pages:
                    for said in texts:
                        if said.seq > after and wanted.filters.accept(said):
                            yield said
        except SessionNotFound:
            return  # deleted meanwhile
        except LogReplaced:
            findings.append(_unreadable(row, "it was replaced while it was searched: search again"))
        except (TreeringError, OSError) as error:
            findings.append(_unreadable(row, str(error)))

    async def _read(self, ref: Ref, opening: Opening, reader: TextReader, after: int) -> AsyncGenerator[list[Said]]:
        """Yield the texts of a log, page by page."""
        more = True
        while more:
            page = await self._runtime.store.read(ref, opening.head.generation, after)
            more, after = page.more and bool(page.lines), page.last
            if sum(map(len, page.lines)) <= _INLINE_MAX:
                yield reader.take(page.lines, page.first)
            else:
                yield await self._runtime.offload(reader.take, page.lines, page.first)

    # -- what there is to search

    async def _ready(self, wanted: _Wanted, with_index: bool | None) -> tuple[_Ground, set[int] | None]:
        """Return what there is to search as it is now, and the logs that the index narrows it down to, if it does."""
        index = await self._index_for(with_index)
        async with self._turn:
            looks = await self._look()
            ground = self._ground
            if looks is None or ground is None or looks != ground.looks or ground.doubtful:
                ground = _Ground(looks, await self._rows())
            if index is not None and looks is not None:
                try:
                    await self._runtime.offload(index.known)
                    if ground.changes != index.changes or ground.index is not index:
                        await self._feed(index, looks)
                        ground = _Ground(looks, ground.rows, index, await self._runtime.offload(index.known))
                    self._ground = ground
                    return ground, await self._runtime.offload(index.candidates, wanted.query)
                except IndexUnavailable as error:
                    _warn(error)
            self._ground = ground = _Ground(looks, ground.rows)
            return ground, None

    async def _look(self) -> Looks | None:
        """Look at all logs, opening none; None where the store cannot."""
        store = self._runtime.store
        return await self._runtime.offload(_looks, store) if isinstance(store, FileStore) else None

    async def _index_for(self, asked: bool | None) -> SearchIndex | None:
        """Return the index, if one was asked for or is there, and can be; it is not opened yet."""
        store = self._runtime.store
        if asked is False or not isinstance(store, FileStore) or not isinstance(store.disk, OsDisk):
            return None
        index = self._index or SearchIndex(store.root)
        there = await self._runtime.offload(index.exists) or (asked and await self._runtime.offload(index.can_be))
        if not there:
            return None
        self._index = self._index or index
        return self._index

    # -- feeding the index

    async def _feed(self, index: SearchIndex, looks: Looks) -> None:
        """Take in what changed.

        Raises:
            IndexUnavailable: It cannot be written to.
        """
        known = await self._runtime.offload(index.known)
        gone = [ref for ref in known if ref not in looks]
        changed = [(ref, look) for ref, look in looks.items() if not _is_in(ref, look, known)]
        portions: list[Portion] = []
        size = 0
        for ref, look in changed:
            async with aclosing(self._portions(ref, look, known.get(ref))) as coming:
                async for portion in coming:
                    portions.append(portion)
                    size += sum(len(said.text) for said in portion.texts)
                    if size > _PORTION_CHARS or len(portions) == _PORTIONS_MAX:
                        await self._runtime.offload(index.take_in, portions, gone)
                        portions, size, gone = [], 0, []
        if portions or gone:
            await self._runtime.offload(index.take_in, portions, gone)

    async def _portions(self, ref: Ref, look: tuple[int, int], known: Known | None) -> AsyncGenerator[Portion]:
        """Yield the texts of a log after its checkpoint; a log that cannot be read has none, and is tried again."""
        try:
            opening = await self._runtime.store.open(ref)
            head, before = opening.head, known.checkpoint if known is not None else None
            if before is not None and not await self._holds(ref, head, before):
                before = None
            start = before or Checkpoint(head.generation)
            reader = TextReader(opening.dialect, opening.header.id, after=start.seq, crc=start.crc)
            texts: list[Said] = []
            size = 0
            async with aclosing(self._read(ref, opening, reader, start.seq)) as pages:
                async for page in pages:
                    texts += page
                    size += sum(len(said.text) for said in page)
                    if size > _PORTION_CHARS:
                        after = Checkpoint(head.generation, reader.settled, reader.crc)
                        yield Portion(ref, UNFINISHED, before, after, texts)
                        before, texts, size = after, [], 0
            yield Portion(ref, look, before, Checkpoint(head.generation, reader.settled, reader.crc), texts)
        except (TreeringError, OSError) as error:
            logger().debug("log_not_indexed", ref=ref, error=str(error))  # the row or the scan says it to the caller

    async def _holds(self, ref: Ref, head: Cursor, checkpoint: Checkpoint) -> bool:
        """Tell whether a log still has the line that a checkpoint was made at."""
        if checkpoint.generation != head.generation or checkpoint.seq > head.seq:
            return False
        if not checkpoint.seq:
            return True
        (line,) = await self._runtime.store.bodies(ref, head.generation, [checkpoint.seq])
        return crc32(line) == checkpoint.crc


class _Wanted(Struct, frozen=True):
    """What is looked for."""

    query: Query
    filters: Filters
    project: str | None
    limit: int
    offset: int


class _Ground:
    """What there is to search, as of one look at all logs.

    Args:
        looks: How their files looked; None where nobody can tell.
        rows: The rows of all sessions, in the order of their hits.
        index: The index that was brought up to that look; None for a search without one.
        known: What it knows.

    Attributes:
        changes: The index's count of changes then.
        doubtful: There is a session that could not be read, and that may be read the next time.
        numbers: The numbers of the logs that are in the index with all their lines.
    """

    def __init__(
        self,
        looks: Looks | None,
        rows: Sequence[SessionSummary],
        index: SearchIndex | None = None,
        known: Mapping[Ref, Known] = _NOTHING,
    ) -> None:
        self.looks = looks
        self.rows = rows
        self.index = index
        self.changes = index.changes if index is not None else -1
        self.doubtful = any(row.status == CORRUPTED for row in rows)
        self.numbers = {ref: known[ref].number for ref, look in (looks or {}).items() if _is_in(ref, look, known)}
        self._at = {number: at for at, row in enumerate(rows) if (number := self.numbers.get(row.ref)) is not None}
        self._others = [at for at, row in enumerate(rows) if row.ref not in self.numbers]

    def among(self, narrowed: set[int] | None) -> Sequence[SessionSummary]:
        """Return the rows of some logs and of those that are not in the index, in order; all rows for None."""
        if narrowed is None:
            return self.rows
        chosen = [at for number in narrowed if (at := self._at.get(number)) is not None]
        return [self.rows[at] for at in sorted([*chosen, *self._others])]


class _Lookup:
    """The index as one search uses it.

    Args:
        index: The index.
        numbers: The numbers of the logs in it.

    Attributes:
        failed: It could not tell any more: a scan has to.
    """

    def __init__(self, index: SearchIndex, numbers: Mapping[Ref, int]) -> None:
        self._index = index
        self.numbers = numbers
        self.failed = False

    def find(self, rows: Sequence[SessionSummary], wanted: _Wanted) -> list[list[Said]]:
        """Return what is found first in each of some sessions; nothing where the index fails."""
        return [self.go_on(row, wanted, 0) for row in rows]

    def go_on(self, row: SessionSummary, wanted: _Wanted, after: int) -> list[Said]:
        """Return what is found next in a session after an ordinal; nothing where the index fails."""
        if self.failed:
            return []
        try:
            log = self.numbers[row.ref]
            return self._index.find(wanted.query, wanted.filters, log, after=after, most=_MOST)
        except IndexUnavailable as error:
            _warn(error)
            self.failed = True
            return []


def _looks(store: FileStore) -> Looks:
    return {ref: (stat.size, stat.modified_ns) for ref, stat in store.scan().items()}  # tuples are compared at once


def _is_in(ref: Ref, look: tuple[int, int], known: Mapping[Ref, Known]) -> bool:
    """Tell whether a log is in the index with all its lines."""
    found = known.get(ref)
    return found is not None and found.looked == look


def _unreadable(row: SessionSummary, problem: str) -> Finding:
    return Finding(row.path or row.ref, None, None, "not_searched", "error", problem)


def _warn(error: IndexUnavailable) -> None:
    logger().warning("search_index_unavailable", why=str(error))
