"""The `eventsourcing` library on SQLite: one aggregate per session, saved after each message."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ..driving import append_all_in_turn
from ..jobs import TEXT_1_KB, Appends, Reads
from ..peer import Peer
from ..timing import Sample, timed
from ..workspace import Workspace


@cache
def _session_class() -> type[Any]:
    """Define the aggregate, and register it so that a process can read what another one wrote."""
    from eventsourcing.domain import Aggregate, event
    from eventsourcing.utils import get_topic

    class Session(Aggregate):
        @event("Started")
        def __init__(self) -> None:
            self.messages: list[str] = []

        @event("Said")
        def say(self, text: str) -> None:
            self.messages.append(text)

    for each in (Session, *(kind for kind in vars(Session).values() if isinstance(kind, type))):
        get_topic(each)  # registers the class under its topic
    return Session


def _application(folder: Path) -> tuple[Any, type[Any]]:
    from eventsourcing.application import Application

    os.environ["PERSISTENCE_MODULE"] = "eventsourcing.sqlite"
    os.environ["SQLITE_DBNAME"] = str(folder / "events.db")
    return Application[Any](), _session_class()


class EventSourcing(Peer):
    """An application on SQLite: one blocking transaction per save."""

    name = "eventsourcing on SQLite"
    durability = "a power cut (WAL, one flush per commit)"
    requirements = ("eventsourcing==9.5.6",)
    full_only = True

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Trigger one event per call, and save."""
        application, session_class = _application(space.new_folder())
        sessions = [session_class() for _ in range(job.sessions)]
        application.save(*sessions)

        def appender(session: Any) -> Callable[[], object]:  # noqa: ANN401  # the library makes the class
            def append() -> None:
                session.say(TEXT_1_KB)
                application.save(session)

            return append

        return append_all_in_turn(job, [appender(each) for each in sessions])

    def read(self, job: Reads, space: Workspace) -> Sample:
        """Rebuild a session from its events."""

        def make(folder: Path) -> None:
            application, session_class = _application(folder)
            session = session_class()
            for _ in range(job.entries):
                session.say(TEXT_1_KB)
            application.save(session)
            (folder / "id").write_text(str(session.id))

        folder = space.cached_folder(f"eventsourcing-{job.entries}", make)
        application, _ = _application(folder)
        from uuid import UUID

        sample = Sample()
        with timed(sample):
            session = application.repository.get(UUID((folder / "id").read_text()))
        assert len(session.messages) == job.entries
        return sample


PEERS: list[Peer] = [EventSourcing()]
