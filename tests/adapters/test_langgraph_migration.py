"""Databases of LangGraph's SQLite savers, made by real graphs: imported, gone on with, and imported again."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest

pytest.importorskip("langgraph.graph", reason="LangGraph is not installed: pip install -e '.[frameworks]'")
saving = pytest.importorskip(
    "langgraph.checkpoint.sqlite.aio", reason="its SQLite saver is not: `make interop` does it"
)

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

from treering import SessionHost, plain_text
from treering.adapters.langgraph import TreeringSaver
from treering.entries import ContextEditEntry


@pytest.fixture
def anyio_backend() -> str:
    """Graphs run on asyncio."""
    return "asyncio"


@dataclass
class Place:
    """A value of a class that nobody but this test knows."""

    name: str


class State(TypedDict, total=False):
    """What the graph keeps."""

    messages: Annotated[list[AnyMessage], add_messages]
    seen: Annotated[list[Any], operator.add]
    odd: Any


def graph_of(saver: BaseCheckpointSaver[Any]) -> Any:  # noqa: ANN401  # a compiled graph
    """Return a graph with a tool, a sub-graph, tasks side by side and an interrupt."""

    def ask(state: State) -> State:
        call = {"name": "find", "args": {"parcel": 7}, "id": f"c{len(state['messages'])}", "type": "tool_call"}
        usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
        answer = AIMessage("I look it up.", tool_calls=[call], usage_metadata=usage)
        return {"messages": [answer], "odd": {1: {"x"}, "at": datetime(2026, 5, 1, tzinfo=UTC)}}

    def find(state: State) -> State:
        asking = state["messages"][-1]
        assert isinstance(asking, AIMessage)
        (call,) = asking.tool_calls
        return {"messages": [ToolMessage("in Basel", tool_call_id=call["id"])], "seen": [b"\x00\xff", ("a", 1), None]}

    def look(state: State) -> State:
        return {"seen": [len(state.get("seen", []))]}

    def allow(state: State) -> State:
        said = interrupt({"may I": "send it"})
        return {"messages": [AIMessage(f"{said}.")], "odd": [Place("Basel"), UUID(int=7), "\ud83d\ude00"]}

    inner = StateGraph(State).add_node("look", look).add_edge(START, "look").add_edge("look", END).compile()
    graph = StateGraph(State).add_node("ask", ask).add_node("find", find).add_node("inner", inner)
    graph = graph.add_node("allow", allow).add_node("look", look).add_edge(START, "ask").add_edge("ask", "find")
    graph = graph.add_conditional_edges("find", lambda state: [Send("inner", state), Send("look", state)])
    return graph.add_edge("inner", "allow").add_edge("look", "allow").add_edge("allow", END).compile(checkpointer=saver)


def named(thread: str, **more: str) -> Any:  # noqa: ANN401  # a config
    """Return what names a thread."""
    return {"configurable": {"thread_id": thread, **more}}


async def told(saver: BaseCheckpointSaver[Any], thread: str) -> Sequence[CheckpointTuple]:
    """Return all checkpoints of a thread."""
    return [each async for each in saver.alist(named(thread))]


async def alike(here: TreeringSaver, there: BaseCheckpointSaver[Any], thread: str) -> None:
    """Assert that two savers have the same checkpoints, each with the same values and the same waiting writes."""
    mine, theirs = await told(here, thread), await told(there, thread)
    key = lambda each: (each.config["configurable"]["checkpoint_ns"], each.config["configurable"]["checkpoint_id"])
    assert len(mine) == len(theirs) > 0
    for one, other in zip(sorted(mine, key=key), sorted(theirs, key=key), strict=True):
        assert one == other


async def stored(host: SessionHost, key: str) -> list[Any]:
    """Return the entries of a session, each with its place: all but writes, which come one or several at a time."""
    session = await host.get_or_create(key)
    entries = [each async for each in session.iter_entries() if "langgraph.writes" not in str(each)]
    places = {each.id: at for at, each in enumerate(entries)}
    return [
        (
            places.get(entry.parent_id),
            entry.aside,
            None if isinstance(entry, ContextEditEntry) else getattr(entry, entry.type),  # which names another entry
        )
        for entry in entries
    ]


async def test_threads_of_the_saver_go_on_here(root: str, tmp_path: Path) -> None:
    file = tmp_path / "checkpoints.db"
    async with saving.AsyncSqliteSaver.from_conn_string(str(file)) as before:
        graph, thread = graph_of(before), named("user:42")
        await graph.ainvoke({"messages": [HumanMessage("Where is it?")]}, thread)  # it waits for a person
        await graph.ainvoke({"messages": [HumanMessage("Hello")]}, named("ann/2"))
        async with SessionHost(root) as host:
            reports = await host.import_sessions(file)
            assert [(each.format, each.findings) for each in reports] == [("langgraph", ())] * 2
            here = TreeringSaver(host)
            for each in ("user:42", "ann/2"):
                await alike(here, before, each)
            own = await host.get_or_create("user:42")
            assert [plain_text(each.content) for each in await own.messages()][:2] == ["Where is it?", "I look it up."]
            assert {each.added for each in await host.import_sessions(file)} == {0}  # nothing new

            await graph.ainvoke(Command(resume="sent"), thread)  # meanwhile there
            first = [each async for each in graph.aget_state_history(thread)][-3].config
            await graph.aupdate_state(first, {"messages": [HumanMessage("And the other one?")]})  # from an old one on
            await graph.ainvoke(None, first)
            last = (await graph.aget_state(thread)).values["messages"][-1]
            await graph.aupdate_state(thread, {"messages": [RemoveMessage(last.id)]})  # taken back
            assert any(each.added for each in await host.import_sessions(file))
            assert {each.added for each in await host.import_sessions(file)} == {0}
            await alike(here, before, "user:42")

            over = graph_of(here)  # and on, on both sides alike
            for each in (graph, over):
                await each.ainvoke(Command(resume="done"), named("ann/2"))
                await each.ainvoke({"messages": [HumanMessage("Thanks")]}, named("ann/2"))
            states = [(await each.aget_state(named("ann/2"))).values for each in (graph, over)]
            contents = [[(each.type, each.content) for each in state["messages"]] for state in states]
            assert contents[0] == contents[1]
            assert states[0]["seen"] == states[1]["seen"]
            assert states[0]["odd"] == states[1]["odd"]
            await alike(here, before, "user:42")


async def test_entries_are_those_that_the_adapter_makes(tmp_path: Path) -> None:
    """What the adapter is given in the order in which the saver was, it stores as an import does."""
    file = tmp_path / "checkpoints.db"
    async with (
        saving.AsyncSqliteSaver.from_conn_string(str(file)) as before,
        SessionHost() as host,
        SessionHost() as apart,
    ):
        graph = graph_of(before)
        for words in ("one", "two", "three"):
            await graph.ainvoke({"messages": [HumanMessage(words)]}, named("t"))
            await graph.ainvoke(Command(resume=words), named("t"))
        last = (await graph.aget_state(named("t"))).values["messages"][-1]
        await graph.aupdate_state(named("t"), {"messages": [RemoveMessage(last.id)]})
        await host.import_sessions(file)
        here = TreeringSaver(apart)
        cursor = await before.conn.execute("SELECT checkpoint_ns, checkpoint_id FROM checkpoints ORDER BY rowid")
        for namespace, checkpoint_id in await cursor.fetchall():
            each = await before.aget_tuple(named("t", checkpoint_ns=namespace, checkpoint_id=checkpoint_id))
            assert each is not None
            above = each.parent_config or named("t", checkpoint_ns=namespace)
            await here.aput(above, each.checkpoint, each.metadata, {})
            tasks = await before.conn.execute(
                "SELECT task_id, task_path FROM writes WHERE checkpoint_ns = ? AND checkpoint_id = ? "
                "GROUP BY task_id ORDER BY min(rowid)",
                (namespace, checkpoint_id),
            )
            for task, path in await tasks.fetchall():
                writes = [(channel, value) for of, channel, value in each.pending_writes or [] if of == task]
                await here.aput_writes(each.config, writes, task, path)
        assert await stored(host, "t") == await stored(apart, "t")
