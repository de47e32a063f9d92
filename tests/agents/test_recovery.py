"""After a kill in the middle of a turn, acknowledged entries are there, and the next turn closes open calls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Literal

import anyio
import pytest

from treering import (
    AgentSession,
    Recovered,
    Recovery,
    Session,
    SessionHost,
    SyncHost,
    TurnSuspended,
    message,
    tool_result,
    tool_use,
)
from treering.testing.models import ScriptedModel

from .lines import as_lines, strictly_paired

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
def test_the_user_s_message_is_kept_if_the_agent_is_killed_while_it_asks_the_model(
    kill_agent: Kill, tmp_path: Path
) -> None:
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


# -- closing open calls


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
