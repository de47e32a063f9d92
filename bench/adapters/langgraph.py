"""LangGraph: `AsyncSqliteSaver`, whose checkpoints contain all messages so far, and `TreeringSaver`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..jobs import TEXT_1_KB
from ..peers.langgraph import LangGraph
from .ours import FLUSHED, host_in
from .side import Side

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


class _Threads:
    """Conversations that are checkpointed as by a graph with a list of messages, a step for each."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver = saver
        self._said: dict[int, list[Any]] = {}
        self._last: dict[int, Any] = {}

    def _config(self, number: int) -> Any:  # noqa: ANN401  # of langchain
        return self._last.get(number) or {"configurable": {"thread_id": str(number), "checkpoint_ns": ""}}

    async def append(self, number: int) -> None:
        from langchain_core.messages import HumanMessage
        from langgraph.checkpoint.base import empty_checkpoint

        said = self._said.setdefault(number, [])
        said.append(HumanMessage(TEXT_1_KB, id=str(uuid4())))
        version = f"{len(said):032}.{0:016}"
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(said)}
        checkpoint["channel_versions"] = {"messages": version}
        metadata: Any = {"source": "loop", "step": len(said), "parents": {}}
        self._last[number] = await self._saver.aput(self._config(number), checkpoint, metadata, {"messages": version})

    async def load(self, number: int) -> int:
        found = await self._saver.aget_tuple(self._config(number))
        assert found is not None
        return len(found.checkpoint["channel_values"]["messages"])


class _LangGraph(Side):
    framework = "langgraph"
    requirements = LangGraph.requirements


class Theirs(_LangGraph):
    """`AsyncSqliteSaver`: one connection and one lock for all threads."""

    name = LangGraph.name
    durability = LangGraph.durability

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Threads]:
        """Open the database."""
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
            await saver.setup()
            yield _Threads(saver)


class Ours(_LangGraph):
    """`TreeringSaver` over an open host."""

    name = "TreeringSaver"
    durability = FLUSHED

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Threads]:
        """Open the host."""
        from treering.adapters.langgraph import TreeringSaver

        async with host_in(folder, "group") as host:
            yield _Threads(TreeringSaver(host))


PEERS: list[Side] = [Theirs(), Ours()]
