"""An agent whose model is behind a real connection."""

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


async def test_a_turn_goes_on_whatever_the_provider_does(
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
    async with model() as asking, SessionHost(tmp_path) as host, await host.create() as session:
        agent = AgentSession(asking, session=session, tools=[double], options=AgentOptions(sleep=sleep))
        turn = await agent.respond("Double 21")
        said = [each.message for each in (await session.context()).messages]
    assert waited[0] == 3.0
    assert len(waited) == 2
    assert ("42", False) in results(said)
    (refused,) = [told for told, is_error in results(said) if is_error]
    assert "{oops" in refused
    assert said[-1].content == turn.messages[-1].content
    assert "{oops" in json.dumps(server.requests[-1].body["messages"])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_model_in_use_by_many_keeps_its_connections(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    asking = model()
    for _ in range(3):
        server.says("Hello")
    async with asking, asking:
        await AgentSession(asking).respond("Hello")
        await AgentSession(asking).respond("Hello")
    assert server.connections == 1
    await AgentSession(asking).respond("Hello")
    assert server.connections == 2


@pytest.mark.feature("U-13")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_was_sent_before_is_sent_again_byte_for_byte(tmp_path: Path, server: ModelServer) -> None:
    model = OpenAIModel("m", base_url=server.openai_url, context_window=100_000)
    for turn in range(4):
        server.calls(Call(f"c{turn}", "double", [f'{{"number": {turn}}}']), text=["Let me see."])
        server.says(f"It is {2 * turn}.")
    async with model, SessionHost(tmp_path) as host:
        session_id = ""
        for turn in range(4):
            # Another agent each time: nothing is remembered but what the session holds.
            async with await (host.load(session_id) if session_id else host.create()) as session:
                agent = AgentSession(model, session=session, tools=[double], system_prompt="You count.")
                await agent.respond(f"Double {turn}")
                session_id = session.id
    assert len(server.requests) == 8
    for before, after in pairwise(server.requests):
        sent = json.dumps(before.body["messages"], separators=(",", ":"), ensure_ascii=False).encode()
        assert sent in before.raw  # these are the bytes
        assert sent.removesuffix(b"]") + b"," in after.raw
        assert after.body["tools"] == before.body["tools"]


async def test_many_ask_one_model_at_once(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    for _ in range(4):
        server.says("Hello")
    told: list[str] = []

    async def ask() -> None:
        turn = await AgentSession(asking).respond("Hello")
        told.append(plain_text(turn.messages[-1].content))

    async with model() as asking, anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(ask)
    assert told == ["Hello"] * 4
    assert server.connections <= 4


def test_a_model_that_is_not_entered_serves_any_loop(
    server: ModelServer, model: Callable[..., OpenAIModel | AnthropicModel]
) -> None:
    asking = model()

    async def ask() -> None:
        await AgentSession(asking).respond("Hello")

    for backend in ("asyncio", "trio", "asyncio"):
        server.says("Hello")
        anyio.run(ask, backend=backend)
    assert server.connections == 3
