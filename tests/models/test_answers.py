"""Answers of models in both protocols, over real connections, and the events that they are split into."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import anyio
import pytest
from anyio import to_thread
from hypothesis import given, settings
from hypothesis import strategies as st

from treering import AgentSession, Message, SessionHost, Usage, message, text, thinking, tool_result, tool_use
from treering.agents import ModelRequest, TextDelta, ThinkingDelta, ToolCallStarted, ToolSpec, malformed_arguments
from treering.errors import ModelUnavailable
from treering.events import http_clients
from treering.events.content import ToolUsePart
from treering.events.json_values import NESTING_MAX
from treering.models.event_stream import EventData
from treering.testing.model_server import Call, Counts, ModelServer, Speech

from ..sampling import examples
from .asking import REQUEST, answer, streamed
from .conftest import Maker


async def test_an_answer_is_streamed_and_then_completed(server: ModelServer, model: Maker) -> None:
    server.reply(
        Speech(thought=["Be ", "kind."], text=["Hel", "lo"], usage=Counts(100, 7, cache_read=60, cache_write=30))
    )
    client = model()
    events, answered = await streamed(client)
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


async def test_lone_surrogates_in_an_answer_are_replaced(server: ModelServer, model: Maker) -> None:
    server.calls(Call("c1", "say", ['{"what": "\\ud83d", ', '"ok": "\\ud83d\\ude00"}']), text=["I \ud83d", "!"])
    events, answered = await streamed(model())
    assert events[:2] == [TextDelta("I \ufffd"), TextDelta("!")]
    assert answered.content == (text("I \ufffd!"), tool_use("c1", "say", {"what": "\ufffd", "ok": "\U0001f600"}))


async def test_interleaved_fragments_of_parallel_calls_are_assembled(server: ModelServer, model: Maker) -> None:
    server.calls(
        *(Call("c1", "read", ['{"pa', 'th": "ä', '.py"}']), Call("c2", "list", ["{}"]), Call("c3", "pwd", [])),
        text=["So:"],
    )
    events, answered = await streamed(model())
    started = [ToolCallStarted("c1", "read"), ToolCallStarted("c2", "list"), ToolCallStarted("c3", "pwd")]
    assert events == [TextDelta("So:"), *started]
    calls = [tool_use("c1", "read", {"path": "ä.py"}), tool_use("c2", "list"), tool_use("c3", "pwd")]
    assert answered.content == (text("So:"), *calls)
    assert answered.stop_reason == "tool_use"


async def test_arguments_that_are_not_an_object_are_kept_and_marked(server: ModelServer, model: Maker) -> None:
    server.calls(Call("c1", "read", ['{"path": ']), Call("c2", "read", ["[1]"]), Call("c3", "read", ['{"path":"a"}']))
    answered = await answer(model())
    calls = [part.tool_use for part in answered.content if isinstance(part, ToolUsePart)]
    assert [malformed_arguments(call) for call in calls] == ['{"path": ', "[1]", None]
    assert calls[0].input == {"malformed_arguments": '{"path": '}


async def test_arguments_that_are_nested_too_deeply_are_marked(server: ModelServer, model: Maker) -> None:
    deep = f'{{"a":{"[" * NESTING_MAX}{"]" * NESTING_MAX}}}'
    server.calls(Call("c1", "read", [deep]))
    server.says("I see.")
    async with SessionHost() as host:
        session = await host.create()
        assert (await AgentSession(model(), session=session).respond("Read")).text == "I see."
        _, called, *_ = await session.messages()
        (call,) = [part.tool_use for part in called.content if isinstance(part, ToolUsePart)]
    assert malformed_arguments(call) == deep


async def test_an_answer_has_its_stop_reason(server: ModelServer, model: Maker) -> None:
    async with model() as client:
        for reason in ("stop", "length", "refusal"):
            server.reply(Speech(text=["So"], stop=reason))
            assert (await answer(client)).stop_reason == reason
        for reason in ("length", "refusal"):
            server.reply(Speech(calls=[Call("c1", "pwd", []), Call("c2", "rm", [])], stop=reason))
            calls = [part.tool_use for part in (await answer(client)).content if isinstance(part, ToolUsePart)]
            # the arguments of the last one are missing, so it must not be carried out
            assert [malformed_arguments(call) for call in calls] == [None, ""], reason
    assert server.connections == 1


async def test_an_answer_may_be_empty(server: ModelServer, model: Maker) -> None:
    server.reply(Speech(usage=Counts(3, 0)))
    events, answered = await streamed(model())
    assert (events, answered.content) == ([], ())
    assert answered.usage == Usage(input_tokens=3, total_tokens=3)


async def test_a_request_has_the_documented_form(server: ModelServer, model: Maker) -> None:
    server.says("Done")
    tool = ToolSpec.of(
        "read", "Reads a file.", parameters={"type": "object", "properties": {"path": {"type": "string"}}}
    )
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
        assert (sent.path, sent.headers["authorization"]) == ("/v1/chat/completions", "Bearer k")
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


async def test_closing_the_stream_closes_the_connection(server: ModelServer, model: Maker) -> None:
    server.reply(Speech(text=["one", "two", "three"], hold_after=4), Speech(text=["four"]))
    async with model() as client:
        stream: Any = client.generate(REQUEST)
        assert await anext(stream) == TextDelta("one")
        await stream.aclose()
        assert await to_thread.run_sync(server.gone.wait, 60)
        assert (await streamed(client))[0] == [TextDelta("four")]


STREAM = (
    b': hello\n\nevent: ping\ndata: {"a": 1}\n\ndata:{"b":\ndata:  2}\nid: 7\r\n\r\n'
    + "data: ä\u2028\x85 山\r\n\r\n\n\ndata: [DONE]\n\ndata: cut off".encode()
)
EVENTS = [b'{"a": 1}', b'{"b":\n 2}', "ä\u2028\x85 山".encode(), b"[DONE]"]


class PiecewiseResponse:
    """A response whose body arrives in these pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self.closed = False
        self.unwound = False

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces:
                yield piece
                if self.closed:
                    raise OSError("closed")
        finally:
            self.unwound = True

    async def aclose(self) -> None:
        self.closed = True


