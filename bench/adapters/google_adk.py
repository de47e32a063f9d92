"""Google's Agent Development Kit: `SqliteSessionService` and `TreeringSessionService`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..jobs import TEXT_1_KB
from ..peers.google_adk import SqliteService
from .ours import FLUSHED, host_in
from .side import Side

if TYPE_CHECKING:
    from google.adk.sessions import BaseSessionService, Session

_APP = "bench"
_USER = "user"


class _Sessions:
    def __init__(self, service: BaseSessionService) -> None:
        self._service = service
        self._sessions: dict[int, Session] = {}

    async def append(self, number: int) -> None:
        from google.adk.events import Event
        from google.genai.types import Content, Part

        session = self._sessions.get(number)
        if session is None:
            session = await self._service.create_session(app_name=_APP, user_id=_USER, session_id=str(number))
            self._sessions[number] = session
        event = Event(author="user", content=Content(role="user", parts=[Part(text=TEXT_1_KB)]))
        await self._service.append_event(session, event)

    async def load(self, number: int) -> int:
        session = await self._service.get_session(app_name=_APP, user_id=_USER, session_id=str(number))
        assert session is not None
        return len(session.events)


class _GoogleADK(Side):
    framework = "google-adk"
    requirements = SqliteService.requirements


class Theirs(_GoogleADK):
    """`SqliteSessionService`: one connection and one transaction per event."""

    name = SqliteService.name
    durability = SqliteService.durability
    at_once_max = 4  # "database is locked" where many wait for it

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Sessions]:
        """Name the database; each call opens it."""
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        yield _Sessions(SqliteSessionService(str(folder / "sessions.db")))


class Ours(_GoogleADK):
    """`TreeringSessionService` over an open host."""

    name = "TreeringSessionService"
    durability = FLUSHED

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Sessions]:
        """Open the host."""
        from treering.adapters.adk import TreeringSessionService

        async with host_in(folder, "group") as host:
            yield _Sessions(TreeringSessionService(host))


PEERS: list[Side] = [Theirs(), Ours()]
