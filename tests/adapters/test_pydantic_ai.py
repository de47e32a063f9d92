"""Histories of pydantic-ai: every kind of part, runs of real agents on branches, and messages of other programs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from msgspec import Raw

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: `make interop` does it")

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from tests.docs.test_samples import run, samples_of
from tests.serving import running

import treering
from treering import Message, SessionHost, plain_text, text, tool_use
from treering.adapters.pydantic_ai import load, save
from treering.entries import ImagePart, ThinkingPart, ToolResultPart, ToolUsePart, tool_result
from treering.errors import InvalidEntry, InvalidInput

from .environments import PROJECT


@pytest.fixture
def anyio_backend() -> str:
    """Hosts of roots, and most users of the framework, know no other loop."""
    return "asyncio"


TIMED = {"timestamp": "2026-01-02T03:04:05Z"}
PIXEL = {"kind": "binary", "data": "-_-_", "media_type": "image/png", "vendor_metadata": {"detail": "low"}}
SOUND = {"kind": "binary", "data": "c291bmQ=", "media_type": "audio/wav"}
CALLED = {"tool_name": "track", "tool_call_id": "c1"}
BY = {"id": "p1", "provider_name": "openai", "provider_details": {"a": [1, None, 1.0]}}
SEARCH = {"tool_name": "search_tools", "tool_call_id": "c2"}
BY_PROVIDER = {"tool_name": "tool_search", "tool_call_id": "c2"}
OF_THE_SEARCH = {"discovered_tools": [{"name": "track", "description": "Find a parcel."}]}
SKILL = {"tool_name": "load_capability", "tool_call_id": "c3"}
NATIVE = {"tool_name": "web_search", "tool_call_id": "c4", "provider_name": "openai"}
ITEMS = [
    "Look",
    "",
    {"kind": "text-content", "content": "at this", "metadata": {"source": 1}},
    {"kind": "image-url", "url": "https://here/cat.png"},
    {"kind": "image-url", "url": "data:image/png;base64,AAAA", "force_download": True},
    {"kind": "cache-point", "ttl": "1h"},
    PIXEL,
    SOUND,
    {"kind": "audio-url", "url": "https://here/a.mp3"},
    {"kind": "video-url", "url": "https://here/a.mp4"},
    {"kind": "document-url", "url": "https://here/a.pdf"},
    {"kind": "uploaded-file", "file_id": "file-1", "provider_name": "openai", "media_type": "image/png"},
]

REQUEST_PARTS: dict[str, list[dict[str, Any]]] = {
    "system-prompt": [{"content": "Be brief.", **TIMED}, {"content": "", "dynamic_ref": "here", **TIMED}],
    "user-prompt": [{"content": "Hello", **TIMED}, {"content": ITEMS, **TIMED}, {"content": [], **TIMED}],
    "speech": [{"speaker": "user", "transcript": "Hello", "audio": SOUND}, {"speaker": "user"}],
    "tool-search-return": [
        {"part_kind": "tool-return", **SEARCH, "tool_kind": "tool-search", "content": OF_THE_SEARCH}
    ],
    "capability-load-return": [
        {"part_kind": "tool-return", **SKILL, "tool_kind": "capability-load", "content": {"instructions": "Do."}}
    ],
    "tool-return": [
        {"content": "In Lisbon.", **CALLED, "metadata": {"a": [True, 1]}, **TIMED},
        {"content": {"at": ["Lisbon", 1.0, True, None]}, **CALLED, **TIMED},
        {"content": ["a", PIXEL, {"b": 1}, {"kind": "image-url", "url": "https://here/a.png"}], **CALLED, **TIMED},
        {"content": PIXEL, **CALLED, **TIMED},
        {"content": None, **CALLED, **TIMED},
        {"content": "No.", "outcome": "denied", **CALLED, **TIMED},
    ],
    "retry-prompt": [
        {"content": "Say a number.", **CALLED, **TIMED},
        {"content": [{"type": "missing", "loc": ["n"], "msg": "required", "input": {}}], **CALLED, **TIMED},
        {"content": "Say it in full.", **TIMED},
    ],
    "retry-feedback": [{"content": "Say it in full.", "retry": {"cause": "no_output", "attempt": 1}, **TIMED}],
    "tool-availability-delta": [{"tools_added": ["track"]}],
    "capability-load-delta": [{"loaded": ["a"], "tool_call_id": "c3"}],
    "model-settings-delta": [{"settings": {"temperature": 0.5}}],
    "instruction-delta": [{"id": None, "content": "Be long."}],
    "instruction-baseline": [{"instructions": []}],
    "compaction": [{"content": "They said hello.", "metadata": {"by": "us"}}],
}
RESPONSE_PARTS: dict[str, list[dict[str, Any]]] = {
    "text": [{"content": "Hello", **BY}, {"content": ""}],
    "thinking": [{"content": "Hm.", "signature": "sealed", **BY}, {"content": ""}],
    "tool-search-call": [{"part_kind": "tool-call", **SEARCH, "tool_kind": "tool-search", "args": {"queries": ["a"]}}],
    "capability-load-call": [{"part_kind": "tool-call", **SKILL, "tool_kind": "capability-load", "args": {"id": "a"}}],
    "tool-call": [
        {**CALLED, "args": {"number": "Z9", "n": 1.0}, **BY},
        {**CALLED, "args": '{"number":"Z9"}'},
        {**CALLED, "args": '{ "number" : "Z9" }'},
        {**CALLED, "args": '{"number": "Z'},
        {**CALLED, "args": None},
        {**CALLED, "args": "[1]"},
    ],
    "builtin-tool-search-call": [
        {"part_kind": "builtin-tool-call", **BY_PROVIDER, "tool_kind": "tool-search", "args": {"queries": ["a"]}}
    ],
    "builtin-tool-call": [{**NATIVE, "args": {"query": "parcels"}}],
    "builtin-tool-search-return": [
        {
            "part_kind": "builtin-tool-return",
            **BY_PROVIDER,
            "tool_kind": "tool-search",
            "content": OF_THE_SEARCH,
            **TIMED,
        }
    ],
    "builtin-tool-return": [{**NATIVE, "content": {"found": ["a"]}, **TIMED}],
    "compaction": [{"content": "They said hello.", **BY}, {"content": None, "provider_details": {"sealed": "x"}}],
    "file": [{"content": PIXEL, **BY}, {"content": SOUND}],
    "speech": [{"speaker": "assistant", "transcript": "Hello", "interrupted_at_ms": 20, **BY}],
}
USAGE = {"input_tokens": 100, "cache_read_tokens": 60, "cache_write_tokens": 10, "output_tokens": 5}


def kinds(union: object) -> list[str]:
    """Return the kinds of parts that a release knows."""
    marks = [mark for each in get_args(get_args(union)[0]) for mark in get_args(each)[1:]]
    tagged = [mark.tag for mark in marks if hasattr(mark, "tag")]
    return [each for each in tagged if not each.startswith("legacy-")]


def parts(union: object, samples: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return a sample of each form of each kind that a release knows; it fails for a kind that has none."""
    return [{"part_kind": kind, **each} for kind in kinds(union) for each in samples[kind]]


