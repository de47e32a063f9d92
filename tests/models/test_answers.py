"""What models answer, in both protocols, over real connections and on every event loop."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from anyio import to_thread

from treering import (
    AgentSession,
    Completed,
    Message,
    Model,
    ModelEvent,
    ModelRequest,
    SessionHost,
    TextDelta,
    ThinkingDelta,
    ToolCallStarted,
    ToolSpec,
    Usage,
    malformed_arguments,
    message,
    text,
    thinking,
    tool_result,
    tool_use,
)
from treering.events.content import NESTING_MAX, ToolUsePart
from treering.models.anthropic import AnthropicModel
from treering.models.openai import OpenAIModel
from treering.testing.model_server import Call, Counts, ModelServer, Speech

ASKED = ModelRequest(messages=(message("user", "Hello"),))


async def answer(model: Model, request: ModelRequest = ASKED) -> tuple[list[ModelEvent], Message]:
    *told, last = [event async for event in model.generate(request)]
    assert isinstance(last, Completed)
    return told, last.message


async def test_an_answer_comes_in_pieces_and_then_whole(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.reply(
        Speech(thought=["Be ", "kind."], text=["Hel", "lo"], usage=Counts(100, 7, cache_read=60, cache_write=30))
    )
    asking = model()
    told, whole = await answer(asking)
    assert told == [ThinkingDelta("Be "), ThinkingDelta("kind."), TextDelta("Hel"), TextDelta("lo")]
    signature = "sig" if asking.provider == "anthropic" else None
    assert whole == Message(
        "assistant",
        (thinking("Be kind.", signature=signature), text("Hello")),
        model="m",
        provider=asking.provider,
        usage=Usage(10, 7, 60, 30, 107),
        stop_reason="stop",
    )


async def test_half_characters_are_replaced_and_the_answer_kept(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.calls(Call("c1", "say", ['{"what": "\\ud83d", ', '"ok": "\\ud83d\\ude00"}']), text=["I \ud83d", "!"])
    told, whole = await answer(model())
    assert told[:2] == [TextDelta("I \ufffd"), TextDelta("!")]
    assert whole.content == (text("I \ufffd!"), tool_use("c1", "say", {"what": "\ufffd", "ok": "\U0001f600"}))


async def test_calls_come_in_fragments_side_by_side(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.calls(
        Call("c1", "read", ['{"pa', 'th": "ä', '.py"}']),
        Call("c2", "list", ["{}"]),
        Call("c3", "pwd", []),
        text=["So:"],
    )
    told, whole = await answer(model())
    assert told == [
        TextDelta("So:"),
        *(ToolCallStarted(f"c{n}", name) for n, name in enumerate(["read", "list", "pwd"], 1)),
    ]
    assert whole.content == (
        text("So:"),
        tool_use("c1", "read", {"path": "ä.py"}),
        tool_use("c2", "list"),
        tool_use("c3", "pwd"),
    )
    assert whole.stop_reason == "tool_use"


async def test_arguments_that_are_no_object_are_kept_and_marked(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.calls(Call("c1", "read", ['{"path": ']), Call("c2", "read", ["[1]"]), Call("c3", "read", ['{"path":"a"}']))
    _, whole = await answer(model())
    calls = [part.tool_use for part in whole.content if isinstance(part, ToolUsePart)]
    assert [malformed_arguments(call) for call in calls] == ['{"path": ', "[1]", None]
    assert calls[0].input == {"malformed_arguments": '{"path": '}


async def test_arguments_that_are_nested_too_deep_to_be_kept_are_marked_too(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    deep = f'{{"a":{"[" * NESTING_MAX}{"]" * NESTING_MAX}}}'
    server.calls(Call("c1", "read", [deep]))
    server.says("I see.")
    async with SessionHost() as host:
        session = await host.create()
        assert (await AgentSession(model(), session=session).respond("Read")).text == "I see."
        _, called, *_ = await session.messages()
        (call,) = [part.tool_use for part in called.content if isinstance(part, ToolUsePart)]
    assert malformed_arguments(call) == deep


async def test_an_answer_says_why_it_ended(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    async with model() as asking:
        for reason in ("stop", "length", "refusal"):
            server.reply(Speech(text=["So"], stop=reason))
            assert (await answer(asking))[1].stop_reason == reason
        server.reply(Speech(calls=[Call("c1", "pwd", []), Call("c2", "rm", [])], stop="length"))
        first, last = (await answer(asking))[1].content
        assert isinstance(first, ToolUsePart)
        assert isinstance(last, ToolUsePart)
        assert malformed_arguments(first.tool_use) is None
        assert malformed_arguments(last.tool_use) == ""  # its arguments never came: it is not to be carried out
    assert server.connections == 1


async def test_an_answer_may_say_nothing(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.reply(Speech(usage=Counts(3, 0)))
    told, whole = await answer(model())
    assert told == []
    assert whole.content == ()
    assert whole.usage == Usage(input_tokens=3, total_tokens=3)


async def test_what_was_sent(server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]) -> None:
    server.says("Done")
    tool = ToolSpec.of("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    said = (
        message("system", "You help."),
        message("user", "Read it"),
        message("assistant", tool_use("c1", "read", {"path": "a"})),
        message("tool", tool_result("c1", "content")),
    )
    asking = model(options={"temperature": 0.5})
    await answer(asking, ModelRequest(messages=said, tools=(tool,), max_tokens=99, thinking_level="high"))
    (sent,) = server.requests
    body = sent.body
    assert (body["model"], body["stream"], body["max_tokens"], body["temperature"]) == ("m", True, 99, 0.5)
    assert "Read it" in json.dumps(body["messages"])
    if asking.provider == "openai":
        assert sent.path == "/v1/chat/completions"
        assert sent.headers["authorization"] == "Bearer k"
        assert [each["role"] for each in body["messages"]] == ["system", "user", "assistant", "tool"]
        assert body["tools"][0]["function"]["parameters"] == tool.parameters
        assert body["stream_options"] == {"include_usage": True}
    else:
        assert sent.path == "/v1/messages"
        assert sent.headers.get("x-api-key", sent.headers.get("authorization")) in {"k", "Bearer k"}  # by its version
        assert [each["role"] for each in body["messages"]] == ["user", "assistant", "user"]
        assert body["tools"][0]["input_schema"] == tool.parameters
    assert not {"thinking", "reasoning_effort"} & set(body)  # unless the model is said to think


async def test_giving_up_closes_the_connection(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.reply(Speech(text=["one", "two", "three"], hold_after=4), Speech(text=["four"]))
    async with model() as asking:
        stream: Any = asking.generate(ASKED)
        assert await anext(stream) == TextDelta("one")
        await stream.aclose()
        assert await to_thread.run_sync(server.gone.wait, 10)
        assert (await answer(asking))[0] == [TextDelta("four")]
