"""The listing: one row for each session under a root, kept as long as the log does not change.

Rows are derived, never stored as truth. A log that cannot be read has a row too, which says why.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Self

from msgspec import Struct

from ..events.errors import SessionNotFound, TreeringError
from ..events.stores.base import LogInfo, Ref
from ..projections.summary import CORRUPTED, SessionSummary, summarize
from .open_log import OpenLog
from .registry import Registry
from .runtime import Runtime
from .touched import Touched

_PAGE = 1000


class SessionChanged(Struct, frozen=True):
    """A session's row is another now; `summary` is None where the session is gone."""

    ref: Ref
    summary: SessionSummary | None


class Listing:
    """The rows of all sessions of a store."""

    def __init__(self, runtime: Runtime, registry: Registry, path_of: Callable[[Ref], str | None]) -> None:
        self._runtime = runtime
        self._path_of = path_of
        self._registry = registry
        self._rows: dict[Ref, tuple[LogInfo, SessionSummary]] = {}

    async def rows(self) -> list[SessionSummary]:
        """Return the rows of all sessions, the most recently used first.

        Only logs that changed since the last call are looked into; of a live session, none is read.
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
        return sorted((row for _, row in rows.values()), key=lambda row: (row.modified, row.ref), reverse=True)

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None where it is not there."""
        infos = await self._runtime.store.page(ref, "", 1)
        return await self._row(infos[0]) if infos and infos[0].ref == ref else None

    async def _logs(self) -> AsyncGenerator[LogInfo]:
        after = ""
        while page := await self._runtime.store.page("", after, _PAGE):
            for info in page:
                yield info
            after = page[-1].ref

    async def _row(self, info: LogInfo) -> SessionSummary | None:
        """Make a row; None where the log is gone meanwhile."""
        actor = self._registry.look_at(info.ref)
        try:
            log = actor.log if actor is not None else await self._read(info.ref)
            first = log.index.first_user
            entries = await log.entries_at([first]) if first else {}
        except SessionNotFound:
            return None
        except (TreeringError, OSError) as error:
            stem = info.ref.rsplit("/", 1)[-1].removesuffix(".jsonl")
            return SessionSummary(
                id=stem,
                ref=info.ref,
                created=info.modified,
                modified=info.modified,
                dialect="unknown",
                status=CORRUPTED,
                problem=str(error),
            )
        return summarize(
            log.index, entries.get(first), ref=info.ref, dialect=log.dialect.name, path=self._path_of(info.ref)
        )

    async def _read(self, ref: Ref) -> OpenLog:
        opening = await self._runtime.store.open(ref)
        log = OpenLog(self._runtime, ref, opening.header, opening.dialect, opening.head.generation)
        await log.take_up()
        return log


class SessionsSubscription:
    """The listing as it is, and then the rows that change through this host.

    Use it as `async with host.subscribe_sessions() as changes: async for change in changes: ...`; the first item is the
    list of all rows, every further one a `SessionChanged`. Of the changes of one session, a slow follower gets the last.
    The iteration ends with the host.
    """

    def __init__(self, listing: Listing, touched: Touched) -> None:
        self._listing = listing
        self._touched = touched
        self._begun = False
        self._waiting: dict[Ref, None] = {}

    async def __aenter__(self) -> Self:
        self._touched.listeners.append(self._waiting)
        return self

    async def __aexit__(self, *_: object) -> None:
        listeners = self._touched.listeners
        listeners[:] = [each for each in listeners if each is not self._waiting]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[SessionSummary] | SessionChanged:
        if not self._begun:
            rows = await self._listing.rows()
            self._begun = True
            return rows
        while not self._waiting:
            if self._touched.closed:
                raise StopAsyncIteration
            await self._touched.wait()
        ref = next(iter(self._waiting))
        del self._waiting[ref]  # now, so that what happens to it meanwhile is told too
        try:
            return SessionChanged(ref, await self._listing.row(ref))
        except BaseException:
            self._waiting[ref] = None
            raise