def message(kind: str, chosen: Sequence[dict[str, Any]]) -> ModelMessage:
    """Return a message of parts."""
    data: dict[str, Any] = {"kind": kind, "parts": [*chosen], "metadata": {"run": [1, None]}, **TIMED}
    if kind == "request":
        data |= {"instructions": "Be kind.", "run_id": "r1"}
    else:
        data |= {"usage": USAGE, "model_name": "gpt-5", "provider_name": "openai", "finish_reason": "stop"}
    (made,) = ModelMessagesTypeAdapter.validate_python([data])
    return made


def dumped(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """Return messages as JSON."""
    found: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python([*messages], mode="json")
    return found


def same(found: Sequence[ModelMessage], expected: Sequence[ModelMessage]) -> bool:
    """Return whether messages are equal, as objects and as JSON."""
    return [*found] == [*expected] and dumped(found) == dumped(expected)


# -- every kind of part


@pytest.mark.feature("A-21")
async def test_every_kind_of_part_comes_back_equal(root: str) -> None:
    asked, answered = parts(ModelRequestPart, REQUEST_PARTS), parts(ModelResponsePart, RESPONSE_PARTS)
    history = [message("request", [each]) for each in asked] + [message("response", [each]) for each in answered]
    chance = random.Random(1)
    for _ in range(20):  # all of them in one message, in any order
        history.append(message("request", chance.sample(asked, len(asked))))
        history.append(message("response", chance.sample(answered, len(answered))))
    history += [message("request", []), message("response", [])]
    history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
    async with SessionHost(root) as host:
        await save("kinds", history, host)
        assert await save("kinds", history, host) == []
        assert same(await load("kinds", host), history)
    async with SessionHost(root) as host:  # from the file
        assert same(await load("kinds", host), history)
        for at, each in enumerate(history):
            await save(f"alone-{at}", [each], host)
            assert same(await load(f"alone-{at}", host), [each])


async def test_what_is_stored_is_what_others_read(root: str) -> None:
    asked: list[dict[str, Any]] = [
        {"part_kind": "system-prompt", "content": "Be brief."},
        {"part_kind": "user-prompt", "content": ["Where is Z9?", PIXEL, SOUND]},
    ]
    answered = [
        {"part_kind": "thinking", "content": "Hm.", "signature": "sealed"},
        {"part_kind": "text", "content": "I look."},
        {"part_kind": "tool-call", **CALLED, "args": '{"number":"Z9"}'},
    ]
    results: list[dict[str, Any]] = [{"part_kind": "tool-return", "content": "In Lisbon.", **CALLED}]
    failed = [{"part_kind": "tool-return", "content": {"no": 1}, "outcome": "failed", **CALLED}, asked[0] | results[0]]
    async with SessionHost(root) as host:
        history = [message("request", asked), message("response", answered)]
        ids = await save("s", [*history, message("request", results), message("request", failed[:1])], host)
        own = await host.get_or_create("s")
        assert own.path() == ids
        said = await own.messages()
        assert [each.role for each in said] == ["system", "user", "assistant", "tool", "tool"]
        assert [type(part).__name__ for part in said[1].content] == ["TextPart", "ImagePart", "TextPart"]
        assert isinstance(pixel := said[1].content[1], ImagePart)
        assert (pixel.image.source.data, pixel.image.source.media_type) == ("+/+/", "image/png")
        assert plain_text(said[1].content) == "Where is Z9?\n[audio/wav]"
        thought, _, called = said[2].content
        assert isinstance(thought, ThinkingPart)
        assert thought.thinking.signature == "sealed"
        assert isinstance(called, ToolUsePart)
        assert (called.tool_use.name, called.tool_use.input) == ("track", {"number": "Z9"})
        assert said[2].usage is not None
        assert (said[2].usage.input_tokens, said[2].usage.cache_read_tokens, said[2].usage.output_tokens) == (30, 60, 5)
        assert (said[2].model, said[2].provider, said[2].stop_reason) == ("gpt-5", "openai", "stop")
        answers = [part.tool_result for each in said[3:] for part in each.content if isinstance(part, ToolResultPart)]
        assert [(each.tool_use_id, each.text, each.is_error) for each in answers] == [
            ("c1", "In Lisbon.", False),
            ("c1", '{"no":1}', True),
        ]
        assert said[3].tool_name == "track"
        assert [hit.session_id async for hit in host.search("Lisbon")] == [own.id]
        stored = (await anyio.Path(own.file_path or "").read_text()).count
        assert [stored(each) for each in ("+/+/", "-_-_", "c291bmQ=", "Be brief.", "I look.", "In Lisbon.")] == [
            *(1, 0, 1, 1, 1, 1)
        ]


# -- runs of agents


def agent(*answers: str | ToolCallPart) -> Agent[None, str]:
    """Return an agent whose model answers so, and then no more."""
    left = list(answers)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        each = left.pop(0)
        return ModelResponse([TextPart(each) if isinstance(each, str) else each])

    made = Agent(FunctionModel(answer), system_prompt="Be brief.", instructions="Be kind.")

    @made.tool_plain
    def track(number: str) -> str:
        """Say where a parcel is."""
        return f"{number} is in Lisbon"

    return made


def said(messages: Sequence[ModelMessage]) -> list[str]:
    """Return what users ask and models answer in words."""
    return [
        str(part.content) for each in messages for part in each.parts if isinstance(part, (UserPromptPart, TextPart))
    ]


@pytest.mark.feature("A-21")
@pytest.mark.parametrize("kind", ["root", "host", "server"])
async def test_a_run_continues_from_a_branch(root: str, kind: str) -> None:
    async with SessionHost(root + "-own") as host, running(host) as (_, port):
        where: Any = {"root": root, "host": host, "server": f"http://127.0.0.1:{port}"}[kind]
        first = await agent(ToolCallPart("track", {"number": "Z9"}, "c1"), "In Lisbon.").run("Where is Z9?")
        ids = await save("support-42", first.all_messages(), where)
        assert same(await load("support-42", where), first.all_messages())
        one = await agent("Lost.").run("And Z8?", message_history=await load("support-42", where))
        added = await save("support-42", one.new_messages(), where)
        assert await save("support-42", one.new_messages(), where) == []  # sent again
        assert await save("support-42", one.all_messages(), where) == []
        assert same(await load("support-42", where), one.all_messages())
        assert said(one.all_messages()) == ["Where is Z9?", "In Lisbon.", "And Z8?", "Lost."]
        other = await agent("Tomorrow.").run("When?", message_history=await load("support-42", where, leaf_id=ids[-1]))
        await save("support-42", other.all_messages(), where)  # it leaves the branch where the first run ended
        assert same(await load("support-42", where), other.all_messages())
        assert same(await load("support-42", where, leaf_id=added[-1]), one.all_messages())
        third = await agent("Sure.").run("Sure?", message_history=await load("support-42", where, leaf_id=added[-1]))
        sure = await save("support-42", third.new_messages(), where, leaf_id=added[-1])
        assert same(await load("support-42", where), third.all_messages())
        if kind != "root":
            own = await host.get_or_create("support-42")
            assert len(own.children(ids[-1])) == 2
            assert own.path() == [*ids, *added, *sure]
            await own.branch(ids[-1])
            assert same(await load(own), first.all_messages())
            again = await agent("Go on.").run("Now?", message_history=await load(own))
            await save(own, again.new_messages())
            assert len(own.children(ids[-1])) == 3
            assert same(await load(own), again.all_messages())


async def test_a_run_that_was_cut_off_goes_on_from_its_last_request(root: str) -> None:
    async with SessionHost(root) as host:
        whole = await agent(ToolCallPart("track", {"number": "Z9"}, "c1"), "In Lisbon.").run("Where is Z9?")
        await save("s", whole.all_messages()[:-1], host)  # before the answer
        own = await host.get_or_create("s")
        resumed = await agent("In Lisbon, now.").run(message_history=await load(own))
        await save(own, resumed.all_messages())  # whose last request it sent again, at another time
        assert same(await load(own), resumed.all_messages())
        assert said(await load(own)) == ["Where is Z9?", "In Lisbon, now."]
        await save("t", whole.all_messages()[:1], host)  # before anything was answered
        again = await agent("Hm.").run(message_history=await load("t", host))
        await save("t", again.all_messages(), host)
        assert same(await load("t", host), again.all_messages())


async def test_the_program_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = samples_of(PROJECT / "docs" / "frameworks.md")
    (sample,) = (each for each in page if "adapters.pydantic_ai" in each.code)
    assert sample.code.count("\n") <= 30
    monkeypatch.chdir(tmp_path)
    await run(sample.compiled(), {name: getattr(treering, name) for name in treering.__all__})


async def test_the_same_messages_at_once_are_there_once(root: str) -> None:
    result = await agent("Hello.").run("Hi")
    async with SessionHost(root) as host:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(save, "s", result.all_messages(), host)
        assert same(await load("s", host), result.all_messages())
        assert (await host.get_or_create("s")).message_count == 3


# -- other programs, and what is no message


async def test_messages_of_others_are_part_of_the_history(root: str) -> None:
    async with SessionHost(root) as host:
        own = await host.get_or_create("s")
        first = await own.append_message("user", "Where is Z9?")
        await own.append(Message("assistant", (text("I look."), tool_use("c", "track", {"number": "Z9"})), model="m"))
        await own.append(Message("tool", (tool_result("c", "In Lisbon."),)))
        history = await load(own)
        assert await load(own) == history  # at the same times
        assert [each.kind for each in history] == ["request", "response", "request"]
        assert [(part.part_kind, part.content) for part in history[2].parts] == [("tool-return", "In Lisbon.")]
        assert history[2].parts[0].tool_name == "track"
        result = await agent("It is in Lisbon.").run("Well?", message_history=history)
        added = await save(own, result.all_messages())
        assert [each.role for each in await own.messages()] == ["user", "assistant", "tool", "user", "assistant"]
        assert same(await load(own), result.all_messages())

        await own.append_context_edit(added[0], "Well then?")
        assert said(await load(own)) == ["Where is Z9?", "I look.", "Well then?", "It is in Lisbon."]
        await own.append_compaction("They asked for Z9.", added[0], 10)
        kept = await load(own)
        assert "They asked for Z9." in said(kept)[0]
        assert said(kept)[1:] == ["Well then?", "It is in Lisbon."]
        after = await agent("Bye.").run("Bye", message_history=kept)
        await save(own, after.all_messages())  # in which the summary is part of the request after it
        assert own.message_count == 7
        assert sorted(said(await load(own))) == sorted(said(after.all_messages()))
        await own.branch(first)
        assert said(await load(own)) == ["Where is Z9?"]
        searched = message("response", [{"part_kind": "builtin-tool-call", **NATIVE, "args": {"query": "Z9"}}])
        (searching,) = await save(own, [searched])
        await own.append_context_edit(searching, "I searched.")
        assert said(await load(own)) == ["Where is Z9?", "I searched."]


async def test_a_request_of_which_a_part_is_left_is_one(root: str) -> None:
    asked = message(
        "request", [*parts(ModelRequestPart, REQUEST_PARTS)[:3], {"part_kind": "tool-return", "content": "", **CALLED}]
    )
    async with SessionHost(root) as host:
        ids = await save("s", [message("request", []), asked, message("response", [])], host)
        own = await host.get_or_create("s")
        assert [each.role for each in await own.messages()] == ["user", "system", "user", "tool", "assistant"]
        await own.branch(ids[2])
        (_, left) = await load(own)
        assert dumped([left])[0]["parts"] == dumped([asked])[0]["parts"][:3]
        await own.append_compaction("Before.", ids[2], 10)
        *_, rest = await load(own)  # after the system's message and the summary
        assert dumped([rest])[0]["parts"] == dumped([asked])[0]["parts"][2:3]


async def test_what_is_no_message_is_refused_before_anything_is_written(root: str) -> None:
    good = ModelRequest([UserPromptPart("Hi")])
    bad: list[Any] = [
        "Hi",
        {"kind": "request", "parts": [{"part_kind": "unknown"}]},
        ModelRequest([UserPromptPart("Hi")], metadata={"no JSON": object()}),
        ModelRequest([UserPromptPart("\ud800")]),
    ]
    async with SessionHost(root) as host:
        for each in bad:
            with pytest.raises(InvalidEntry):
                await save("s", [good, each], host)
        assert await load("s", host) == []
        assert await save("s", [], host) == []
        assert await host.find_by_key("s") is None
        with pytest.raises(InvalidInput, match="without a host"):
            await load("s")
        own = await host.get_or_create("s")
        with pytest.raises(InvalidInput, match="leave out the host"):
            await save(own, [good], host)
        await save(own, [good])
        kept = b'{"pydantic_ai": {"message": {"kind": "request"}, "parts": [{"part_kind": "of a later release"}]}}'
        await own.append(Message("user", (text("Hi"),), raw_metadata=Raw(kept)))
        with pytest.raises(InvalidEntry, match="none that this release of pydantic-ai takes"):
            await load(own)
        assert [plain_text(each.content) for each in await own.messages()] == ["Hi", "Hi"]
