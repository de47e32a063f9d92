"""The sessions of a server all together: its listing, what a text means, the current session of a project, search."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import datetime
from typing import Self

import anyio
import msgspec

from ..actors.catalog.catalog import ANY, Catalog, checked_status
from ..actors.host.listing import Listing, ListingFeed, SessionChanged, SessionsSubscription
from ..actors.host.names import absolute
from ..actors.host.runtime import Runtime
from ..actors.search.hits import Hit
from ..events.errors import SessionNotFound, TreeringError
from ..events.stores.base import Ref
from ..projections.summary import SessionSummary
from .connection import Connection, segment
from .replies import Found, Page, Row

_PAGE = 1000


class RemoteListing:
    """The rows of a server's sessions; see `Listing`.

    Args:
        connection: The server.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.changes = 0

    async def rows(self) -> list[SessionSummary]:
        """Return the rows of all sessions, archived ones included, the most recently used first."""
        return await self.page_through({"status": ANY})

    async def page_through(self, query: dict[str, str], most: int | None = None) -> list[SessionSummary]:
        """Return the rows that a query lists, at most so many."""
        rows: list[SessionSummary] = []
        word: str | None = None
        while most is None or len(rows) < most:
            limit = _PAGE if most is None else min(_PAGE, most - len(rows))
            asked = {**query, "limit": str(limit)} if word is None else {**query, "limit": str(limit), "page": word}
            page = await self._connection.ask(Page[Row], "GET", "/v1/sessions", query=asked)
            rows += [row.summary() for row in page.items]
            word = page.next
            if word is None:
                break
        return rows

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None if there is no such session."""
        try:
            return (await self._connection.ask(Row, "GET", f"/v1/sessions/{segment(ref)}")).summary()
        except SessionNotFound:
            return None

    def last_row(self, ref: Ref) -> SessionSummary | None:
        """Return None: the server knows."""

    def accessed(self, ref: Ref) -> None:
        """Do nothing: the server notes it."""

    def forget(self, refs: Iterable[Ref]) -> None:
        """Do nothing: the server notes it."""


class RemoteCatalog(Catalog):
    """The catalog of a server; see `Catalog`.

    Args:
        runtime: The seams of the remote host.
        connection: The server.
    """

    def __init__(self, runtime: Runtime, connection: Connection) -> None:
        self._runtime = runtime
        self._writer = None
        self._connection = connection
        self._rows = RemoteListing(connection)
        self.feed = ListingFeed(self._rows, runtime.touched)
        self.listing = self._rows  # type: ignore[assignment]  # all that is asked of it here is what `Listing` says

    async def rows(
        self,
        *,
        project: str | os.PathLike[str] | None = None,
        status: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[SessionSummary]:
        """Return rows, the most recently used first; see `SessionHost.list_sessions`."""
        query: dict[str, str] = {}
        if status is not None:
            query["status"] = checked_status(status)
        if project is not None:
            query["project"] = absolute(project)
        return (await self._rows.page_through(query, None if limit is None else offset + limit))[offset:]

    # -- the current session of a project

    async def current(self, project: str | os.PathLike[str]) -> SessionSummary | None:
        """Return the row of a project's current session, or None."""
        try:
            row = await self._connection.ask(Row, "GET", "/v1/current", query={"project": absolute(project)})
        except SessionNotFound:
            return None
        return row.summary()

    async def set_current(self, project: str | os.PathLike[str], ref: Ref | None) -> None:
        """Set or clear the current session of a project."""
        body = msgspec.json.encode({"project": absolute(project), "session": ref})
        await self._connection.answer("PUT", "/v1/current", body=body)

    async def removed(self, ref: Ref) -> None:
        """Do nothing: the server has removed it."""

    # -- searching

    async def hits(
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
    ) -> AsyncGenerator[Hit]:
        """Yield what a search finds; see `SessionHost.search`."""
        given = {
            "q": query,
            "project": None if project is None else absolute(project),
            "role": role,
            "tool": tool,
            "since": None if after is None else after.isoformat(),
            "until": None if before is None else before.isoformat(),
        }
        asked = {name: value for name, value in given.items() if value is not None}
        left, word = offset + limit, ""
        while left:
            many = min(_PAGE, left)
            page_query = {**asked, "limit": str(many)} if not word else {**asked, "limit": str(many), "page": word}
            page = await self._connection.ask(Page[Found], "GET", "/v1/search", query=page_query)
            for found in page.items:
                left -= 1
                if left < limit:
                    yield Hit(ref=found.session_id, **msgspec.structs.asdict(found))
            if page.next is None:
                return
            word = page.next


class _SessionEvent(msgspec.Struct):
    op: str
    id: str
    row: Row | None


class RemoteSessionsSubscription(SessionsSubscription):
    """The listing of a server, followed by the rows that change, whoever changes them; see `SessionsSubscription`.

    Args:
        connection: The server.
        listing: Its rows.
        feed: What changes of them.
        runtime: The seams of the remote host.
    """

    def __init__(self, connection: Connection, listing: Listing, feed: ListingFeed, runtime: Runtime) -> None:
        super().__init__(listing, feed)
        self._connection = connection
        self._runtime = runtime
        self._following = anyio.CancelScope()
        self._begun = anyio.Event()
        self._failure: TreeringError | None = None

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._following = anyio.CancelScope()
        self._runtime.spawn(self._follow)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._following.cancel()
        await super().__aexit__(*error)

    async def __anext__(self) -> list[SessionSummary] | SessionChanged:
        await self._begun.wait()  # what changes after the rows were read is told
        if self._failure is not None:
            raise self._failure
        return await super().__anext__()

    async def _follow(self) -> None:
        """Note each session whose row changes. When the stream begins anew, it tells all rows, most of them known."""
        known: dict[Ref, Row | None] = {}
        told: dict[Ref, Row | None] = {}
        with self._following:
            try:
                async with aclosing(self._connection.follow("/v1/events", {}, None)) as events:
                    async for event in events:
                        if event.event == "reset":
                            told = {}
                        elif event.event == "session":
                            change = msgspec.json.decode(event.data, type=_SessionEvent)
                            told[change.id] = change.row
                            if self._begun.is_set() and known.get(change.id) != change.row:
                                self._runtime.touched.add(change.id)
                            known[change.id] = change.row
                        elif event.event == "ready":
                            for gone in [each for each, row in known.items() if row is not None and each not in told]:
                                known[gone] = None
                                self._runtime.touched.add(gone)
                            self._begun.set()
            except TreeringError as error:
                self._failure = error
                self._begun.set()
                self._runtime.touched.wake()
