"""An agent compacts its session exactly when the next request would exceed the window minus the reserve."""

from collections.abc import AsyncGenerator, Awaitable, Iterator

import pytest
from structlog.testing import capture_logs

from treering import AgentOptions, AgentSession, ContextOverflow, InvalidInput, Session, Usage, message, tool_use
from treering.agents import Compacted, ModelEvent, ModelRequest, NotCompacted, TextDelta
from treering.contexts import SummaryRequest, summarizer_of
from treering.entries import CompactionEntry, plain_text, tool_result
from treering.errors import ContextError, ModelUnavailable, RequestTooLong
from treering.projections import UsageProjection
from treering.projections.tokens import count_messages
from treering.testing.models import ScriptedModel, Step, answer

from .lines import PlainSession, as_lines, giving

WINDOW, RESERVE = 1000, 250
REFUSED = answer("I cannot help with that.", stop_reason="refusal")


def is_summary(request: ModelRequest) -> bool:
    return "You write the summary" in plain_text(request.messages[0].content)


async def append_turns(session: Session, count: int, *, chars: int = 400) -> None:
    for number in range(count):
        await session.append_message("user", f"question {number} " + "x" * chars)
        await session.append_message("assistant", f"answer {number} " + "y" * chars)


async def compactions(session: Session) -> list[CompactionEntry]:
    return [each for each in await session.entries() if isinstance(each, CompactionEntry)]


@pytest.mark.feature("G-132")
@pytest.mark.parametrize(("used", "compacts"), [(749, False), (750, False), (751, True), (999, True)])
async def test_an_agent_compacts_only_if_it_would_use_the_reserve(session: Session, used: int, compacts: bool) -> None:
    await append_turns(session, 4, chars=200)
    await session.append_message("user", "And?")
    next_message = count_messages([message("user", "Go on")])
    counted = Usage(used - next_message - 10, 10, total_tokens=used - next_message)
    await session.append(answer("Well.", usage=counted))
    assert (await session.used_tokens()).total == used - next_message
    model = ScriptedModel(lambda request: "In short." if is_summary(request) else "Yes.", context_window=WINDOW)
    agent = AgentSession(model, session=session, options=AgentOptions(reserve_for_response=RESERVE))
    await agent.respond("Go on")
    assert [is_summary(request) for request in model.requests] == [True, False][not compacts :]
    assert len(await compactions(session)) == compacts


@pytest.mark.parametrize(("max_tokens", "reserve"), [(None, 250), (100, 250), (400, 400), (5000, 750)])
async def test_the_reserve_is_as_long_as_an_answer_may_be(max_tokens: int | None, reserve: int) -> None:
    options = AgentOptions(context_window=WINDOW, max_tokens=max_tokens)
    turn = await AgentSession(ScriptedModel(["Yes."]), options=options).respond("Go on")
    assert turn.sent is not None
    assert turn.sent.built.budget.reserve_for_response == reserve


@pytest.mark.feature("G-132")
async def test_requests_of_a_long_conversation_never_exceed_the_window(session: Session) -> None:
    def step(request: ModelRequest) -> Step:
        if is_summary(request):
            return answer("They talked of numbers.", usage=Usage(50, 5, total_tokens=55))
        return "re: " + "y" * 300

    model = ScriptedModel(step, context_window=WINDOW)
    agent = AgentSession(model, session=session, system_prompt="Be brief.")
    found: list[Compacted] = []
    for number in range(30):
        async with agent.stream(f"{number}: " + "x" * 300) as events:
            found += [event async for event in events if isinstance(event, Compacted)]
    stored = await compactions(session)
    assert len(found) == len(stored) > 2
    assert [each.report.entry_id for each in found] == [each.id for each in stored]
    for request in model.requests:
        if is_summary(request):
            assert count_messages(request.messages[1:]) < WINDOW // 2 + 50  # the text, and what introduces it
        else:
            assert count_messages(request.messages) <= WINDOW - RESERVE
            assert plain_text(request.messages[-1].content).endswith("x" * 300)
    assert len(await session.all_messages()) == 60  # the originals are kept
    spent = (await session.view(UsageProjection())).of("scripted")
    whole = (await session.view(UsageProjection())).total
    assert whole.total_tokens - spent.total_tokens == 55 * len(stored)  # the tokens of summaries are counted too


async def test_old_results_are_masked_before_a_summary_is_requested(session: Session) -> None:
    def step(request: ModelRequest) -> Step:
        assert not is_summary(request)
        calls = sum(each.role == "assistant" for each in request.messages)
        return answer(tool_use(str(calls), "read", {})) if calls < 12 else "Done."

    model = ScriptedModel(step, context_window=WINDOW)
    agent = AgentSession(model, session=session, tools=[giving("read", "z" * 500)])
    turn = await agent.respond("Read them all")
    assert turn.text == "Done."
    assert turn.sent is not None
    assert turn.sent.strategy == "masked-tools"
    assert turn.sent.built.masked_message_count > 5
    assert await compactions(session) == []
    assert all(count_messages(request.messages) <= WINDOW for request in model.requests)


async def test_a_result_that_exceeds_the_window_is_shown_shortened(session: Session) -> None:
    calls, again = answer([tool_use("1", "read"), tool_use("2", "read")]), answer(tool_use("3", "look"))
    tools = [giving("read", f"begin {'z' * 9000} end"), giving("look", "begin zz [characters left out] zz end")]
    for own, looks in ((session, 0), (None, 1)):
        model = ScriptedModel([calls, *[again] * looks, "Long."], context_window=WINDOW)
        await AgentSession(model, session=own, tools=tools).respond("Read it")
        assert count_messages(model.last_request.messages) <= WINDOW - RESERVE
        shown = [each for each in as_lines(model.last_request.messages) if each.startswith("tool: begin zz")]
        assert len(shown) == 2 + looks, "the model is not made to call again what it saw nothing of"
        assert all("characters left out" in each and each.endswith("zz end") for each in shown)
    assert await compactions(session) == []


