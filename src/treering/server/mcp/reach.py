"""What a principal may reach: the sessions that it sees on a server, and whether it may write to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from ...actors.host.host import SessionHost
from ...actors.session.session import Session
from ...events.errors import NotAuthorized
from ...mcp.reach import Wanted
from ...projections.summary import SessionSummary
from ..filters import SessionFilter, filtered
from ..principals import Principal
from ..service import Service


class PrincipalReach:
    """The sessions that a principal may see on a server."""

    def __init__(self, service: Service, principal: Principal) -> None:
        self._service = service
        self._principal = principal

    @property
    def host(self) -> SessionHost:
        """The host of all sessions."""
        return self._service.host

    @property
    def may_write(self) -> bool:
        """Whether the principal may label entries."""
        return self._principal.may("write") and not self._service.read_only

    async def rows(self, wanted: Wanted) -> tuple[Sequence[SessionSummary], str | None]:
        """Return a page of rows; see `Reach.rows`."""
        found = await filtered(
            self._service, self._principal, SessionFilter(project=wanted.project, status=wanted.status)
        )
        page = await found.page("used", wanted.page, 0, wanted.limit)
        return page.items, page.next

    async def own(self) -> frozenset[str] | None:
        """Return the ids of the principal's sessions; see `Service.ids_of`."""
        return await self._service.ids_of(self._principal)

    async def row(self, session_id: str) -> SessionSummary:
        """Return the row of a session; see `Service.row`."""
        return await self._service.row(self._principal, session_id)

    async def reading(self, session_id: str) -> Session:
        """Return a handle to read from; see `Service.reading`."""
        return await self._service.reading(self._principal, session_id)

    @asynccontextmanager
    async def writing(self, session_id: str) -> AsyncGenerator[Session]:
        """Return a handle to write to; see `Service.writing`."""
        if not self._principal.may("write"):
            raise NotAuthorized(f"this needs the role 'write', not {self._principal.role!r}", known=True)
        yield await self._service.writing(self._principal, session_id)

    def shown(self, text: str) -> str:
        """Return the text of an error without folders of the server."""
        return self._service.shown(text)