@settings(max_examples=examples(25))
@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_the_same_wherever_the_stream_is_split(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(places)]

    async def read() -> list[bytes]:
        async with aclosing(EventData(PiecewiseResponse(pieces))) as events:
            return [data async for data in events]

    assert anyio.run(read) == EVENTS


@pytest.mark.parametrize("taken", [0, 1, 4])
async def test_closing_the_stream_early_closes_the_response_and_its_iterator(taken: int) -> None:
    response = PiecewiseResponse([STREAM[:20], STREAM[20:40], STREAM[40:]])
    async with aclosing(EventData(response)) as events:
        for _ in range(taken):
            await anext(events)
    assert response.closed
    assert response.unwound


async def test_finishing_does_not_wait_for_an_endless_response() -> None:
    class Endless(PiecewiseResponse):
        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            yield b"data: [DONE]\n\n"
            await anyio.sleep_forever()

    async with aclosing(EventData(Endless([]))) as events:
        assert await anext(events) == b"[DONE]"
        await events.finish()


@pytest.mark.parametrize("where", ["response", "body"])
async def test_a_response_that_cannot_be_closed_does_not_block_a_cancelled_task(where: str) -> None:
    class Stuck(PiecewiseResponse):
        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            try:
                yield b"data: 1\n\n"
                await anyio.sleep_forever()
            finally:
                self.unwound = True

        async def aclose(self) -> None:
            if where == "response":
                await anyio.sleep_forever()

    response = Stuck([])
    with anyio.CancelScope() as cancelled:
        async with aclosing(EventData(response)) as events:
            await anext(events)
            cancelled.cancel()
            await anyio.sleep_forever()
    assert response.unwound


@pytest.mark.parametrize("piece", [b"x", b"data: x\n"])
async def test_an_event_without_an_end_raises_beyond_a_limit(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken server must not fill the memory, but any number of complete events is accepted."""
    monkeypatch.setattr(http_clients, "EVENT_BYTES_MAX", 100)
    async with aclosing(EventData(PiecewiseResponse([b"data: a\n\n"] * 50 + [piece] * 101))) as events:
        for _ in range(50):
            assert await anext(events) == b"a"
        with pytest.raises(ModelUnavailable, match="more than 100 bytes"):
            await anext(events)
