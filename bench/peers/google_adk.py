"""The file-based session services of Google's Agent Development Kit."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..driving import append_all, list_all, on_loop
from ..jobs import TEXT_1_KB, Appends, Lists, Reads
from ..peer import Peer
from ..timing import Sample, timed
from ..workspace import Workspace

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.sessions import BaseSessionService

_USER = {"app_name": "bench", "user_id": "user"}


def _event() -> Event:
    from google.adk.events import Event
    from google.genai.types import Content, Part

    return Event(author="user", content=Content(role="user", parts=[Part(text=TEXT_1_KB)]))


class SqliteService(Peer):
    """`SqliteSessionService`: one connection and one transaction per event."""

    name = "google-adk SqliteSessionService"
    durability = "a power cut (a rollback journal, four flushes per commit)"
    requirements = ("google-adk==2.13.0", "sqlalchemy[asyncio]==2.1.9", "aiosqlite==0.22.1")
    with_treering = True
    full_only = True

    def _service(self, folder: Path) -> BaseSessionService:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        return SqliteSessionService(str(folder / "sessions.db"))

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append one event per call."""
        service = self._service(space.new_folder())

        async def run() -> Sample:
            sessions = [await service.create_session(**_USER) for _ in range(job.sessions)]

            def one(number: int) -> Awaitable[object]:
                return service.append_event(sessions[number], _event())

            return await append_all(job, [partial(one, number) for number in range(job.sessions)])

        return on_loop(run)

    def read(self, job: Reads, space: Workspace) -> Sample:
        """Get a session with all of its events."""

        def make(folder: Path) -> None:
            async def fill() -> Sample:
                service = self._service(folder)
                session = await service.create_session(**_USER, session_id="long")
                for _ in range(job.entries):
                    await service.append_event(session, _event())
                return Sample()

            on_loop(fill)

        folder = space.cached_folder(f"{type(self).__name__}-{job.entries}", make)

        async def run() -> Sample:
            sample = Sample()
            service = self._service(folder)
            with timed(sample):
                session = await service.get_session(**_USER, session_id="long")
            assert session is not None
            assert len(session.events) == job.entries
            return sample

        return on_loop(run)

    def list(self, job: Lists, space: Workspace) -> Sample:
        """List the sessions of a user, without their events."""

        def make(folder: Path) -> None:
            async def fill() -> Sample:
                service = self._service(folder)
                for _ in range(job.sessions):
                    await service.create_session(**_USER)
                return Sample()

            on_loop(fill)

        folder = space.cached_folder(f"{type(self).__name__}-list-{job.sessions}", make)

        async def run() -> Sample:
            service = self._service(folder)
            sample = await list_all(job, partial(service.list_sessions, **_USER))
            assert len((await service.list_sessions(**_USER)).sessions) == job.sessions
            return sample

        return on_loop(run)


class DatabaseService(SqliteService):
    """`DatabaseSessionService`: SQLAlchemy over aiosqlite."""

    name = "google-adk DatabaseSessionService"

    def _service(self, folder: Path) -> BaseSessionService:
        from google.adk.sessions import DatabaseSessionService

        return DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'database.db'}")


PEERS: list[Peer] = [SqliteService(), DatabaseService()]
