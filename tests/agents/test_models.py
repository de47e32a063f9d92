"""The models that need no network: one that follows a script, and one that repeats the user's message."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from treering import (
    AgentSession,
    AnswerCutOff,
    Completed,
    Model,
    ModelEvent,
    ModelRequest,
    RequestTooLong,
    Session,
    TextDelta,
    ThinkingDelta,
    ToolCallStarted,
    Usage,
    message,
    plain_text,
    text,
    thinking,
    tool_use,
)
from treering.models.echo import EchoModel
from treering.projections.tokens import count_messages
from treering.testing.models import Broken, ScriptedModel, Stalled, answer

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
    assert pieces[:-1] == [
        ThinkingDelta("hm"),
        TextDelta("I ca"),
        TextDelta("ll."),
        ToolCallStarted("1", "read"),
    ]
    last = pieces[-1]
    assert isinstance(last, Completed)
    assert last.message.content == whole.content
    assert last.message.usage == Usage(1, 2)
    assert (last.message.stop_reason, last.message.provider, last.message.model) == ("tool_use", "maker", "m")
    await pieces_of(model)
    assert model.requests == [REQUEST, REQUEST]
    with pytest.raises(AssertionError, match="no step for this request"):
        await pieces_of(model)


async def test_a_scripted_model_can_fail_break_off_refuse_and_stall() -> None:
    model = ScriptedModel([AnswerCutOff("cut"), Broken("Hal", AnswerCutOff("cut again"))])
    with pytest.raises(AnswerCutOff, match=r"cut$"):
        await pieces_of(model)
    async with aclosing(model.generate(REQUEST)) as pieces:
        assert await anext(pieces) == TextDelta("Hal")
        with pytest.raises(AnswerCutOff, match="again"):
            await anext(pieces)
    with pytest.raises(RequestTooLong, match="the window holds 3") as refused:
        await pieces_of(ScriptedModel(["Hi!"], context_window=3))
    assert refused.value.available == 3
    assert (refused.value.needed or 0) > 3

    stalled = Stalled("I", anyio.Event())
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(pieces_of, ScriptedModel([stalled]))
            await stalled.reached.wait()
            group.cancel_scope.cancel()


async def test_the_script_of_a_scripted_model_can_be_a_function() -> None:
    model = ScriptedModel(lambda request: f"{len(request.messages)} messages")
    last = (await pieces_of(model))[-1]
    assert isinstance(last, Completed)
    assert plain_text(last.message.content) == "2 messages"
    assert last.message.usage is not None
    assert last.message.usage.input_tokens == count_messages(REQUEST.messages)
