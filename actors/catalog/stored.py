"""The listing of a store that finds rows by itself: none is held in memory, however many there are.

Before a question is asked, the rows of the logs that changed are made and kept, so that the store answers from what is
current. The time when a session was last loaded is written with them. Where this host may only read, the rows that it
makes stay in memory, and stand in the place of those that are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ...events.arguments import is_text
from ...events.errors import ReadOnly
from ...events.offload import carried_out
from ...events.stores.base import Cursor, Ref
from ...events.stores.capabilities import KeptRow
from ...events.stores.finding import NO_WORD, Among, FindsRows, Outdated, RowQuery
from ...projections.summary import CORRUPTED, SessionSummary
from ..actor import SessionActor
from ..host.listing import CurrentRows
from ..host.registry import Registry
from ..host.runtime import Runtime
from .core import ListingCore, last_used, word_of
from .rows import Row, kept, session_of

PAGE = 1000
"""How many rows are read at a time when all are wanted."""

LOGS_AT_ONCE = 64
"""How many rows are made at a time."""

_UNREAD = Among(words=(NO_WORD,))


class _Passivated(NamedTuple):
    """A row that was made from memory when its session was passivated, and the end of the log at that moment."""

    session: SessionSummary
    head: Cursor


class FoundRows:
    """The rows of a store, brought up to date when it is first asked for some.

    Args:
        listing: The listing.
    """

    def __init__(self, listing: StoredListing) -> None:
        self._listing = listing
        self._is_current = False

    async def find(self, query: RowQuery) -> list[SessionSummary]:
        """Return the rows that are wanted, in order."""
        is_current, self._is_current = self._is_current, True
        return await self._listing.find(query, is_current=is_current)

    async def count(self, query: RowQuery) -> Mapping[str, int]:
        """Return how many rows meet the conditions of a query, for each state."""
        if not self._is_current:
            await self._listing.refresh()
            self._is_current = True
        return await self._listing.count(query)

    async def pages(self, query: RowQuery) -> AsyncGenerator[list[SessionSummary]]:
        """Yield all rows that are wanted, some at a time; those that change meanwhile may come again, or not at all."""
        left = query.limit
        while left is None or left:
            page = await self.find(replace(query, limit=PAGE if left is None else min(PAGE, left)))
            if not page:
                return
            yield page
            left = None if left is None else left - len(page)
            query = replace(query, after=query.place_of(page[-1]), offset=0)


class StoredListing(ListingCore):
    """The rows of a store that finds them.

    Args:
        runtime: The host's seams.
        registry: The live sessions.
        finds: The store's rows.
    """

    def __init__(self, runtime: Runtime, registry: Registry, finds: FindsRows) -> None:
        super().__init__(runtime, registry)
        self._finds = finds
        self._passivated: dict[Ref, _Passivated] = {}
        self._retried = False
        self._unkept: dict[Ref, Row] = {}  # what the store may not keep: the role only reads, or it is a standby

    # -- listing

    async def now(self) -> CurrentRows:
        """Return the rows as they are now."""
        return FoundRows(self)

    async def rows(self) -> list[SessionSummary]:
        """Return the rows of all sessions, the most recently used first: for whoever really wants all in memory."""
        return [row async for page in FoundRows(self).pages(RowQuery()) for row in page]

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None if it does not exist; its log is read only if it changed."""
        if not is_text(ref):
            return None
        query = RowQuery(among=(Among(refs=(ref,)),))
        found = await self.find(query, refs=(ref,))
        if found and found[0].status == CORRUPTED:  # it may have become readable without a change to the log
            async with self.lock:
                await self._retry(await self._runtime.blocking(self._finds.find, query))
            found = await self.find(query, is_current=True)
        return found[0] if found else None

    async def find(
        self, query: RowQuery, *, refs: Collection[Ref] | None = None, is_current: bool = False
    ) -> list[SessionSummary]:
        """Return the rows that are wanted, in order.

        Args:
            query: The rows.
            refs: Bring only the rows of these logs up to date; None for all.
            is_current: Whether all are up to date.
        """
        rows = await self._runtime.blocking(self._found, query, refs, is_current)
        if rows is None:
            await self.refresh(refs)
            rows = await self._runtime.blocking(self._finds.find, self._widened(query))
        sessions = [session for row in rows if (session := session_of(row)) is not None]
        return self._with_unkept(query, sessions) if self._unkept else sessions

    def _widened(self, query: RowQuery) -> RowQuery:
        """Return a query that also finds what takes the place of rows that are not kept."""
        if not self._unkept or query.limit is None:
            return replace(query, offset=0) if self._unkept else query
        return replace(query, limit=query.limit + query.offset + len(self._unkept), offset=0)

    def _with_unkept(self, query: RowQuery, kept: Sequence[SessionSummary]) -> list[SessionSummary]:
        """Return what a query finds if the rows that are not kept stand in the place of those that are."""
        rows = [row for row in kept if row.ref not in self._unkept]
        return query.select([*rows, *(row.session for row in self._unkept.values())], word_of)

    def _found(self, query: RowQuery, refs: Collection[Ref] | None, is_current: bool) -> list[KeptRow] | None:
        """Return the rows that are wanted; None if some have to be brought up to date before. Blocks."""
        if is_current:
            return self._finds.find(self._widened(query))
        if not self._retried or any(refs is None or ref in refs for ref in self._accessed.copy()):
            return None
        return self._finds.find_current(self._widened(query), refs)

    async def count(self, query: RowQuery) -> Mapping[str, int]:
        """Return how many rows meet the conditions of a query, for each state, as they are kept."""
        if self._unkept:
            rows = await self.find(replace(query, after=None, limit=None, offset=0), is_current=True)
            return Counter(map(word_of, rows))
        return await self._runtime.blocking(self._finds.count, query)

    # -- making rows

    async def refresh(self, refs: Collection[Ref] | None = None) -> None:
        """Make the rows that are outdated, and let the store keep them.

        Args:
            refs: Only those of these logs; None for all.
        """
        async with self.lock:
            await self.bring_up_to_date(refs)

    async def bring_up_to_date(self, refs: Collection[Ref] | None) -> None:
        """Do what `refresh` does, for a caller who has the lock."""
        if refs is None and not self._retried:
            await self._retry_all()
        after, seen = "", set[Ref]()
        while outdated := await self._outdated(refs, after):
            await self._make([each for each in outdated if not self._is_made(each)])
            seen.update(each.ref for each in outdated)
            after = outdated[-1].ref
            if len(outdated) < LOGS_AT_ONCE:
                break
        if self._unkept and refs is None:  # the others were kept by another host, or are gone
            self._unkept = {ref: row for ref, row in self._unkept.items() if ref in seen}
        await self._note_accesses(self._accessed if refs is None else self._accessed.keys() & set(refs))

    async def _outdated(self, refs: Collection[Ref] | None, after: Ref) -> list[Outdated]:
        return await self._runtime.blocking(lambda: self._finds.outdated(refs, after=after, limit=LOGS_AT_ONCE))

    def _is_made(self, outdated: Outdated) -> bool:
        """Tell whether the row was made already, but not kept."""
        row = self._unkept.get(outdated.ref)
        return row is not None and row.stamp == outdated.stamp

    async def _make(self, outdated: Sequence[Outdated]) -> None:
        wanted = [(each.ref, each.stamp, self._in_memory(each)) for each in outdated]
        rows: list[Row] = []
        for each, session in zip(outdated, await self._rows.make(wanted), strict=True):
            if session is None:  # it was deleted meanwhile
                continue
            if session.state is None and session.status != CORRUPTED:
                session = await self._with_state(each.ref, session)
            before = None if each.before is None else session_of(each.before)
            accessed = None if before is None else before.last_accessed
            session = last_used(session, accessed, self._accessed.get(each.ref))
            rows.append(Row(each.ref, each.stamp, session))
        await self._keep(rows)

    def _in_memory(self, outdated: Outdated) -> SessionSummary | None:
        """Return the row of a session from memory; None if it is not live, or if its log holds more than memory."""
        ref, head = outdated.ref, outdated.head
        actor = self._registry.live(ref)
        if actor is None:
            known = self._passivated.get(ref)
            return known.session if known is not None and known.head == head else None
        log = actor.log
        return self._rows.of_live(actor) if log.generation == head.generation and log.index.seen >= head.seq else None

    async def _keep(self, rows: Sequence[Row]) -> None:
        """Let the store keep rows."""
        if not rows:
            return
        try:
            await carried_out(self._runtime.blocking, lambda: self._finds.keep(list(map(kept, rows)), ()))
        except ReadOnly:
            self._unkept |= {row.ref: row for row in rows}
        else:
            for row in rows:
                self._unkept.pop(row.ref, None)
        for row in rows:
            accessed, known = self._accessed.get(row.ref), row.session.last_accessed
            if accessed is not None and known is not None and accessed <= known:
                del self._accessed[row.ref]
            self._passivated.pop(row.ref, None)
        self.changes += 1

    async def _note_accesses(self, refs: Iterable[Ref]) -> None:
        """Write when sessions were last loaded whose rows are current otherwise."""
        times = {ref: self._accessed[ref] for ref in refs if is_text(ref)}
        if not times:
            return
        query = RowQuery(among=(Among(refs=times.keys()),))
        rows = [
            Row(row.ref, row.stamp, last_used(session, times[row.ref]))
            for row in await self._runtime.blocking(self._finds.find, query)
            if (session := session_of(row)) is not None
        ]
        await self._keep(rows)
        for ref in times.keys() - {row.ref for row in rows}:  # nothing was appended to it, or it was deleted
            if self._accessed.get(ref) == times[ref]:
                del self._accessed[ref]

    async def _retry_all(self) -> None:
        """Read the logs again that could not be read by whoever made their rows."""
        query = RowQuery(among=(_UNREAD,), order="last_entry", limit=LOGS_AT_ONCE)
        while rows := await self._runtime.blocking(self._finds.find, query):
            last = session_of(rows[-1])
            await self._retry(rows)
            if last is None or len(rows) < LOGS_AT_ONCE:
                break
            query = replace(query, after=query.place_of(last))
        self._retried = True

    async def _retry(self, rows: Sequence[KeptRow]) -> None:
        made = await self._rows.make([(row.ref, row.stamp, None) for row in rows])
        changed: list[Row] = []
        for before, session in zip(rows, made, strict=True):
            known = session_of(before)
            if session is None or (
                known is not None and (session.status, session.problem) == (known.status, known.problem)
            ):
                continue
            accessed = None if known is None else known.last_accessed
            changed.append(Row(before.ref, before.stamp, last_used(session, accessed)))
        await self._keep(changed)

    # -- events of sessions

    async def leaving(self, ref: Ref) -> None:
        """Remember the row of a session that will be removed."""
        if is_text(ref):
            found = await self.find(RowQuery(among=(Among(refs=(ref,)),)), is_current=True)
            for row in found:
                self._note_last(row)

    def accessed(self, ref: Ref) -> None:
        """Record that a session was loaded just now."""
        if is_text(ref):
            self._accessed[ref] = self._runtime.now()
            self.unsaved[ref] = None
            self._runtime.touched.wake()

    def _remember(self, actor: SessionActor) -> None:
        log = actor.log
        self._passivated[log.ref] = _Passivated(self._rows.of_live(actor), Cursor(log.generation, log.index.seen))

    def forget(self, refs: Iterable[Ref]) -> None:
        """Remove sessions that are gone; the store will drop their rows."""
        for ref in refs:
            self.unsaved.pop(ref, None)
            self._accessed.pop(ref, None)
            self._passivated.pop(ref, None)
            self._unkept.pop(ref, None)
            self.gone.add(ref)
        self.changes += 1
        self._runtime.touched.wake()

    async def drop(self, gone: Collection[Ref]) -> None:
        """Let the store drop the rows of sessions that are gone."""
        if gone:
            await carried_out(self._runtime.blocking, lambda: self._finds.keep((), gone))
