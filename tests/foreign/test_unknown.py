"""What readers do not know: files that only resemble a known format, and lines and fields that nothing stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treering import ForeignFormatError, SessionHost
from treering.events.foreign.walk import Walk

once = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])

TIME = "2026-03-01T09:00:00.000Z"
CWD = "/work/bakery"
Value = dict[str, object]


def linked(kind: str, uuid: str, parent: str | None, **fields: object) -> Value:
    return {
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "q-1",
        "timestamp": TIME,
        "type": kind,
        "cwd": CWD,
        **fields,
    }


def said(role: str, *parts: Value) -> Value:
    return {"role": role, "parts": [*parts]}


QWEN = [
    linked("user", "u1", None, version="0.15.10", message=said("user", {"text": "Plant."})),
    linked("assistant", "a1", "u1", model="qwen3", message=said("model", {"text": "Where?"})),
]
TELEMETRY = linked("system", "s1", None, subtype="ui_telemetry", systemPayload={"uiEvent": {}})
OLD_QWEN = {"sessionId": "q", "projectHash": "ab", "messages": [{"id": "1", "type": "qwen", "content": "Where?"}]}
PROMPT = linked("user", "u1", None, message={"role": "user", "content": "Plant."})


def lines(*values: object) -> str:
    return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in values)


REFUSED = {
    "its lines": lines(*QWEN),
    "its own line first": lines(TELEMETRY, *QWEN),
    "a first line longer than what is looked at": lines({**QWEN[0], "message": said("user", {"text": "x" * 300_000})}),
    "a line of Claude Code's shape among them": lines(PROMPT, *QWEN),
    "the document of early versions": json.dumps(OLD_QWEN, indent=2),
}


@once
@pytest.mark.parametrize("shape", REFUSED)
@pytest.mark.parametrize("name", [None, "claude-code", "gemini"])
async def test_a_session_of_qwen_code_is_refused_by_name(
    shape: str, name: str | None, host: SessionHost, tmp_path: Path
) -> None:
    path = tmp_path / "found" / "q-1.jsonl"
    path.parent.mkdir()
    path.write_text(REFUSED[shape])
    with pytest.raises(ForeignFormatError, match=r"q-1\.jsonl: .*Qwen Code.*cannot read yet"):
        await host.import_sessions(path, format=name)
    (path.parent / "c.jsonl").write_text(lines({**PROMPT, "sessionId": "c"}))
    if name != "gemini":
        reports = await host.import_sessions(path.parent, format=name)
        assert [each.id for each in reports] == ["c"]
        assert ["Qwen Code" in each.message for each in reports.failed] == [True]


CHAT: list[Value] = [{"role": "user", "content": "Plant."}, {"role": "assistant", "content": "Where?"}]
BLOCKS: list[Value] = [{"role": "user", "content": [{"type": "text", "text": "Plant."}], "ts": 1}]
QUOTED = '"line_type" "payload" "session_meta" "sessionId" "projectHash" "parentId" "role" "seq" "key" "messages"'
OTHERS = {
    "chat lines": lines(*CHAT),
    "chat lines with more": lines({**CHAT[0], "created_at": TIME, "channel": "web"}),
    "a list of messages with times": json.dumps(BLOCKS),
    "a document with a key": json.dumps({"key": "k", "messages": CHAT}),
    "a document with nested names": json.dumps({"config": {"key": "k", "skip": 1, "messages": []}}),
    "nested names of a session": json.dumps(
        {"x": {"id": 1, "createdAt": 1, "lastAccessedAt": 1, "workingDirectory": 1}}
    ),
    "nested names of a history": json.dumps({"x": {"sessionId": "s", "projectHash": "h"}}),
    "quoted names": lines({"id": 1, "timestamp": TIME, "text": QUOTED + ' "instructions"'}),
    "an envelope of another kind": lines({"timestamp": TIME, "type": "log", "payload": {"about": "session_meta"}}),
    "an event without data": lines({"line_type": "event"}),
    "a message without a place": lines({"type": "user", "message": {"role": "user", "content": "Plant."}}),
    "a message without content": lines(linked("user", "u1", None, message={"role": "user", "blocks": []})),
}


@pytest.mark.parametrize("shape", OTHERS)
def test_a_file_that_only_resembles_a_known_format_is_not_claimed(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(OTHERS[shape])
    with pytest.raises(ForeignFormatError, match=r"not a session in any known format"):
        list(Walk(path).sessions())


def enveloped(kind: str, **payload: object) -> Value:
    return {"timestamp": TIME, "type": kind, "payload": payload}


META = enveloped("session_meta", id="x-1", timestamp=TIME, cwd=CWD)
ASKED = enveloped("response_item", type="message", role="user", content=[{"type": "input_text", "text": "Plant."}])
GEMINI = {"sessionId": "g-1", "projectHash": "ab", "startTime": TIME, "lastUpdated": TIME}
TURN = {"id": "e1", "type": "turn", "timestamp": TIME}
NOTED = "Not in the bed."
PICO = {"role": "user", "content": "Plant.", "created_at": TIME}
ANSWER = linked(
    "assistant", "a1", "u1", message={"id": "m", "content": [{"type": "text", "text": "Where?", "aside": NOTED}]}
)

UNKNOWN: dict[str, tuple[str, dict[str, tuple[int, str]]]] = {
    "claude-code, a line": (
        lines(PROMPT, *[{"type": "aside", "sessionId": "q-1", "text": NOTED}] * 2),
        {"line of kind aside": (2, NOTED)},
    ),
    "claude-code, a line in the tree": (
        lines(PROMPT, linked("system", "s1", "u1", subtype="aside", content=NOTED)),
        {"line of kind system/aside": (1, NOTED)},
    ),
    "claude-code, a field": (
        lines({**PROMPT, "aside": {"deep": [NOTED]}, "flag": "on", "note": "a-b"}),
        {"line field aside": (1, NOTED)},
    ),
    "claude-code, a field of a message": (
        lines(linked("user", "u1", None, message={"content": "Plant.", "reasoning": "No"})),
        {"message field reasoning": (1, "No")},
    ),
    "claude-code, a part": (
        lines(PROMPT, linked("user", "u2", "u1", message={"content": [{"type": "aside", "text": NOTED}]})),
        {"part of kind aside": (1, NOTED)},
    ),
    "claude-code, a field of a part": (lines(PROMPT, ANSWER), {"part field aside": (1, NOTED)}),
    "codex, a line": (lines(META, ASKED, enveloped("aside", text=NOTED)), {"line of kind aside": (1, NOTED)}),
    "codex, an item": (
        lines(META, ASKED, enveloped("response_item", type="aside", text=NOTED)),
        {"item of kind aside": (1, NOTED), "aside field text": (1, NOTED)},
    ),
    "codex, an event": (
        lines(META, ASKED, enveloped("event_msg", type="aside", text=NOTED)),
        {"event of kind aside": (1, NOTED)},
    ),
    "codex, a field": (
        lines(META, enveloped("response_item", type="message", role="user", content="Plant.", aside=NOTED)),
        {"message field aside": (1, NOTED)},
    ),
    "codex, a role": (
        lines(META, ASKED, enveloped("response_item", type="message", role="critic", content=NOTED)),
        {"message of an unknown role": (1, NOTED)},
    ),
    "gemini, a message": (
        lines(GEMINI, {"id": "1", "type": "user", "content": "Plant."}, {"id": "2", "type": "aside", "content": NOTED}),
        {"message of kind aside": (1, NOTED)},
    ),
    "gemini, a line": (
        lines(GEMINI, {"id": "1", "type": "user", "content": "Plant."}, {"$aside": NOTED}),
        {"unknown line": (1, NOTED)},
    ),
    "gemini, a field": (
        lines(
            GEMINI,
            {
                "id": "1",
                "type": "gemini",
                "content": "Where?",
                "aside": NOTED,
                "toolCalls": [{"id": "c", "hint": NOTED}],
            },
        ),
        {"message field aside": (1, NOTED), "call field hint": (1, NOTED)},
    ),
    "dive, a line": (
        lines(
            {"line_type": "event", "data": {**TURN, "messages": CHAT}}, {"line_type": "aside", "data": {"text": NOTED}}
        ),
        {"line of kind aside": (1, NOTED)},
    ),
    "dive, a field": (
        lines({"line_type": "event", "data": {**TURN, "aside": NOTED, "messages": [{**CHAT[0], "hint": NOTED}]}}),
        {"event field aside": (1, NOTED), "message field hint": (1, NOTED)},
    ),
    "opencode, a part": (
        json.dumps(
            {
                "info": {"id": "ses_1", "time": {"created": 1}},
                "messages": [
                    {
                        "info": {"id": "msg_1", "role": "user"},
                        "parts": [{"type": "text", "text": "Plant.", "hint": NOTED}, {"type": "aside", "text": NOTED}],
                    }
                ],
            }
        ),
        {"part of kind aside": (1, NOTED), "text part field hint": (1, NOTED)},
    ),
    "nanocoder, a field": (
        json.dumps(
            {
                "id": "n-1",
                "createdAt": TIME,
                "lastAccessedAt": TIME,
                "workingDirectory": CWD,
                "messages": [{**CHAT[0], "aside": NOTED}],
            }
        ),
        {"message field aside": (1, NOTED)},
    ),
    "picoclaw, a field": (
        lines(PICO, {**PICO, "aside": NOTED}, {**PICO, "aside": "x y"}),
        {"message field aside": (2, NOTED)},
    ),
}


@once
@pytest.mark.parametrize("source", UNKNOWN)
async def test_the_report_tells_what_the_reader_left_out(source: str, host: SessionHost, tmp_path: Path) -> None:
    text, expected = UNKNOWN[source]
    path = tmp_path / ("other.json" if "\n" not in text else "other.jsonl")
    path.write_text(text)
    (report,) = await host.import_sessions(path)
    assert report.format == source.partition(",")[0]
    assert {each.kind: each.count for each in report.left_out} == {kind: count for kind, (count, _) in expected.items()}
    assert all(expected[each.kind][1] in each.example and each.example in each.message for each in report.left_out)
    assert all(each in report.findings and each.severity == "warning" for each in report.left_out)
    (again,) = await host.import_sessions(path)
    assert (again.added, again.left_out) == (0, report.left_out)


@once
async def test_a_long_example_is_cut_off(host: SessionHost, tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(lines(PROMPT, {"type": "aside", "text": "a b " * 1000}))
    (report,) = await host.import_sessions(path)
    (left_out,) = report.left_out
    assert left_out.line == 2
    assert len(left_out.example) < 400
