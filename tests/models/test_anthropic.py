"""What is peculiar to Anthropic's interface: prompt caching, thinking, blocks of other kinds."""

from __future__ import annotations

import re
from typing import Literal

import pytest

from treering import (
    Completed,
    InvalidEntry,
    Message,
    Model,
    ModelRequest,
    ToolSpec,
    image,
    message,
    text,
    tool_result,
    tool_use,
)
from treering.events.content import Thinking, ThinkingPart
from treering.models.anthropic import AnthropicModel
from treering.testing.model_server import ModelServer, Speech

TOOLS = (ToolSpec.of("read", "Reads.", {"type": "object"}), ToolSpec.of("list", "Lists.", {"type": "object"}))
SAID = (
    message("system", "You help."),
    message("user", "One"),
    message("assistant", tool_use("c1", "read", {})),
    message("tool", tool_result("c1", "content")),
    message("assistant", "Two"),
    message("user", "Three"),
)


async def answer(model: Model, request: ModelRequest) -> Message:
    events = [event async for event in model.generate(request)]
    assert isinstance(events[-1], Completed)
    return events[-1].message


def marked(value: object, path: str = "$") -> list[str]:
    """Return the places that are marked to be cached."""
    if isinstance(value, list):
        return [found for place, each in enumerate(value) for found in marked(each, f"{path}[{place}]")]
    if not isinstance(value, dict):
        return []
    own = [path] if "cache_control" in value else []
    return own + [found for name, each in value.items() for found in marked(each, f"{path}.{name}")]


async def test_what_stays_the_same_is_marked_to_be_cached(server: ModelServer) -> None:
    async with AnthropicModel("m", base_url=server.url) as model:
        for said, tools in ((SAID, TOOLS), (SAID[1:], TOOLS), (SAID[:2], ())):
            server.says("So")
            await answer(model, ModelRequest(messages=said, tools=tools))
    turns = ["$.messages[2].content[0]", "$.messages[4].content[0]"]
    assert [sorted(marked(sent.body)) for sent in server.requests] == [
        [*turns, "$.system[0]"],
        [*turns, "$.tools[1]"],
        ["$.messages[0].content[0]", "$.system[0]"],
    ]
    assert server.requests[0].body["system"][0]["cache_control"] == {"type": "ephemeral"}


async def test_how_long_it_is_cached_can_be_said(server: ModelServer) -> None:
    server.says("So")
    server.says("So")
    await answer(AnthropicModel("m", base_url=server.url, cache="1h"), ModelRequest(messages=SAID))
    await answer(AnthropicModel("m", base_url=server.url, cache=None), ModelRequest(messages=SAID))
    assert server.requests[0].body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert marked(server.requests[1].body) == []


@pytest.mark.parametrize(
    ("thinking", "level", "bound", "sent"),
    [
        (None, "high", 16_384, None),
        ("budget", None, 16_384, None),
        ("budget", "off", 16_384, None),
        ("budget", "low", 16_384, {"type": "enabled", "budget_tokens": 2048}),
        ("budget", "high", 16_384, {"type": "enabled", "budget_tokens": 8192}),
        ("budget", "high", 1000, None),
        ("adaptive", "minimal", 1000, {"type": "adaptive"}),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_model_is_told_how_much_to_think(
    server: ModelServer, thinking: Literal["budget", "adaptive"] | None, level: str | None, bound: int, sent: object
) -> None:
    server.says("So")
    model = AnthropicModel("m", base_url=server.url, thinking=thinking)
    await answer(model, ModelRequest(messages=SAID, thinking_level=level, max_tokens=bound))
    body = server.requests[0].body
    assert body.get("thinking") == sent
    assert body.get("output_config") == ({"effort": "low"} if thinking == "adaptive" else None)


async def test_thoughts_come_back_as_they_were_signed(server: ModelServer) -> None:
    async with AnthropicModel("m", base_url=server.url, cache=None) as model:
        block = {"type": "redacted_thinking", "data": "sealed"}
        begun = {"type": "content_block_start", "index": 5, "content_block": block}
        server.reply(Speech(thought=["Hm"], text=["So"], signature="signed", extra=[begun]))
        told = await answer(model, ModelRequest(messages=SAID))
        assert told.content[0] == ThinkingPart(Thinking("Hm", "signed"))
        assert told.content[2] == ThinkingPart(Thinking("", "sealed", redacted=True))
        server.says("So")
        await answer(model, ModelRequest(messages=(*SAID, told, message("user", "On"))))
    assert server.requests[1].body["messages"][-2]["content"] == [
        {"type": "thinking", "thinking": "Hm", "signature": "signed"},
        {"type": "text", "text": "So"},
        block,
    ]


async def test_thoughts_that_another_provider_signed_are_not_sent(server: ModelServer) -> None:
    thoughts = (ThinkingPart(Thinking("Hm", "signed")), ThinkingPart(Thinking("", "sealed", redacted=True)))
    said = [
        message("user", "One"),
        Message("assistant", (*thoughts, text("Two")), provider="openai", model="gpt"),
        Message("assistant", thoughts, provider="openai", model="gpt"),
        message("user", "Three"),
        Message("assistant", (thoughts[0], text("Four")), provider="anthropic", model="other"),
        message("user", "Five"),
    ]
    server.says("So")
    await answer(AnthropicModel("m", base_url=server.url, cache=None), ModelRequest(messages=tuple(said)))
    turns = [turn["content"] for turn in server.requests[0].body["messages"]]
    assert [[part["type"] for part in content] for content in turns] == [
        ["text"], ["text"], ["text"], ["thinking", "text"], ["text"],
    ]  # fmt: skip


async def test_calls_of_other_programs_get_ids_that_are_taken(server: ModelServer) -> None:
    said = [message("user", "One")]
    for each in ("call_1|fc_1", "uuid:0", "toolu_1-a", "c" * 65, "call_1|fc_1"):
        said += [message("assistant", tool_use(each, "read", {})), message("tool", tool_result(each, "content"))]
    async with AnthropicModel("m", base_url=server.url, cache=None) as model:
        for asked in (said[:3], said):
            server.says("So")
            await answer(model, ModelRequest(messages=tuple(asked)))
    first, then = ([turn["content"][0] for turn in sent.body["messages"][1:]] for sent in server.requests)
    ids = [call["id"] for call in then[::2]]
    assert [result["tool_use_id"] for result in then[1::2]] == ids
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in ids)
    assert (ids[2], ids[4], len({*ids})) == ("toolu_1-a", ids[0], 4)
    assert then[:2] == first, "which is still cached"


async def test_a_block_that_a_message_cannot_hold_is_refused(server: ModelServer) -> None:
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    server.reply(Speech(text=["So"], extra=[{"type": "content_block_start", "index": 1, "content_block": block}]))
    with pytest.raises(InvalidEntry, match=r"content\[1\]"):
        await answer(AnthropicModel("m", base_url=server.url), ModelRequest(messages=SAID))


async def test_images_are_sent(server: ModelServer) -> None:
    server.says("A cat")
    model = AnthropicModel("m", base_url=server.url, cache=None)
    await answer(model, ModelRequest(messages=(message("user", ["What?", image("QUJD", "image/png")]),)))
    assert server.requests[0].body["messages"][0]["content"][1]["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": "QUJD",
    }
