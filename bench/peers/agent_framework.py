"""Microsoft Agent Framework's file history: JSON lines, written with msgspec."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..driving import append_all, on_loop
from ..jobs import TEXT_1_KB, Appends, Reads
from ..peer import Peer
from ..timing import Sample, timed
from ..workspace import Workspace


class AgentFramework(Peer):
    """`FileHistoryProvider`: reads the whole file before each append, to skip messages that are already stored."""

    name = "agent-framework FileHistoryProvider"
    durability = "a process crash"
    requirements = ("agent-framework-core==1.23.0",)
    with_treering = True
    full_only = True

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Save one message per call."""
        from agent_framework import FileHistoryProvider, Message

        provider = FileHistoryProvider(space.new_folder())

        async def one(name: str) -> None:
            await provider.save_messages(name, [Message("user", [TEXT_1_KB])])

        async def run() -> Sample:
            return await append_all(job, [partial(one, str(number)) for number in range(job.sessions)])

        return on_loop(run)

    def read(self, job: Reads, space: Workspace) -> Sample:
        """Get all messages of a session."""
        from agent_framework import FileHistoryProvider, Message

        def make(folder: Path) -> None:
            async def fill() -> Sample:
                messages = [Message("user", [TEXT_1_KB]) for _ in range(job.entries)]
                await FileHistoryProvider(folder).save_messages("long", messages)
                return Sample()

            on_loop(fill)

        folder = space.cached_folder(f"agent-framework-{job.entries}", make)

        async def run() -> Sample:
            sample = Sample()
            with timed(sample):
                messages = await FileHistoryProvider(folder).get_messages("long")
            assert len(messages) == job.entries
            return sample

        return on_loop(run)


PEERS: list[Peer] = [AgentFramework()]
