"""What is specific to Anthropic's interface: prompt caching, thinking, and other kinds of blocks."""

import re
from typing import Literal

import pytest

from treering import Message, message, text, tool_result, tool_use
from treering.agents import ModelRequest, TextDelta, ToolSpec
from treering.errors import InvalidEntry
from treering.events.content import Thinking, ThinkingPart
from treering.models.anthropic import AnthropicModel
from treering.testing.model_server import ModelServer, Speech

from .asking import answer, streamed

TOOLS = (
    ToolSpec.of("read", "Reads.", parameters={"type": "object"}),
    ToolSpec.of("list", "Lists.", parameters={"type": "object"}),
)
MESSAGES = (
    message("system", "You help."),
    message("user", "One"),
    message("assistant", tool_use("c1", "read", {})),
    message("tool", tool_result("c1", "content")),
    message("assistant", "Two"),
    message("user", "Three"),
)


def cached_places(value: object, path: str = "$") -> list[str]:
    """Return the places that are marked for caching."""
    if isinstance(value, list):
        return [found for place, each in enumerate(value) for found in cached_places(each, f"{path}[{place}]")]
    if not isinstance(value, dict):
        return []
    own = [path] if "cache_control" in value else []
    return own + [found for name, each in value.items() for found in cached_places(each, f"{path}.{name}")]


async def test_the_parts_that_stay_the_same_are_marked_for_caching(server: ModelServer) -> None:
    async with AnthropicModel("m", base_url=server.url) as model:
        for messages, tools in ((MESSAGES, TOOLS), (MESSAGES[1:], TOOLS), (MESSAGES[:2], ())):
            server.says("So")
            await answer(model, ModelRequest(messages=messages, tools=tools))
    turns = ["$.messages[2].content[0]", "$.messages[4].content[0]"]
    assert [sorted(cached_places(sent.body)) for sent in server.requests] == [
        [*turns, "$.system[0]"],
        [*turns, "$.tools[1]"],
        ["$.messages[0].content[0]", "$.system[0]"],
    ]
    assert server.requests[0].body["system"][0]["cache_control"] == {"type": "ephemeral"}


async def test_the_lifetime_of_the_cache_can_be_set(server: ModelServer) -> None:
    server.says("So")
    await answer(AnthropicModel("m", base_url=server.url, cache="1h"), ModelRequest(messages=MESSAGES))
    assert server.requests[0].body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    server.says("So")
    await answer(AnthropicModel("m", base_url=server.url, cache=None), ModelRequest(messages=MESSAGES))
    assert cached_places(server.requests[1].body) == []


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
async def test_the_thinking_level_is_sent_in_the_models_own_form(
    server: ModelServer, thinking: Literal["budget", "adaptive"] | None, level: str | None, bound: int, sent: object
) -> None:
    server.says("So")
    model = AnthropicModel("m", base_url=server.url, thinking=thinking)
    await answer(model, ModelRequest(messages=MESSAGES, thinking_level=level, max_tokens=bound))
    body = server.requests[0].body
    assert body.get("thinking") == sent
    assert body.get("output_config") == ({"effort": "low"} if thinking == "adaptive" else None)


async def test_signed_and_redacted_thoughts_are_sent_back_unchanged(server: ModelServer) -> None:
    async with AnthropicModel("m", base_url=server.url, cache=None) as model:
        block = {"type": "redacted_thinking", "data": "sealed"}
        begun = {"type": "content_block_start", "index": 5, "content_block": block}
        said: dict[str, object] = {"type": "content_block_start", "index": 6, "content_block": {"type": "text"}}
        more = {"type": "content_block_delta", "index": 6, "delta": {"type": "text_delta", "text": "it is"}}
        whole = {"type": "content_block_start", "index": 7, "content_block": {"type": "text", "text": "so."}}
        server.reply(Speech(thought=["Hm"], text=["So"], signature="signed", extra=[begun, said, more, whole]))
        events, answered = await streamed(model, ModelRequest(messages=MESSAGES))
        assert events[-1] == TextDelta("so."), "some servers send the text of a block with its beginning"
        assert answered.content[0] == ThinkingPart(Thinking("Hm", "signed"))
        assert answered.content[2] == ThinkingPart(Thinking("", "sealed", redacted=True))
        server.says("So")
        await answer(model, ModelRequest(messages=(*MESSAGES, answered, message("user", "On"))))
    assert server.requests[1].body["messages"][-2]["content"] == [
        {"type": "thinking", "thinking": "Hm", "signature": "signed"},
        {"type": "text", "text": "So"},
        block,
        {"type": "text", "text": "it is"},
        {"type": "text", "text": "so."},
    ]


