"""Calls without results: suspended turns are resumed, and after a kill the next turn closes what is open."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Literal

import anyio
import pytest

from treering import AgentSession, Session, SessionHost, SyncHost, Tool, image, message, plain_text, tool, tool_use
from treering.agents import AgentHooks, MessageEnd, Recovered, Suspend, ToolExecutionEnd, ToolOutput, TurnInput
from treering.entries import CustomEntry, tool_result
from treering.errors import NotSuspended, TurnSuspended
from treering.sessions import Recovery
from treering.testing.models import ScriptedModel, answer

from .lines import PlainSession, as_lines, strictly_paired

CALLS = answer(
    [tool_use("d1", "deploy", {"to": "test"}), tool_use("d2", "deploy", {"to": "live"}), tool_use("a", "add", {"a": 1})]
)


@pytest.fixture
def deploy() -> Tool:
    @tool
    def deploy(to: str) -> str:  # runs in a thread
        """Deploy."""
        raise Suspend(f"may I deploy to {to}?", {"to": to})

    return deploy


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_suspended_turn_ends_once_all_its_calls_have_results(
    dialect: Literal["native", "pi"], tmp_path: Path, deploy: Tool, add: Tool
) -> None:
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create("main")
        agent = AgentSession(ScriptedModel([CALLS]), session=session, tools=[deploy, add])
        turn = await agent.respond("Deploy")
        assert turn.stop_reason == "suspended"
        assert [(each.id, each.reason, each.data) for each in turn.pending] == [
            ("d1", "may I deploy to test?", {"to": "test"}),
            ("d2", "may I deploy to live?", {"to": "live"}),
        ]
        assert [each.message_id for each in turn.pending] == [turn.entry_ids[1]] * 2
        assert as_lines(turn.messages)[2:] == ["tool: 2"]
        assert any(isinstance(each, CustomEntry) for each in await session.entries())

    async with SessionHost(tmp_path) as host:
        session = await host.load("main")
        model = ScriptedModel(["Deployed.", "Bye."])
        agent = AgentSession(model, session=session, tools=[deploy, add])
        waiting = {each.id: each for each in await session.open_calls()}
        assert [each.suspended for each in waiting.values()] == [True, True]
        assert waiting["d2"].input == {"to": "live"}
        for prompt in ("And?", None):
            with pytest.raises(TurnSuspended):
                await agent.respond(prompt)
        turn = await agent.resume({"d2": ToolOutput("no, not live", is_error=True)})
        assert (turn.stop_reason, [each.id for each in turn.pending]) == ("suspended", ["d1"])
        assert model.requests == []
        async with agent.stream_resume({"d1": "deployed"}) as events:
            kinds = [type(event) async for event in events]
        assert kinds.count(ToolExecutionEnd) == kinds.count(MessageEnd) == 1
        assert (events.turn.stop_reason, events.turn.text) == ("stop", "Deployed.")
        assert as_lines(await session.messages()) == [
            "user: Deploy",
            "assistant: calls deploy d1 | calls deploy d2 | calls add a",
            *("tool: 2", "tool: !no, not live", "tool: deployed", "assistant: Deployed."),
        ]
        with pytest.raises(NotSuspended):
            await agent.resume({"d1": "deployed"})
        await agent.respond("Goodbye")


async def test_suspended_calls_get_their_own_results_or_none_at_all(session: Session, deploy: Tool, add: Tool) -> None:
    agent = AgentSession(ScriptedModel([CALLS, "Never mind."]), session=session, tools=[deploy, add])
    with pytest.raises(NotSuspended, match="no call waits"):
        await agent.resume({})
    await agent.respond("Deploy")
    before = session.cursor
    with pytest.raises(NotSuspended, match="'a' waits"):
        await agent.resume({"d1": "ok", "a": "3"})
    assert session.cursor == before
    assert len((await agent.resume({})).pending) == 2
    assert await session.close_open_calls() == []  # suspended calls are not closed by default
    assert len(await session.close_open_calls(suspended=True)) == 2
    assert (await agent.respond("Forget it")).text == "Never mind."


async def test_a_suspended_turn_can_be_retried(session: Session, deploy: Tool, add: Tool) -> None:
    agent = AgentSession(ScriptedModel([CALLS, "No tools then."]), session=session, tools=[deploy, add])
    await agent.respond("Deploy")
    await agent.retry()
    assert as_lines(await session.messages()) == ["user: Deploy", "assistant: No tools then."]


ONE_CALL = answer(tool_use("d1", "deploy", {"to": "test"}))


async def test_a_suspended_turn_of_a_plain_session_can_be_resumed(deploy: Tool) -> None:
    session = PlainSession()
    seen: list[TurnInput] = []

    async def look(turn: TurnInput) -> None:
        seen.append(turn)

    hooks = AgentHooks(pre_generation=(look,))
    agent = AgentSession(ScriptedModel([ONE_CALL, "Done.", "Bye."]), session=session, tools=[deploy], hooks=hooks)
    turn = await agent.respond("Deploy")
    assert [each.id for each in turn.pending] == ["d1"]
    turn = await agent.resume({"d1": "ok"})
    assert plain_text(turn.messages[-1].content) == "Done."
    assert [as_lines(messages) for messages, _ in session.turns] == [
        ["user: Deploy", "assistant: calls deploy d1"],
        ["tool: ok", "assistant: Done."],
    ]
    assert [len(each.input) for each in seen] == [1, 0]
    await agent.respond("Goodbye")
    with pytest.raises(NotSuspended):
        await AgentSession(ScriptedModel([])).resume({"d1": "ok"})


async def test_new_input_closes_the_suspended_calls_of_a_PlainSession(deploy: Tool) -> None:
    session = PlainSession()
    model = ScriptedModel([ONE_CALL, "Never mind."])
    agent = AgentSession(model, session=session, tools=[deploy])
    await agent.respond("Deploy")
    turn = await agent.respond("Forget it")
    assert as_lines(turn.messages) == [
        "tool: ![no result: the turn ended before the tool answered]",
        *("user: Forget it", "assistant: Never mind."),
    ]
    assert strictly_paired(await session.messages())
    assert model.last_request.messages == tuple(await session.messages())[:-1]


async def test_a_resumed_turn_continues_if_the_dialect_cannot_hold_a_result(tmp_path: Path, deploy: Tool) -> None:
    async with SessionHost(tmp_path, dialect="pi") as host:
        session = await host.create()
        calls = answer([tool_use("1", "deploy", {"to": "test"}), tool_use("2", "deploy", {"to": "live"})])
        agent = AgentSession(ScriptedModel([calls, "Oh."]), session=session, tools=[deploy])
        await agent.respond("Deploy")
        turn = await agent.resume({"1": "fine", "2": image("https://example.org/a.png", "image/png", kind="url")})
        assert turn.text == "Oh."
        assert await session.open_calls() == []


CHILD = Path(__file__).with_name("crashing_child.py")
CLOSED = "!" + "[no result: the turn ended before the tool answered]"
Kill = Callable[[Path, str, str], list[str]]


@pytest.fixture(scope="module")
def kill_agent() -> Generator[Kill]:
    """Kill an agent at a point of its turn. The call returns the lines that the agent printed before."""
    with subprocess.Popen([sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        orders, answers = process.stdin, process.stdout
        assert orders is not None
        assert answers is not None

        def kill(root: Path, dialect: str, point: str) -> list[str]:
            orders.write(f"{root} {dialect} {point}\n".encode())
            orders.flush()
            pid = int(answers.readline().split()[1])
            printed: list[str] = []
            while (line := answers.readline().decode()) != f"at {point}\n":
                printed.append(line)
            os.kill(pid, signal.SIGKILL)
            assert answers.readline() == b"gone\n"
            return printed

        yield kill
        orders.close()


ASKED = ["user: Hello", "assistant: calls run c1 | calls run c2"]


@pytest.mark.feature("N-1", "N-129")
def test_the_users_message_is_kept_if_the_agent_is_killed_while_it_asks(kill_agent: Kill, tmp_path: Path) -> None:
    kill_agent(tmp_path, "native", "asking")

    async def check() -> None:
        async with SessionHost(tmp_path) as host:
            session = await host.load("main")
            assert as_lines(await session.messages()) == ["user: Hello"]
            assert (await AgentSession(ScriptedModel(["Hi!"]), session=session).respond()).text == "Hi!"

    anyio.run(check)


@pytest.mark.feature("G-129", "N-132", "U-7")
@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("point", ["answered", "between"])
def test_an_answer_is_kept_and_the_next_turn_closes_the_calls_of_tools_that_were_killed(
    kill_agent: Kill, tmp_path: Path, dialect: str, point: str
) -> None:
    printed = kill_agent(tmp_path, dialect, point)

    async def check() -> None:
        async with SessionHost(tmp_path) as host:
            session = await host.load("main")
            for line in printed:  # acknowledged as the answer's id
                assert await session.entry(line.split()[1]) is not None
            assert as_lines(await session.messages())[:2] == ASKED
            assert not strictly_paired(await session.messages())
            model = ScriptedModel(["I see."])
            await AgentSession(model, session=session).respond("Go on")
            if point == "between":
                expected = [*ASKED, "tool: one", f"tool: {CLOSED}", "user: Go on"]
                assert as_lines(model.last_request.messages) == expected
            assert strictly_paired(model.last_request.messages)
            # The results that closed calls are in the log.
            assert as_lines(await session.messages()) == [*as_lines(model.last_request.messages), "assistant: I see."]

    anyio.run(check)


@pytest.mark.feature("N-137")
def test_recover_reports_and_repairs_a_torn_tail_and_open_calls_once(kill_agent: Kill, tmp_path: Path) -> None:
    kill_agent(tmp_path, "native", "torn")
    kill_agent(tmp_path / "streamed", "native", "torn")

    async def check() -> None:
        async with SessionHost(tmp_path) as host:
            session = await host.load("main")
            report = await session.recover()
            assert report
            assert report.torn_tail is not None
            assert report.torn_tail.size == 31
            assert report.torn_tail.kept_in is not None
            assert await anyio.Path(report.torn_tail.kept_in).read_bytes() == b'{"type":"message","id":"half of'
            assert [(each.id, each.name, each.input) for each in report.closed_calls] == [("c2", "run", {"n": 2})]
            assert report.result_ids == (session.leaf_id,)
            assert strictly_paired(await session.messages())
            assert not await session.recover()
        async with SessionHost(tmp_path) as host:
            assert not await (await host.load("main")).recover()
        async with SessionHost(tmp_path / "streamed") as host:
            agent = AgentSession(ScriptedModel(["I see.", "Bye."]), session=await host.load("main"))
            found: list[Recovery] = []
            for text in ("Go on", "Goodbye"):
                async with agent.stream(text) as events:
                    found += [event.recovery async for event in events if isinstance(event, Recovered)]
            assert [len(each.closed_calls) for each in found] == [1]
            assert found[0].torn_tail is not None

    anyio.run(check)


def test_a_suspended_turn_can_be_resumed_in_another_process(kill_agent: Kill, tmp_path: Path) -> None:
    kill_agent(tmp_path, "native", "waiting")

    async def check() -> None:
        async with SessionHost(tmp_path) as host:
            session = await host.load("main")
            agent = AgentSession(ScriptedModel(["Done."]), session=session)
            assert not (await session.recover()).closed_calls
            with pytest.raises(TurnSuspended, match="pass them to `resume`") as refused:
                await agent.respond("Are you done?")
            assert refused.value.call_ids == ("c2",)
            (waits,) = await session.open_calls()
            assert (waits.reason, waits.data, waits.input) == ("needs a person's word", {"ask": "Ada"}, {"n": 2})
            assert (await agent.resume({"c2": "two"})).text == "Done."
            assert as_lines(await session.messages()) == [*ASKED, "tool: one", "tool: two", "assistant: Done."]

    anyio.run(check)


async def append_open_calls(session: Session) -> None:
    await session.append_message("user", "Read them")
    await session.append_message("assistant", [tool_use(name, "read", {"path": name}) for name in ("a", "b", "c")])
    await session.append_tool_execution("b", "read", {"path": "b"}, "B")


@pytest.mark.feature("U-7")
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_open_calls_are_closed_once_and_in_one_batch(dialect: Literal["native", "pi"], tmp_path: Path) -> None:
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create("main")
        await append_open_calls(session)
        assert [each.id for each in await session.open_calls()] == ["a", "c"]
        ids = await session.close_open_calls()
        assert len(ids) == 2
        entries = {each.id: each for each in await session.entries()}
        batches = [entries[entry_id].batch for entry_id in ids]
        assert [each and (each.i, each.n) for each in batches] == [(0, 2), (1, 2)]
        before = session.cursor
        assert await session.close_open_calls() == []
        assert session.cursor == before
        messages = await session.messages()
        assert as_lines(messages)[2:] == ["tool: B", f"tool: {CLOSED}", f"tool: {CLOSED}"]
        assert [each.tool_name for each in messages[2:]] == ["read"] * 3
        assert strictly_paired(messages)


async def test_after_open_calls_are_closed_requests_begin_as_before(session: Session) -> None:
    model = ScriptedModel(["1", "2"])
    await append_open_calls(session)
    agent = AgentSession(model, session=session)
    await agent.respond("Go on")
    await agent.respond("And?")
    first, second = (each.messages for each in model.requests)
    assert second[: len(first)] == first


async def test_concurrent_attempts_close_each_open_call_once(session: Session) -> None:
    await append_open_calls(session)
    ids: list[str] = []

    async def close() -> None:
        ids.extend(await session.close_open_calls())

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(close)
            group.start_soon(session.set_label, session.path()[0], "begin")
    assert len(ids) == 2
    assert strictly_paired(await session.messages())


async def test_only_calls_of_the_last_assistant_message_are_open(session: Session) -> None:
    await append_open_calls(session)
    await session.append_message("assistant", [tool_use("d", "read", {})])
    await session.append_message("user", "Wait")
    assert [each.id for each in await session.open_calls()] == ["d"]
    await session.append_message("tool", tool_result("d", "D"))
    await session.append_message("assistant", "All read.")
    assert await session.open_calls() == []
    await session.append_message("assistant", [tool_use("e", "read", {})])
    assert [each.id for each in await session.open_calls()] == ["e"]
    await session.reset_leaf()
    assert await session.open_calls() == []


def test_open_calls_can_be_closed_through_the_blocking_facade(tmp_path: Path) -> None:
    with SyncHost(tmp_path) as host:
        session = host.create("main")
        session.append(message("assistant", tool_use("a", "read", {})))
        assert [each.id for each in session.open_calls()] == ["a"]
        assert len(session.close_open_calls()) == 1
        assert session.open_calls() == []
        assert not session.recover()
