"""Strands Agents' file session manager: one file per message."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ..driving import append_all_in_turn
from ..jobs import TEXT_1_KB, Appends, Reads
from ..peer import Peer
from ..timing import Sample, timed
from ..workspace import Workspace

if TYPE_CHECKING:
    from strands.session.file_session_manager import FileSessionManager

_AGENT = "agent"


def _manager(folder: Path, name: str) -> FileSessionManager:
    from strands.session.file_session_manager import FileSessionManager
    from strands.types.session import SessionAgent

    manager = FileSessionManager(session_id=name, storage_dir=str(folder))
    if manager.read_agent(name, _AGENT) is None:
        manager.create_agent(name, SessionAgent(agent_id=_AGENT, state={}, conversation_manager_state={}))
    return manager


def _appender(manager: FileSessionManager, name: str) -> Callable[[], object]:
    from strands.types.session import SessionMessage

    numbers = count()

    def append() -> None:
        message = SessionMessage(message={"role": "user", "content": [{"text": TEXT_1_KB}]}, message_id=next(numbers))
        manager.create_message(name, _AGENT, message)

    return append


class Strands(Peer):
    """`FileSessionManager`: its calls block, even on the event loop of an agent."""

    name = "strands FileSessionManager"
    durability = "a process crash (one file per message, renamed into place)"
    requirements = ("strands-agents==1.62.0",)
    with_treering = True

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Create one message per call."""
        folder = space.new_folder()
        names = [str(number) for number in range(job.sessions)]
        return append_all_in_turn(job, [_appender(_manager(folder, name), name) for name in names])

    def read(self, job: Reads, space: Workspace) -> Sample | None:
        """List all messages of a session."""
        if job.entries > 10_000:
            return None  # one file per message

        def make(folder: Path) -> None:
            append = _appender(_manager(folder, "long"), "long")
            for _ in range(job.entries):
                append()

        folder = space.cached_folder(f"strands-{job.entries}", make)
        sample = Sample()
        with timed(sample):
            messages = _manager(folder, "long").list_messages("long", _AGENT)
        assert len(messages) == job.entries
        return sample


PEERS: list[Peer] = [Strands()]
