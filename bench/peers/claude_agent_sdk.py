"""The session store of the Claude Agent SDK: a dictionary of lists, lost with the process."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any
from uuid import uuid4

from ..driving import append_all, on_loop
from ..jobs import TEXT_1_KB, Appends
from ..peer import Peer
from ..timing import Sample
from ..workspace import Workspace


class InMemory(Peer):
    """`InMemorySessionStore`: writes nothing, so it shows the cost of the interface alone."""

    name = "claude-agent-sdk InMemorySessionStore"
    durability = "nothing"
    requirements = ("claude-agent-sdk==0.2.189",)
    with_treering = True
    full_only = True

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append one entry per call."""
        from claude_agent_sdk import InMemorySessionStore

        store = InMemorySessionStore()

        def one(name: str) -> Awaitable[object]:
            entry: Any = {"type": "user", "uuid": str(uuid4()), "message": {"role": "user", "content": TEXT_1_KB}}
            return store.append({"project_key": "bench", "session_id": name}, [entry])

        async def run() -> Sample:
            return await append_all(job, [partial(one, str(number)) for number in range(job.sessions)])

        return on_loop(run)


PEERS: list[Peer] = [InMemory()]
