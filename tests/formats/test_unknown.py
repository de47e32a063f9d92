"""What readers do not know: files that only resemble a known format, and lines and fields that nothing stands for."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from treering import SessionHost
from treering.errors import ForeignFormatError
from treering.events.content import Content, ThinkingPart, ToolResultPart, ToolUsePart, plain_text
from treering.events.findings import LeftOut
from treering.formats.walk import Walk

from .conftest import ReadSessions

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


QWENS = {
    "its lines": lines(*QWEN),
    "its own line first": lines(TELEMETRY, *QWEN),
    "a first line longer than what is looked at": lines({**QWEN[0], "message": said("user", {"text": "x" * 300_000})}),
    "a line of Claude Code's shape among them": lines(PROMPT, *QWEN),
    "lines of a later version": lines(
        *({**each, "version": "99.0.0", "provenance": "real_user"} for each in QWEN),
        linked("system", "l1", "a1", version="99.0.0", subtype="garden_plan", systemPayload={"plan": "In the bed."}),
    ),
}


@once
@pytest.mark.feature("A-34")
@pytest.mark.parametrize("shape", QWENS)
async def test_a_session_of_qwen_code_is_read_as_its_own_alone(shape: str, host: SessionHost, tmp_path: Path) -> None:
    path = tmp_path / "found" / "q-1.jsonl"
    path.parent.mkdir()
    path.write_text(QWENS[shape])
    (path.parent / "c.jsonl").write_text(lines({**PROMPT, "sessionId": "c"}))
    for name in ("claude-code", "gemini", "codex"):
        with pytest.raises(ForeignFormatError, match=r"q-1\.jsonl: .*session of Qwen Code, not of .*'qwen'"):
            await host.import_sessions(path, format=name)
    (report,) = await host.import_sessions(path.parent, format="claude-code")
    assert (report.id, report.format) == ("c", "claude-code")
    with pytest.raises(ForeignFormatError, match="no lines of a Qwen Code session"):
        await host.import_sessions(path.parent / "c.jsonl", format="qwen")
    reports = await host.import_sessions(path.parent)
    assert {each.id: each.format for each in reports} == {"c": "claude-code", "q-1": "qwen"}
    session = await host.load("q-1")
    said_there = str(await session.entries())
    assert all(words in said_there for words in ("Plant.", "Where?", "In the bed.") if words in QWENS[shape])
    assert ["garden_plan" in str(each.left_out) for each in reports if each.id == "q-1"] == ["later" in shape]


@once
@pytest.mark.feature("A-34")
@pytest.mark.parametrize("name", [None, "claude-code", "gemini", "qwen"])
async def test_a_document_of_an_early_qwen_code_is_named(name: str | None, host: SessionHost, tmp_path: Path) -> None:
    path = tmp_path / "found" / "q-1.json"
    path.parent.mkdir()
    path.write_text(json.dumps(OLD_QWEN, indent=2))
    with pytest.raises(ForeignFormatError, match=r"q-1\.json: .*Qwen Code before version 0\.5"):
        await host.import_sessions(path, format=name)
    (path.parent / "c.jsonl").write_text(lines({**PROMPT, "sessionId": "c"}))
    if name in (None, "claude-code"):
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
TALK: Value = {"line_type": "event", "data": {**TURN, "messages": CHAT}}
NOTED = "Not in the bed."
SAID: Value = {"type": "text", "text": NOTED}
PICO = {"role": "user", "content": "Plant.", "created_at": TIME}
ANSWER = linked(
    "assistant", "a1", "u1", message={"id": "m", "content": [{"type": "text", "text": "Where?", "aside": NOTED}]}
)

NANO: Value = {"id": "n-1", "createdAt": TIME, "lastAccessedAt": TIME, "workingDirectory": CWD}
PLANT: Value = {"type": "text", "text": "Plant."}
ODD_PARTS: list[Value] = [PLANT, {"type": "aside", "note": NOTED}]
CALLED: Value = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
NAMELESS: Value = {"id": "c", "function": {"arguments": NOTED}}

RAN: Value = {"type": "tool", "callID": "c", "tool": "run"}
ENDED_SUMMARY: Value = {"summary": True, "finish": "stop"}
ENDED: Value = {"status": "completed", "input": {}, "output": "Out"}


def item(**payload: object) -> Value:
    return enveloped("response_item", **payload)


def codex(*values: object) -> str:
    return lines(META, *values)


def gemini(*values: Value) -> str:
    numbered = ({"id": str(number), **each} if "type" in each else each for number, each in enumerate(values, 1))
    return lines(GEMINI, *numbered)


def nano(more: Value) -> str:
    return json.dumps({**NANO, **more})


def exported(role: str, *parts: object, **more: object) -> str:
    """A session that opencode exported."""
    session, info = {"id": "ses_1", "time": {"created": 1}}, {"id": "msg_1", "role": role, **more}
    return json.dumps({"info": session, "messages": [{"info": info, "parts": [*parts]}]})


def dive(more: Value) -> str:
    return lines({"line_type": "event", "data": {**TURN, **more}})


def pico(more: Value) -> str:
    return json.dumps({"key": "k", "summary": "", **more})


def claude(message: Value) -> str:
    return lines(linked("user", "u1", None, message=message))


def turn(*blocks: object, kind: str = "turn") -> str:
    """A session of dive."""
    return dive({"type": kind, "messages": [{"role": "user", "content": [*blocks]}]})


def result(call: str, *content: object) -> Value:
    return {"type": "tool_result", "tool_use_id": call, "content": [*content]}


def responded(response: object, **beside: object) -> Value:
    return {"functionResponse": {"id": "c", "name": "run", "response": response}, **beside}


def asked(*content: object) -> Value:
    return linked("user", "u1", None, message={"role": "user", "content": [*content]})


UNKNOWN: dict[str, str] = {
    "claude-code: line of kind aside, line of kind aside": lines(
        PROMPT, *[{"type": "aside", "sessionId": "q-1", "text": NOTED}] * 2
    ),
    "claude-code: line of kind system/aside": lines(
        PROMPT, linked("system", "s1", "u1", subtype="aside", content=NOTED)
    ),
    "claude-code: line field aside": lines({**PROMPT, "aside": {"deep": [NOTED]}, "flag": "on", "note": "a-b"}),
    "claude-code: message field reasoning": claude({"content": "Plant.", "reasoning": "No"}),
    "claude-code: part of kind aside": lines(
        PROMPT, linked("user", "u2", "u1", message={"content": [{"type": "aside", "text": NOTED}]})
    ),
    "claude-code: part field aside": lines(PROMPT, ANSWER),
    "codex: line of kind aside": codex(ASKED, enveloped("aside", text=NOTED)),
    "codex: item of kind aside, aside field text": codex(ASKED, item(type="aside", text=NOTED)),
    "codex: event of kind aside": codex(ASKED, enveloped("event_msg", type="aside", text=NOTED)),
    "codex: message field aside": codex(item(type="message", role="user", content="Plant.", aside=NOTED)),
    "codex: message of an unknown role": codex(ASKED, item(type="message", role="critic", content=NOTED)),
    "codex: reasoning field content": codex(
        item(type="reasoning", summary=[{"type": "summary_text", "text": "Hm."}], content=[SAID])
    ),
    "opencode: part of a summary": exported("assistant", PLANT, {"type": "reasoning", "text": NOTED}, **ENDED_SUMMARY),
    "gemini: message of kind aside": gemini({"type": "user", "content": "Plant."}, {"type": "aside", "content": NOTED}),
    "gemini: unknown line": gemini({"type": "user", "content": "Plant."}, {"$aside": NOTED}),
    "gemini: message field aside, call field hint": gemini(
        {"type": "gemini", "content": "Where?", "aside": NOTED, "toolCalls": [{"id": "c", "hint": NOTED}]}
    ),
    "dive: line of kind aside": lines(TALK, {"line_type": "aside", "data": {"text": NOTED}}),
    "dive: event field aside, message field hint": dive({"aside": NOTED, "messages": [{**CHAT[0], "hint": NOTED}]}),
    "opencode: part of kind aside, text part field hint": exported(
        "user", {"type": "text", "text": "Plant.", "hint": NOTED}, {"type": "aside", "text": NOTED}
    ),
    "nanocoder: message field aside": nano({"messages": [{**CHAT[0], "aside": NOTED}]}),
    "picoclaw: part of kind aside, call without a name, message field media": lines(
        PICO, {**PICO, "content": ODD_PARTS, "tool_calls": [NAMELESS], "media": [{"note": NOTED}]}
    ),
    "nanocoder: part of kind aside, call without a name": nano(
        {"messages": [{**CHAT[0], "content": ODD_PARTS}, {**CHAT[1], "tool_calls": [NAMELESS]}]}
    ),
    "picoclaw: session field aside, call field hint": pico(
        {"aside": NOTED, "messages": [{**PICO, "tool_calls": [{**CALLED, "hint": NOTED}]}]}
    ),
    "nanocoder: session field aside": nano({"aside": NOTED, "messages": CHAT}),
    "opencode: message field system": exported("user", PLANT, system=NOTED),
    "opencode: state field aside, attachment, part of an unknown form": exported(
        "assistant", {**RAN, "state": {**ENDED, "aside": NOTED, "attachments": [NOTED]}}, NOTED
    ),
    "opencode: output of a call that has not ended": exported(
        "assistant", {**RAN, "state": {"status": "running", "input": {}, "metadata": {"output": NOTED}}}
    ),
    "opencode: session field aside, session field title": json.dumps(
        {"info": {"id": "ses_1", "aside": NOTED, "title": [NOTED]}, "messages": []}
    ),
    "dive: part field aside, part field hint": turn(
        {"type": "text", "text": "Plant.", "aside": NOTED}, result("c", {"type": "text", "text": "", "hint": NOTED})
    ),
    "dive: event field metadata": dive({"metadata": [NOTED], "messages": CHAT}),
    "dive: event field aside": dive({"type": "compaction", "aside": NOTED, "messages": CHAT}),
    "gemini: thought field aside, part field hint, call field note, response field more": gemini(
        {
            "type": "gemini",
            "thoughts": [{"subject": "S", "aside": NOTED}],
            "content": [{"text": "Where?", "hint": NOTED}, {"functionCall": {"name": "run", "note": NOTED}}],
        },
        {"type": "user", "content": [responded({"output": "Out", "more": NOTED})]},
    ),
    "gemini: session field aside, call of an unknown form": lines(
        {**GEMINI, "aside": NOTED}, {"id": "1", "type": "gemini", "content": "Where?", "toolCalls": [NOTED]}
    ),
    "codex: part field hint, output field aside": codex(
        item(type="message", role="user", content=[{"type": "input_text", "text": "Plant.", "hint": NOTED}]),
        item(type="function_call", call_id="c", name="run", arguments="{}"),
        item(type="function_call_output", call_id="c", output={"content": "Out", "aside": NOTED}),
    ),
    "codex: message field output, line field aside": codex(
        item(type="message", role="user", content="Plant.", output=NOTED), {**ASKED, "aside": NOTED}
    ),
    "codex: item of an unknown form, compacted field aside": codex(
        ASKED, enveloped("compacted", message="Sum", replacement_history=[NOTED], aside=NOTED)
    ),
    "claude-code: text part field content": lines(asked({"type": "text", "text": "Plant.", "content": NOTED})),
    "claude-code: odd field title, odd field content": lines(
        asked({"type": "text", "text": "Plant.", "title": [NOTED]}, [NOTED])
    ),
    "picoclaw: attachment field aside, part of kind unknown, call field hint, result field reasoning_content": lines(
        {**PICO, "attachments": [{"filename": "a", "aside": NOTED}], "system_parts": [{"note": NOTED}]},
        {**PICO, "tool_calls": [{**CALLED, "function": {"name": "run", "hint": NOTED}}]},
        {"role": "tool", "tool_call_id": "c", "content": "Out", "reasoning_content": NOTED},
    ),
    "opencode: error field aside, metadata of a call": exported(
        "assistant",
        {**RAN, "state": {**ENDED, "metadata": NOTED}},
        error={"name": "E", "data": {"message": "m", "aside": NOTED}},
    ),
    "dive: line field aside, data of an unknown form": lines(
        {"line_type": "event", "data": {**TURN, "messages": CHAT}, "aside": NOTED},
        {"line_type": "event", "data": NOTED},
    ),
    "dive: part of a summary": turn({"type": "text", "text": "a"}, {"type": "x", "y": NOTED}, kind="compaction"),
    "gemini: file field aside, message of an unknown form": gemini(
        {"type": "user", "content": [{"inlineData": {"mimeType": "x/y", "aside": NOTED}}]},
        {"$set": {"messages": [{"id": "1", "type": "user", "content": "a"}, NOTED]}},
    ),
    "codex: session field aside, turn field hint, message field note": lines(
        enveloped("session_meta", id="x-1", timestamp=TIME, cwd=CWD, aside=NOTED),
        ASKED,
        enveloped("turn_context", model="m", hint=NOTED),
        enveloped(
            "compacted",
            message="Sum",
            replacement_history=[{"type": "message", "role": "user", "content": "Sum", "note": NOTED}],
        ),
    ),
    "claude-code: part field hint, attachment field aside": lines(
        linked("assistant", "a1", None, message={"content": [{"type": "tool_use", "id": "c", "name": "run"}]}),
        linked("user", "u2", "a1", message={"content": [result("c", {"type": "text", "text": "a", "hint": NOTED})]}),
        linked("attachment", "u3", "u2", attachment={"type": "queued_command", "prompt": "Dig.", "aside": NOTED}),
    ),
    "picoclaw: message of an unknown form": pico({"messages": [PICO, NOTED]}),
    "nanocoder: message of an unknown form": nano({"messages": [*CHAT, NOTED]}),
    "picoclaw: message field aside, message field aside": lines(
        PICO, {**PICO, "aside": NOTED}, {**PICO, "aside": "x y"}
    ),
}


@once
@pytest.mark.parametrize("source", UNKNOWN)
async def test_the_report_tells_what_the_reader_left_out(source: str, host: SessionHost, tmp_path: Path) -> None:
    text, (name, expected) = UNKNOWN[source], source.split(": ")
    path = tmp_path / ("other.json" if "\n" not in text else "other.jsonl")
    path.write_text(text)
    (report,) = await host.import_sessions(path)
    assert report.format == name
    assert {each.kind: each.count for each in report.left_out} == Counter(expected.split(", "))
    words = NOTED if NOTED in text else "No"
    assert all(words in each.example and each.example in each.message for each in report.left_out)
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


ODD_FORMS = {
    "picoclaw, a part that is a string": pico({"messages": [{**PICO, "content": [NOTED]}]}),
    "picoclaw, one part alone": lines(PICO, {**PICO, "content": SAID}),
    "nanocoder, a part that is a string": nano({"messages": [{"role": "user", "content": [NOTED]}]}),
    "codex, a part that is a string": codex(item(type="message", role="user", content=[NOTED])),
    "codex, a summary of strings": codex(item(type="reasoning", summary=[NOTED])),
    "codex, a thought that is a string": codex(item(type="reasoning", summary=[], content=NOTED)),
    "codex, an output of strings": codex(
        item(type="function_call", call_id="c", name="run", arguments="{}"),
        item(type="function_call_output", call_id="c", output=[NOTED]),
    ),
    "opencode, a text of strings": exported("user", {"type": "text", "text": [NOTED]}),
    "opencode, an output that is an object": exported("assistant", {**RAN, "state": {**ENDED, "output": {"a": NOTED}}}),
    "opencode, an error that is an object": exported(
        "assistant", {**RAN, "state": {**ENDED, "status": "error", "error": {"a": NOTED}}}
    ),
    "gemini, a thought that is a string": gemini({"type": "gemini", "thoughts": [NOTED]}),
    "gemini, a thought that is a list": gemini({"type": "gemini", "thoughts": [[NOTED]]}),
    "gemini, a thought alone": gemini({"type": "gemini", "thoughts": {"subject": NOTED}}),
    "gemini, a text beside a call": gemini(
        {"type": "gemini", "content": [{"functionCall": {"name": "run"}, "text": NOTED}]}
    ),
    "gemini, a text beside a file": gemini(
        {"type": "user", "content": [{"text": NOTED, "fileData": {"fileUri": "a.pdf", "mimeType": "x/y"}}]}
    ),
    "gemini, a text beside a response": gemini({"type": "user", "content": [responded({"output": "Out"}, text=NOTED)]}),
    "gemini, an error beside an output": gemini(
        {"type": "user", "content": [responded({"output": "Out", "error": NOTED})]}
    ),
    "gemini, a thought in a response": gemini(
        {"type": "gemini", "toolCalls": [{"id": "c", "name": "run", "result": [{"text": NOTED, "thought": True}]}]}
    ),
    "gemini, a failure that is only displayed": gemini(
        {"type": "gemini", "toolCalls": [{"id": "c", "name": "run", "status": "error", "resultDisplay": NOTED}]}
    ),
    "codex, a text beside an image": codex(
        item(type="message", role="user", content=[{"text": NOTED, "image_url": "https://a.example/b.png"}])
    ),
    "claude-code, the context of a document": lines(
        asked({"type": "document", "context": NOTED, "source": {"type": "text", "data": "Dig."}})
    ),
    "claude-code, the title of a document": lines(
        asked({"type": "document", "title": NOTED, "source": {"type": "text", "data": "Dig."}})
    ),
    "claude-code, a part that is a string": lines(asked(PLANT, NOTED)),
    "claude-code, one part alone": claude({"role": "user", "content": SAID}),
    "claude-code, an output of strings": lines(
        linked("assistant", "u1", None, message={"content": [{"type": "tool_use", "id": "c", "name": "run"}]}),
        linked("user", "u2", "u1", message={"content": [result("c", NOTED)]}),
    ),
    "picoclaw, a file that is attached": lines({**PICO, "attachments": [{"type": "file", "filename": NOTED}]}),
    "picoclaw, parts of a system message": lines({**PICO, "system_parts": [SAID]}),
    "picoclaw, parts beside the content": lines({**PICO, "content_parts": [SAID]}),
    "picoclaw, reasoning of strings": lines({**PICO, "reasoning_content": [NOTED]}),
    "picoclaw, one call alone": lines(
        {**PICO, "tool_calls": {**CALLED, "function": {"name": "run", "arguments": {"a": NOTED}}}}
    ),
    "dive, one block alone": dive({"messages": [{**CHAT[0], "content": SAID}]}),
}


@pytest.mark.parametrize("source", ODD_FORMS)
def test_words_in_a_form_that_is_not_usual_are_read(source: str, tmp_path: Path, read_sessions: ReadSessions) -> None:
    name = source.partition(",")[0]
    path = tmp_path / ("odd.json" if "\n" not in ODD_FORMS[source] else "odd.jsonl")
    path.write_text(ODD_FORMS[source])
    (session,) = read_sessions(path, name)
    assert NOTED in " ".join(words_of(part) for message in session.messages for part in message.content)
    assert "left_out" not in session.codes()


def words_of(part: Content) -> str:
    match part:
        case ToolResultPart():
            return part.tool_result.text
        case ThinkingPart():
            return part.thinking.content
        case ToolUsePart():
            return str(part.tool_use.input)
        case _:
            return plain_text([part])


def test_the_lines_of_a_folder_lose_no_words(tmp_path: Path, read_sessions: ReadSessions) -> None:
    folder = tmp_path / "session-n-1"
    (folder / "summaries").mkdir(parents=True)
    line = {"id": "m1", "seq": 1, "parentId": None, "timestamp": TIME, "role": "assistant", "content": [NOTED]}
    details = {"aside": NOTED, "toolCalls": [{"id": "c", "name": "run", "hint": NOTED}, NAMELESS, NOTED]}
    run = {
        "id": "r1",
        "seq": 1,
        "toolCallId": "c",
        "tool": "run",
        "note": NOTED,
        "result": {"content": "Out", "more": NOTED},
    }
    (folder / "messages.jsonl").write_text(lines({**line, "assistant": details}))
    (folder / "tools.jsonl").write_text(lines(run))
    (folder / "summaries" / "a.json").write_text(json.dumps({"id": "s", "comment": NOTED}))
    (session,) = read_sessions(folder)
    assert NOTED in plain_text(session.messages[0].content)
    left_out = {each.kind: each.count for each in session.findings if isinstance(each, LeftOut)}
    assert left_out == {
        "assistant field aside": 1,
        "call field hint": 1,
        "call without a name": 2,
        "run field note": 1,
        "result field more": 1,
        "summary field comment": 1,
    }


WORDS_AT = frozenset(
    {"text", "content", "thinking", "description", "subject", "arguments", "output", "summary", "title"}
)


def places(value: object, *above: str | int) -> Iterator[tuple[str | int, ...]]:
    """The places of all strings in a value that are words which somebody wrote."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, *above, key)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from places(inner, *above, at)
    elif isinstance(value, str) and above[-1] in WORDS_AT:
        yield above


