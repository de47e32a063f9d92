"""The sessions of a server all together: its listing, what a text means, the current session of a project, search."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Self

import anyio
import msgspec

from ..actors.catalog.catalog import ANY, Catalog, checked_status
from ..actors.catalog.core import HeldRows, word_of
from ..actors.host.listing import ListingFeed, ListPosition, SessionChanged, SessionsSubscription
from ..actors.host.names import absolute
from ..actors.host.runtime import Runtime
from ..actors.search.hits import Hit
from ..events.errors import HostClosed, SessionNotFound, TreeringError
from ..events.stores.base import Ref
from ..events.stores.finding import RowQuery
from ..projections.summary import CORRUPTED, SessionSummary
from ..wire import FoundEntry, Page, SessionRow
from .connection import Connection, segment

_PAGE = 1000
_STATE = {"with": "state"}


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

    async def now(self) -> HeldRows:
        """Return the rows as they are now."""
        return HeldRows(await self.rows())

    async def page_through(self, query: dict[str, str], most: int | None = None) -> list[SessionSummary]:
        """Return the rows that a query lists, at most so many."""
        rows: list[SessionSummary] = []
        word: str | None = None
        while most is None or len(rows) < most:
            limit = _PAGE if most is None else min(_PAGE, most - len(rows))
            asked = {**query, **_STATE, "limit": str(limit)}
            if word is not None:
                asked["page"] = word
            page = await self._connection.ask(Page[SessionRow], "GET", "/v1/sessions", query=asked)
            rows += [row.summary() for row in page.items]
            word = page.next
            if word is None:
                break
        return rows

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None if there is no such session."""
        try:
            row = await self._connection.ask(SessionRow, "GET", f"/v1/sessions/{segment(ref)}", query=_STATE)
        except SessionNotFound:
            return None
        return row.summary()

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
        after: SessionSummary | None = None,
    ) -> list[SessionSummary]:
        """Return rows, the most recently used first; see `SessionHost.list_sessions`.

        Rows after a row are looked for in all of them, since a page of the server begins where its row is now.
        """
        query: dict[str, str] = {}
        if status is not None:
            query["status"] = checked_status(status)
        if project is not None:
            query["project"] = absolute(project)
        if after is not None:
            wanted = RowQuery(after=RowQuery().place_of(after), limit=limit, offset=offset)
            return wanted.select(await self._rows.page_through(query, None), word_of)
        return (await self._rows.page_through(query, None if limit is None else offset + limit))[offset:]

    async def latest(self, project: str | os.PathLike[str] | None) -> SessionSummary | None:
        """Return the row of the session of a project with the latest message, among those that can be resumed."""
        rows = [row for row in await self.rows(project=project) if row.status != CORRUPTED]
        return max(rows, key=lambda row: (row.modified, row.ref), default=None)

    # -- the current session of a project

    async def current(self, project: str | os.PathLike[str]) -> SessionSummary | None:
        """Return the row of a project's current session, or None."""
        try:
            row = await self._connection.ask(SessionRow, "GET", "/v1/current", query={"project": absolute(project)})
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
            page = await self._connection.ask(Page[FoundEntry], "GET", "/v1/search", query=page_query)
            for found in page.items:
                left -= 1
                if left < limit:
                    yield found.hit()
            if page.next is None:
                return
            word = page.next


BEGINNING = ListPosition("0" * 12, 0)
"""A position of no server, after which the listing begins with all rows."""


class _SessionEvent(msgspec.Struct):
    op: str
    id: str
    row: SessionRow | None


class RemoteSessionsSubscription(SessionsSubscription):
    """The listing of a server, followed by the rows that change, whoever changes them; see `SessionsSubscription`.

    What was not yielded is held here: the last change of each session.

    Args:
        connection: The server.
        catalog: Its sessions.
        runtime: The seams of the remote host.
        after: The position to begin after.
    """

    def __init__(
        self, connection: Connection, catalog: Catalog, runtime: Runtime, *, after: ListPosition | None
    ) -> None:
        super().__init__(catalog.listing, catalog.feed, after=after)
        self._connection = connection
        self._runtime = runtime
        self._following = anyio.CancelScope()
        self._arrived = anyio.Event()
        self._received = self._yielded = after
        self._rows: list[SessionSummary] | None = None
        self._rows_at = after
        self._failure: TreeringError | None = None
        self._is_over = True

    @property
    def position(self) -> ListPosition:
        """The position to come back to: that of the last item that was yielded."""
        return self._yielded if self._yielded is not None else BEGINNING

    @property
    def waiting(self) -> bool:
        """Whether there are items that have arrived and were not yielded."""
        return self._rows is not None or bool(self._changed)

    async def __aenter__(self) -> Self:
        self._following = anyio.CancelScope()
        self._is_over = False
        self._runtime.spawn(self._follow)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._following.cancel()
        await super().__aexit__(*error)

    async def __anext__(self) -> list[SessionSummary] | SessionChanged:
        while not self.waiting:
            if self._failure is not None:
                raise self._failure
            if self._is_over:
                raise StopAsyncIteration
            self._arrived = anyio.Event()
            await self._arrived.wait()
        if self._rows is not None:
            rows, self._rows = self._rows, None
            self._yielded = self._rows_at
            return rows
        change = self._changed.pop(next(iter(self._changed)))
        self._yielded = change.position
        return change

    async def _follow(self) -> None:
        """Receive the listing and its changes until the subscription is left, or the host is closed."""
        rows: list[SessionSummary] | None = None

        def since() -> str | None:
            nonlocal rows
            rows = None  # those of a stream that was cut off are sent again
            return None if self._received is None else str(self._received)

        try:
            with self._following, suppress(HostClosed):  # it ends with its host
                events = self._connection.follow("/v1/events", {"status": ANY}, since)
                async with aclosing(events):
                    async for event in events:
                        if event.id is None:
                            continue
                        position = ListPosition.parse(event.id)
                        if event.event == "reset":
                            rows = []
                            continue
                        if event.event == "session":
                            told = msgspec.json.decode(event.data, type=_SessionEvent)
                            row = None if told.row is None else told.row.summary()
                            if rows is not None and row is not None:
                                rows.append(row)
                                continue
                            self._changed.pop(told.id, None)  # the last change of a session comes last
                            self._changed[told.id] = SessionChanged(told.id, row, position)
                        elif rows is not None:
                            self._rows, self._rows_at, rows = rows, position, None
                            self._changed.clear()
                        self._received = position
                        self._arrived.set()
        except TreeringError as error:
            self._failure = error
        finally:
            self._is_over = True
            self._arrived.set()
