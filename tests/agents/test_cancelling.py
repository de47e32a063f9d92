"""A turn that is cancelled anywhere: what was acknowledged stays, nothing is half, and the session goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
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
    MessageEntry,
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

Told = Callable[[Sequence[Message]], list[str]]
Validator = Callable[[Sequence[Message]], bool]


async def test_what_was_said_of_an_answer_stays_as_aborted(session: Session, told: Told) -> None:
    stalled = Stalled("I was about to", anyio.Event())
    model = ScriptedModel([stalled, "Yes."])
    agent = AgentSession(model, session=session)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.respond, "Hello")
            await stalled.reached.wait()
            group.cancel_scope.cancel()
    assert session.leaf_id is not None
    entry = await session.entry(session.leaf_id)
    assert isinstance(entry, MessageEntry)
    assert entry.message.stop_reason == "aborted"
    await agent.respond("Go on")
    assert told(await session.messages()) == [
        "user: Hello",
        "assistant: I was about to",
        "user: Go on",
        "assistant: Yes.",
    ]


async def test_nothing_is_kept_of_an_answer_that_had_not_begun(session: Session, told: Told) -> None:
    stalled = Stalled("", anyio.Event())
    agent = AgentSession(ScriptedModel([stalled]), session=session)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.respond, "Hello")
            await stalled.reached.wait()
            group.cancel_scope.cancel()
    assert told(await session.messages()) == ["user: Hello"]


async def test_results_that_had_come_are_kept_and_open_calls_closed_later(
    session: Session, told: Told, strictly_paired: Validator
) -> None:
    both = anyio.Event()

    @tool
    async def quick() -> str:
        """Answer at once."""
        return "quick"

    @tool
    async def slow() -> str:
        """Never answer."""
        both.set()
        await anyio.sleep_forever()
        return "never"

    model = ScriptedModel([answer([tool_use("1", "quick"), tool_use("2", "slow")]), "I see."])
    agent = AgentSession(model, session=session, tools=[quick, slow])
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.respond, "Hello")
            await both.wait()
            while [each.id for each in await session.open_calls()] != ["2"]:
                await checkpoint()
            group.cancel_scope.cancel()
    assert told(await session.messages())[2:] == ["tool: quick"]
    await agent.respond("Go on")
    assert strictly_paired(model.last_request.messages)
    assert strictly_paired(await session.messages())


async def test_a_wait_before_another_attempt_can_be_cancelled(session: Session, told: Told) -> None:
    waiting = anyio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await anyio.sleep_forever()

    script: list[Step] = [Broken("I", AnswerCutOff("cut")), "Hi!"]
    agent = AgentSession(ScriptedModel(script), session=session, options=AgentOptions(sleep=sleep))
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.respond, "Hello")
            await waiting.wait()
            group.cancel_scope.cancel()
    turn = await agent.respond()
    assert turn.text == "Hi!"
    assert told(await session.messages()) == ["user: Hello", "assistant: Hi!"]


@pytest.mark.parametrize("steps", range(0, 60, 3))
async def test_a_turn_can_be_cancelled_at_any_await(
    steps: int, tmp_path: Path, add: Tool, told: Told, strictly_paired: Validator
) -> None:
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
        assert told(messages)[-2:] == ["user: Go on", "assistant: Yes."]
        await host.passivate_idle()
        replayed = await host.load("main", read_only=True)
        assert await replayed.entries() == await session.entries()


# -- streams


async def test_leaving_a_stream_early_cancels_its_turn(session: Session, told: Told) -> None:
    agent = AgentSession(ScriptedModel(["A long answer that nobody hears to its end.", "Hi!"]), session=session)
    with anyio.fail_after(10):
        async with agent.stream("Hello") as events:
            async for _ in events:
                break
        with pytest.raises(Closed, match="its block was left early"):
            _ = events.turn
        turn = await agent.respond("Hello again")
    assert turn.text == "Hi!"
    assert told(await session.messages())[-2:] == ["user: Hello again", "assistant: Hi!"]


async def test_a_slow_reader_makes_the_turn_wait(session: Session) -> None:
    said = "word " * 200
    agent = AgentSession(ScriptedModel([said]), session=session, options=AgentOptions(stream_events_max=2))
    with anyio.fail_after(10):
        async with agent.stream("Hello") as events:
            for _ in range(50):
                await checkpoint()
            assert len(await session.messages()) == 1  # the answer is not over, as its pieces wait
            with pytest.raises(Closed, match="the turn is not over"):
                _ = events.turn
            seen: list[AgentEvent] = [event async for event in events]
    assert isinstance(seen[-1], TurnEnd)
    assert events.turn is seen[-1].turn


@pytest.mark.parametrize("read", [True, False])
async def test_an_error_of_the_turn_reaches_whoever_streams_it(session: Session, read: bool) -> None:
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


async def test_the_program_s_own_error_passes_as_it_is(session: Session) -> None:
    agent = AgentSession(ScriptedModel(["A long answer."]), session=session)
    with pytest.raises(KeyError, match="mine"):
        async with agent.stream("Hello"):
            raise KeyError("mine")


async def test_a_stream_ends_with_its_block(session: Session) -> None:
    agent = AgentSession(ScriptedModel(["Hi!", "Hi again!"]), session=session)
    async with agent.stream("Hello") as events:
        async for _ in events:
            break
    with pytest.raises(Closed, match="its block was left"):
        await anext(events)
    async with agent.stream("Hello") as events:
        async for _ in events:
            pass
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    with pytest.raises(Closed, match="its block was left"):
        await anext(events)


async def test_a_stream_has_to_be_entered(session: Session) -> None:
    agent = AgentSession(ScriptedModel([]), session=session)
    stream = agent.stream("Hello")
    with pytest.raises(Exception, match="not open"):
        await anext(stream)


async def test_a_result_that_came_as_the_turn_was_cancelled_is_kept(session: Session, told: Told) -> None:
    """What a tool did is done: the log must not say that nobody knows whether it was."""
    begun, done = anyio.Event(), anyio.Event()

    @tool
    async def pay() -> str:
        """Pay a bill."""
        begun.set()
        await done.wait()
        return "paid"

    @tool
    async def stop() -> str:
        """End everything, just after the other tool has answered."""
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
    assert told(await session.messages())[2:] == ["tool: paid"]


async def test_a_result_that_cannot_be_kept_is_the_one_error_of_a_cancelled_turn(session: Session) -> None:
    @tool
    async def pay() -> str:
        """Pay a bill, when nobody waits for it or keeps it any more."""
        await session.close()
        scope.cancel()
        return "paid"

    agent = AgentSession(ScriptedModel([answer(tool_use("1", "pay"))]), session=session, tools=[pay])
    with pytest.raises(SessionClosed), anyio.CancelScope() as scope:
        await agent.respond("Hello")


async def test_an_answer_that_was_whole_when_the_turn_was_cancelled_is_kept(session: Session, told: Told) -> None:
    async def cancel(message: Message) -> None:
        group.cancel_scope.cancel()

    agent = AgentSession(ScriptedModel(["All of it."]), session=session, hooks=AgentHooks(post_generation=(cancel,)))
    async with anyio.create_task_group() as group:
        group.start_soon(agent.respond, "Hello")
    assert told(await session.messages()) == ["user: Hello", "assistant: All of it."]


@pytest.mark.parametrize("raises", [False, True], ids=["cancelled", "raises"])
@pytest.mark.parametrize("calls", [False, True])
async def test_an_answer_is_kept_as_it_came_where_a_hook_does_not_end_well(
    session: Session, told: Told, strictly_paired: Validator, raises: bool, calls: bool, add: Tool
) -> None:
    reached = anyio.Event()

    async def hook(said: Message) -> Message:
        reached.set()
        if raises:
            raise ZeroDivisionError("a bug")
        await anyio.sleep_forever()
        return said

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
async def test_a_result_is_kept_also_where_asyncio_itself_cancels_before_the_turn_wakes(
    session: Session, told: Told
) -> None:
    """A task that is cancelled by asyncio, as `asyncio.timeout` does, loses what it was about to be woken with."""

    @tool
    async def pay() -> str:
        """Pay a bill, and have the turn cancelled at once."""
        asyncio.get_running_loop().call_soon(turn.cancel)
        return "paid"

    agent = AgentSession(ScriptedModel([answer(tool_use("1", "pay"))]), session=session, tools=[pay])
    turn = asyncio.create_task(agent.respond("Hello"))
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert told(await session.messages())[2:] == ["tool: paid"]
