"""The listing: one row for each session under a root, kept as long as the log does not change.

Rows are derived, never stored as truth. A log that cannot be read has a row too, which says why.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Self

from msgspec import Struct

from ..events.errors import TreeringError
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
        known, self._rows = self._rows, {}
        async for info in self._logs():
            held = known.get(info.ref)
            if held is not None and held[0] == info:
                self._rows[info.ref] = held
            else:
                self._rows[info.ref] = (info, await self._row(info))
        return sorted((row for _, row in self._rows.values()), key=lambda row: (row.modified, row.ref), reverse=True)

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None where it is not there."""
        async for info in self._logs(ref):
            if info.ref == ref:
                return await self._row(info)
        return None

    async def _logs(self, prefix: str = "") -> AsyncIterator[LogInfo]:
        after = ""
        while page := await self._runtime.store.page(prefix, after, _PAGE):
            for info in page:
                yield info
            after = page[-1].ref

    async def _row(self, info: LogInfo) -> SessionSummary:
        actor = self._registry.live(info.ref)
        try:
            log = actor.log if actor is not None else await self._read(info.ref)
            first = log.index.first_user
            entries = await log.entries_at([first]) if first else {}
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
    list of all rows, every further one a `SessionChanged`.
    """

    def __init__(self, listing: Listing, touched: Touched) -> None:
        self._listing = listing
        self._touched = touched
        self._begun = False
        self._waiting: set[Ref] = set()

    async def __aenter__(self) -> Self:
        self._touched.listeners.append(self._waiting)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._touched.listeners.remove(self._waiting)

    def __aiter__(self) -> SessionsSubscription:
        return self

    async def __anext__(self) -> list[SessionSummary] | SessionChanged:
        if not self._begun:
            self._begun = True
            return await self._listing.rows()
        while not self._waiting:
            await self._touched.wait()
        ref = self._waiting.pop()
        return SessionChanged(ref, await self._listing.row(ref))
