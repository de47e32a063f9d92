"""Turns that are suspended by a tool, and resumed with results from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from treering import (
    AgentHooks,
    AgentSession,
    CustomEntry,
    MessageEnd,
    NotSuspended,
    Session,
    SessionHost,
    Suspend,
    Tool,
    ToolExecutionEnd,
    ToolOutput,
    TurnInput,
    TurnSuspended,
    image,
    plain_text,
    tool,
    tool_use,
)
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


async def test_suspended_calls_get_only_their_own_results_or_are_closed_without(
    session: Session, deploy: Tool, add: Tool
) -> None:
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
