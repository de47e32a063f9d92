"""The requests of an agent: the last one, a subscription to all, and their events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
import pytest

from treering import (
    AgentOptions,
    AgentSession,
    Closed,
    Message,
    RequestSent,
    SentContext,
    Session,
    Tool,
    message,
    text,
    tool_result,
    tool_use,
)
from treering.testing.models import ScriptedModel, answer

Told = Callable[[Sequence[Message]], list[str]]


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
    assert sent.strategy == "masked-tools"
    assert sent.session_id == "main"
    built = sent.built
    assert sent.counts() == {
        "number": 2,
        "session_id": "main",
        "strategy": "masked-tools",
        "tokens_used": built.tokens_used,
        "token_budget": built.budget.available_tokens,
        "counts": {
            "original": 29,
            "included": 29,
            "summarized": 0,
            "dropped": 0,
            "masked": built.masked_message_count,
            "sent": 30,
        },
    }
    assert built.masked_message_count > 5
    shown = sent.to_json()
    assert shown["tools"] == ["add"]
    assert isinstance(shown["messages"], list)
    assert len(shown["messages"]) == len(sent.messages)
    assert shown["messages"][0] == {
        "role": "system",
        "content": [{"type": "text", "text": {"content": "Be brief."}}],
    }
    shown["messages"].clear()
    assert sent.to_json()["messages"]


@pytest.mark.feature("N-10")
async def test_following_requests_yields_each_at_most_once_up_to_the_last(session: Session) -> None:
    agent = AgentSession(ScriptedModel(["1", "2", "3"]), session=session)
    seen: list[int] = []

    async def follow() -> None:
        async with agent.follow_requests() as requests:
            async for sent in requests:
                seen.append(sent.number)
                if sent.number == 3:
                    return

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            for letter in "abc":
                await agent.respond(letter)
    assert seen[-1] == 3
    assert seen == sorted(set(seen))


async def test_a_late_or_slow_follower_gets_the_latest_request(session: Session) -> None:
    agent = AgentSession(ScriptedModel(["1", "2", "3"]), session=session)
    await agent.respond("a")
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