def marked(value: Any, place: tuple[str | int, ...], mark: object) -> Any:  # noqa: ANN401
    """A copy of a value, with the mark at a place."""
    if not place:
        return mark
    copy = value.copy()
    copy[place[0]] = marked(value[place[0]], place[1:], mark)
    return copy


@pytest.mark.parametrize("mark", [NOTED, [NOTED], {"text": NOTED}], ids=["string", "list", "object"])
@pytest.mark.parametrize(
    "sample",
    [
        *("codex.jsonl", "gemini.json", "nanocoder.json", "picoclaw.json", "picoclaw.jsonl", "dive.json", "dive.jsonl"),
        "qwen.jsonl",
    ],
)
def test_no_words_of_a_sample_are_lost_without_a_finding(
    sample: str, mark: object, data: Path, tmp_path: Path, read_sessions: ReadSessions
) -> None:
    path = tmp_path / sample
    whole = (data / sample.partition(".")[0] / sample).read_text()
    values = [json.loads(line) for line in (whole.splitlines() if sample.endswith("l") else [whole])]
    found = [each for each in places(values) if "uiEvent" not in each]  # what Qwen Code measures repeats the calls
    assert len(found) >= 3
    for place in found:
        path.write_text(lines(*marked(values, place, mark)))
        (session,) = read_sessions(path, sample.partition(".")[0])
        kept = msgspec.json.encode([session.header, session.entries]).decode()
        assert NOTED in kept or NOTED in str(session.findings), place


