"""Microsoft's Agent Framework: `FileHistoryProvider` and `TreeringHistoryProvider`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..jobs import TEXT_1_KB
from ..peers.agent_framework import AgentFramework
from .ours import WRITTEN, host_in
from .side import Side

if TYPE_CHECKING:
    from agent_framework import HistoryProvider


class _Histories:
    def __init__(self, provider: HistoryProvider) -> None:
        self._provider = provider

    async def append(self, number: int) -> None:
        from agent_framework import Message

        await self._provider.save_messages(str(number), [Message("user", [TEXT_1_KB])])

    async def load(self, number: int) -> int:
        return len(await self._provider.get_messages(str(number)))


class _AgentFramework(Side):
    framework = "agent-framework"
    requirements = AgentFramework.requirements


class Theirs(_AgentFramework):
    """`FileHistoryProvider`: reads the whole file before each append."""

    name = AgentFramework.name
    durability = AgentFramework.durability

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Histories]:
        """Name the folder; each call opens a file."""
        from agent_framework import FileHistoryProvider

        yield _Histories(FileHistoryProvider(folder))


class Ours(_AgentFramework):
    """`TreeringHistoryProvider` over an open host."""

    name = "TreeringHistoryProvider"
    durability = WRITTEN

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Histories]:
        """Open the host."""
        from treering.adapters.agent_framework import TreeringHistoryProvider

        async with host_in(folder, "os") as host:
            yield _Histories(TreeringHistoryProvider(host))


PEERS: list[Side] = [Theirs(), Ours()]
