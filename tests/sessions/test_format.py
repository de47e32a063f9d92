"""The native format: its samples, its forms, and a reader that knows only JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest

from treering import SessionHost, UnsupportedVersion, message, plain_text, text, tool_result, tool_use
from treering.entries import Content, MessageEntry, OpaqueEntry, TextPart

from .conftest import file_bytes, header

AT = "2026-01-01T10:00:00.000Z"
HEADER = {"type": "session", "id": "given", "version": 1, "timestamp": AT}

FileOf = Callable[..., Path]


def user(entry_id: str, parent_id: str | None, body: object) -> dict[str, Any]:
    return {
        "type": "message",
        "id": entry_id,
        "parent_id": parent_id,
        "timestamp": AT,
        "message": {"role": "user", "content": body},
    }


@pytest.mark.feature("G-33")
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_the_version_is_an_integer_and_a_newer_one_is_refused_without_a_write(
    host: SessionHost, file_of: FileOf, files: Callable[[], list[str]], dialect: str
) -> None:
    ours = await host.create("ours")
    await ours.append_message("user", "Hello")
    assert header(ours)["version"] == 1
    assert type(header(ours)["version"]) is int
    for version in (4, 99, 2**40):
        newer: dict[str, Any] = {"type": "session", "id": "given", "version": version, "timestamp": AT}
        line = user("a", None, "Hello")
        if dialect == "pi":
            line = {**{key: value for key, value in line.items() if key != "parent_id"}, "parentId": None}
            newer = {"type": "session", "version": version, "id": "given", "timestamp": AT, "cwd": "/work"}
        path = file_of(newer, line)
        before = path.read_bytes()
        for read_only in (True, False):
            with pytest.raises(UnsupportedVersion, match=str(version)):
                await host.load(path, read_only=read_only)
        with pytest.raises(UnsupportedVersion, match=str(version)):
            await host.open("given")
        with pytest.raises(UnsupportedVersion, match=str(version)):
            await host.fork_from(path)
        assert path.read_bytes() == before
    assert set(files()) == {"given.jsonl", "ours.jsonl"}


@pytest.mark.feature("G-40")
async def test_string_content_reads_as_one_text_part_and_stays_a_string_in_the_file(
    host: SessionHost, file_of: FileOf
) -> None:
    path = file_of(HEADER, user("a", None, "just a string"), user("b", "a", [{"type": "text", "text": "a list"}]))
    before = path.read_bytes()
    session = await host.load(path)
    entry = await session.entry("a")
    assert isinstance(entry, MessageEntry)
    assert entry.message.content == (text("just a string"),)
    assert isinstance(entry.message.content[0], TextPart)
    await session.append_message("assistant", "as a string")
    await session.append_message("assistant", [text("as a list")])
    assert file_bytes(session).startswith(before)
    assert b'"content": "just a string"' in file_bytes(session)
    copy = await session.fork()
    assert b'"content": "just a string"' in file_bytes(copy)
    assert [message.content for message in await copy.messages()] == [
        (text("just a string"),),
        (text("a list"),),
        (text("as a string"),),
        (text("as a list"),),
    ]
    lines = [json.loads(line) for line in file_bytes(session).splitlines()[3:]]
    assert all(isinstance(line["message"]["content"], list) for line in lines)


@pytest.mark.feature("G-7")
async def test_the_two_older_versions_are_read(host: SessionHost, file_of: FileOf) -> None:
    first = file_of(
        {"type": "session", "id": "one", "timestamp": AT, "cwd": "/work", "provider": "p", "modelId": "m"},
        {"type": "message", "timestamp": AT, "message": {"role": "user", "content": "Hello", "timestamp": 1}},
        {"type": "message", "timestamp": AT, "message": {"role": "hookMessage", "customType": "h", "content": "hook"}},
        {"type": "compaction", "timestamp": AT, "summary": "short", "firstKeptEntryIndex": 2, "tokensBefore": 5},
        {"type": "message", "timestamp": AT, "message": {"role": "user", "content": "more", "timestamp": 2}},
        name="one.jsonl",
    )
    second = file_of(
        {"type": "session", "version": 2, "id": "two", "timestamp": AT, "cwd": "/work"},
        {
            "type": "message",
            "id": "0000000a",
            "parentId": None,
            "timestamp": AT,
            "message": {"role": "user", "content": "Hello", "timestamp": 1},
        },
        {
            "type": "message",
            "id": "0000000b",
            "parentId": "0000000a",
            "timestamp": AT,
            "message": {"role": "hookMessage", "customType": "h", "content": "hook", "display": True, "timestamp": 2},
        },
        name="two.jsonl",
    )
    for path, expected in (
        (first, [("compactionSummary", "short"), ("custom", "hook"), ("user", "more")]),
        (second, [("user", "Hello"), ("custom", "hook")]),
    ):
        before = path.read_bytes()
        reader = await host.load(path, read_only=True)
        assert [(each.role, plain_text(each.content)) for each in await reader.messages()] == expected
        assert path.read_bytes() == before
        session = await host.load(path)
        assert [(each.role, plain_text(each.content)) for each in await session.messages()] == expected
        await session.append_message("user", "now")
        assert [plain_text(each.content) for each in await session.messages()][-1] == "now"


SIMPLE = b"""\
{"type":"session","id":"sess-1","version":1,"timestamp":"2025-03-01T08:00:00Z"}
{"type":"message","id":"msg-1","parent_id":null,"timestamp":"2025-03-01T08:00:01Z","message":\
{"role":"user","content":[{"type":"text","text":{"content":"Good morning"}}]}}
{"type":"message","id":"msg-2","parent_id":"msg-1","timestamp":"2025-03-01T08:00:02Z","message":\
{"role":"assistant","content":[{"type":"text","text":{"content":"Good morning to you!"}}]}}
"""

TOOLS = b"""\
{"type":"session","id":"sess-2","version":1,"timestamp":"2025-03-02T09:00:00Z"}
{"type":"message","id":"m-1","parent_id":null,"timestamp":"2025-03-02T09:00:01Z","message":\
{"role":"user","content":[{"type":"text","text":{"content":"What does setup.py say?"}}]}}
{"type":"message","id":"m-2","parent_id":"m-1","timestamp":"2025-03-02T09:00:02Z","message":\
{"role":"assistant","content":[{"type":"tool_use","tool_use":{"id":"call_1","name":"read_file","input":{"path":"setup.py"}}}]}}
{"type":"message","id":"m-3","parent_id":"m-2","timestamp":"2025-03-02T09:00:03Z","message":\
{"role":"tool","content":[{"type":"tool_result","tool_result":{"tool_use_id":"call_1","content":"import setuptools"}}]}}
"""


@pytest.mark.feature("G-138", "G-139")
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (SIMPLE, [("msg-1", "user", (text("Good morning"),)), ("msg-2", "assistant", (text("Good morning to you!"),))]),
        (
            TOOLS,
            [
                ("m-1", "user", (text("What does setup.py say?"),)),
                ("m-2", "assistant", (tool_use("call_1", "read_file", {"path": "setup.py"}),)),
                ("m-3", "tool", (tool_result("call_1", "import setuptools", is_error=False),)),
            ],
        ),
    ],
    ids=["simple", "with tools"],
)
async def test_a_sample_is_read_as_it_stands_and_no_cut_separates_a_result_from_its_call(
    host: SessionHost, file_of: FileOf, sample: bytes, expected: list[object], read_only: bool
) -> None:
    session = await host.load(file_of(*sample.splitlines()), read_only=read_only)
    assert file_bytes(session) == sample
    context = await session.context()
    assert [(each.entry_id, each.role, each.content) for each in context.messages] == expected
    assert session.path() == [each.entry_id for each in context.messages]
    assert await session.find_safe_cut(1) != "m-3"


@pytest.mark.feature("G-140")
async def test_the_sample_program_ends_with_summary_and_kept_message(root: Path, clock: Callable[[], Any]) -> None:
    ids = iter(["owner", "sess-123", "msg-1", "msg-2", "msg-3", "lbl-1", "comp-1"])
    async with SessionHost(root, clock=clock, new_id=lambda: next(ids)) as host:
        session = await host.find_recent() or await host.create(cwd="/path/to/project")

        greeting = await session.append_message("user", [text("Hello, Agent!")])
        history = await session.context()
        assert [each.entry_id for each in history.messages] == ["msg-1"]

        await session.append_message("assistant", [text("Hello! How can I help?")])
        await session.branch(greeting)
        await session.append_message("user", [text("Actually, tell me a joke.")])
        await session.set_label(greeting, "first-greeting")
        await session.append_compaction("User greeted and then asked for a joke.", "msg-3", 1500)

        history = await session.context()
        assert [(each.entry_id, each.role, plain_text(each.content)) for each in history.messages] == [
            ("comp-1", "compactionSummary", "User greeted and then asked for a joke."),
            ("msg-3", "user", "Actually, tell me a joke."),
        ]
        await session.close()
    header, *lines = [json.loads(line) for line in (root / "sess-123.jsonl").read_bytes().splitlines()]
    assert (header["type"], header["id"], header["version"], header["cwd"]) == (
        "session",
        "sess-123",
        1,
        "/path/to/project",
    )
    assert [(line["type"], line["id"], line["parent_id"]) for line in lines] == [
        ("message", "msg-1", None),
        ("message", "msg-2", "msg-1"),
        ("message", "msg-3", "msg-1"),
        ("label", "lbl-1", "msg-3"),
        ("compaction", "comp-1", "lbl-1"),
    ]
    assert lines[3]["label"] == {"target_id": "msg-1", "label": "first-greeting"}
    assert lines[4]["compaction"] == {
        "summary": "User greeted and then asked for a joke.",
        "first_kept_entry_id": "msg-3",
        "tokens_before": 1500,
    }
    async with SessionHost(root) as host:
        again = await host.find_recent()
        assert again is not None
        assert await again.context() == history


Dialect: TypeAlias = Literal["native", "pi", "omp"]


def list_log(path: str) -> list[tuple[str, str | None, str, str]]:
    """List a log's entries as (id, parent, type, text)."""
    import json

    def text_of(value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "\n".join(filter(None, map(text_of, value)))
        if isinstance(value, dict):
            return next((text_of(value[key]) for key in ("text", "content", "tool_result") if key in value), "")
        return ""

    rows: list[tuple[str, str | None, str, str]] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            kind = entry["type"]
            if kind == "session":
                assert entry["version"] in (1, 3)
            elif kind != "title":
                parent = entry["parent_id"] if "parent_id" in entry else entry["parentId"]
                content = text_of(entry["message"]) if kind == "message" else ""
                rows.append((entry["id"], parent, kind, content))
    return rows


def entry_text(entry: object) -> str:
    if not isinstance(entry, MessageEntry):
        return ""
    for part in entry.message.content:
        if part.__struct_config__.tag == "tool_result":
            return part.tool_result.text  # type: ignore[union-attr]
    return plain_text(entry.message.content)


@pytest.mark.feature("O-37", "X-32")
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_a_program_that_knows_only_json_lists_a_log_being_written(tmp_path: Path, dialect: Dialect) -> None:
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create(cwd="/work/rings", key="telegram:1")
        path = session.file_path or ""

        async def check() -> None:
            entries = await session.entries()
            assert not [entry for entry in entries if isinstance(entry, OpaqueEntry)]
            rows = list_log(path)
            assert [(entry.id, entry.parent_id, entry_text(entry)) for entry in entries] == [
                (entry_id, parent, content) for entry_id, parent, _, content in rows
            ]
            if dialect == "native":
                assert [entry.type for entry in entries] == [kind for _, _, kind, _ in rows]

        first = await session.append_message("user", ["Hello\n\u2028", text("ünïcode 🌳 \x00")])
        await check()
        answer: list[Content | str] = [text("Let me look."), tool_use("c1", "read", {"path": "a"})]
        await session.append_message("assistant", answer, provider="p", model="m")
        await session.append_tool_execution("c1", "read", {"path": "a"}, "content", duration_ms=1.5)
        await check()
        await session.append_many([message("user", "both"), message("user", ["or", "none"])])
        await session.append_model_change("p", "m")
        await session.append_thinking_level_change("high")
        await session.set_label(first, "here")
        await session.append_session_info("name", metadata={"a": [1]})
        await session.append_custom_entry("x", {"y": {"text": "hidden"}})
        await session.append_custom_message("x", "shown")
        await session.append_compaction("summary", first, 10)
        await session.branch_with_summary(first, "other")
        await session.append_message("user", "again", command_id="c")
        await check()
        for copy in (await session.fork(), await session.create_branched_session(first)):
            assert [entry.id for entry in await copy.entries()] == [row[0] for row in list_log(copy.file_path or "")]
