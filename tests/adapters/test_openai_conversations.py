"""The Agents SDKs of Python and JavaScript with their own OpenAIConversationsSession, over `treering serve`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.processes import Server, running

from treering.remote import RemoteHost
from treering.testing.model_server import ModelServer, Raw

from .environments import lenient, node_modules

TOKEN = "a-token-for-this-test-alone"
SCRIPT = Path(__file__).parent / "upstream" / "conversation.mjs"
JAVASCRIPT = ("@openai/agents@0.20.0", "zod@4")
KINDS = ["message", "reasoning", "function_call", "function_call_output", "message"]
ROLES = ["user", "assistant", "assistant", "tool", "assistant", "user"]
"""The messages of two turns, but for the last answer."""


@pytest.fixture
def anyio_backend() -> str:
    """The SDK knows no other loop."""
    return "asyncio"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running(tmp_path / "root", environment={**os.environ, "TREERING_TOKEN": TOKEN}) as server:
        yield server


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        call = {"id": "fc_1", "call_id": "c1", "name": "weather", "arguments": '{"city":"Porto"}'}
        model.reply(
            response(
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look."}]},
                {"type": "function_call", "status": "completed", **call},
            ),
            response(answer("msg_1", "Take a coat.")),
            response(answer("msg_2", "The same.")),
        )
        yield model


def answer(item_id: str, words: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}


def response(*output: dict[str, Any]) -> Raw:
    """Return a stream of the Responses API, which ends with these items."""
    tokens = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {"id": "resp_1", "object": "response", "created_at": 0, "model": "any", "status": "completed"}
    whole |= {"output": output, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    whole |= {"usage": tokens | details}
    event = {"type": "response.completed", "sequence_number": 1, "response": whole}
    return Raw(f"event: response.completed\ndata: {json.dumps(event)}\n\n".encode())


def asked(model: ModelServer) -> list[str]:
    """Return the kinds of the items that the model was sent last."""
    return [item.get("type", "message") for item in model.requests[-1].body["input"]]


async def path_of(server: Server, session_id: str) -> list[str]:
    """Return the roles of the messages that a session's context shows."""
    async with RemoteHost(server.address, token=TOKEN) as host:
        return [message.role for message in await (await host.load(session_id)).messages()]


@pytest.mark.feature("A-29")
async def test_the_session_of_the_python_sdk(server: Server, model: ModelServer) -> None:
    agents: Any = pytest.importorskip("agents", reason="OpenAI's Agents SDK is not installed")
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(disabled=True)

    @agents.function_tool  # type: ignore[untyped-decorator, unused-ignore]  # the SDK may be absent
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"Rain in {city}"

    async with (
        AsyncOpenAI(base_url=f"{server.address}/openai/v1", api_key=TOKEN) as client,
        AsyncOpenAI(base_url=model.openai_url, api_key="k", max_retries=0) as own,
    ):
        agent = agents.Agent("front", model=agents.OpenAIResponsesModel("any", own), tools=[weather])
        session = agents.OpenAIConversationsSession(openai_client=client)

        async def said(words: str) -> str:
            result = agents.Runner.run_streamed(agent, words, session=session)
            async for _ in result.stream_events():
                pass
            return str(result.final_output)

        assert await said("What is it like in Porto?") == "Take a coat."
        items = await session.get_items()
        assert [item["type"] for item in items] == KINDS
        assert items[3]["output"] == "Rain in Porto"
        assert await said("And tomorrow?") == "The same."
        assert asked(model) == [*KINDS, "message"]
        assert len(await session.get_items()) == 7
        assert [item["type"] for item in await session.get_items(limit=2)] == ["message", "message"]
        popped = await session.pop_item()
        assert popped["content"][0]["text"] == "The same."
        await session.add_items([{"role": "user", "content": str(number)} for number in range(45)])  # in three requests
        assert [item["content"][0]["text"] for item in await session.get_items(limit=45)] == list(map(str, range(45)))
        assert (await path_of(server, session.session_id))[:6] == ROLES

        other = agents.OpenAIConversationsSession(conversation_id=session.session_id, openai_client=client)
        await asyncio.gather(other.add_items([{"role": "user", "content": "at once"}]), session.pop_item())
        assert len(await other.get_items()) in (50, 51)
        await session.clear_session()
        assert await session.get_items() == []


@pytest.mark.feature("A-29")
@pytest.mark.interop
@pytest.mark.timeout(600)
def test_the_session_of_the_javascript_sdk(server: Server, model: ModelServer) -> None:
    modules = node_modules("openai-agents-js", *JAVASCRIPT)
    command = ["node", str(SCRIPT), server.address, TOKEN, model.openai_url]
    done = subprocess.run(
        command, env=lenient(MODULES=str(modules)), check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["answers"] == ["Take a coat.", "The same."]
    kinds = [item["type"].replace("_result", "_output") for item in found["items"]]  # its own word
    assert kinds == [*KINDS, "message", "message"]
    assert asked(model) == [*KINDS, "message"]
    assert found["items"][3]["output"] == "Rain in Porto"
    assert [item["id"] for item in found["latest"]] == [item["id"] for item in found["items"][-2:]]
    assert (found["popped"]["id"], found["left"]) == (found["items"][-1]["id"], 6)
    assert found["pages"] == [item["id"] for item in found["items"][-2::-1]]
    assert (found["missing"], found["metadata"]) == ("NotFoundError", {"seen": "yes"})
    assert asyncio.run(path_of(server, found["id"])) == ROLES
