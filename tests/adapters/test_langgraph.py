"""LangGraph over sessions: its own conformance suite, real graphs, bytes that grow with what happened, both faces."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph.graph", reason="LangGraph is not installed: pip install -e '.[frameworks]'")

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

from treering import SessionHost, plain_text
from treering.adapters.hosting import close_shared
from treering.adapters.langgraph import TreeringSaver
from treering.errors import InvalidInput, WrongThread


@pytest.fixture
def anyio_backend() -> str:
    """The framework knows no other loop."""
    return "asyncio"


def of(thread_id: str, **more: str) -> RunnableConfig:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": thread_id, **more}}


@pytest.mark.feature("A-7", "A-8")
@pytest.mark.parametrize("shared", [True, False], ids=["root", "host"])
async def test_the_conformance_suite_passes_whole(tmp_path: Path, shared: bool) -> None:
    numbers = iter(range(1000))

    @checkpointer_test(name="treering")
    async def made() -> AsyncIterator[TreeringSaver]:
        root = tmp_path / str(next(numbers))
        if shared:
            yield TreeringSaver(root)
            return
        async with SessionHost(root) as host:
            yield TreeringSaver(host)

    report = await validate(made)
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert len(report.results) == 8
    assert all(result.detected and result.passed for result in report.results.values())
    await asyncio.to_thread(close_shared)


def talk(state: MessagesState) -> dict[str, Any]:
    """Answer with a call, and then with words."""
    last = state["messages"][-1]
    if isinstance(last, HumanMessage):
        return {"messages": [AIMessage("", tool_calls=[{"name": "look", "args": {"at": last.content}, "id": "c1"}])]}
    return {"messages": [AIMessage(f"It says {last.content}.", usage_metadata=USED)]}


def use(state: MessagesState) -> dict[str, Any]:
    """Run the tool, once a person has agreed."""
    agreed = interrupt("May I look?")
    return {"messages": [ToolMessage(f"seen ({agreed})", tool_call_id="c1")]}


USED: Any = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}


def talking(saver: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph with a tool that waits for a person."""
    graph = StateGraph(MessagesState)
    graph.add_node("talk", talk)
    graph.add_node("use", use)
    graph.add_edge(START, "talk")
    graph.add_conditional_edges("talk", lambda state: "use" if state["messages"][-1].tool_calls else END)
    graph.add_edge("use", "talk")
    return graph.compile(checkpointer=saver)


def said(messages: Sequence[BaseMessage]) -> list[object]:
    """Return the texts of messages."""
    return [each.content for each in messages]


@pytest.mark.feature("A-9")
async def test_a_graph_with_interrupts_time_travel_and_an_update_of_an_old_checkpoint(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        graph, config = talking(TreeringSaver(host)), of("parcel")
        stopped = await graph.ainvoke({"messages": [HumanMessage("the label")]}, config)
        assert stopped["__interrupt__"][0].value == "May I look?"
        done = await talking(TreeringSaver(host)).ainvoke(Command(resume="yes"), config)  # another object
        assert said(done["messages"]) == ["the label", "", "seen (yes)", "It says seen (yes)."]
        session = await host.get_or_create("parcel")
        assert [each.role for each in await session.messages()] == ["user", "assistant", "tool", "assistant"]
        assert (await session.total_usage()).output_tokens == 4
        assert {hit.session_id async for hit in host.search("seen")} == {session.id}
        history = [each async for each in graph.aget_state_history(config)]
        before_answer = next(each for each in history if each.next == ("talk",) and len(each.values["messages"]) == 3)
        changed = await graph.aupdate_state(
            before_answer.config,
            {"messages": [ToolMessage("torn", tool_call_id="c1", id=before_answer.values["messages"][-1].id)]},
        )
        branched = await graph.ainvoke(None, changed)
        assert said(branched["messages"])[2:] == ["torn", "It says torn."]
        assert said((await graph.aget_state(config)).values["messages"]) == said(branched["messages"])
        path = [plain_text(each.content) or each.content[0].type for each in await session.messages()]
        assert path[-1] == "It says torn."
        assert "It says seen (yes)." not in path
        everything = [plain_text(each.content) for each in await session.all_messages()]
        assert "It says seen (yes)." in everything  # on the branch that was left
        old = await graph.aget_state(before_answer.config)
        assert said(old.values["messages"])[2:] == ["seen (yes)"]


@pytest.mark.feature("A-9")
async def test_a_sub_graph_has_a_namespace_of_its_own(tmp_path: Path) -> None:
    inner = StateGraph(MessagesState)
    inner.add_node("ask", lambda state: {"messages": [HumanMessage(interrupt("inner?"))]})
    inner.add_edge(START, "ask")
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile(checkpointer=True))
    outer.add_edge(START, "inner")
    graph = outer.compile(checkpointer=TreeringSaver(tmp_path))
    config = of("nested")
    await graph.ainvoke({"messages": [HumanMessage("go")]}, config)
    state = await graph.aget_state(config, subgraphs=True)
    inside: Any = state.tasks[0].state
    assert inside.next == ("ask",)
    done = await graph.ainvoke(Command(resume="answered"), config)
    assert said(done["messages"])[-1] == "answered"
    await asyncio.to_thread(close_shared)


