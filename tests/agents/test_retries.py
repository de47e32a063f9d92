"""Retries: growing delays, side branches with the parts of failed answers, and the policy for left branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from treering import (
    AgentHooks,
    AgentOptions,
    AgentSession,
    AnswerCutOff,
    InvalidInput,
    LeftWork,
    MemoryStore,
    Message,
    MessageEntry,
    ModelRequest,
    ModelUnavailable,
    RateLimited,
    RequestRefused,
    Retrying,
    Session,
    SessionHost,
    SummaryRequest,
    TextDelta,
    Tool,
    TreeringError,
    plain_text,
    summarizer_of,
    tool_use,
)
from treering.events.stores.base import Append, Outcome
from treering.testing.models import Broken, ScriptedModel, Stalled, Step, answer

from .lines import PlainSession, as_lines


@pytest.fixture
def delays() -> list[float]:
    return []


@pytest.fixture
def options(delays: list[float]) -> Callable[..., AgentOptions]:
    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    def make(**settings: Any) -> AgentOptions:  # noqa: ANN401  # any settings
        return AgentOptions(sleep=sleep, **settings)

    return make


@pytest.mark.feature("G-134")
async def test_a_retried_turn_leaves_the_failed_attempt_on_a_side_branch(
    session: Session, delays: list[float], options: Callable[..., AgentOptions]
) -> None:
    script: list[Step] = [Broken("The answer is fo", AnswerCutOff("the line went dead")), "The answer is 42."]
    agent = AgentSession(ScriptedModel(script), session=session, options=options())
    async with agent.stream("What is the answer?") as events:
        retries = [event async for event in events if isinstance(event, Retrying)]
    assert as_lines(await session.messages()) == ["user: What is the answer?", "assistant: The answer is 42."]
    asked, good = session.path()
    failed, other = session.children(asked)
    assert other == good
    assert [each.entry_id for each in retries] == [failed]
    entry = await session.entry(failed)
    assert isinstance(entry, MessageEntry)
    assert plain_text(entry.message.content) == "The answer is fo"
    assert (entry.message.stop_reason, entry.message.error) == ("error", "the line went dead")
    assert delays == [1.0]


async def test_failed_attempts_are_on_side_branches_of_pi_files_too(tmp_path: Path) -> None:
    async def no_sleep(seconds: float) -> None: ...

    script: list[Step] = [Broken("The answer is fo", AnswerCutOff("the line went dead")), "42"]
    async with SessionHost(tmp_path, dialect="pi") as host:
        session = await host.create("main")
        agent = AgentSession(ScriptedModel(script), session=session, options=AgentOptions(sleep=no_sleep))
        await agent.respond("What is the answer?")
        await host.passivate_idle()
        assert as_lines(await (await host.load("main")).messages()) == ["user: What is the answer?", "assistant: 42"]
        assert len(session.children(session.path()[-2])) == 2


async def test_delays_double_up_to_a_bound_unless_the_provider_names_one(
    delays: list[float], options: Callable[..., AgentOptions]
) -> None:
    down = ModelUnavailable("down")
    model = ScriptedModel([down, down, down, RateLimited("later", retry_after_s=7.5), down, "at last"])
    agent = AgentSession(model, options=options(attempts_max=6, backoff_s=2, backoff_max_s=8))
    turn = await agent.respond("Hello")
    assert turn.text == "at last"
    assert delays == [2, 4, 8, 7.5, 8]
    assert len(model.requests) == 6


async def test_a_delay_longer_than_the_bound_is_raised_at_once(
    delays: list[float], options: Callable[..., AgentOptions]
) -> None:
    agent = AgentSession(
        ScriptedModel([RateLimited("tomorrow", retry_after_s=86_400)]), options=options(backoff_max_s=60)
    )
    with pytest.raises(RateLimited, match="tomorrow"):
        await agent.respond("Hello")
    assert delays == []


@pytest.mark.parametrize("error", [ModelUnavailable("down"), RateLimited("later"), Broken("I", AnswerCutOff("cut"))])
async def test_a_turn_fails_after_the_allowed_attempts(
    error: TreeringError | Broken, session: Session, delays: list[float], options: Callable[..., AgentOptions]
) -> None:
    model = ScriptedModel([error] * 3)
    agent = AgentSession(model, session=session, options=options(attempts_max=3))
    with pytest.raises(TreeringError):
        await agent.respond("Hello")
    assert len(model.requests) == 3
    assert delays == [1.0, 2.0]
    assert as_lines(await session.messages()) == ["user: Hello"]
    assert len(session.children(session.leaf_id)) == (3 if isinstance(error, Broken) else 0)


@pytest.mark.parametrize("leaving", [None, ZeroDivisionError])
async def test_a_refused_request_is_not_retried_and_what_it_began_is_on_a_side_branch(
    session: Session, options: Callable[..., AgentOptions], leaving: type[Exception] | None
) -> None:
    async def policy(left: LeftWork) -> bool:
        if leaving is not None:
            raise leaving
        return False

    hooks = AgentHooks(leaving=policy)
    script: list[Step] = [RequestRefused("no such model"), Broken("I was", RequestRefused("no more")), "Hi!"]
    agent = AgentSession(ScriptedModel(script), session=session, hooks=hooks, options=options())
    for prompt, error in (("Hello", RequestRefused), (None, leaving or RequestRefused)):
        with pytest.raises(error):
            await agent.respond(prompt)
        assert as_lines(await session.messages()) == ["user: Hello"]
    _, failed = await session.entries()
    assert isinstance(failed, MessageEntry)
    assert (plain_text(failed.message.content), failed.message.stop_reason) == ("I was", "error")
    await agent.respond()
    assert as_lines(await session.messages()) == ["user: Hello", "assistant: Hi!"]


async def test_a_stream_that_ends_without_completing_is_retried_as_cut_off(
    delays: list[float], options: Callable[..., AgentOptions]
) -> None:
    class Silent(ScriptedModel):
        async def generate(self, request: Any) -> Any:  # noqa: ANN401  # the types of the base class
            self.requests.append(request)
            yield TextDelta("I ")

    model = Silent([])
    with pytest.raises(AnswerCutOff, match="without completing it"):
        await AgentSession(model, options=options(attempts_max=2)).respond("Hello")
    assert len(model.requests) == 2


async def test_tools_are_not_run_again_after_a_failed_request(
    session: Session, add: Tool, options: Callable[..., AgentOptions]
) -> None:
    model = ScriptedModel([answer(tool_use("1", "add", {"a": 1})), ModelUnavailable("down"), "2"])
    agent = AgentSession(model, session=session, tools=[add], options=options())
    await agent.respond("Add")
    assert [each.type for each in await session.entries()] == [
        "message",
        "message",
        "message",
        "tool_execution",
        "message",
    ]
    assert model.requests[1].messages == model.requests[2].messages


# -- retrying on request


@pytest.mark.feature("G-134")
async def test_retry_answers_the_last_user_message_again(session: Session, add: Tool) -> None:
    model = ScriptedModel([answer(tool_use("1", "add", {"a": 1})), "three", "two"])
    agent = AgentSession(model, session=session, tools=[add])
    await agent.respond("What is 1 + 1?")
    before = session.path()
    turn = await agent.retry()
    assert turn.text == "two"
    assert as_lines(await session.messages()) == ["user: What is 1 + 1?", "assistant: two"]
    assert as_lines(model.last_request.messages) == ["user: What is 1 + 1?"]
    assert before[0] == session.path()[0]
    assert before[1] in session.children(before[0])
    assert await session.entry(before[-1]) is not None  # the first attempt is still in the log


async def test_retry_is_refused_without_a_user_message_or_branches(session: Session) -> None:
    agent = AgentSession(ScriptedModel([]), session=session)
    with pytest.raises(InvalidInput, match="no user message to answer again"):
        await agent.retry()
    with pytest.raises(InvalidInput, match="has branches"):
        await AgentSession(ScriptedModel([]), session=PlainSession()).retry()


# -- the policy for left branches


@pytest.mark.feature("G-135")
async def test_the_policy_decides_whether_a_left_branch_is_summarized(
    session: Session, options: Callable[..., AgentOptions]
) -> None:
    asked: list[LeftWork] = []

    async def policy(left: LeftWork) -> bool:
        asked.append(left)
        return left.why == "switch"

    script: list[Step] = [
        "one",
        Broken("tw", AnswerCutOff("cut")),
        "two",
        "three",
        "The user counted to two, and then asked for three.",
        "four",
    ]
    model = ScriptedModel(script)
    agent = AgentSession(model, session=session, hooks=AgentHooks(leaving=policy), options=options())

    first = await agent.respond("Say one")
    assert asked == []  # no branch was left
    second = await agent.respond("Say two")
    assert [(each.why, each.to_id, each.message_count) for each in asked] == [("retry", second.entry_ids[0], 1)]
    await agent.retry()
    assert [(each.why, each.from_id) for each in asked[1:]] == [("retry", second.entry_ids[1])]
    leaf = session.leaf_id
    report = await agent.switch(first.entry_ids[1])
    assert [(each.why, each.from_id, each.to_id, each.message_count) for each in asked[2:]] == [
        ("switch", leaf, first.entry_ids[1], 2)
    ]
    assert report is not None
    assert report.entry_id == session.leaf_id
    await agent.respond("Say four")
    assert as_lines(await session.messages()) == [
        "user: Say one",
        "assistant: one",
        "branchSummary: The user counted to two, and then asked for three.",
        "user: Say four",
        "assistant: four",
    ]
    count = len(asked)
    await agent.switch(session.leaf_id or "")
    assert len(asked) == count  # the leaf did not move


async def test_by_default_a_switch_summarizes_the_left_branch_and_a_retry_does_not(session: Session) -> None:
    model = ScriptedModel(["one", "two", "in short", "three"])
    agent = AgentSession(model, session=session)
    turn = await agent.respond("Hello")
    await agent.retry()
    assert len(model.requests) == 2
    assert await agent.switch(turn.entry_ids[0]) is not None
    assert len(model.requests) == 3


@pytest.mark.parametrize("failure", [ModelUnavailable("no summary today"), "   ", ConnectionError("reset")])
async def test_a_failed_attempt_is_left_without_a_summary_if_summarizing_fails(
    failure: Step | ConnectionError, session: Session, options: Callable[..., AgentOptions]
) -> None:
    async def always(left: LeftWork) -> bool:
        return True

    async def summarizer(request: SummaryRequest) -> Message:
        if isinstance(failure, ConnectionError):
            raise failure
        return await summarizer_of(ScriptedModel([failure]))(request)

    agent = AgentSession(
        ScriptedModel([Broken("I was", AnswerCutOff("cut")), "I am.", Broken("No", RequestRefused("no more"))]),
        session=session,
        hooks=AgentHooks(leaving=always),
        options=options(summarizer=summarizer),
    )
    with capture_logs() as logs:
        turn = await agent.respond("Hello")
    assert turn.text == "I am."
    assert as_lines(await session.messages()) == ["user: Hello", "assistant: I am."]
    assert len(session.children(session.path()[0])) == 2
    assert [each["event"] for each in logs] == ["not_summarized"]
    with pytest.raises(RequestRefused, match="no more"):
        await agent.respond("Go on")
    assert as_lines(await session.messages())[-1] == "user: Go on"


async def test_a_failed_attempt_stays_off_the_path_if_its_summary_is_cancelled(
    session: Session, options: Callable[..., AgentOptions]
) -> None:
    async def always(left: LeftWork) -> bool:
        return True

    reached = anyio.Event()
    script: list[Step] = [Broken("I was", AnswerCutOff("cut")), Stalled("The assistant", reached)]
    hooks = AgentHooks(leaving=always)
    agent = AgentSession(ScriptedModel(script), session=session, hooks=hooks, options=options())
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.respond, "Are you there?")
            await reached.wait()
            group.cancel_scope.cancel()
    assert as_lines(await session.messages()) == ["user: Are you there?"]
    assert len(session.children(session.leaf_id)) == 1


async def test_a_branch_with_only_a_summary_is_not_summarized(session: Session) -> None:
    model = ScriptedModel(["one", "in short"])
    agent = AgentSession(model, session=session)
    turn = await agent.respond("Hello")
    assert await agent.switch(turn.entry_ids[0]) is not None
    assert await agent.switch(turn.entry_ids[1]) is None  # only the summary was left
    assert session.leaf_id == turn.entry_ids[1]
    assert len(model.requests) == 2


class Slow(MemoryStore):
    """Awaits a checkpoint after each append, and calls `about_to_wait` before that."""

    def __init__(self) -> None:
        super().__init__()
        self.about_to_wait: Callable[[], object] = str

    def try_append(self, append: Append) -> Outcome | None:  # type: ignore[override]  # like a remote store
        return None

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        outcomes: list[Outcome] = [super(Slow, self).try_append(each) for each in appends]
        self.about_to_wait()
        await checkpoint()
        return outcomes


async def test_a_failed_attempt_is_on_a_side_branch_if_the_turn_is_cancelled_while_it_is_written() -> None:
    store = Slow()

    def step(request: ModelRequest) -> Step:
        store.about_to_wait = scope.cancel
        return Broken("I was", AnswerCutOff("cut"))

    async with SessionHost(store=store) as host:
        session = await host.create("main")
        with anyio.CancelScope() as scope:
            await AgentSession(ScriptedModel(step), session=session).respond("Hello")
        assert scope.cancelled_caught
        assert as_lines(await session.messages()) == ["user: Hello"]
        assert len(session.children(session.leaf_id)) == 1
