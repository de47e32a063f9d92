"""The session services that Google's Agent Development Kit brings for files."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..driving import appended, on_loop
from ..jobs import TEXT_1_KB, Appends, Lists, Reads
from ..peer import Peer
from ..timing import Sample, timed
from ..workspace import Workspace

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.sessions import BaseSessionService

_WHO = {"app_name": "bench", "user_id": "user"}


def _event() -> Event:
    from google.adk.events import Event
    from google.genai.types import Content, Part

    return Event(author="user", content=Content(role="user", parts=[Part(text=TEXT_1_KB)]))


class SqliteService(Peer):
    """`SqliteSessionService`: a connection and a transaction for each event."""

    name = "google-adk SqliteSessionService"
    durability = "the process (SQLite's default)"
    requirements = ("google-adk==2.13.0", "sqlalchemy[asyncio]==2.1.9", "aiosqlite==0.22.1")
    full_only = True

    def _service(self, folder: Path) -> BaseSessionService:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        return SqliteSessionService(str(folder / "sessions.db"))

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append one event a call."""
        service = self._service(space.fresh())

        async def run() -> Sample:
            sessions = [await service.create_session(**_WHO) for _ in range(job.sessions)]

            def one(number: int) -> Awaitable[object]:
                return service.append_event(sessions[number], _event())

            return await appended(job, [partial(one, number) for number in range(job.sessions)])

        return on_loop(run)

    def read(self, job: Reads, space: Workspace) -> Sample:
        """Get a session with all of its events."""

        def make(folder: Path) -> None:
            async def fill() -> Sample:
                service = self._service(folder)
                session = await service.create_session(**_WHO, session_id="long")
                for _ in range(job.entries):
                    await service.append_event(session, _event())
                return Sample()

            on_loop(fill)

        folder = space.kept(f"{type(self).__name__}-{job.entries}", make)

        async def run() -> Sample:
            sample = Sample()
            service = self._service(folder)
            with timed(sample):
                session = await service.get_session(**_WHO, session_id="long")
            assert session is not None
            assert len(session.events) == job.entries
            return sample

        return on_loop(run)

    def list(self, job: Lists, space: Workspace) -> Sample:
        """List the sessions of a user; they come without events."""

        def make(folder: Path) -> None:
            async def fill() -> Sample:
                service = self._service(folder)
                for _ in range(job.sessions):
                    await service.create_session(**_WHO)
                return Sample()

            on_loop(fill)

        folder = space.kept(f"{type(self).__name__}-list-{job.sessions}", make)

        async def run() -> Sample:
            sample = Sample()
            service = self._service(folder)
            if job.warm:
                await service.list_sessions(**_WHO)
            with timed(sample):
                found = await service.list_sessions(**_WHO)
            assert len(found.sessions) == job.sessions
            return sample

        return on_loop(run)


class DatabaseService(SqliteService):
    """`DatabaseSessionService`: SQLAlchemy over aiosqlite."""

    name = "google-adk DatabaseSessionService"

    def _service(self, folder: Path) -> BaseSessionService:
        from google.adk.sessions import DatabaseSessionService

        return DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'database.db'}")


PEERS: list[Peer] = [SqliteService(), DatabaseService()]
