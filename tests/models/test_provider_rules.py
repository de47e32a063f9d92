"""Whatever a session holds, what is sent satisfies the rules of the providers and the types of their libraries."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treering import Message, image, text, tool_result, tool_use
from treering.contexts import ContextMessage
from treering.events.content import Thinking, ThinkingPart
from treering.events.providers.anthropic import to_anthropic
from treering.events.providers.google import to_google
from treering.events.providers.openai import to_openai
from treering.models.calls import with_ids, with_names
from treering.projections.building.pairing import paired

Validate: TypeAlias = Callable[[object], object]


# The libraries of providers take seconds to import: only the process that runs these tests does it, and not each that
# collects them.
@pytest.fixture(scope="module")
def anthropic_block() -> Validate:
    from anthropic.types import ContentBlockParam
    from pydantic import TypeAdapter

    adapter: TypeAdapter[object] = TypeAdapter(ContentBlockParam)
    return adapter.validate_python


@pytest.fixture(scope="module")
def openai_message() -> Validate:
    from openai.types.chat import ChatCompletionMessageParam
    from pydantic import TypeAdapter

    adapter: TypeAdapter[object] = TypeAdapter(ChatCompletionMessageParam)
    return adapter.validate_python


NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}

IDS = st.sampled_from(["c1", "c2", "c3", "a|b", ""])
WORDS = st.sampled_from(["", " ", "\n", "hi"])
IMAGES = st.sampled_from(
    [
        image("QUJD", "image/png"),
        image("QUJD", "image/svg+xml"),
        image("iVBORw0KGgoAAAANSUhEUgAAAAE=", "image/*"),
        image("https://a.example/b.png", "image/png", kind="url"),
        image("data:image/svg+xml,%3Csvg/%3E", "image/svg+xml", kind="url"),
    ]
)
THOUGHTS = st.builds(Thinking, WORDS, st.sampled_from([None, "", "signed"]), st.booleans()).map(ThinkingPart)
BODIES = WORDS | st.lists(WORDS.map(text) | IMAGES, max_size=3)
RESULTS = st.builds(tool_result, IDS, BODIES, is_error=st.booleans())
CALLS = st.builds(tool_use, IDS, st.sampled_from(["read", "files.read", ""]))
SPOKEN = st.builds(
    lambda role, parts: Message(role, tuple(parts)),
    st.sampled_from(["user", "assistant", "assistant", "tool", "tool", "custom"]),
    st.lists(WORDS.map(text) | CALLS | RESULTS | THOUGHTS | IMAGES, max_size=4),
)
OTHERS = st.builds(
    lambda role, parts: Message(role, tuple(parts)),
    st.sampled_from(["system", "developer", "branchSummary", "compactionSummary", "unknown"]),
    st.lists(WORDS.map(text), max_size=2),
)


def sent(messages: Sequence[Message]) -> list[Message]:
    return [each.message for each in paired([ContextMessage(str(n), each) for n, each in enumerate(messages)])]


@example(
    messages=[
        Message("assistant", (tool_use("c1", "read"), tool_use("c2", "read"))),
        Message("user", (ThinkingPart(Thinking("Whose?", "signed")), tool_result("c1", "done"))),
    ]
)
@given(messages=st.lists(SPOKEN | OTHERS, max_size=9))
def test_any_messages_are_sent_in_a_form_that_anthropic_accepts(
    anthropic_block: Validate, messages: list[Message]
) -> None:
    prompt = to_anthropic(with_ids(with_names(sent(messages), set()), NAME, unique=True))
    assert all(cast("str", block["text"]).strip() for block in prompt.system)
    waiting: list[str] = []
    used: set[str] = set()
    for position, turn in enumerate(prompt.messages):
        assert turn["role"] == ("user", "assistant")[position % 2]
        blocks = cast("list[dict[str, Any]]", turn["content"])
        assert blocks
        for block in blocks:
            anthropic_block(block)
            check_block(block)
        assert blocks[-1]["type"] not in {"thinking", "redacted_thinking"}
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert [block["type"] for block in blocks[: len(results)]] == ["tool_result"] * len(results)
        assert sorted(results) == sorted(waiting)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert len(used) + len(waiting) == len(used | {*waiting}), "an id is used for one call"
        used |= {*waiting}
    assert not waiting


def check_block(block: dict[str, Any]) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip()
        case "thinking":
            assert block["signature"]
        case "redacted_thinking":
            assert block["data"]
        case "image":
            check_image(block["source"])
        case "tool_use":
            assert NAME.fullmatch(block["name"])
        case "tool_result":
            check_result(block)


def check_image(source: dict[str, Any]) -> None:
    if source["type"] == "url":
        assert source["url"].startswith("https:")
    else:
        assert source["media_type"] in IMAGE_TYPES


def check_result(block: dict[str, Any]) -> None:
    content: list[dict[str, Any]] = [{"type": "text", "text": block["content"]}]
    if not isinstance(block["content"], str):
        content = block["content"]
    for each in content:
        if each["type"] == "image":
            check_image(each["source"])
    if block.get("is_error"):
        assert {each["type"] for each in content} == {"text"}
        assert any(each["text"].strip() for each in content)


@example(messages=[Message("assistant", (each,)) for each in (tool_use("c1", "read"), text("hi"), text("hi"))])
@given(messages=st.lists(SPOKEN | OTHERS, max_size=9))
def test_any_messages_are_sent_in_a_form_that_openai_accepts(openai_message: Validate, messages: list[Message]) -> None:
    waiting: list[str] = []
    for each in cast("list[dict[str, Any]]", to_openai(with_names(sent(messages), set()))):
        openai_message(each)
        if each["role"] == "tool":
            waiting.remove(each["tool_call_id"])
            continue
        assert not waiting, "nothing comes between a call and its result"
        waiting = [call["id"] for call in each.get("tool_calls", ())]
        assert each["content"] is not None or waiting
    assert not waiting


@given(messages=st.lists(SPOKEN | OTHERS, max_size=9))
def test_any_messages_are_sent_in_a_form_that_google_accepts(messages: list[Message]) -> None:
    waiting = 0
    for position, content in enumerate(to_google(sent(messages)).contents):
        assert content["role"] == ("user", "model")[position % 2]
        parts = cast("list[dict[str, Any]]", content["parts"])
        assert parts
        assert sum("function_response" in part for part in parts) == waiting
        waiting = sum("function_call" in part for part in parts)
    assert not waiting
