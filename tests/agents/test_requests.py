"""Requests to models, and the models for tests."""

from contextlib import aclosing

import pytest

from treering import AgentOptions, AgentSession, Session, Tool, Usage, message, plain_text, text, thinking, tool_use
from treering.actors.agents.events import RequestSent
from treering.agents import Completed, Model, ModelEvent, ModelRequest, TextDelta, ThinkingDelta, ToolCallStarted
from treering.entries import tool_result
from treering.errors import Closed
from treering.models.echo import EchoModel
from treering.projections.tokens import count_messages
from treering.subscriptions import SentContext
from treering.testing.models import ScriptedModel, answer


@pytest.mark.feature("N-10", "N-78")
async def test_the_last_request_is_available_with_its_strategy_and_counts(session: Session, add: Tool) -> None:
    await session.append_message("user", "Read them all")
    for number in range(12):
        await session.append_message("assistant", tool_use(str(number), "read", {}))
        await session.append_message("tool", tool_result(str(number), "x" * 400))
    await session.append_message("assistant", "Done.")
    model = ScriptedModel([answer(tool_use("a", "add", {"a": 1})), "2"], context_window=1200)
    agent = AgentSession(model, session=session, system_prompt="Be brief.", tools=[add])
    assert agent.last_request is None

    turn = await agent.respond("And 1 + 1?")

    sent = agent.last_request
    assert sent is not None
    assert turn.sent is sent
    assert sent.request is model.last_request
    assert sent.messages == model.last_request.messages
    assert sent.messages[0] == message("system", "Be brief.")
    assert (sent.strategy, sent.session_id) == ("masked-tools", "main")
    built = sent.built
    counts = {"original": 29, "included": 29, "summarized": 0, "dropped": 0, "masked": built.masked_message_count}
    assert sent.counts() == {
        "number": 2,
        "session_id": "main",
        "strategy": "masked-tools",
        "tokens_used": built.tokens_used,
        "token_budget": built.budget.available_tokens,
        "counts": {**counts, "sent": 30},
    }
    assert built.masked_message_count > 5
    assert built.budget.tool_definition_tokens > 0
    shown = sent.to_json()
    assert shown["tools"] == ["add"]
    assert isinstance(shown["messages"], list)
    assert len(shown["messages"]) == len(sent.messages)
    assert shown["messages"][0] == {"role": "system", "content": [{"type": "text", "text": {"content": "Be brief."}}]}
    shown["messages"].clear()
    assert sent.to_json()["messages"]


@pytest.mark.feature("N-10")
async def test_a_late_or_slow_follower_gets_the_latest_request(session: Session) -> None:
    agent = AgentSession(ScriptedModel(["1", "2", "3"]), session=session)
    await agent.respond("a")
    with pytest.raises(Closed):
        await anext(agent.follow_requests())
    async with agent.follow_requests() as requests:
        assert (await anext(requests)).number == 1
        await agent.respond("b")
        await agent.respond("c")
        latest = await anext(requests)
    assert latest.number == 3
    assert latest is agent.last_request
    with pytest.raises(Closed):
        await anext(requests)


async def test_each_request_of_a_turn_is_an_event_of_its_stream(session: Session, add: Tool) -> None:
    model = ScriptedModel([answer(tool_use("a", "add", {"a": 1})), "2"])
    agent = AgentSession(model, session=session, tools=[add], options=AgentOptions(max_tokens=77))
    async with agent.stream([text("What is"), text("1 + 1?")]) as events:
        sent: list[SentContext] = [event.sent async for event in events if isinstance(event, RequestSent)]
    assert [each.request for each in sent] == model.requests
    assert {each.request.max_tokens for each in sent} == {77}


REQUEST = ModelRequest(messages=(message("system", "Be brief."), message("user", "Hello, model!")))


async def pieces_of(model: Model, request: ModelRequest = REQUEST) -> list[ModelEvent]:
    async with aclosing(model.generate(request)) as pieces:
        return [piece async for piece in pieces]


async def test_the_echo_model_repeats_the_user_s_message_with_its_usage() -> None:
    model = EchoModel()
    pieces = await pieces_of(model)
    assert pieces == await pieces_of(model)
    last = pieces[-1]
    assert isinstance(last, Completed)
    expected = "(echo, 2 messages) Hello, model!"
    assert plain_text(last.message.content) == expected
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == expected
    assert len(pieces) > 2
    assert (last.message.provider, last.message.model, last.message.stop_reason) == ("treering", "echo", "stop")
    assert last.message.usage is not None
    assert last.message.usage.input_tokens == count_messages(REQUEST.messages)
    assert last.message.usage.total_tokens == last.message.usage.input_tokens + last.message.usage.output_tokens


async def test_the_echo_model_counts_the_messages_of_a_conversation(session: Session) -> None:
    agent = AgentSession(EchoModel(), session=session)
    assert (await agent.respond("one")).text == "(echo, 1 message) one"
    assert (await agent.respond("two")).text == "(echo, 3 messages) two"
    assert (await pieces_of(EchoModel(), ModelRequest(messages=())))[-1].message.content == (  # type: ignore[union-attr]
        text("(echo, 0 messages) "),
    )


async def test_a_scripted_model_streams_its_steps_and_records_requests() -> None:
    whole = answer([thinking("hm"), text("I call."), tool_use("1", "read", {})], usage=Usage(1, 2))
    model = ScriptedModel([whole, "Hi!"], provider="maker", model_id="m", piece_chars=4)
    pieces = await pieces_of(model)
    assert pieces[:-1] == [ThinkingDelta("hm"), TextDelta("I ca"), TextDelta("ll."), ToolCallStarted("1", "read")]
    last = pieces[-1]
    assert isinstance(last, Completed)
    assert last.message.content == whole.content
    assert last.message.usage == Usage(1, 2)
    assert (last.message.stop_reason, last.message.provider, last.message.model) == ("tool_use", "maker", "m")
    await pieces_of(model)
    assert model.requests == [REQUEST, REQUEST]
    with pytest.raises(AssertionError, match="no step for this request"):
        await pieces_of(model)
    last = (await pieces_of(ScriptedModel(lambda request: f"{len(request.messages)} messages")))[-1]
    assert isinstance(last, Completed)
    assert plain_text(last.message.content) == "2 messages"
    assert last.message.usage is not None
    assert last.message.usage.input_tokens == count_messages(REQUEST.messages)
