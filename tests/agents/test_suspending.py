"""A turn that waits for something outside, and goes on when that has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from treering import (
    AgentHooks,
    AgentSession,
    CustomEntry,
    Message,
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

Told = Callable[[Sequence[Message]], list[str]]
CALLS = answer(
    [tool_use("d1", "deploy", {"to": "test"}), tool_use("d2", "deploy", {"to": "live"}), tool_use("a", "add", {"a": 1})]
)


@pytest.fixture
def deploy() -> Tool:
    @tool
    async def deploy(to: str) -> str:
        """Deploy."""
        raise Suspend(f"may I deploy to {to}?", {"to": to})

    return deploy


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_suspended_turn_waits_and_goes_on(
    dialect: Literal["native", "pi"], tmp_path: Path, deploy: Tool, add: Tool, told: Told
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
        assert told(turn.messages)[2:] == ["tool: 2"]
        assert any(isinstance(each, CustomEntry) for each in await session.entries())

    async with SessionHost(tmp_path) as host:  # as in another process
        session = await host.load("main")
        model = ScriptedModel(["Deployed."])
        agent = AgentSession(model, session=session, tools=[deploy, add])
        waiting = {each.id: each for each in await session.open_calls()}
        assert [each.suspended for each in waiting.values()] == [True, True]
        assert waiting["d2"].input == {"to": "live"}
        with pytest.raises(TurnSuspended):
            await agent.respond("And?")
        with pytest.raises(TurnSuspended):
            await agent.respond()

        turn = await agent.resume({"d2": ToolOutput("no, not live", is_error=True)})
        assert (turn.stop_reason, [each.id for each in turn.pending]) == ("suspended", ["d1"])
        assert model.requests == []
        turn = await agent.resume({"d1": "deployed"})
        assert (turn.stop_reason, turn.text) == ("stop", "Deployed.")
        assert told(await session.messages()) == [
            "user: Deploy",
            "assistant: calls deploy d1 | calls deploy d2 | calls add a",
            "tool: 2",
            "tool: !no, not live",
            "tool: deployed",
            "assistant: Deployed.",
        ]
        with pytest.raises(NotSuspended):
            await agent.resume({"d1": "deployed"})
        await AgentSession(ScriptedModel(["Bye."]), session=session).respond("Goodbye")


async def test_only_what_waits_can_be_answered(session: Session, deploy: Tool, add: Tool) -> None:
    agent = AgentSession(ScriptedModel([CALLS]), session=session, tools=[deploy, add])
    with pytest.raises(NotSuspended, match="no call waits"):
        await agent.resume({})
    await agent.respond("Deploy")
    before = session.cursor
    with pytest.raises(NotSuspended, match="'a' waits"):
        await agent.resume({"d1": "ok", "a": "3"})
    assert session.cursor == before
    turn = await agent.resume({})
    assert len(turn.pending) == 2


async def test_a_suspended_turn_can_be_given_up(session: Session, deploy: Tool, add: Tool) -> None:
    model = ScriptedModel([CALLS, "Never mind."])
    agent = AgentSession(model, session=session, tools=[deploy, add])
    await agent.respond("Deploy")
    assert await session.close_open_calls() == []  # they wait on purpose
    assert len(await session.close_open_calls(suspended=True)) == 2
    turn = await agent.respond("Forget it")
    assert turn.text == "Never mind."


async def test_a_suspended_turn_can_be_left(session: Session, deploy: Tool, add: Tool, told: Told) -> None:
    agent = AgentSession(ScriptedModel([CALLS, "No tools then."]), session=session, tools=[deploy, add])
    await agent.respond("Deploy")
    turn = await agent.retry()
    assert turn.text == "No tools then."
    assert told(await session.messages()) == ["user: Deploy", "assistant: No tools then."]


async def test_resuming_can_be_streamed(session: Session, deploy: Tool) -> None:
    calls = answer(tool_use("d1", "deploy", {"to": "test"}))
    agent = AgentSession(ScriptedModel([calls, "Done."]), session=session, tools=[deploy])
    await agent.respond("Deploy")
    async with agent.stream_resume({"d1": "ok"}) as events:
        kinds = [type(event) async for event in events]
    assert kinds.count(ToolExecutionEnd) == kinds.count(MessageEnd) == 1
    assert events.turn.text == "Done."


async def test_a_plain_session_goes_on_where_its_last_turn_left_calls_open(
    kept: Callable[..., Any], deploy: Tool, told: Told
) -> None:
    session = kept()
    calls = answer(tool_use("d1", "deploy", {"to": "test"}))
    seen: list[TurnInput] = []

    async def look(turn: TurnInput) -> None:
        seen.append(turn)

    hooks = AgentHooks(pre_generation=(look,))
    agent = AgentSession(ScriptedModel([calls, "Done.", "Bye."]), session=session, tools=[deploy], hooks=hooks)
    turn = await agent.respond("Deploy")
    assert [each.id for each in turn.pending] == ["d1"]
    turn = await agent.resume({"d1": "ok"})
    assert plain_text(turn.messages[-1].content) == "Done."
    assert [told(messages) for messages, _ in session.turns] == [
        ["user: Deploy", "assistant: calls deploy d1"],
        ["tool: ok", "assistant: Done."],
    ]
    assert [len(each.input) for each in seen] == [1, 0]
    await agent.respond("Goodbye")
    with pytest.raises(NotSuspended):
        await AgentSession(ScriptedModel([])).resume({"d1": "ok"})


async def test_saying_something_else_closes_what_a_plain_session_left_open(
    kept: Callable[..., Any], deploy: Tool, told: Told, strictly_paired: Callable[[Sequence[Message]], bool]
) -> None:
    session = kept()
    calls = answer(tool_use("d1", "deploy", {"to": "test"}))
    model = ScriptedModel([calls, "Never mind."])
    agent = AgentSession(model, session=session, tools=[deploy])
    await agent.respond("Deploy")
    turn = await agent.respond("Forget it")
    assert told(turn.messages) == [
        "tool: ![no result: the turn ended before the tool answered]",
        "user: Forget it",
        "assistant: Never mind.",
    ]
    assert strictly_paired(await session.messages())
    assert model.last_request.messages == tuple(await session.messages())[:-1]


async def test_what_a_file_cannot_hold_of_a_result_from_outside_is_told_to_the_model(
    tmp_path: Path, deploy: Tool
) -> None:
    async with SessionHost(tmp_path, dialect="pi") as host:
        session = await host.create()
        calls = answer([tool_use("1", "deploy", {"to": "test"}), tool_use("2", "deploy", {"to": "live"})])
        agent = AgentSession(ScriptedModel([calls, "Oh."]), session=session, tools=[deploy])
        await agent.respond("Deploy")
        turn = await agent.resume({"1": "fine", "2": image("https://example.org/a.png", "image/png", kind="url")})
        assert turn.text == "Oh."
        assert await session.open_calls() == []