async def test_thoughts_signed_by_another_provider_are_not_sent(server: ModelServer) -> None:
    thoughts = (ThinkingPart(Thinking("Hm", "signed")), ThinkingPart(Thinking("", "sealed", redacted=True)))
    messages = [
        message("user", "One"),
        Message("assistant", (*thoughts, text("Two")), provider="openai", model="gpt"),
        Message("assistant", thoughts, provider="openai", model="gpt"),
        message("user", "Three"),
        Message("assistant", (thoughts[0], text("Four")), provider="anthropic", model="other"),
        message("user", "Five"),
    ]
    server.says("So")
    await answer(AnthropicModel("m", base_url=server.url, cache=None), ModelRequest(messages=tuple(messages)))
    turns = [turn["content"] for turn in server.requests[0].body["messages"]]
    assert [[part["type"] for part in content] for content in turns] == [
        ["text"], ["text"], ["text"], ["thinking", "text"], ["text"],
    ]  # fmt: skip


async def test_a_conversation_that_ends_with_an_answer_ends_with_a_text_of_the_user(server: ModelServer) -> None:
    server.says("So")
    await answer(AnthropicModel("m", base_url=server.url), ModelRequest(messages=MESSAGES[:-1]))
    said, last = server.requests[0].body["messages"][-2:]
    assert (said["content"][0]["text"], last["role"], last["content"][0]["text"]) == ("Two", "user", "(Continue.)")


async def test_call_ids_of_other_programs_are_replaced_by_accepted_ones(server: ModelServer) -> None:
    messages = [message("user", "One")]
    for each in ("call_1|fc_1", "uuid:0", "toolu_1-a", "c" * 65, "call_1|fc_1"):
        messages += [message("assistant", tool_use(each, "read", {})), message("tool", tool_result(each, "content"))]
    async with AnthropicModel("m", base_url=server.url, cache=None) as model:
        for asked in (messages[:3], messages):
            server.says("So")
            await answer(model, ModelRequest(messages=tuple(asked)))
    first, then = ([turn["content"][0] for turn in sent.body["messages"][1:]] for sent in server.requests)
    ids = [call["id"] for call in then[::2]]
    assert [result["tool_use_id"] for result in then[1::2]] == ids
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in ids)
    assert (ids[2], len({*ids})) == ("toolu_1-a", 5), "an id that an earlier turn has used is refused, too"
    assert then[:2] == first, "the earlier messages stay the same, so the cache holds"


async def test_tool_names_of_other_models_are_replaced_by_accepted_ones(server: ModelServer) -> None:
    messages = [message("user", "One")]
    for place, name in enumerate(("read", "files.list", "bash<|channel|>json", "", "n" * 70)):
        messages += [message("assistant", tool_use(f"c{place}", name)), message("tool", tool_result(f"c{place}", "x"))]
    server.says("So")
    tools = (ToolSpec.of("files.list", "Lists.", parameters={"type": "object"}),)
    model = AnthropicModel("m", base_url=server.url, cache=None)
    await answer(model, ModelRequest(messages=tuple(messages), tools=tools))
    sent = [turn["content"][0]["name"] for turn in server.requests[0].body["messages"][1::2]]
    assert sent == ["read", "files.list", "bash__channel__json", "unknown", "n" * 64], "names of its tools are kept"


async def test_an_answer_with_an_unsupported_block_is_refused(server: ModelServer) -> None:
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    server.reply(Speech(text=["So"], extra=[{"type": "content_block_start", "index": 1, "content_block": block}]))
    with pytest.raises(InvalidEntry, match=r"content\[1\]"):
        await answer(AnthropicModel("m", base_url=server.url), ModelRequest(messages=MESSAGES))
