"""What only the wire format of OpenAI and of servers like it has."""

import json
from typing import Any, TypeAlias

import pytest

from treering import Message, Usage, message, text, thinking, tool_result, tool_use
from treering.agents import ModelRequest, ThinkingDelta, ToolCallStarted
from treering.events.content import ToolUsePart
from treering.models.openai import OpenAIAnswer, OpenAIModel, decode_chunk
from treering.testing.model_server import ModelServer, Raw

from .asking import REQUEST, answer, streamed


def stream(*chunks: object) -> Raw:
    lines = b"".join(f"data: {json.dumps(chunk)}\r\n\r\n".encode() for chunk in chunks)
    return Raw(lines + b": ping\n\ndata: [DONE]\n\n")


def chunk(delta: object, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


@pytest.fixture
def model(server: ModelServer) -> OpenAIModel:
    return OpenAIModel("m", base_url=server.openai_url, provider="ollama")


async def test_call_ids_of_other_programs_are_replaced_if_too_long(server: ModelServer, model: OpenAIModel) -> None:
    long = "run_shell_command-1767261600000-0a1b2c3d4e5f6"
    messages = [message("user", "One")]
    for each in (long, "uuid:0"):
        messages += [message("assistant", tool_use(each, "read", {})), message("tool", tool_result(each, "content"))]
    server.says("So")
    await answer(model, ModelRequest(messages=tuple(messages)))
    sent = server.requests[0].body["messages"]
    ids = [each["tool_calls"][0]["id"] for each in sent[1::2]]
    assert [each["tool_call_id"] for each in sent[2::2]] == ids
    assert (len(ids[0]) <= 40, ids[1]) == (True, "uuid:0")


async def test_thinking_is_read_under_either_of_its_names(server: ModelServer, model: OpenAIModel) -> None:
    thoughts = chunk({"reasoning": "Hm"}), chunk({"reasoning_content": "!"})
    server.reply(stream(*thoughts, chunk({"content": "So"}, "stop")))
    events, _ = await streamed(model)
    assert events[:2] == [ThinkingDelta("Hm"), ThinkingDelta("!")]


async def test_thinking_is_sent_back_to_a_server_that_requires_it(server: ModelServer) -> None:
    model = OpenAIModel("m", base_url=server.openai_url, provider="deepseek", thinking_field="reasoning_content")
    called = {"tool_calls": [fragment("f", "{}", id="c")]}
    server.reply(stream(chunk({"reasoning_content": "Hm"}), chunk(called, "stop")))
    other = Message("assistant", (thinking("Oh"), tool_use("b", "f")), provider="ollama")
    history = [message("user", "Go"), other, message("tool", tool_result("b", "done")), await answer(model)]
    server.says("So")
    await answer(model, ModelRequest(messages=(*history, message("tool", tool_result("c", "done")))))
    sent = server.requests[-1].body["messages"]
    assert [each.get("reasoning_content") for each in sent] == [None, " ", None, "Hm", None]


async def test_a_refusal_becomes_text_also_for_other_servers(server: ModelServer, model: OpenAIModel) -> None:
    server.reply(stream(chunk({"refusal": "I can"}), chunk({"refusal": "not."}), chunk({}, "stop")))
    answered = await answer(model)
    assert (answered.content, answered.stop_reason) == ((text("I cannot."),), "refusal")
    server.says("So")
    await answer(model, ModelRequest(messages=(message("user", "Hi"), answered, message("user", "Why?"))))
    assert server.requests[1].body["messages"][1] == {"role": "assistant", "content": "I cannot."}


async def test_null_and_missing_fields_are_accepted(server: ModelServer, model: OpenAIModel) -> None:
    odd = [{"choices": None}, {"choices": [{"delta": None}]}]
    last = chunk({"content": "So", "tool_calls": None, "new": 1}, "stop")
    server.reply(stream(*odd, last, {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}))
    answered = await answer(model)
    assert (answered.content, answered.provider) == ((text("So"),), "ollama")
    assert answered.usage == Usage(3, 2, total_tokens=5)
    server.says("Hello", usage=None)
    assert (await answer(model)).usage is None


async def test_a_thinking_model_is_sent_the_reasoning_effort(server: ModelServer) -> None:
    options: dict[str, Any] = {"thinks": True, "max_tokens_field": "max_completion_tokens"}
    async with OpenAIModel("m", base_url=server.openai_url, **options) as model:
        for level in ("high", "off", None):
            server.says("So")
            await answer(model, ModelRequest(messages=REQUEST.messages, thinking_level=level, max_tokens=5))
    assert [sent.body.get("reasoning_effort") for sent in server.requests] == ["high", None, None]
    assert all(sent.body["max_completion_tokens"] == 5 for sent in server.requests)


async def test_openai_itself_gets_the_limits_newer_name(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
    server.says("So")
    await answer(OpenAIModel("m", api_key="k", max_tokens=9))
    assert server.requests[0].body["max_completion_tokens"] == 9


Fragment: TypeAlias = dict[str, Any]


def fragment(name: str | None = None, arguments: str | None = None, **which: object) -> Fragment:
    function = {"name": name, "arguments": arguments}
    return {**which, "function": {key: value for key, value in function.items() if value is not None}}


def calls(*chunks: list[Fragment]) -> list[tuple[str, Any]]:
    """Return the names and arguments of an answer's calls, and check that each was reported when it began."""
    answer = OpenAIAnswer()
    reported: list[tuple[str, str]] = []
    for fragments in chunks:
        chunk = {"choices": [{"delta": {"tool_calls": fragments}}]}
        for event in answer.take(decode_chunk(json.dumps(chunk).encode())):
            assert isinstance(event, ToolCallStarted)
            reported.append((event.call_id, event.name))
    list(answer.take(decode_chunk(b'{"choices": [{"delta": {}, "finish_reason": "stop"}]}')))
    message = answer.message("p", "m")
    assert message.stop_reason == "tool_use", "although the server sent another one"
    assembled = [part.tool_use for part in message.content if isinstance(part, ToolUsePart)]
    assert reported == [(each.id, each.name) for each in assembled]
    ids = {each.id for each in assembled}
    assert len({*filter(None, ids)}) == len(assembled)
    assert ids >= {fragment["id"] for fragments in chunks for fragment in fragments if "id" in fragment}
    return [(each.name, each.input) for each in assembled]


TWO = [("a", {"x": 1}), ("b", {"y": 2})]


@pytest.mark.parametrize("number", [{"index": 0}, {}], ids=["all-0", "none"])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("ids", [True, False])
def test_calls_with_one_index_are_parted_by_their_names(number: dict[str, object], together: bool, ids: bool) -> None:
    named = ((name, arguments, {"id": f"c_{name}"} if ids else {}) for name, arguments in TWO)
    fragments = [fragment(name, json.dumps(arguments), **number, **own) for name, arguments, own in named]
    assert calls(*([fragments] if together else [[each] for each in fragments])) == TWO


def test_calls_of_one_tool_stay_separate() -> None:
    one, two = '{"x": 1}', '{"x": 2}'
    for chunks in (
        [[fragment("a", one, index=0, id="c1"), fragment("a", two, index=0, id="c2")]],
        [[fragment("a", one, index=0), fragment("a", two, index=1)]],
        [[fragment("a", one)], [fragment("a", '{"x":')], [fragment(None, " 2}")]],
    ):
        assert calls(*chunks) == [("a", {"x": 1}), ("a", {"x": 2})]


def test_a_name_may_follow_the_id_and_the_arguments() -> None:
    assert calls([{"index": 0, "id": "c1"}], [fragment("a", "{}", index=0)]) == [("a", {})]
    assert calls([fragment("", "", index=0, id="c1")], [fragment("a", "{}", index=0, id="c1")]) == [("a", {})]
    begun = [fragment(None, '{"x"', index=0, id="c1")]
    assert calls(begun, [fragment("a", ": 1}", index=0)]) == [("a", {"x": 1})]


@pytest.mark.parametrize("which", [{}, {"index": 0}, {"index": 0, "id": "c1"}], ids=["nothing", "number", "id"])
def test_a_name_repeated_in_every_fragment_is_one_call(which: dict[str, object]) -> None:
    pieces = ["", '{"x"', ": 1", "}", ""]
    assert calls(*([fragment("a", piece, **which)] for piece in pieces)) == [("a", {"x": 1})]


def test_parallel_calls_keep_their_own_fragments() -> None:
    begun = [fragment("a", '{"x"', index=0, id="c1"), fragment("b", '{"y"', index=1, id="c2")]
    assert calls(begun, [fragment(None, ": 1}", index=0), fragment(None, ": 2}", index=1)]) == TWO
