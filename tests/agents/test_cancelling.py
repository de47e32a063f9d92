"""Turns that are cancelled at any await: acknowledged entries stay, and the next turn closes open calls."""

import asyncio
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import AgentOptions, AgentSession, Limits, Message, Session, SessionClosed, SessionHost, Tool, tool
from treering.agents import AgentHooks, TurnEnd, TurnStream
from treering.entries import MessageEntry, tool_use
from treering.errors import AnswerCutOff, Closed
from treering.events.disk import OsDisk
from treering.testing.disks import FaultyDisk
from treering.testing.models import Broken, ScriptedModel, Stalled, Step, answer

from ..pauses import PAUSES_MAX, cancelled_by_asyncio
from .lines import ON_ASYNCIO, Work, as_lines, at_once, giving, respond_and_cancel, strictly_paired


async def answer_again(session: Session, add: Tool) -> None:
    """Take another turn, and check what the model and the log hold."""
    model = ScriptedModel(["Yes."])
    await AgentSession(model, session=session, tools=[add]).respond("Go on")
    assert strictly_paired(model.last_request.messages)
    assert strictly_paired(await session.messages())
    assert as_lines(await session.messages())[-2:] == ["user: Go on", "assistant: Yes."]


@pytest.mark.parametrize("received", ["I was about to", ""])
async def test_the_received_part_of_a_cancelled_answer_is_aborted(session: Session, received: str, add: Tool) -> None:
    stalled = Stalled(received, anyio.Event())
    await respond_and_cancel(AgentSession(ScriptedModel([stalled]), session=session), stalled.reached)
    kept = [f"assistant: {received}"] if received else []
    messages = await session.messages()
    assert as_lines(messages) == ["user: Hello", *kept]
    assert [each.stop_reason for each in messages[1:]] == ["aborted"] * len(kept)
    await answer_again(session, add)
    assert as_lines(await session.messages())[:-2] == ["user: Hello", *kept]


async def test_a_cancelled_turn_keeps_its_results_and_the_next_closes_open_calls(session: Session, add: Tool) -> None:
    slow = Work("slow")
    model = ScriptedModel([answer([tool_use("1", "quick"), tool_use("2", "slow")])])
    agent = AgentSession(model, session=session, tools=[giving("quick", "quick"), slow.tool])
    await respond_and_cancel(agent, slow.begun)
    assert [each.id for each in await session.open_calls()] == ["2"]
    assert as_lines(await session.messages())[2:] == ["tool: quick"]
    await answer_again(session, add)


async def test_a_turn_can_be_cancelled_while_it_waits_to_retry(session: Session) -> None:
    waiting = anyio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await anyio.sleep_forever()

    script: list[Step] = [Broken("I", AnswerCutOff("cut")), "Hi!"]
    agent = AgentSession(ScriptedModel(script), session=session, options=AgentOptions(sleep=sleep))
    await respond_and_cancel(agent, waiting)
    assert (await agent.respond()).text == "Hi!"
    assert as_lines(await session.messages()) == ["user: Hello", "assistant: Hi!"]


@pytest.mark.parametrize("steps", range(0, 60, 3))
async def test_a_turn_can_be_cancelled_at_any_await(steps: int, host: SessionHost, add: Tool) -> None:
    session = await host.create("main")
    calls = answer([tool_use("1", "add", {"a": 1}), tool_use("2", "add", {"a": 2})])
    agent = AgentSession(ScriptedModel([calls, "Two and three."], piece_chars=4), session=session, tools=[add])
    ended: list[str] = []

    async def run() -> None:
        ended.extend((await agent.respond("Add")).entry_ids)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        for _ in range(steps):
            await checkpoint()
        acknowledged = await session.entries()
        group.cancel_scope.cancel()
    assert len(ended) in (0, 5)
    assert (await session.entries())[: len(acknowledged)] == acknowledged
    await answer_again(session, add)
    await host.passivate_idle()
    assert await (await host.load("main", read_only=True)).entries() == await session.entries()


async def test_leaving_a_stream_early_cancels_its_turn(session: Session) -> None:
    agent = AgentSession(ScriptedModel(["A long answer that is not read to its end.", "Hi!"]), session=session)
    with pytest.raises(Exception, match="not open"):
        await anext(agent.stream("Hello"))
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
    options = AgentOptions(stream_events_max=2)
    agent = AgentSession(ScriptedModel(["word " * 200]), session=session, options=options)
    async with agent.stream("Hello") as events:
        while not await session.messages():
            await checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert as_lines(await session.messages()) == ["user: Hello"]  # the answer's pieces are not read
        with pytest.raises(Closed, match="the turn is not over"):
            _ = events.turn
        *_, last = [event async for event in events]
    assert isinstance(last, TurnEnd)
    assert events.turn is last.turn


