"""Turns that are cancelled at any await: acknowledged entries stay, and the next turn closes open calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from treering import (
    AgentEvent,
    AgentHooks,
    AgentOptions,
    AgentSession,
    AnswerCutOff,
    Closed,
    Message,
    ModelRequest,
    Session,
    SessionClosed,
    SessionHost,
    Tool,
    TurnEnd,
    tool,
    tool_use,
)
from treering.testing.models import Broken, ScriptedModel, Stalled, Step, answer

from .lines import as_lines, strictly_paired


async def respond_and_cancel(agent: AgentSession, reached: anyio.Event) -> None:
    """Start a turn, and cancel it once the event is set."""
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.respond, "Hello")
            await reached.wait()
            group.cancel_scope.cancel()


@pytest.mark.parametrize("received", ["I was about to", ""])
async def test_the_received_part_of_a_cancelled_answer_is_kept_as_aborted(session: Session, received: str) -> None:
    stalled = Stalled(received, anyio.Event())
    agent = AgentSession(ScriptedModel([stalled, "Yes."]), session=session)
    await respond_and_cancel(agent, stalled.reached)
    kept = [f"assistant: {received}"] if received else []
    messages = await session.messages()
    assert as_lines(messages) == ["user: Hello", *kept]
    assert [each.stop_reason for each in messages[1:]] == ["aborted"] * len(kept)
    await agent.respond("Go on")
    assert as_lines(await session.messages()) == ["user: Hello", *kept, "user: Go on", "assistant: Yes."]


async def test_a_cancelled_turn_keeps_its_results_and_the_next_turn_closes_its_open_calls(session: Session) -> None:
    slow_started = anyio.Event()

    @tool
    async def quick() -> str:
        """Answer at once."""
        return "quick"

    @tool
    async def slow() -> str:
        """Never answer."""
        slow_started.set()
        await anyio.sleep_forever()
        return "never"

    model = ScriptedModel([answer([tool_use("1", "quick"), tool_use("2", "slow")]), "I see."])
    agent = AgentSession(model, session=session, tools=[quick, slow])
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.respond, "Hello")
            await slow_started.wait()
            while [each.id for each in await session.open_calls()] != ["2"]:
                await checkpoint()
            group.cancel_scope.cancel()
    assert as_lines(await session.messages())[2:] == ["tool: quick"]
    await agent.respond("Go on")
    assert strictly_paired(model.last_request.messages)
    assert strictly_paired(await session.messages())


async def test_a_turn_can_be_cancelled_while_it_waits_to_retry(session: Session) -> None:
    waiting = anyio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await anyio.sleep_forever()

    script: list[Step] = [Broken("I", AnswerCutOff("cut")), "Hi!"]
    agent = AgentSession(ScriptedModel(script), session=session, options=AgentOptions(sleep=sleep))
    await respond_and_cancel(agent, waiting)
    turn = await agent.respond()
    assert turn.text == "Hi!"
    assert as_lines(await session.messages()) == ["user: Hello", "assistant: Hi!"]


@pytest.mark.parametrize("steps", range(0, 60, 3))
async def test_a_turn_can_be_cancelled_at_any_await(steps: int, tmp_path: Path, add: Tool) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("main")
        script: list[Step] = [
            answer([tool_use("1", "add", {"a": 1}), tool_use("2", "add", {"a": 2})]),
            "Two and three.",
        ]
        agent = AgentSession(ScriptedModel(script, piece_chars=4), session=session, tools=[add])
        ended: list[str] = []

        async def run() -> None:
            turn = await agent.respond("Add")
            ended.extend(turn.entry_ids)

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            for _ in range(steps):
                await checkpoint()
            acknowledged = await session.entries()
            group.cancel_scope.cancel()
        if ended:
            assert len(ended) == 5
        live = await session.entries()
        assert live[: len(acknowledged)] == acknowledged
        again = AgentSession(ScriptedModel(["Yes."]), session=session, tools=[add])
        await again.respond("Go on")
        messages = await session.messages()
        assert strictly_paired(messages)
        assert as_lines(messages)[-2:] == ["user: Go on", "assistant: Yes."]
        await host.passivate_idle()
        replayed = await host.load("main", read_only=True)
        assert await replayed.entries() == await session.entries()


# -- streams


async def test_leaving_a_stream_early_cancels_its_turn(session: Session) -> None:
    agent = AgentSession(ScriptedModel(["A long answer that is not read to its end.", "Hi!"]), session=session)
    with pytest.raises(Exception, match="not open"):
        await anext(agent.stream("Hello"))
    with anyio.fail_after(10):
        async with agent.stream("Hello") as events:
            async for _ in events:
                break
        with pytest.raises(Closed, match="its block was left early"):
            _ = events.turn
        with pytest.raises(Closed, match="its block was left"):
            await anext(events)
        async with agent.stream("Hello again") as events:
            async for _ in events:
                pass
            with pytest.raises(StopAsyncIteration):
                await anext(events)
        with pytest.raises(Closed, match="its block was left"):
            await anext(events)
    assert events.turn.text == "Hi!"
    assert as_lines(await session.messages())[-2:] == ["user: Hello again", "assistant: Hi!"]


async def test_a_slow_reader_makes_the_turn_wait(session: Session) -> None:
    long_answer = "word " * 200
    agent = AgentSession(ScriptedModel([long_answer]), session=session, options=AgentOptions(stream_events_max=2))
    with anyio.fail_after(10):
        async with agent.stream("Hello") as events:
            while not await session.messages():
                await checkpoint()
            for _ in range(50):
                await checkpoint()
            assert len(await session.messages()) == 1  # the answer has not ended, as its pieces are not read
            with pytest.raises(Closed, match="the turn is not over"):
                _ = events.turn
            seen: list[AgentEvent] = [event async for event in events]
    assert isinstance(seen[-1], TurnEnd)
    assert events.turn is seen[-1].turn


@pytest.mark.parametrize("read", [True, False])
async def test_an_error_of_a_streamed_turn_is_raised_from_its_block(session: Session, read: bool) -> None:
    asked = anyio.Event()

    def step(request: ModelRequest) -> Exception:
        asked.set()
        return ZeroDivisionError("a bug")

    agent = AgentSession(ScriptedModel(step), session=session)

    events = agent.stream("Hello")

    async def listen() -> None:
        async with events:
            if read:
                async for _ in events:
                    pass
            else:
                await asked.wait()
                for _ in range(10):
                    await checkpoint()

    with pytest.raises(ZeroDivisionError):
        await listen()
    with pytest.raises(Closed, match="failed: ZeroDivisionError"):
        _ = events.turn


async def test_an_error_raised_inside_the_block_of_a_stream_is_raised_unchanged(session: Session) -> None:
    agent = AgentSession(ScriptedModel(["A long answer."]), session=session)
    with pytest.raises(KeyError, match="mine"):
        async with agent.stream("Hello"):
            raise KeyError("mine")


async def test_the_result_of_a_tool_that_ends_as_the_turn_is_cancelled_is_kept(session: Session) -> None:
    """The tool has done its work, so the log must not close its call as one without a result."""
    begun, done = anyio.Event(), anyio.Event()

    @tool
    async def pay() -> str:
        """Pay a bill."""
        begun.set()
        await done.wait()
        return "paid"

    @tool
    async def stop() -> str:
        """Cancel the turn, just after the other tool has answered."""
        await done.wait()
        group.cancel_scope.cancel()
        await anyio.sleep_forever()
        return "never"

    model = ScriptedModel([answer([tool_use("1", "pay"), tool_use("2", "stop")])])
    agent = AgentSession(model, session=session, tools=[pay, stop])
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.respond, "Hello")
            await begun.wait()
            await wait_all_tasks_blocked()
            done.set()
    assert as_lines(await session.messages())[2:] == ["tool: paid"]


async def test_a_cancelled_turn_raises_the_error_of_a_result_that_cannot_be_written(session: Session) -> None:
    @tool
    async def pay() -> str:
        """Pay a bill, after the session is closed and the turn is cancelled."""
        await session.close()
        scope.cancel()
        return "paid"

    agent = AgentSession(ScriptedModel([answer(tool_use("1", "pay"))]), session=session, tools=[pay])
    with pytest.raises(SessionClosed), anyio.CancelScope() as scope:
        await agent.respond("Hello")


async def test_a_complete_answer_is_kept_if_the_turn_is_cancelled_before_it_is_written(session: Session) -> None:
    async def cancel(message: Message) -> None:
        group.cancel_scope.cancel()

    agent = AgentSession(ScriptedModel(["All of it."]), session=session, hooks=AgentHooks(post_generation=(cancel,)))
    async with anyio.create_task_group() as group:
        group.start_soon(agent.respond, "Hello")
    assert as_lines(await session.messages()) == ["user: Hello", "assistant: All of it."]


@pytest.mark.parametrize("raises", [False, True], ids=["cancelled", "raises"])
@pytest.mark.parametrize("calls", [False, True])
async def test_the_model_s_answer_is_kept_as_aborted_if_a_hook_raises_or_is_cancelled(
    session: Session, raises: bool, calls: bool, add: Tool
) -> None:
    reached = anyio.Event()

    async def hook(answer: Message) -> Message:
        reached.set()
        if raises:
            raise ZeroDivisionError("a bug")
        await anyio.sleep_forever()
        return answer

    whole = answer(["All of it.", tool_use("1", "add", {"a": 1})] if calls else "All of it.")
    agent = AgentSession(
        ScriptedModel([whole]), session=session, tools=[add], hooks=AgentHooks(post_generation=(hook,))
    )

    async def respond() -> None:
        if raises:
            with pytest.raises(ZeroDivisionError):
                await agent.respond("Hello")
        else:
            await agent.respond("Hello")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(respond)
            await reached.wait()
            await wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    _, kept = await session.messages()
    assert kept.stop_reason == "aborted"
    assert kept.content == whole.content
    assert kept.usage is not None
    model = ScriptedModel(["Yes."])
    await AgentSession(model, session=session, tools=[add]).respond("Go on")
    assert strictly_paired(model.last_request.messages)


@pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio")])
async def test_a_result_is_kept_if_asyncio_cancels_the_turn_before_it_receives_the_result(session: Session) -> None:
    """When asyncio cancels a waiting task, as `asyncio.timeout` does, the task never receives the awaited value."""

    @tool
    async def pay() -> str:
        """Pay a bill, and cancel the turn at once."""
        asyncio.get_running_loop().call_soon(turn.cancel)
        return "paid"

    agent = AgentSession(ScriptedModel([answer(tool_use("1", "pay"))]), session=session, tools=[pay])
    turn = asyncio.create_task(agent.respond("Hello"))
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert as_lines(await session.messages())[2:] == ["tool: paid"]
