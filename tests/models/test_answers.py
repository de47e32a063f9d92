"""Answers of models in both protocols, over real connections and on every event loop."""

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

REQUEST = ModelRequest(messages=(message("user", "Hello"),))


async def answer(model: Model, request: ModelRequest = REQUEST) -> tuple[list[ModelEvent], Message]:
    *events, last = [event async for event in model.generate(request)]
    assert isinstance(last, Completed)
    return events, last.message


async def test_an_answer_is_streamed_and_then_completed(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.reply(
        Speech(thought=["Be ", "kind."], text=["Hel", "lo"], usage=Counts(100, 7, cache_read=60, cache_write=30))
    )
    client = model()
    events, answered = await answer(client)
    assert events == [ThinkingDelta("Be "), ThinkingDelta("kind."), TextDelta("Hel"), TextDelta("lo")]
    signature = "sig" if client.provider == "anthropic" else None
    assert answered == Message(
        "assistant",
        (thinking("Be kind.", signature=signature), text("Hello")),
        model="m",
        provider=client.provider,
        usage=Usage(10, 7, 60, 30, 107),
        stop_reason="stop",
    )


async def test_lone_surrogates_in_an_answer_are_replaced(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.calls(Call("c1", "say", ['{"what": "\\ud83d", ', '"ok": "\\ud83d\\ude00"}']), text=["I \ud83d", "!"])
    events, answered = await answer(model())
    assert events[:2] == [TextDelta("I \ufffd"), TextDelta("!")]
    assert answered.content == (text("I \ufffd!"), tool_use("c1", "say", {"what": "\ufffd", "ok": "\U0001f600"}))


async def test_interleaved_fragments_of_parallel_calls_are_assembled(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.calls(
        Call("c1", "read", ['{"pa', 'th": "ä', '.py"}']),
        Call("c2", "list", ["{}"]),
        Call("c3", "pwd", []),
        text=["So:"],
    )
    events, answered = await answer(model())
    assert events == [
        TextDelta("So:"),
        *(ToolCallStarted(f"c{n}", name) for n, name in enumerate(["read", "list", "pwd"], 1)),
    ]
    assert answered.content == (
        text("So:"),
        tool_use("c1", "read", {"path": "ä.py"}),
        tool_use("c2", "list"),
        tool_use("c3", "pwd"),
    )
    assert answered.stop_reason == "tool_use"


async def test_arguments_that_are_not_an_object_are_kept_and_marked(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.calls(Call("c1", "read", ['{"path": ']), Call("c2", "read", ["[1]"]), Call("c3", "read", ['{"path":"a"}']))
    _, answered = await answer(model())
    calls = [part.tool_use for part in answered.content if isinstance(part, ToolUsePart)]
    assert [malformed_arguments(call) for call in calls] == ['{"path": ', "[1]", None]
    assert calls[0].input == {"malformed_arguments": '{"path": '}


async def test_arguments_that_are_nested_too_deeply_are_marked(
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


async def test_an_answer_has_its_stop_reason(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    async with model() as client:
        for reason in ("stop", "length", "refusal"):
            server.reply(Speech(text=["So"], stop=reason))
            assert (await answer(client))[1].stop_reason == reason
        server.reply(Speech(calls=[Call("c1", "pwd", []), Call("c2", "rm", [])], stop="length"))
        first, last = (await answer(client))[1].content
        assert isinstance(first, ToolUsePart)
        assert isinstance(last, ToolUsePart)
        assert malformed_arguments(first.tool_use) is None
        assert malformed_arguments(last.tool_use) == ""  # its arguments are missing, so it must not be carried out
    assert server.connections == 1


async def test_an_answer_may_be_empty(server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]) -> None:
    server.reply(Speech(usage=Counts(3, 0)))
    events, answered = await answer(model())
    assert events == []
    assert answered.content == ()
    assert answered.usage == Usage(input_tokens=3, total_tokens=3)


async def test_a_request_has_the_documented_form(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.says("Done")
    tool = ToolSpec.of("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    messages = (
        message("system", "You help."),
        message("user", "Read it"),
        message("assistant", tool_use("c1", "read", {"path": "a"})),
        message("tool", tool_result("c1", "content")),
    )
    client = model(options={"temperature": 0.5})
    await answer(client, ModelRequest(messages=messages, tools=(tool,), max_tokens=99, thinking_level="high"))
    (sent,) = server.requests
    body = sent.body
    assert (body["model"], body["stream"], body["max_tokens"], body["temperature"]) == ("m", True, 99, 0.5)
    assert "Read it" in json.dumps(body["messages"])
    if client.provider == "openai":
        assert sent.path == "/v1/chat/completions"
        assert sent.headers["authorization"] == "Bearer k"
        assert [each["role"] for each in body["messages"]] == ["system", "user", "assistant", "tool"]
        assert body["tools"][0]["function"]["parameters"] == tool.parameters
        assert body["stream_options"] == {"include_usage": True}
    else:
        assert sent.path == "/v1/messages"
        # Which header holds the key depends on the version of the library.
        assert sent.headers.get("x-api-key", sent.headers.get("authorization")) in {"k", "Bearer k"}
        assert [each["role"] for each in body["messages"]] == ["user", "assistant", "user"]
        assert body["tools"][0]["input_schema"] == tool.parameters
    assert not {"thinking", "reasoning_effort"} & set(body)  # only sent to models declared as thinking


async def test_closing_the_stream_closes_the_connection(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    server.reply(Speech(text=["one", "two", "three"], hold_after=4), Speech(text=["four"]))
    async with model() as client:
        stream: Any = client.generate(REQUEST)
        assert await anext(stream) == TextDelta("one")
        await stream.aclose()
        assert await to_thread.run_sync(server.gone.wait, 60)
        assert (await answer(client))[0] == [TextDelta("four")]