def _goes_on(events: TurnStream) -> bool:
    with pytest.raises(Closed) as refused:
        _ = events.turn
    return "not over" in str(refused.value)


@pytest.mark.parametrize("read", [True, False])
async def test_an_error_of_a_streamed_turn_is_raised_from_its_block(session: Session, read: bool) -> None:
    events = AgentSession(ScriptedModel([ZeroDivisionError("a bug")]), session=session).stream("Hello")

    async def listen() -> None:
        async with events:
            if read:
                async for _ in events:
                    pass
            while _goes_on(events):
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
    work = Work()

    @tool
    async def stop() -> None:
        """Cancel the turn, just after the other tool has answered."""
        await work.done.wait()
        group.cancel_scope.cancel()
        await anyio.sleep_forever()

    model = ScriptedModel([answer([tool_use("1", "work"), tool_use("2", "stop")])])
    agent = AgentSession(model, session=session, tools=[work.tool, stop])
    async with anyio.create_task_group() as group:
        group.start_soon(agent.respond, "Hello")
        await work.begun.wait()
        await anyio.wait_all_tasks_blocked()
        work.done.set()
    assert as_lines(await session.messages())[2:] == ["tool: worked"]


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
        scope.cancel()

    agent = AgentSession(ScriptedModel(["All of it."]), session=session, hooks=AgentHooks(post_generation=(cancel,)))
    with anyio.CancelScope() as scope:
        await agent.respond("Hello")
    assert as_lines(await session.messages()) == ["user: Hello", "assistant: All of it."]


@pytest.mark.parametrize("raises", [False, True], ids=["cancelled", "raises"])
@pytest.mark.parametrize("calls", [False, True])
async def test_the_model_s_answer_is_kept_as_aborted_if_a_hook_raises_or_is_cancelled(
    session: Session, raises: bool, calls: bool, add: Tool
) -> None:
    reached = anyio.Event()

    async def hook(answer: Message) -> None:
        reached.set()
        if raises:
            raise ZeroDivisionError("a bug")
        await anyio.sleep_forever()

    whole = answer(["All of it.", tool_use("1", "add", {"a": 1})] if calls else "All of it.")
    hooks = AgentHooks(post_generation=(hook,))
    agent = AgentSession(ScriptedModel([whole]), session=session, tools=[add], hooks=hooks)
    if raises:
        with pytest.raises(ZeroDivisionError):
            await agent.respond("Hello")
    else:
        await respond_and_cancel(agent, reached)
    _, kept = await session.messages()
    assert (kept.stop_reason, kept.content) == ("aborted", whole.content)
    assert kept.usage is not None
    await answer_again(session, add)


@ON_ASYNCIO
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


@ON_ASYNCIO
async def test_the_next_turn_closes_the_calls_of_an_answer_whose_flush_was_cancelled(tmp_path: Path, add: Tool) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, durability="file") as host:
        session = await host.create("main")
        await session.append_message("system", "Be brief.")
        model = ScriptedModel([answer([tool_use("1", "add", {"a": 1})]), "not asked for"])
        # The flush of the answer; that of the question is the first.
        stall = disk.stall("datasync", path="*main.jsonl", nth=2)
        turn = asyncio.ensure_future(AgentSession(model, session=session, tools=[add]).respond("go"))
        try:
            assert await anyio.to_thread.run_sync(stall.wait)
            turn.cancel()
            for _ in range(20):
                await asyncio.sleep(0)
            assert not turn.done(), "the flush was begun, so the turn ends with it"
            stall.lift()
            with pytest.raises(asyncio.CancelledError):
                await turn
            await answer_again(session, add)
        finally:
            stall.lift()
        roles = [entry.message.role for entry in await session.entries() if isinstance(entry, MessageEntry)]
        assert roles == ["system", "user", "assistant", "tool", "user", "assistant"]


@ON_ASYNCIO
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_failed_attempt_is_not_on_the_path_of_a_turn_that_was_cancelled(tmp_path: Path, times: int) -> None:
    failed = 0
    async with SessionHost(tmp_path, limits=Limits(inline_for_s=0)) as host:  # so that commands pause before they begin
        for nth in range(1, PAUSES_MAX):
            session = await host.create(str(nth))
            model = ScriptedModel([Broken("I was", AnswerCutOff("cut")), "Hi!"])
            agent = AgentSession(model, session=session, options=AgentOptions(sleep=at_once))
            cancelled, _ = await cancelled_by_asyncio(agent.respond("Hello"), nth, times=times)
            await session.flush()
            entries = [entry for entry in await session.entries() if isinstance(entry, MessageEntry)]
            attempts = {entry.id for entry in entries if entry.message.stop_reason == "error"}
            failed += cancelled and len(attempts)
            assert attempts.isdisjoint(session.path())
            if not cancelled:
                break
    assert failed > 1
