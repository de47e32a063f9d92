"""An agent whose model is reached over a real connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from treering import AgentOptions, AgentSession, Message, SessionHost, plain_text, tool
from treering.events.content import ToolResultPart
from treering.models.anthropic import AnthropicModel
from treering.models.openai import OpenAIModel
from treering.testing.model_server import Call, Failure, ModelServer, Speech


@tool
async def double(number: int) -> str:
    """Doubles a number."""
    return str(number * 2)


def results(messages: list[Message]) -> list[tuple[str, bool]]:
    return [
        (part.tool_result.text, part.tool_result.is_error)
        for each in messages
        for part in each.content
        if isinstance(part, ToolResultPart)
    ]


async def test_a_turn_survives_rate_limits_lost_connections_and_invalid_arguments(
    tmp_path: Path, server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    server.reply(
        Failure(429, "later", [("retry-after", "3")]),
        Speech(text=["Let", "me", "see"], cut_after=4),
        Speech(calls=[Call("c1", "double", ['{"numb', 'er": 21}']), Call("c2", "double", ["{oops"])], stop="tool_use"),
    )
    server.says("It is 42.")
    async with model() as client, SessionHost(tmp_path) as host, await host.create() as session:
        agent = AgentSession(client, session=session, tools=[double], options=AgentOptions(sleep=sleep))
        turn = await agent.respond("Double 21")
        messages = [each.message for each in (await session.context()).messages]
    assert waited[0] == 3.0
    assert len(waited) == 2
    assert ("42", False) in results(messages)
    (refused,) = [content for content, is_error in results(messages) if is_error]
    assert "{oops" in refused
    assert messages[-1].content == turn.messages[-1].content
    assert "{oops" in json.dumps(server.requests[-1].body["messages"])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_model_that_is_entered_twice_keeps_its_connection_until_both_exit(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    client = model()
    for _ in range(3):
        server.says("Hello")
    async with client, client:
        await AgentSession(client).respond("Hello")
        await AgentSession(client).respond("Hello")
    assert server.connections == 1
    await AgentSession(client).respond("Hello")
    assert server.connections == 2


@pytest.mark.feature("U-13")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_each_request_begins_with_the_bytes_of_the_previous_one(tmp_path: Path, server: ModelServer) -> None:
    model = OpenAIModel("m", base_url=server.openai_url, context_window=100_000)
    for turn in range(4):
        server.calls(Call(f"c{turn}", "double", [f'{{"number": {turn}}}']), text=["Let me see."])
        server.says(f"It is {2 * turn}.")
    async with model, SessionHost(tmp_path) as host:
        session_id = ""
        for turn in range(4):
            # A new agent each time, so that only the session remembers anything.
            async with await (host.load(session_id) if session_id else host.create()) as session:
                agent = AgentSession(model, session=session, tools=[double], system_prompt="You count.")
                await agent.respond(f"Double {turn}")
                session_id = session.id
    assert len(server.requests) == 8
    for before, after in pairwise(server.requests):
        sent = json.dumps(before.body["messages"], separators=(",", ":"), ensure_ascii=False).encode()
        assert sent in before.raw
        assert sent.removesuffix(b"]") + b"," in after.raw
        assert after.body["tools"] == before.body["tools"]


async def test_one_model_serves_concurrent_requests(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    for _ in range(4):
        server.says("Hello")
    answers: list[str] = []

    async def ask() -> None:
        turn = await AgentSession(client).respond("Hello")
        answers.append(plain_text(turn.messages[-1].content))

    async with model() as client, anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(ask)
    assert answers == ["Hello"] * 4
    assert server.connections <= 4


def test_a_model_that_is_not_entered_works_on_any_event_loop(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    client = model()

    async def ask() -> None:
        await AgentSession(client).respond("Hello")

    for backend in ("asyncio", "trio", "asyncio"):
        server.says("Hello")
        anyio.run(ask, backend=backend)
    assert server.connections == 3
