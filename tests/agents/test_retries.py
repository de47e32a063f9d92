"""Retries: growing delays, side branches with the parts of failed answers, and the policy for left branches."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from treering import AgentOptions, AgentSession, InvalidInput, Session, SessionHost, Tool, TreeringError
from treering.agents import AgentHooks, LeftWork, ModelRequest, Retrying, TextDelta
from treering.contexts import SummaryRequest, summarizer_of
from treering.entries import Message, MessageEntry, plain_text, tool_use
from treering.errors import AnswerCutOff, ModelUnavailable, RateLimited, RequestRefused
from treering.events.stores.base import Append, Outcome
from treering.testing.models import Broken, ScriptedModel, Stalled, Step, answer

from ..awaited_store import AwaitedStore
from .lines import PlainSession, as_lines, at_once, respond_and_cancel

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


@pytest.fixture
def delays() -> list[float]:
    return []


@pytest.fixture
def sleep(delays: list[float]) -> Sleep:
    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    return sleep


async def always(left: LeftWork) -> bool:
    return True


CUT = AnswerCutOff("the line went dead")


@pytest.mark.feature("G-134")
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_retried_turn_leaves_the_failed_attempt_on_a_side_branch(
    tmp_path: Path, dialect: Literal["native", "pi"], delays: list[float], sleep: Sleep
) -> None:
    model = ScriptedModel([Broken("The answer is fo", CUT), "The answer is 42."])
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create("main")
        async with AgentSession(model, session=session, options=AgentOptions(sleep=sleep)).stream("Hello") as events:
            retries = [event async for event in events if isinstance(event, Retrying)]
        await host.passivate_idle()
        session = await host.load("main")
        assert as_lines(await session.messages()) == ["user: Hello", "assistant: The answer is 42."]
        asked, good = session.path()[-2:]
        failed, other = session.children(asked)
        assert other == good
        assert [each.entry_id for each in retries] == [failed]
        entry = await session.entry(failed)
        assert isinstance(entry, MessageEntry)
        assert plain_text(entry.message.content) == "The answer is fo"
        assert (entry.message.stop_reason, entry.message.error) == ("error", "the line went dead")
    assert delays == [1.0]


async def test_delays_double_up_to_a_bound_unless_the_provider_names_one(delays: list[float], sleep: Sleep) -> None:
    down = ModelUnavailable("down")
    named = [RateLimited("later", retry_after_s=7.5), ModelUnavailable("overloaded", retry_after_s=6.5)]
    model = ScriptedModel([down, down, down, *named, down, "at last"])
    options = AgentOptions(sleep=sleep, attempts_max=7, backoff_s=2, backoff_max_s=8)
    assert (await AgentSession(model, options=options).respond("Hello")).text == "at last"
    assert delays == [2, 4, 8, 7.5, 6.5, 8]
    too_long = ScriptedModel([RateLimited("tomorrow", retry_after_s=8.5)])
    with pytest.raises(RateLimited, match="tomorrow"):
        await AgentSession(too_long, options=options).respond("Hello")
    assert len(delays) == 6, "it is raised at once"


class Silent(ScriptedModel):
    """Ends its answers without completing them."""

    async def generate(self, request: Any) -> Any:  # noqa: ANN401  # the types of the base class
        self.requests.append(request)
        yield TextDelta("I ")


@pytest.mark.parametrize(
    ("step", "why", "attempts"),
    [
        (ModelUnavailable("down"), "down", 1),
        (RateLimited("later"), "later", 1),
        (Broken("I", CUT), "the line went dead", 3),
        (None, "without completing it", 3),
    ],
    ids=["unavailable", "limited", "cut off", "silent"],
)
async def test_a_turn_fails_after_the_allowed_attempts(
    step: Step | None, why: str, attempts: int, session: Session, delays: list[float], sleep: Sleep
) -> None:
    model = ScriptedModel([step] * 3) if step is not None else Silent([])
    options = AgentOptions(sleep=sleep, attempts_max=3)
    with pytest.raises(TreeringError, match=why):
        await AgentSession(model, session=session, options=options).respond("Hello")
    assert len(model.requests) == 3
    assert delays == [1.0, 2.0]
    assert as_lines(await session.messages()) == ["user: Hello"]
    assert len(session.children(session.leaf_id)) == attempts, "those with text, and the last one"
    state = await session.state()
    assert (state.state, state.error is not None and why in state.error) == ("error", True)


@pytest.mark.parametrize("leaving", [None, ZeroDivisionError])
async def test_a_request_that_fails_for_good_leaves_a_branch_untried(
    session: Session, leaving: type[Exception] | None
) -> None:
    async def policy(left: LeftWork) -> bool:
        if leaving is not None:
            raise leaving
        return False

    script: list[Step] = [RequestRefused("no such model"), Broken("I was", ValueError("no more")), "Hi!"]
    agent = AgentSession(ScriptedModel(script), session=session, hooks=AgentHooks(leaving=policy))
    for prompt, error in (("Hello", RequestRefused), (None, leaving or ValueError)):
        with pytest.raises(error):
            await agent.respond(prompt)
        assert as_lines(await session.messages()) == ["user: Hello"]
    _, *failed = [entry.message for entry in await session.entries() if isinstance(entry, MessageEntry)]
    assert [(plain_text(each.content), each.stop_reason, each.error) for each in failed] == [
        ("", "error", "no such model"),
        ("I was", "error", "no more"),
    ]
    await agent.respond()
    assert as_lines(await session.messages()) == ["user: Hello", "assistant: Hi!"]


async def test_tools_are_not_run_again_after_a_failed_request(session: Session, add: Tool) -> None:
    model = ScriptedModel([answer(tool_use("1", "add", {"a": 1})), ModelUnavailable("down"), "2"])
    await AgentSession(model, session=session, tools=[add], options=AgentOptions(sleep=at_once)).respond("Add")
    kinds = [each.type for each in await session.entries()]
    assert kinds == ["message", "message", "message", "tool_execution", "message"]
    assert model.requests[1].messages == model.requests[2].messages


@pytest.mark.feature("G-134")
async def test_retry_answers_the_last_user_message_again(session: Session, add: Tool) -> None:
    model = ScriptedModel([answer(tool_use("1", "add", {"a": 1})), "three", "two"])
    agent = AgentSession(model, session=session, tools=[add])
    await agent.respond("What is 1 + 1?")
    before = session.path()
    assert (await agent.retry()).text == "two"
    assert as_lines(await session.messages()) == ["user: What is 1 + 1?", "assistant: two"]
    assert as_lines(model.last_request.messages) == ["user: What is 1 + 1?"]
    assert before[0] == session.path()[0]
    assert before[1] in session.children(before[0])
    assert await session.entry(before[-1]) is not None  # the first attempt is still in the log


async def test_retry_is_refused_without_a_user_message_or_branches(session: Session) -> None:
    for given, why in ((session, "no user message to answer again"), (PlainSession(), "has branches")):
        with pytest.raises(InvalidInput, match=why):
            await AgentSession(ScriptedModel([]), session=given).retry()


@pytest.mark.feature("G-135")
async def test_the_policy_decides_whether_a_left_branch_is_summarized(session: Session) -> None:
    asked: list[LeftWork] = []

    async def policy(left: LeftWork) -> bool:
        asked.append(left)
        return left.why == "switch"

    summary = "The user counted to two, and then asked for three."
    model = ScriptedModel(["one", Broken("tw", CUT), "two", "three", summary, "four"])
    hooks, options = AgentHooks(leaving=policy), AgentOptions(sleep=at_once)
    agent = AgentSession(model, session=session, hooks=hooks, options=options)
    first = await agent.respond("Say one")
    assert asked == []  # no branch was left
    second = await agent.respond("Say two")
    assert [(each.why, each.to_id, each.message_count) for each in asked] == [("retry", second.entry_ids[0], 1)]
    await agent.retry()
    assert [(each.why, each.from_id) for each in asked[1:]] == [("retry", second.entry_ids[1])]
    leaf = session.leaf_id
    report = await agent.switch(first.entry_ids[1])
    left = [(each.why, each.from_id, each.to_id, each.message_count) for each in asked[2:]]
    assert left == [("switch", leaf, first.entry_ids[1], 2)]
    assert report is not None
    assert report.entry_id == session.leaf_id
    await agent.respond("Say four")
    left_out = f"branchSummary: {summary}"
    shown = ["user: Say one", "assistant: one", left_out, "user: Say four", "assistant: four"]
    assert as_lines(await session.messages()) == shown
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
    assert await agent.switch(turn.entry_ids[1]) is None  # only the summary was left
    assert session.leaf_id == turn.entry_ids[1]
    assert len(model.requests) == 3


@pytest.mark.parametrize("failure", [ModelUnavailable("no summary today"), "   ", ConnectionError("reset")])
async def test_a_failed_attempt_has_no_summary_if_that_fails(failure: Step | ConnectionError, session: Session) -> None:
    async def summarizer(request: SummaryRequest) -> Message:
        if isinstance(failure, ConnectionError):
            raise failure
        return await summarizer_of(ScriptedModel([failure]))(request)

    model = ScriptedModel([Broken("I was", CUT), "I am.", Broken("No", RequestRefused("no more"))])
    options = AgentOptions(sleep=at_once, summarizer=summarizer)
    agent = AgentSession(model, session=session, hooks=AgentHooks(leaving=always), options=options)
    with capture_logs() as logs:
        turn = await agent.respond("Hello")
    assert turn.text == "I am."
    assert as_lines(await session.messages()) == ["user: Hello", "assistant: I am."]
    assert len(session.children(session.path()[0])) == 2
    assert [each["event"] for each in logs] == ["not_summarized"]
    with pytest.raises(RequestRefused, match="no more"):
        await agent.respond("Go on")
    assert as_lines(await session.messages())[-1] == "user: Go on"


async def test_a_failed_attempt_stays_off_the_path_if_its_summary_is_cancelled(session: Session) -> None:
    reached = anyio.Event()
    model = ScriptedModel([Broken("I was", CUT), Stalled("The assistant", reached)])
    hooks, options = AgentHooks(leaving=always), AgentOptions(sleep=at_once)
    await respond_and_cancel(AgentSession(model, session=session, hooks=hooks, options=options), reached)
    assert as_lines(await session.messages()) == ["user: Hello"]
    assert len(session.children(session.leaf_id)) == 1


class Slow(AwaitedStore):
    """Awaits a checkpoint after each append, and calls `about_to_wait` before that."""

    def __init__(self) -> None:
        super().__init__()
        self.about_to_wait: Callable[[], object] = str

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        outcomes = await super().append(appends)
        self.about_to_wait()
        await checkpoint()
        return outcomes


async def test_a_failed_attempt_is_on_a_side_branch_if_the_turn_is_cancelled_while_it_is_written() -> None:
    store = Slow()

    def step(request: ModelRequest) -> Step:
        store.about_to_wait = scope.cancel
        return Broken("I was", CUT)

    async with SessionHost(store=store) as host:
        session = await host.create("main")
        with anyio.CancelScope() as scope:
            await AgentSession(ScriptedModel(step), session=session).respond("Hello")
        assert scope.cancelled_caught
        assert as_lines(await session.messages()) == ["user: Hello"]
        assert len(session.children(session.leaf_id)) == 1