@pytest.mark.parametrize("refusals", [1, 2])
async def test_a_request_refused_as_too_long_is_repeated_once_and_smaller(session: Session, refusals: int) -> None:
    await append_turns(session, 6)
    answers: Iterator[Step] = iter([*[RequestTooLong("too long by some")] * refusals, "Yes."])
    model = ScriptedModel(lambda request: "They talked." if is_summary(request) else next(answers))
    agent = AgentSession(model, session=session)  # the window of its model is unknown
    if refusals == 1:
        assert (await agent.respond("Go on")).text == "Yes."
    else:
        with pytest.raises(RequestTooLong) as refused:
            await agent.respond("Go on")
        assert isinstance(refused.value, ContextOverflow)
    first, summary, second = model.requests
    assert is_summary(summary)
    assert count_messages(second.messages) <= count_messages(first.messages) // 2
    assert plain_text(second.messages[-1].content) == "Go on"
    assert len(await compactions(session)) == 1


async def test_the_history_of_a_plain_session_is_reduced_to_the_window_and_after_a_refusal() -> None:
    read = [message("user", "Read")]
    for number in range(20):
        read += [message("assistant", tool_use(str(number), "read", {}))]
        read += [message("tool", tool_result(str(number), "x" * 400))]
    model = ScriptedModel([RequestTooLong("too long"), "Yes.", "Yes."])
    agent = AgentSession(model, session=PlainSession(messages=read))
    await agent.respond("Go on")
    first, second = model.requests
    assert count_messages(second.messages) <= count_messages(first.messages) // 2
    model.context_window = WINDOW
    await agent.respond("All of them?")
    assert agent.last_request is not None
    assert (agent.last_request.strategy, len(agent.last_request.messages)) == ("masked-tools", 44)
    assert agent.last_request.built.tokens_used <= WINDOW - RESERVE


@pytest.mark.parametrize("failure", [ModelUnavailable("down"), "   ", "z" * 20_000, REFUSED])
async def test_a_failing_summarizer_does_not_end_the_turn(session: Session, failure: Step) -> None:
    await append_turns(session, 8)
    model = ScriptedModel(lambda request: failure if is_summary(request) else "Yes.", context_window=WINDOW)
    agent = AgentSession(model, session=session)
    with capture_logs() as logs:
        async with agent.stream("Go on") as events:
            kinds = [type(event) async for event in events]
    assert kinds.count(NotCompacted) == 1
    assert [each["event"] for each in logs] == ["not_compacted"]
    assert await compactions(session) == []
    assert agent.last_request is not None
    assert agent.last_request.strategy != "full-history"
    assert as_lines(await session.messages())[-1] == "assistant: Yes."


@pytest.mark.parametrize("error", [ConnectionError("reset"), TimeoutError(), ValueError("a bug")])
@pytest.mark.parametrize("at_once", [False, True])
async def test_any_summarizer_error_is_told_and_all_goes_on(session: Session, error: Exception, at_once: bool) -> None:
    await append_turns(session, 8)

    async def fail() -> str:
        raise error

    def summarizer(request: SummaryRequest) -> Awaitable[str]:
        if at_once:
            raise error
        return fail()

    model = ScriptedModel(["Yes."] * 2, context_window=WINDOW)
    off = AgentOptions(summarizer=summarizer, auto_compact=False)
    for options, count in ((off, 0), (AgentOptions(summarizer=summarizer), 1)):
        agent = AgentSession(model, session=session, options=options)
        with capture_logs() as logs:
            async with agent.stream("Go on") as events:
                found = [event.error async for event in events if isinstance(event, NotCompacted)]
        assert events.turn.text == "Yes."
        assert [(type(each), each.__cause__) for each in found] == [(ContextError, error)] * count
        assert [(each["event"], each["error"]) for each in logs] == [("not_compacted", type(error).__name__)] * count
    assert await compactions(session) == []
    not_async = AgentOptions(summarizer=lambda request: "In short.")  # type: ignore[arg-type,return-value]  # refused
    with pytest.raises(InvalidInput, match="write it as `async def`"):
        await AgentSession(model, session=session, options=not_async).respond("Go on")


async def test_a_summary_by_a_model_records_its_usage_and_repeats_a_refused_request_with_less(session: Session) -> None:
    await append_turns(session, 6)
    used = Usage(400, 4, total_tokens=404)
    model = ScriptedModel([RequestTooLong("too long"), answer("They talked.", usage=used)])
    summarizer = summarizer_of(model)
    assert summarizer.summarizer_id == "script/scripted"
    assert (await session.compact(summarizer, keep_tokens=100)).summary == "They talked."
    (entry,) = await compactions(session)
    assert entry.compaction.usage == used
    first, second = model.requests
    assert count_messages(second.messages) < count_messages(first.messages)  # the repeated request is smaller
    assert second.max_tokens is not None


async def test_a_summarizer_whose_model_does_not_complete_its_answer_raises() -> None:
    class Silent(ScriptedModel):
        async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
            yield TextDelta("I ")

    request = SummaryRequest((message("user", "sum it up"),), 10, 20, ())
    with pytest.raises(Exception, match="without completing it"):
        await summarizer_of(Silent([]))(request)
    assert plain_text((await summarizer_of(ScriptedModel(["ok"]))(request)).content) == "ok"
