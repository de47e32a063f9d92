"""The Claude Agent SDK: `InMemorySessionStore`, the only store that it carries, and `TreeringSessionStore`.

The SDK's store is lost with the process, and so is the host beside it, which keeps its sessions in memory.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..jobs import TEXT_1_KB
from ..peers.claude_agent_sdk import InMemory
from .side import Side

if TYPE_CHECKING:
    from claude_agent_sdk import InMemorySessionStore, SessionStore

    from treering import SessionHost


class _Transcripts:
    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._last: dict[int, str] = {}

    async def append(self, number: int) -> None:
        uuid = str(uuid4())
        entry: Any = {
            "type": "user",
            "uuid": uuid,
            "parentUuid": self._last.get(number),
            "sessionId": str(number),
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": {"role": "user", "content": TEXT_1_KB},
        }
        self._last[number] = uuid
        await self._store.append({"project_key": "bench", "session_id": str(number)}, [entry])

    async def load(self, number: int) -> int:
        return len(await self._store.load({"project_key": "bench", "session_id": str(number)}) or [])


class _ClaudeAgentSDK(Side):
    framework = "claude-agent-sdk"
    requirements = InMemory.requirements
    durability = "nothing"


class Theirs(_ClaudeAgentSDK):
    """`InMemorySessionStore`: a dictionary of lists."""

    name = InMemory.name

    @cached_property
    def _store(self) -> InMemorySessionStore:
        from claude_agent_sdk import InMemorySessionStore

        return InMemorySessionStore()

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Transcripts]:
        """Open the one store of this process."""
        yield _Transcripts(self._store)


class Ours(_ClaudeAgentSDK):
    """`TreeringSessionStore` over an open host in memory."""

    name = "TreeringSessionStore"

    _host: SessionHost | None = None

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Transcripts]:
        """Open the one host of this process, which ends with it."""
        from treering import SessionHost
        from treering.adapters.claude_agent_sdk import TreeringSessionStore

        self._host = self._host or await SessionHost.start()
        yield _Transcripts(TreeringSessionStore(self._host))


PEERS: list[Side] = [Theirs(), Ours()]
