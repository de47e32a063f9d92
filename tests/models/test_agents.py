"""Models by name, agents that reach theirs over a real connection, and models as summarizers."""

import json
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from treering import AgentOptions, AgentSession, InvalidInput, SessionHost, Usage, message, plain_text, tool
from treering.contexts import summarizer_of
from treering.events.content import ToolResultPart
from treering.models.anthropic import AnthropicModel
from treering.models.echo import EchoModel
from treering.models.naming import SERVERS, model_named
from treering.models.openai import OpenAIModel
from treering.testing.model_server import Call, Counts, Failure, ModelServer, Speech

from .asking import answer
from .conftest import Maker


@tool
async def double(number: int) -> str:
    """Doubles a number."""
    return str(number * 2)


async def test_a_turn_survives_rate_limits_lost_connections_and_invalid_arguments(
    tmp_path: Path, server: ModelServer, model: Maker
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
    parts = [part for each in messages for part in each.content]
    results = [part.tool_result for part in parts if isinstance(part, ToolResultPart)]
    (doubled,) = [each.text for each in results if not each.is_error]
    (refused,) = [each.text for each in results if each.is_error]
    assert doubled == "42"
    assert "{oops" in refused
    assert messages[-1].content == turn.messages[-1].content
    assert "{oops" in json.dumps(server.requests[-1].body["messages"])


async def test_a_model_entered_twice_keeps_its_connection_until_both_exit(server: ModelServer, model: Maker) -> None:
    client = model()
    server.reply(*[Speech(text=["Hello"])] * 3)
    async with client, client:
        await AgentSession(client).respond("Hello")
        await AgentSession(client).respond("Hello")
    assert server.connections == 1
    await AgentSession(client).respond("Hello")
    assert server.connections == 2


@pytest.mark.feature("U-13")
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


async def test_one_model_serves_concurrent_requests(server: ModelServer, model: Maker) -> None:
    server.reply(*[Speech(text=["Hello"])] * 4)
    answers: list[str] = []

    async def ask() -> None:
        turn = await AgentSession(client).respond("Hello")
        answers.append(plain_text(turn.messages[-1].content))

    async with model() as client, anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(ask)
    assert answers == ["Hello"] * 4
    assert server.connections <= 4


def test_a_model_that_is_not_entered_works_on_any_event_loop(server: ModelServer, model: Maker) -> None:
    client = model()

    async def ask() -> None:
        await AgentSession(client).respond("Hello")

    for backend in ("asyncio", "trio", "asyncio"):
        server.says("Hello")
        anyio.run(ask, backend=backend)
    assert server.connections == 3


def test_the_first_colon_separates_the_provider_from_the_model() -> None:
    model = model_named("ollama:qwen3:8b", context_window=8192)
    assert isinstance(model, OpenAIModel)
    assert (model.provider, model.model_id, model.context_window) == ("ollama", "qwen3:8b", 8192)
    assert isinstance(model_named("anthropic:claude-sonnet-4-5"), AnthropicModel)
    assert isinstance(model_named("echo"), EchoModel)
    assert model_named("echo", context_window=100).context_window == 100
    for provider in SERVERS:
        assert model_named(f"{provider}:m").provider == provider


@pytest.mark.parametrize("name", ["", "gpt-5", "openai:", "echo:loud", "azure:gpt-5", ":m"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="ollama:<model>"):
        model_named(name)


@pytest.mark.parametrize("address", ["notaurl", "localhost:11434/v1", "ftp://localhost", "http://", "http:///v1", 5])
@pytest.mark.parametrize("name", ["openai:m", "anthropic:m"])
def test_an_invalid_address_is_refused_when_the_model_is_created(name: str, address: str) -> None:
    with pytest.raises(InvalidInput, match="is not the address of a server: use a URL such as http://localhost"):
        model_named(name, base_url=address)


async def test_requests_go_to_the_given_address(server: ModelServer) -> None:
    for name in ("llama.cpp:m", "anthropic:m"):
        server.says("Hello")
        url = server.url if name.startswith("anthropic") else server.openai_url
        await answer(model_named(name, base_url=url, api_key="k", max_tokens=7))
        assert server.requests[-1].body["max_tokens"] == 7


async def test_a_session_is_compacted_with_a_models_summary(tmp_path: Path, server: ModelServer, model: Maker) -> None:
    server.says("They asked, ", "and were answered.", usage=Counts(5000, 8))
    async with model() as client, SessionHost(tmp_path) as host:
        session = await host.create()
        words = "word " * 200
        await session.append_many([message("user", f"Here are {words}"), message("assistant", words)] * 20)
        report = await session.compact(summarizer_of(client), keep_tokens=2000)
        assert report.summary == "They asked, and were answered."
        assert report.tokens_after < report.tokens_before / 2
        context = await session.context()
        assert "They asked, and were answered." in str(context.messages[0].content)
        entry = await session.entry(str(report.entry_id))
        assert entry is not None
        assert entry.compaction.usage == Usage(5000, 8, total_tokens=5008)  # type: ignore[union-attr]
    assert "Here are" in json.dumps(server.requests[0].body)
