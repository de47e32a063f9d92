"""LangGraph's checkpointer for SQLite: each checkpoint contains the whole list of messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..driving import append_all, on_loop
from ..jobs import TEXT_1_KB, Appends, Reads
from ..peer import Peer
from ..timing import Sample, timed
from ..workspace import Workspace

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


class _Thread:
    """One conversation, checkpointed like a graph with a single list of messages."""

    def __init__(self, saver: AsyncSqliteSaver, name: str) -> None:
        self._saver = saver
        self._config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        self._messages: list[dict[str, str]] = []

    async def append(self) -> None:
        """Write a checkpoint with one more message."""
        from langgraph.checkpoint.base import empty_checkpoint

        self._messages.append({"id": str(uuid4()), "role": "user", "content": TEXT_1_KB})
        version = str(len(self._messages))
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": self._messages}
        checkpoint["channel_versions"] = {"messages": version}
        metadata: Any = {"source": "loop", "step": len(self._messages), "parents": {}}
        self._config = await self._saver.aput(self._config, checkpoint, metadata, {"messages": version})


class LangGraph(Peer):
    """`AsyncSqliteSaver`: one connection and one lock for all threads."""

    name = "langgraph AsyncSqliteSaver"
    durability = "a power cut (WAL, one flush per commit)"
    requirements = ("langgraph==1.2.24", "langgraph-checkpoint==4.3.2", "langgraph-checkpoint-sqlite==3.1.2")
    with_treering = True
    full_only = True

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Write one checkpoint per message."""
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        folder = space.new_folder()

        async def run() -> Sample:
            async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
                await saver.setup()
                return await append_all(job, [_Thread(saver, str(number)).append for number in range(job.sessions)])

        return on_loop(run)

    def read(self, job: Reads, space: Workspace) -> Sample | None:
        """Get the latest checkpoint, which holds the whole history."""
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        if job.entries > 1_000:
            return None  # the bytes to write beforehand grow quadratically

        def make(folder: Path) -> None:
            async def fill() -> Sample:
                async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
                    thread = _Thread(saver, "long")
                    for _ in range(job.entries):
                        await thread.append()
                return Sample()

            on_loop(fill)

        folder = space.cached_folder(f"langgraph-{job.entries}", make)

        async def run() -> Sample:
            sample = Sample()
            async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
                with timed(sample):
                    checkpoint = await saver.aget_tuple({"configurable": {"thread_id": "long", "checkpoint_ns": ""}})
                assert checkpoint is not None
                assert len(checkpoint.checkpoint["channel_values"]["messages"]) == job.entries
            return sample

        return on_loop(run)


PEERS: list[Peer] = [LangGraph()]
