"""Parts of sessions that the samples of Copilot, Kimi Code and Cline lack, as their programs' own schemas have them."""

import json
from pathlib import Path
from typing import Any

import pytest

from treering.events.content import plain_text
from treering.events.entries import CompactionEntry, Message, MessageEntry, ToolExecutionEntry, Usage, UsageEntry
from treering.events.entries.message import asked_text

from .added_programs import PROGRAMS, sample
from .conftest import DATA, ParsedSession, ReadSessions

PNG = "iVBORw0KGgo="
TIME = "2026-11-27T21:00:00.000Z"


def shown(message: Message) -> list[object]:
    """The parts of a message, each in short."""
    found: list[object] = []
    for part in message.content:
        match part.type:
            case "text":
                found.append(part.text.content)
            case "thinking":
                found.append(("thinks", part.thinking.content, part.thinking.signature))
            case "image":
                found.append(("sees", part.image.source.media_type, part.image.source.data))
            case "tool_use":
                found.append(("calls", part.tool_use.name, part.tool_use.input))
            case "tool_result":
                found.append(("gets", part.tool_result.text, part.tool_result.is_error))
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_answer_has_its_usage_and_each_result_its_tool(program: str, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(sample(program, "kneading"))
    answers = [each for each in session.messages if each.role == "assistant"]
    by_model = [each for each in answers if plain_text(each.content).startswith("answer-")]
    assert len(by_model) > 5
    assert {each.usage for each in by_model} == {Usage(11, 7, 0, 0, 18)}
    assert all(each.model and each.provider for each in by_model)
    assert {each.tool_name for each in session.messages if each.role == "tool"} - {"read_bash"} in (
        {"bash"},
        {"Bash"},
        {"run_commands"},
    )


def read_lines(path: Path, lines: list[dict[str, Any]], program: str, read: ReadSessions) -> ParsedSession:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    (session,) = read(path, program)
    assert session.codes() == []
    return session


def test_the_other_parts_of_copilot(tmp_path: Path, read_sessions: ReadSessions) -> None:
    asset = {"assetId": "sha256:1", "type": "image", "mimeType": "image/png", "byteLength": 8, "data": PNG}
    attached = [
        {"type": "blob", "assetId": "sha256:1", "mimeType": "image/png"},
        {"type": "selection", "filePath": "a.py", "displayName": "a.py", "text": "loaf()"},
        {"type": "file", "path": "b.py", "displayName": "b.py"},
    ]
    call = {"toolCallId": "c", "name": "bash", "arguments": {"command": "false"}}
    failed = {"toolCallId": "c", "success": False, "error": {"message": "No oven.", "code": "x"}}
    events: list[tuple[str, dict[str, Any]]] = [
        ("session.start", {"sessionId": "s", "version": 1, "startTime": TIME}),
        ("session.binary_asset", asset),
        ("user.message", {"content": "Look.", "attachments": attached}),
        ("assistant.reasoning", {"reasoningId": "r", "content": "An oven."}),
        ("assistant.message", {"content": "", "reasoningOpaque": "sealed", "toolRequests": [call]}),
        ("tool.execution_complete", failed | {"shellExecution": {"exitCode": 1}}),
        ("user.message", {"content": "Use the skill.", "source": "skill-pdf"}),
        ("skill.invoked", {"name": "pdf", "path": "p", "content": "How to read."}),
        ("session.error", {"errorType": "quota", "message": "Nothing is left."}),
        ("session.context_cleared", {"messagesCleared": 3}),
    ]
    lines = [
        {"type": kind, "data": data, "id": f"e{at}", "timestamp": TIME, "parentId": f"e{at - 1}" if at else None}
        for at, (kind, data) in enumerate(events)
    ]
    session = read_lines(tmp_path / "events.jsonl", lines, "copilot", read_sessions)
    look, answer, result, skill, error = session.messages
    assert shown(look) == ["Look.", ("sees", "image/png", PNG), '<file name="a.py">\nloaf()</file>', "[file: b.py]"]
    assert shown(answer) == [("thinks", "An oven.", "sealed"), ("calls", "bash", {"command": "false"})]
    assert shown(result) == [("gets", "No oven.", True)]
    assert (skill.metadata, error.stop_reason, error.error) == ({"is_meta": True}, "error", "Nothing is left.")
    (run,) = (each.tool_execution for each in session.entries if isinstance(each, ToolExecutionEntry))
    assert (run.success, run.exit_code, run.arguments) == (False, 1, {"command": "false"})
    assert "How to read." in str(session.of("custom"))
    assert [each.compaction.summary for each in session.entries if isinstance(each, CompactionEntry)] == [""]


def test_an_event_of_copilot_goes_below_the_one_that_it_names(tmp_path: Path, read_sessions: ReadSessions) -> None:
    parents = {"a": None, "b": "a", "c": "b", "d": "a", "e": "missing"}
    lines: list[dict[str, Any]] = [
        {"type": "user.message", "data": {"content": each}, "id": each, "timestamp": TIME, "parentId": parent}
        for each, parent in parents.items()
    ]
    session = read_lines(tmp_path / "events.jsonl", lines, "copilot", read_sessions)
    assert {each.id: each.parent_id for each in session.entries} == parents | {"e": "d"}


def test_a_command_of_the_person_and_an_abort_in_copilot(read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(DATA / "copilot" / "waiting")
    (by_hand,) = (each.bash for each in session.messages if each.role == "bashExecution")
    assert by_hand is not None
    assert (by_hand.command, by_hand.output, by_hand.exit_code) == ("echo by hand", "by hand", 0)
    calls = [each for each in session.messages if each.has_calls]
    assert len(calls) == len([each for each in session.messages if each.role == "tool"]) + 1  # one was aborted


def test_the_other_parts_of_kimi_code(tmp_path: Path, read_sessions: ReadSessions) -> None:
    image = {"type": "image_url", "imageUrl": {"url": f"data:image/png;base64,{PNG}"}}
    call = {"type": "function", "id": "c", "name": "Bash", "arguments": '{"command": "ls"}'}
    thought = {"type": "think", "think": "An oven.", "encrypted": "sealed"}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, image], "origin": {"kind": "user"}},
        {"role": "assistant", "content": [thought], "toolCalls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": "No oven."}], "toolCallId": "c", "isError": True},
    ]
    lines: list[dict[str, Any]] = [{"type": "metadata", "protocol_version": "1.5", "created_at": 1}]
    lines += [{"type": "context.append_message", "agentId": "main", "message": each, "time": 2} for each in said]
    usage = {"inputOther": 5, "output": 1, "inputCacheRead": 2, "inputCacheCreation": 3}
    lines.append({"type": "usage.record", "agentId": "main", "usage": usage, "usageScope": "session", "time": 3})
    lines.append({"type": "context.clear", "agentId": "main", "time": 4})
    session = read_lines(tmp_path / "wire.jsonl", lines, "kimi", read_sessions)
    look, answer, result = session.messages
    assert shown(look) == ["Look.", ("sees", "image/png", PNG)]
    assert shown(answer) == [("thinks", "An oven.", "sealed"), ("calls", "Bash", {"command": "ls"})]
    assert (shown(result), result.tool_name) == ([("gets", "No oven.", True)], "Bash")
    (record,) = (each.usage for each in session.entries if isinstance(each, UsageEntry))
    assert (record.kind, record.usage) == ("session", Usage(5, 1, 2, 3, 11))
    assert [each.type for each in session.entries][-1] == "compaction"


