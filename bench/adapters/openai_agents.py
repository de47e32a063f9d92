"""OpenAI's Agents SDK: `SQLiteSession`, one database for all sessions, and `TreeringSession`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..jobs import TEXT_1_KB
from ..peers.openai_agents import OpenAIAgents
from .ours import FLUSHED, host_in
from .side import Side

if TYPE_CHECKING:
    from agents.memory import Session, SQLiteSession

_ITEM: Any = {"role": "user", "content": TEXT_1_KB}


class _Sessions:
    def __init__(self, make: Callable[[str], Session]) -> None:
        self._make = make
        self._made: dict[int, Session] = {}

    def _session(self, number: int) -> Session:
        session = self._made.get(number)
        if session is None:
            session = self._made[number] = self._make(str(number))
        return session

    async def append(self, number: int) -> None:
        await self._session(number).add_items([_ITEM])

    async def load(self, number: int) -> int:
        return len(await self._session(number).get_items())


class _OpenAIAgents(Side):
    framework = "openai-agents"
    requirements = OpenAIAgents.requirements


class Theirs(_OpenAIAgents):
    """`SQLiteSession`: one thread hop and one transaction per call."""

    name = OpenAIAgents.name
    durability = OpenAIAgents.durability

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Sessions]:
        """Open all sessions over one database."""
        from agents.memory import SQLiteSession

        made: list[SQLiteSession] = []

        def make(name: str) -> Session:
            made.append(SQLiteSession(name, folder / "sessions.db"))
            return made[-1]

        yield _Sessions(make)
        for each in made:
            each.close()


class Ours(_OpenAIAgents):
    """`TreeringSession` over an open host."""

    name = "TreeringSession"
    durability = FLUSHED

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Sessions]:
        """Open all sessions over one host."""
        from treering.adapters.openai_agents import TreeringSession

        async with host_in(folder, "group") as host:
            yield _Sessions(lambda name: TreeringSession(name, host))


PEERS: list[Side] = [Theirs(), Ours()]
