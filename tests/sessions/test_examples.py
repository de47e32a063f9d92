"""The sample sessions that explain the format, and the program that explains the interface."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from treering import Session, SessionHost, plain_text, text, tool_result, tool_use

FileBytes = Callable[[Session], bytes]
FileOf = Callable[..., Path]

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


@pytest.mark.feature("G-138")
@pytest.mark.parametrize("read_only", [True, False])
async def test_the_simple_sample_has_a_context_of_two_messages(
    host: SessionHost, file_of: FileOf, file_bytes: FileBytes, read_only: bool
) -> None:
    session = await host.load(file_of(*SIMPLE.splitlines()), read_only=read_only)
    assert file_bytes(session) == SIMPLE
    assert session.id == "sess-1"
    context = await session.context()
    assert [(each.entry_id, each.role, each.content) for each in context.messages] == [
        ("msg-1", "user", (text("Good morning"),)),
        ("msg-2", "assistant", (text("Good morning to you!"),)),
    ]


@pytest.mark.feature("G-139")
@pytest.mark.parametrize("read_only", [True, False])
async def test_the_sample_with_tools_keeps_call_and_result_together(
    host: SessionHost, file_of: FileOf, file_bytes: FileBytes, read_only: bool
) -> None:
    session = await host.load(file_of(*TOOLS.splitlines()), read_only=read_only)
    assert file_bytes(session) == TOOLS
    assert session.path() == ["m-1", "m-2", "m-3"]
    question, call, result = await session.messages()
    assert plain_text(question.content) == "What does setup.py say?"
    assert call.content == (tool_use("call_1", "read_file", {"path": "setup.py"}),)
    assert result.content == (tool_result("call_1", "import setuptools", is_error=False),)
    assert await session.find_safe_cut(1) != "m-3"


@pytest.mark.feature("G-140")
async def test_the_sample_program_ends_with_the_summary_and_the_kept_message(
    root: Path, clock: Callable[[], Any]
) -> None:
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