def test_the_other_parts_of_cline(tmp_path: Path, read_sessions: ReadSessions) -> None:
    image = {"type": "image", "data": PNG, "mediaType": "image/png"}
    prompt = '<mode_notice>Act now.</mode_notice>\n<user_input mode="act">Look.</user_input>'
    thought = {"type": "thinking", "thinking": "An oven.", "signature": "sealed"}
    calls: list[dict[str, Any]] = [
        {"type": "tool_use", "id": each, "name": "read_files", "input": {}} for each in ("c", "d")
    ]
    runs = [
        {"query": "a.png", "result": [image], "success": True},
        {"query": "b", "error": "No file.", "success": False},
    ]
    results: list[dict[str, Any]] = [{"type": "tool_result", "tool_use_id": "c", "content": runs}]
    results.append({"type": "tool_result", "tool_use_id": "d", "content": [{"type": "text", "text": "Done."}]})
    file = {"type": "file", "path": "a.py", "content": "loaf()"}
    messages = [
        {"id": "m1", "role": "user", "content": [{"type": "text", "text": prompt}, image, file], "ts": 1},
        {"id": "m2", "role": "assistant", "content": [thought, *calls], "ts": 2},
        {"id": "m3", "role": "user", "content": [*results, {"type": "text", "text": "And now?"}], "ts": 3},
    ]
    stored = {"version": 1, "updated_at": TIME, "agent": "lead", "sessionId": "s", "messages": messages}
    path = tmp_path / "s.messages.json"
    path.write_text(json.dumps(stored))
    path.with_name("s.json").write_text(json.dumps({"session_id": "s", "cwd": "/work/bakery"}))
    (session,) = read_sessions(path)
    assert (session.codes(), session.header.cwd) == ([], "/work/bakery")
    look, answer, seen, done, asked = session.messages
    words = "<mode_notice>Act now.</mode_notice>\nLook."
    assert shown(look) == [words, ("sees", "image/png", PNG), '<file name="a.py">\nloaf()</file>']
    assert asked_text(look).startswith("Look.")
    assert shown(answer)[0] == ("thinks", "An oven.", "sealed")
    assert (shown(seen), shown(done), shown(asked)) == (
        [("gets", "No file.", True)],
        [("gets", "Done.", False)],
        ["And now?"],
    )
    assert [each.id for each in session.entries if isinstance(each, MessageEntry)][2] == "m3"
    assert PNG in str(seen)
