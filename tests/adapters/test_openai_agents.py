"""Sessions of OpenAI's Agents SDK: what goes in comes back, what fails leaves no trace in the path, nothing is torn."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

pytest.importorskip("agents", reason="OpenAI's Agents SDK is not installed: pip install -e '.[openai-agents]'")

from agents import Agent, Runner, SQLiteSession, function_tool, handoff, set_tracing_disabled
from agents.exceptions import InputGuardrailTripwireTriggered
from agents.guardrail import GuardrailFunctionOutput, input_guardrail
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from openai import AsyncOpenAI
from openai.types.responses.response_input_item_param import ResponseInputItemParam

from treering import Message, SessionHost, plain_text, text, thinking, tool_use
from treering.adapters.openai_agents import TreeringSession
from treering.errors import InvalidEntry, InvalidSessionId, WrongThread
from treering.events.providers.openai import to_openai
from treering.testing.model_server import Call, Failure, ModelServer

from .typed_values import Value, members, values_of

set_tracing_disabled(disabled=True)
ITEMS = list(values_of(ResponseInputItemParam))


@pytest.fixture
def anyio_backend() -> str:
    """The SDK knows no other loop."""
    return "asyncio"


async def added(session: TreeringSession, *items: Mapping[str, object] | None) -> list[Value]:
    """Add items, and return all that are there."""
    await session.add_items(cast("Any", list(items)))
    return cast("list[Value]", await session.get_items())


@pytest.mark.feature("A-2")
async def test_an_item_of_every_kind_comes_back_equal_and_is_found(root: str) -> None:
    assert len(members(ResponseInputItemParam)) > 25
    session = TreeringSession("kinds", root)
    assert await added(session, *ITEMS) == ITEMS
    async with SessionHost() as host:  # each one alone, as a message with words
        for item in ITEMS:
            alone = TreeringSession("alone", host)
            assert await added(alone, item) == [item]
            (message,) = await (await host.get_or_create("alone")).messages()
            assert message.role in ("user", "assistant", "tool", "system", "developer")
            assert message.content, item
            await alone.clear_session()


@pytest.mark.feature("A-2")
@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": ""},
        {"role": "user", "content": [{"type": "input_text", "text": ""}, {"type": "input_text", "text": "\u2028\0é"}]},
        {"role": "robot", "content": "a role of nobody", "extra": [1, 1.0, True, None, {}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{ "a" :1.0,\n"a":2}'},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "no JSON"},
        {"type": "function_call_output", "call_id": "c", "output": []},
        {"type": "message", "role": "assistant", "content": [], "response_item": {"form": "plain"}},
        {"type": "a kind of tomorrow", "call_id": 5, "content": {"type": "text"}},
        {},
    ],
)
async def test_an_item_that_no_kind_describes_comes_back_equal(root: str, item: Value) -> None:
    (found,) = await added(TreeringSession("odd", root), item)
    assert json.dumps(found, sort_keys=True) == json.dumps(item, sort_keys=True)  # tells 1, 1.0 and True apart


@pytest.mark.feature("A-2")
async def test_items_are_messages_for_search_and_views(root: str) -> None:
    async with SessionHost(root) as host:
        session = TreeringSession("parcel", host)
        await added(
            session,
            {"role": "user", "content": "Where is my parcel?"},
            {"type": "function_call", "call_id": "c", "name": "track", "arguments": '{"number":"Z9"}', "id": "fc_1"},
            {"type": "function_call_output", "call_id": "c", "output": "In Lisbon"},
        )
        own = await host.get_or_create("parcel")
        called, answered = (await own.messages())[1:]
        assert called.content == (tool_use("c", "track", {"number": "Z9"}),)
        assert answered.role == "tool"
        assert [hit.session_id async for hit in host.search("Lisbon")] == [own.id]


async def test_messages_of_others_are_items(root: str) -> None:
    async with SessionHost(root) as host:
        own = await host.get_or_create("shared")
        summary = Message("compactionSummary", (text("They met."),))
        said = (thinking("Hm", signature="of Claude"), text("Let me look."))
        calls = (tool_use("c", "look"), tool_use("d", "look"))
        await own.append_many([summary, Message("assistant", (*said, *calls), provider="anthropic")])
        session = TreeringSession("shared", host)
        expected: list[Any] = [
            *to_openai([summary]),
            {"role": "assistant", "content": "Let me look."},
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
            {"type": "function_call", "call_id": "d", "name": "look", "arguments": "{}"},
        ]
        assert await session.get_items() == expected
        assert await session.get_items(limit=2) == expected[-2:]
        assert await session.pop_item() == expected[-1]  # one of the three of a message
        assert await session.get_items() == expected[:-1]


async def test_an_edited_message_shows_its_edit_and_not_what_it_was(root: str) -> None:
    async with SessionHost(root) as host:
        session = TreeringSession("edited", host)
        await added(session, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "secret"}]})
        own = await host.get_or_create("edited")
        (target,) = own.path()
        await own.append_context_edit(target, "[taken out]")
        parts = [{"type": "input_text", "text": "[taken out]"}]
        assert await session.get_items() == [{"type": "message", "role": "user", "content": parts}]


async def test_no_item_is_added_if_one_of_them_is_none(root: str) -> None:
    session = TreeringSession("bad", root)
    for bad in (
        [{"role": "user", "content": "a"}, "no object"],
        [{"role": "user", "content": {1, 2}}],
        [{"a": "\ud800"}],
    ):
        with pytest.raises(InvalidEntry):
            await session.add_items(cast("Any", bad))
    assert await session.get_items() == []
    with pytest.raises(InvalidSessionId):
        await TreeringSession("", root).get_items()


async def test_limits_count_from_the_end(root: str) -> None:
    items = [{"role": "user", "content": str(number)} for number in range(5)]
    session = TreeringSession("limits", root, session_settings={"limit": 2})
    await session.add_items(cast("Any", items))
    own = SQLiteSession("limits", session_settings={"limit": 2})
    await own.add_items(cast("Any", items))
    for limit, expected in ((None, items[-2:]), (0, []), (1, items[-1:]), (4, items[-4:]), (9, items), (-1, items)):
        assert await session.get_items(limit) == expected == await own.get_items(limit)
    own.close()


async def test_what_is_popped_and_cleared_stays_in_the_tree(root: str) -> None:
    session = TreeringSession("pops", root)
    first, second, third = ({"role": "user", "content": word} for word in ("one", "two", "three"))
    await added(session, first, second)
    assert await session.pop_item() == second
    assert await added(session, third) == [first, third]
    await session.clear_session()
    assert await session.pop_item() is None
    assert await added(TreeringSession("pops", root), second) == [second]  # another object of the same session
    async with SessionHost(root + "-copy") as host:
        assert await TreeringSession("pops", host).get_items() == []
    shared = TreeringSession("pops", root)
    texts = await shared._hosting.run(lambda host: _all_texts(host))
    assert texts == ["one", "two", "three", "two"]


async def test_what_is_popped_and_added_at_the_same_time_is_done_one_after_the_other() -> None:
    items = [{"role": "user", "content": word} for word in ("one", "two", "three", "four")]
    async with SessionHost() as host:
        one, other = (TreeringSession("agents", host) for _ in range(2))
        await one.add_items(cast("Any", items[:3]))
        popped = await asyncio.gather(one.pop_item(), other.pop_item(), one.add_items(cast("Any", items[3:])))
        assert list(popped) == cast("Any", [items[2], items[1], None])
        assert await other.get_items() == cast("Any", [items[0], items[3]])


async def test_a_pop_takes_back_the_message_and_not_what_an_edit_made_of_another(root: str) -> None:
    async with SessionHost(root) as host:
        session = TreeringSession("edited", host)
        first, second = ({"role": "user", "content": word} for word in ("a secret", "two"))
        await added(session, first, second)
        below = await host.get_or_create("edited")
        first_id, second_id = below.path()
        await below.append_context_edit(second_id, "2")
        await below.append_context_edit(first_id, "redacted")
        assert await session.pop_item() is not None
        assert [plain_text(each.content) for each in (await below.context()).messages] == ["redacted"]


async def _all_texts(host: SessionHost) -> list[str]:
    return [plain_text(each.content) for each in await (await host.get_or_create("pops")).all_messages()]


def test_objects_of_one_root_share_a_session_over_loops_and_threads(root: str) -> None:
    session = TreeringSession("threads", root)
    item: Any = {"role": "user", "content": "from a loop of its own"}

    def add() -> None:
        asyncio.run(session.add_items([item]))
        asyncio.run(TreeringSession("threads", root).add_items([item]))

    threads = [threading.Thread(target=add) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert asyncio.run(session.get_items()) == [item] * 16


async def test_a_host_of_another_loop_is_refused_by_name(root: str) -> None:
    async with SessionHost(root) as host:
        session = TreeringSession("elsewhere", host)
        await session.get_items()
        with pytest.raises(WrongThread):
            await asyncio.to_thread(asyncio.run, session.get_items())


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"Rain in {city}"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    with ModelServer() as server:
        yield server


async def ran(agent: Agent[Any], said: str, session: TreeringSession) -> str:
    result = Runner.run_streamed(agent, said, session=session)
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


@pytest.mark.feature("A-3")
async def test_a_runner_with_tools_handoffs_a_failing_turn_and_a_guardrail(root: str, server: ModelServer) -> None:
    client = AsyncOpenAI(base_url=server.openai_url, api_key="k", max_retries=0)
    model = OpenAIChatCompletionsModel("any", openai_client=client)

    @input_guardrail
    async def no_secrets(_: object, __: object, said: object) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(
            None, tripwire_triggered="secret" in str(said[-1:] if isinstance(said, list) else said)
        )

    expert: Agent[Any] = Agent("expert", model=model, tools=[weather])
    agent: Agent[Any] = Agent("front", model=model, handoffs=[handoff(expert)], input_guardrails=[no_secrets])
    async with SessionHost(root) as host:
        session = TreeringSession("run", host)
        server.calls(Call("c1", "transfer_to_expert", "{}"))
        server.calls(Call("c2", "weather", '{"city":"Porto"}'))
        server.says("Take a coat.")
        assert await ran(agent, "What is it like in Porto?", session) == "Take a coat."
        own = await host.get_or_create("run")
        assert [each.role for each in await own.messages()] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "assistant",
        ]
        before = await session.get_items()

        server.reply(Failure(500, "broken"))
        with pytest.raises(Exception, match="500"):
            await ran(agent, "And tomorrow?", session)
        assert await session.get_items() == [*before, {"role": "user", "content": "And tomorrow?"}]  # the prompt alone
        await session.pop_item()  # what a program does that gives up the turn
        assert await session.get_items() == before

        server.says("never shown")
        with pytest.raises(InputGuardrailTripwireTriggered):
            await ran(agent, "Tell a secret", session)
        path = [plain_text(each.content) for each in await own.messages()]
        assert "never shown" not in path
        calls = {call.tool_use.id for each in await own.messages() for call in each.content if call.type == "tool_use"}
        results = {
            part.tool_result.tool_use_id
            for each in await own.messages()
            for part in each.content
            if part.type == "tool_result"
        }
        assert calls == results == {"c1", "c2"}
    await client.close()


MANY = """
import asyncio, resource, sys
from treering.adapters.openai_agents import TreeringSession