def test_what_repeats_other_fields_is_reported_where_it_says_more(tmp_path: Path, read_sessions: ReadSessions) -> None:
    shown = {"result": [{"functionResponse": {"id": "c1", "response": {"output": "two loaves left"}}}]}
    record = {"id": "c1", "name": "count", "args": {"what": "loaves in the oven"}, "status": "success", **shown}
    said = {"id": "g1", "timestamp": TIME, "type": "gemini", "content": "", "toolCalls": [record]}
    for display, expected in (("two loaves left", []), ("two loaves, both burnt", ["call field resultDisplay"])):
        record["resultDisplay"] = display
        (tmp_path / "g.jsonl").write_text(lines({"sessionId": "g", "projectHash": "ab"}, said))
        (session,) = read_sessions(tmp_path / "g.jsonl", "gemini")
        assert [each.kind for each in session.findings if isinstance(each, LeftOut)] == expected
    state = {"status": "completed", "input": {"description": "Lists the loaves"}, "output": "two"}
    part = {"id": "prt_1", "type": "tool", "tool": "bash", "callID": "c1", "state": state}
    info = {"id": "msg_1", "role": "assistant", "time": {"created": 1}}
    for title, expected in (("Lists the loaves", []), ("Lists every cake", ["state field title"])):
        state["title"] = title
        exported = {"info": {"id": "ses_1", "time": {"created": 1}}, "messages": [{"info": info, "parts": [part]}]}
        (tmp_path / "o.json").write_text(json.dumps(exported))
        (session,) = read_sessions(tmp_path / "o.json", "opencode")
        assert [each.kind for each in session.findings if isinstance(each, LeftOut)] == expected


def test_an_event_of_codex_that_no_item_repeats_is_reported(tmp_path: Path, read_sessions: ReadSessions) -> None:
    events = [{"type": "user_message", "message": "Bake a cake"}, {"type": "warning", "message": "The oven is hot"}]
    (tmp_path / "rollout-1.jsonl").write_text(
        lines(
            {"timestamp": TIME, "type": "session_meta", "payload": {"id": "c-1", "timestamp": TIME, "cwd": CWD}},
            *({"timestamp": TIME, "type": "event_msg", "payload": each} for each in events),
        )
    )
    (session,) = read_sessions(tmp_path / "rollout-1.jsonl", "codex")
    assert [each.kind for each in session.findings if isinstance(each, LeftOut)] == ["event of kind warning"]