async def test_messages_that_a_graph_removes_leave_the_context(tmp_path: Path) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("forget", lambda state: {"messages": [RemoveMessage(id=state["messages"][0].id)]})
    graph.add_edge(START, "forget")
    async with SessionHost(tmp_path) as host:
        compiled = graph.compile(checkpointer=TreeringSaver(host))
        await compiled.ainvoke({"messages": [HumanMessage("a secret"), HumanMessage("the rest")]}, of("forgets"))
        session = await host.get_or_create("forgets")
        assert [plain_text(each.content) for each in await session.messages()] == ["the rest"]


class Growing(TypedDict):
    """A list that grows by one at each step."""

    steps: Annotated[list[str], operator.add]


async def run_growing(saver: BaseCheckpointSaver[Any], steps: int) -> list[list[str]]:
    """Run a graph that adds to a list, and return the list at each of its checkpoints, the first one first."""
    graph = StateGraph(Growing)
    graph.add_node("add", lambda state: {"steps": [f"step {len(state['steps'])}: " + "x" * 200]})
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", lambda state: END if len(state["steps"]) >= steps else "add")
    compiled = graph.compile(checkpointer=saver)
    config: Any = {**of("grows"), "recursion_limit": steps + 10}
    await compiled.ainvoke({"steps": []}, config)
    states = [each.values.get("steps", []) async for each in compiled.aget_state_history(config)]
    return states[::-1]


@pytest.mark.feature("A-10")
async def test_a_growing_list_costs_what_was_added(tmp_path: Path) -> None:
    await _bytes_grow_linearly(tmp_path, steps=150, ratio=2)


@pytest.mark.soak
@pytest.mark.feature("A-10")
@pytest.mark.timeout(900)
async def test_a_list_of_1732_steps_takes_a_twentieth_of_what_whole_values_take(tmp_path: Path) -> None:
    await _bytes_grow_linearly(tmp_path, steps=1732, ratio=20)


async def _bytes_grow_linearly(root: Path, *, steps: int, ratio: int) -> None:
    """Compare the bytes with those of the values alone, which savers that store each one whole need at least."""
    async with SessionHost(root / "ours") as host:
        states = await run_growing(TreeringSaver(host), steps)
    async with SessionHost(root / "ours") as host:  # read back from the files alone
        compiled = [each async for each in TreeringSaver(host).alist(of("grows"))][::-1]
        assert [each.checkpoint["channel_values"].get("steps", []) for each in compiled] == states
    assert states == await run_growing(InMemorySaver(), steps)
    serde = TreeringSaver(root / "unused").serde
    whole = sum(len(serde.dumps_typed(state)[1]) for state in states)
    ours = sum(each.stat().st_size for each in (root / "ours").rglob("*") if each.is_file())
    assert ours * ratio <= whole


@pytest.mark.feature("A-11")
def test_both_faces_of_one_host_from_loops_and_threads(tmp_path: Path) -> None:
    saver = TreeringSaver(tmp_path)
    graph = talking(saver)

    def blocking(number: int) -> None:
        config = of(f"thread-{number}")
        graph.invoke({"messages": [HumanMessage("hi")]}, config)
        graph.invoke(Command(resume="sure"), config)

    async def awaited(number: int) -> None:
        config = of(f"loop-{number}")
        await graph.ainvoke({"messages": [HumanMessage("hi")]}, config)
        await graph.ainvoke(Command(resume="sure"), config)

    async def several() -> None:
        await asyncio.gather(*map(awaited, range(4)))

    threads = [threading.Thread(target=blocking, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    asyncio.run(several())
    for each in threads:
        each.join()
    for name in [*(f"thread-{each}" for each in range(4)), *(f"loop-{each}" for each in range(4))]:
        assert said(graph.get_state(of(name)).values["messages"])[-1] == "It says seen (sure)."
    assert len({each.config["configurable"]["thread_id"] for each in saver.list(None)}) == 8
    close_shared()


@pytest.mark.feature("A-11")
async def test_the_blocking_face_serves_threads_of_a_host_and_refuses_its_own_loop(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        saver = TreeringSaver(host)
        with pytest.raises(WrongThread, match="async twin"):
            saver.get_tuple(of("any"))
        graph = talking(saver)
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0)

        beating = asyncio.ensure_future(beat())
        await asyncio.to_thread(graph.invoke, {"messages": [HumanMessage("hi")]}, of("any"))
        beating.cancel()
        assert beats > 10  # the loop went on
        assert (await saver.aget_tuple(of("any"))) is not None


async def test_a_config_without_a_thread_is_refused(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        with pytest.raises(InvalidInput, match="names no thread"):
            await TreeringSaver(host).aget_tuple({"configurable": {}})
        assert await host.list_sessions() == []