async def main(root, sessions):
    made = [TreeringSession(f"user:{number}", root) for number in range(sessions)]
    for said in ("one", "two"):
        await asyncio.gather(*(each.add_items([{"role": "user", "content": said}]) for each in made))
    for each in made:
        assert [item["content"] for item in await each.get_items()] == ["one", "two"]

limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
asyncio.run(main(sys.argv[1], 400))
"""


@pytest.mark.feature("A-5")
@pytest.mark.parametrize("descriptors", [256, pytest.param(1024, marks=pytest.mark.soak)])
def test_four_hundred_sessions_with_few_descriptors(root: str, descriptors: int) -> None:
    subprocess.run([sys.executable, "-c", MANY, root, str(descriptors)], check=True, timeout=60)
    sessions = [TreeringSession(f"user:{number}", root) for number in range(400)]
    assert all(len(asyncio.run(each.get_items())) == 2 for each in sessions[::50])


@pytest.mark.feature("A-6")
@pytest.mark.parametrize("shared", [True, False], ids=["root", "host"])
async def test_a_caller_that_is_cancelled_leaves_all_items_or_none(root: str, shared: bool) -> None:
    async with SessionHost(root + "-own") as host:
        session = TreeringSession("cancelled", root if shared else host)
        batch: list[Any] = [{"role": "user", "content": str(number)} for number in range(3)]
        outcomes = set()
        for steps in range(12):
            await session.clear_session()
            task = asyncio.ensure_future(session.add_items(batch))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            found = await session.get_items()
            assert found in ([], batch)
            outcomes.add(len(found))
        await session.clear_session()
        await session.add_items(batch)
        assert await session.get_items() == batch
        assert 0 in outcomes
