"""The listing of a store without files: rows made from the pages of the store's logs, and held in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import datetime

from msgspec.structs import replace

from ...events.errors import SessionNotFound, TreeringError
from ...events.projects import project_hash
from ...events.stores.base import LogInfo, Ref
from ...projections.summary import SessionSummary, corrupted, project_of, summarize
from ..host.registry import Registry
from ..host.runtime import Runtime
from ..log.open_log import OpenLog

_PAGE = 1000


class PagedListing:
    """The rows of a store without files, held in memory."""

    def __init__(self, runtime: Runtime, registry: Registry) -> None:
        self.changes = 0
        self._runtime = runtime
        self._registry = registry
        self._rows: dict[Ref, tuple[LogInfo, SessionSummary]] = {}
        self._accessed: dict[Ref, datetime] = {}

    async def rows(self) -> list[SessionSummary]:
        """Return the rows of all sessions, the most recently used first.

        Only logs that changed since the last call are read; the row of a live session is made from memory.
        """
        rows: dict[Ref, tuple[LogInfo, SessionSummary]] = {}
        async with aclosing(self._logs()) as logs:
            async for info in logs:
                held = self._rows.get(info.ref)
                if held is not None and held[0] == info:
                    rows[info.ref] = held
                elif (row := await self._row(info)) is not None:
                    rows[info.ref] = (info, row)
        self._rows = rows
        current = [self._with_access_time(row) for _, row in rows.values()]
        return sorted(current, key=lambda row: (row.used, row.ref), reverse=True)

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None if it does not exist."""
        infos = await self._runtime.store.page(ref, "", 1)
        row = await self._row(infos[0]) if infos and infos[0].ref == ref else None
        return None if row is None else self._with_access_time(row)

    def accessed(self, ref: Ref) -> None:
        """Record that a session was loaded just now."""
        self._accessed[ref] = self._runtime.now()
        self.changes += 1

    def forget(self, refs: Iterable[Ref]) -> None:
        """Remove sessions that are gone."""
        for ref in refs:
            self._rows.pop(ref, None)
            self._accessed.pop(ref, None)
        self.changes += 1

    def _with_access_time(self, row: SessionSummary) -> SessionSummary:
        """Return a row with the time when the session was loaded, if that is later than its last entry."""
        loaded = self._accessed.get(row.ref)
        if loaded is None or (row.last_accessed is not None and loaded <= row.last_accessed):
            return row
        return replace(row, last_accessed=loaded)

    async def _logs(self) -> AsyncGenerator[LogInfo]:
        after = ""
        while page := await self._runtime.store.page("", after, _PAGE):
            for info in page:
                yield info
            after = page[-1].ref

    async def _row(self, info: LogInfo) -> SessionSummary | None:
        """Make a row; None if the log was deleted meanwhile."""
        actor = self._registry.live(info.ref)
        try:
            log = actor.log if actor is not None else await self._read(info.ref)
        except SessionNotFound:
            return None
        except (TreeringError, OSError) as error:
            return corrupted(info.ref, None, info.modified, error)
        project = project_of(log.index)
        hashed = None if project is None else await self._runtime.offload(project_hash, project)
        return summarize(log.index, ref=info.ref, dialect=log.dialect.name, project_hash=hashed)

    async def _read(self, ref: Ref) -> OpenLog:
        opening = await self._runtime.store.open(ref)
        log = OpenLog(self._runtime, ref, opening.header, opening.dialect, opening.head.generation)
        await log.take_up(caching=False)
        return log
