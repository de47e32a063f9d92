"""Strands Agents: `FileSessionManager` and `TreeringSessionRepository`; both block, so each call has a thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from ..jobs import TEXT_1_KB
from ..peers.strands import Strands
from .ours import WRITTEN
from .side import Side

if TYPE_CHECKING:
    from strands.session.session_repository import SessionRepository

_AGENT = "agent"


class _Conversations:
    def __init__(self, repository: Callable[[str], SessionRepository]) -> None:
        self._repository = repository
        self._made: dict[int, SessionRepository] = {}
        self._counts: Counter[int] = Counter()

    async def append(self, number: int) -> None:
        await anyio.to_thread.run_sync(self._append, number)

    async def load(self, number: int) -> int:
        return await anyio.to_thread.run_sync(self._load, number)

    def _append(self, number: int) -> None:
        from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

        name = str(number)
        repository = self._made.get(number)
        if repository is None:
            repository = self._made[number] = self._repository(name)
            if repository.read_session(name) is None:  # a manager of files creates its own
                repository.create_session(Session(session_id=name, session_type=SessionType.AGENT))
            agent = SessionAgent(agent_id=_AGENT, state={}, conversation_manager_state={})
            repository.create_agent(name, agent)
        message = {"role": "user", "content": [{"text": TEXT_1_KB}]}
        repository.create_message(name, _AGENT, SessionMessage(message=message, message_id=self._counts[number]))
        self._counts[number] += 1

    def _load(self, number: int) -> int:
        name = str(number)
        return len(self._repository(name).list_messages(name, _AGENT))


class _Strands(Side):
    framework = "strands"
    requirements = Strands.requirements


class Theirs(_Strands):
    """`FileSessionManager`: one file per message."""

    name = Strands.name
    durability = Strands.durability

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Conversations]:
        """Name the folder; each call opens files."""
        from strands.session.file_session_manager import FileSessionManager

        yield _Conversations(lambda name: FileSessionManager(session_id=name, storage_dir=str(folder)))


class Ours(_Strands):
    """`TreeringSessionRepository` over a root, whose host has a thread of its own."""

    name = "TreeringSessionRepository"
    durability = WRITTEN

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Conversations]:
        """Open the root."""
        from treering.adapters.hosting import close_shared
        from treering.adapters.strands import TreeringSessionRepository

        repository = TreeringSessionRepository(folder / "sessions")
        try:
            yield _Conversations(lambda _: repository)
        finally:
            await anyio.to_thread.run_sync(close_shared)


PEERS: list[Side] = [Theirs(), Ours()]
