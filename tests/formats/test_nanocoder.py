"""nanocoder's sessions: the file that it writes today, and the folder of its design in both drafted shapes."""

import json
from pathlib import Path

import pytest

from treering import MessageEntry
from treering.events.content import ToolResultPart, ToolUsePart, plain_text, text, thinking, tool_result, tool_use
from treering.events.content import image as image_part
from treering.events.entries import CompactionEntry, ModelChangeEntry, Provider, SessionInfoEntry, ToolExecutionEntry
from treering.events.errors import ForeignFormatError
from treering.events.findings import LeftOut
from treering.projections.building.budget import calculate_budget
from treering.projections.tokens import ByteEstimator

from .conftest import Read, ReadSessions, reader

Lines = list[dict[str, object]]


def folder(path: Path, metadata: dict[str, object] | None, messages: Lines, tools: Lines | None = None) -> Path:
    path.mkdir(parents=True)
    if metadata is not None:
        (path / "metadata.json").write_text(json.dumps(metadata))
    for name, lines in (("messages.jsonl", messages), ("tools.jsonl", tools or [])):
        if lines:
            (path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


read = reader(folder, "session-n-1")


def message(seq: int, role: str, content: str = "", **more: object) -> dict[str, object]:
    place = {"id": f"m{seq}", "seq": seq, "parentId": f"m{seq - 1}" if seq > 1 else None}
    return {**place, "timestamp": f"2026-03-01T09:00:{seq:02d}.000Z", "role": role, "content": content, **more}


PROVIDER = {"type": "llamacpp", "model": "qwen", "contextWindow": 8192, "baseUrl": "http://localhost:8080"}
METADATA: dict[str, object] = {
    "version": 1,
    "id": "n-1",
    "project": {"path": "/work/bakery", "hash": "0123456789abcdef", "name": "bakery"},
    "timestamps": {"createdAt": "2026-03-01T09:00:00Z", "lastAccessedAt": "2026-03-01T10:00:00Z", "lastMessageAt": ""},
    "stats": {"messageCount": 4},
    "provider": PROVIDER,
    "display": {"title": "Bread", "description": "Read it"},
    "status": "active",
}
CALL = {"id": "c1", "name": "execute_bash", "arguments": '{"command":"ls"}'}
MESSAGES = [
    message(1, "system", "You bake."),
    message(2, "user", "Read it"),
    message(
        3,
        "assistant",
        "Sure.",
        assistant={"model": "qwen", "toolCalls": [CALL], "finishReason": "tool_calls", "durationMs": 70},
    ),
    message(4, "tool", "bread.md", tool={"callId": "c1", "name": "execute_bash"}),
]
RUN: dict[str, object] = {
    "id": "t1",
    "seq": 1,
    "timestamp": "2026-03-01T09:00:04.000Z",
    "messageId": "m3",
    "toolCallId": "c1",
    "tool": "execute_bash",
    "arguments": {"command": "ls"},
    "result": {"success": False, "content": "bread.md", "error": "exit 2", "exitCode": 2},
    "tokens": 3,
    "durationMs": 12.5,
}


@pytest.mark.feature("N-27", "N-33", "N-35", "N-36", "N-151")
def test_the_single_file_format_is_read(data: Path, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(data / "nanocoder" / "nanocoder.json")
    header = session.header
    assert (header.id, header.title, header.cwd) == ("6b6b6b6b-0000-4000-8000-000000000001", "Bread", "/work/bakery")
    assert session.roles == ["system", "user", "assistant", "tool", "tool", "assistant"]
    calls = [part.tool_use for part in session.messages[2].content if isinstance(part, ToolUsePart)]
    assert [(call.id, call.name, call.input) for call in calls] == [
        ("call_1", "read_file", {"path": "bread.md"}),
        ("call_2", "execute_bash", {"command": "date"}),
    ], "arguments are an object, or text that encodes one"
    assert [each.tool_name for each in session.messages[3:5]] == ["read_file", "execute_bash"]
    infos = [entry.session_info for entry in session.entries if isinstance(entry, SessionInfoEntry)]
    assert [info.name for info in infos] == ["Bread"], "the title was set by a person"
    assert infos[0].provider == Provider("ollama", "qwen3:8b")
    assert {entry.timestamp for entry in session.entries} == {header.timestamp}
    assert session.codes() == []


def test_thinking_and_images_are_read_and_unsupported_fields_told(tmp_path: Path, read_sessions: ReadSessions) -> None:
    image = {"data": "QUJD", "mediaType": "image/png", "source": "bread.png"}
    called: dict[str, object] = {"id": "c1", "function": {"name": "look"}}
    messages: Lines = [
        {"role": "user", "content": "What is it?", "images": [image]},
        {"role": "assistant", "content": "", "reasoning": "Look first.", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": "bread", "structuredContent": {"is": "bread"}},
        {"role": "assistant", "content": "Bread.", "reasoning": "It is bread.", "structuredContent": None},
        {"role": "user", "content": "", "images": [image, {"mediaType": "image/png"}]},
    ]
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"id": "n-1", "createdAt": "2026-03-01T09:00:00Z", "messages": messages}))
    (session,) = read_sessions(path, "nanocoder")
    picture = image_part("QUJD", "image/png")
    assert [each.content for each in session.messages] == [
        (text("What is it?"), picture),
        (thinking("Look first."), tool_use("c1", "look", {})),
        (tool_result("c1", "bread"),),
        (thinking("It is bread."), text("Bread.")),
        (picture,),
    ]
    assert [(each.kind, each.count, each.example) for each in session.findings if isinstance(each, LeftOut)] == [
        ("message field images", 1, json.dumps(messages[4]["images"], separators=(",", ":"))),
        ("message field structuredContent", 1, '{"is":"bread"}'),
    ]


def test_thinking_is_read_under_either_of_its_names(tmp_path: Path, read_sessions: ReadSessions) -> None:
    messages: Lines = [
        {"role": "assistant", "content": "One.", "reasoning_content": None, "reasoning": "first"},
        {"role": "assistant", "content": "Two.", "reasoning_content": "second", "reasoning": "second"},
        {"role": "assistant", "content": "Three.", "reasoning_content": "third", "reasoning": "another"},
    ]
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"id": "n-1", "createdAt": "2026-03-01T09:00:00Z", "messages": messages}))
    (session,) = read_sessions(path, "nanocoder")
    assert [each.content[0] for each in session.messages] == [thinking(name) for name in ("first", "second", "third")]
    (finding,) = session.findings
    assert isinstance(finding, LeftOut)
    assert (finding.kind, finding.example) == ("message field reasoning", "another")


def test_a_generated_title_is_only_in_the_header(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    document = json.loads((data / "nanocoder" / "nanocoder.json").read_bytes())
    del document["titleManuallySet"]
    path = tmp_path / "s.json"
    path.write_text(json.dumps(document))
    (session,) = read_sessions(path)
    assert session.header.title == "Bread"
    assert [entry.session_info.name for entry in session.entries if isinstance(entry, SessionInfoEntry)] == [None]


@pytest.mark.feature("N-22", "N-23", "N-24", "N-25", "N-27", "N-28", "N-30", "N-31", "N-32", "N-33")
def test_the_folder_format_is_read(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = folder(tmp_path / "session-n-1", METADATA, MESSAGES, [RUN])
    (session,) = read_sessions(path)
    header = session.header
    assert (header.id, header.title, header.cwd) == ("n-1", "Bread", "/work/bakery")
    assert header.timestamp.isoformat() == "2026-03-01T09:00:00+00:00"
    assert session.roles == ["system", "user", "assistant", "tool"]
    assert [entry.id for entry in session.of("message")] == ["m1", "m2", "m3", "m4"]
    assert [entry.timestamp.second for entry in session.of("message")] == [1, 2, 3, 4]
    (info,) = (entry.session_info for entry in session.entries if isinstance(entry, SessionInfoEntry))
    assert info.status == "active"
    assert info.provider == Provider("llamacpp", "qwen", 8192, "http://localhost:8080")
    assert calculate_budget(info.provider.context_window, "", "", ByteEstimator()).model_context_window == 8192
    (model,) = (entry.model_change for entry in session.entries if isinstance(entry, ModelChangeEntry))
    assert (model.provider, model.model_id) == ("llamacpp", "qwen")
    assert session.codes() == []
    assert read_sessions(path / "messages.jsonl") == [session]
    assert read_sessions(path / "metadata.json", "nanocoder") == [session]


@pytest.mark.feature("N-27")
def test_an_unknown_provider_is_kept(read: Read) -> None:
    metadata = {**METADATA, "provider": {**PROVIDER, "type": "garden-shed"}}
    session = read(metadata, MESSAGES)
    (info,) = (entry.session_info for entry in session.entries if isinstance(entry, SessionInfoEntry))
    assert info.provider is not None
    assert info.provider.type == "garden-shed"


@pytest.mark.feature("N-35", "N-36", "N-37", "N-38", "N-39", "N-149", "N-150", "N-152", "N-153", "N-154", "N-155")
def test_a_tool_execution_follows_its_result(read: Read) -> None:
    session = read(METADATA, MESSAGES, [RUN])
    answer, result = session.messages[2:]
    assert (answer.model, answer.stop_reason, answer.duration_ms) == ("qwen", "tool_calls", 70)
    (call,) = (part.tool_use for part in answer.content if isinstance(part, ToolUsePart))
    assert (call.id, call.name, call.input) == ("c1", "execute_bash", {"command": "ls"})
    (part,) = result.content
    assert isinstance(part, ToolResultPart)
    assert (part.tool_result.tool_use_id, part.tool_result.content) == ("c1", "bread.md")
    assert part.tool_result.is_error, "the execution failed"
    entry = session.entries[-1]
    assert isinstance(entry, ToolExecutionEntry)
    run = entry.tool_execution
    assert (entry.id, run.message_id, run.tool_call_id, run.tool_name) == ("t1", "m3", "c1", "execute_bash")
    assert (run.arguments, run.success, run.error, run.exit_code) == ({"command": "ls"}, False, "exit 2", 2)
    assert (run.tokens, run.duration_ms) == (3, 12.5)


@pytest.mark.feature("N-36", "N-37", "N-38", "N-39", "N-151")
def test_the_flat_shape_of_the_draft_reads_to_the_same_session(tmp_path: Path, read_sessions: ReadSessions) -> None:
    flat: Lines = []
    for each in MESSAGES:
        line = {key: value for key, value in each.items() if key not in ("seq", "tool", "assistant")}
        if each["role"] == "assistant":
            line["toolCalls"] = [{**CALL, "arguments": {"command": "ls"}}]
        if each["role"] == "tool":
            line |= {"toolCallId": "c1", "toolName": "execute_bash"}
        flat.append(line)
    run = {key: value for key, value in RUN.items() if key not in ("seq", "toolCallId", "arguments", "tokens")}
    run |= {"args": {"command": "ls"}, "resultTokens": 3}
    metadata = {
        **{key: METADATA[key] for key in ("version", "id", "provider", "status")},
        "projectPath": "/work/bakery",
        "projectHash": "0123456789abcdef",
        "title": "Bread",
        "createdAt": "2026-03-01T09:00:00Z",
        "messageCount": 4,
        "totalTokens": 0,
    }
    (nested,) = read_sessions(folder(tmp_path / "a" / "session-n-1", METADATA, MESSAGES, [RUN]))
    (draft,) = read_sessions(folder(tmp_path / "b" / "session-n-1", metadata, flat, [run]))
    assert draft.header == nested.header
    assert [entry.id for entry in draft.entries] == [entry.id for entry in nested.entries]
    assert draft.of("tool_execution") == nested.of("tool_execution")
    assert [each.content for each in draft.messages] == [each.content for each in nested.messages]
    assert draft.codes() == []


def test_a_result_missing_from_the_messages_is_taken_from_the_execution(read: Read) -> None:
    after = {**message(4, "assistant", "Done."), "parentId": "m3"}
    session = read(METADATA, [*MESSAGES[:3], after], [RUN])
    assert session.roles == ["system", "user", "assistant", "tool", "assistant"]
    (part,) = session.messages[3].content
    assert isinstance(part, ToolResultPart)
    assert (part.tool_result.content, part.tool_result.is_error) == ("bread.md", True)
    path = [entry.id for entry in session.path()]
    assert path.index("m3") < path.index("t1") < path.index("m4")


def test_a_result_that_follows_words_of_the_user_is_read_once(read: Read) -> None:
    between = {**message(4, "user", "Wait."), "parentId": "m3"}
    result = {**MESSAGES[3], "seq": 5, "id": "m5", "parentId": "m4"}
    session = read({**METADATA, "stats": {"messageCount": 5}}, [*MESSAGES[:3], between, result], [RUN])
    assert session.roles == ["system", "user", "assistant", "user", "tool"]
    assert [entry.id for entry in session.path()][-2:] == ["m5", "t1"]


def test_an_execution_without_a_call_is_kept_and_reported(read: Read) -> None:
    metadata = {**METADATA, "stats": {"messageCount": 2}}
    session = read(metadata, MESSAGES[:2], [RUN])
    assert [entry.id for entry in session.of("tool_execution")] == ["t1"]
    assert session.codes() == ["orphan"]


@pytest.mark.feature("N-31")
def test_parent_ids_form_a_tree(read: Read) -> None:
    branch = {**message(5, "user", "Or cake?"), "parentId": "m1"}
    new_root = {**message(6, "user", "Anew."), "parentId": None}
    metadata = {**METADATA, "stats": {"messageCount": 6}}
    session = read(metadata, [*MESSAGES, branch, new_root], [RUN])
    texts = [plain_text(each.message.content) for each in session.path("m5") if isinstance(each, MessageEntry)]
    assert texts == ["You bake.", "Or cake?"]
    assert [entry.id for entry in session.path()] == ["m6"]
    assert session.codes() == []


@pytest.mark.feature("N-147")
@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([1, 2, 4], "lines between them are missing"), ([1, 2, 2], "two lines claim one place"), ([1, 3, 2], "two lines")],
)
def test_gaps_and_duplicates_in_line_numbers_are_reported(
    tmp_path: Path, read_sessions: ReadSessions, numbers: list[int], expected: str
) -> None:
    lines = [{**message(n, "user"), "seq": seq} for n, seq in enumerate(numbers, 1)]
    (session,) = read_sessions(folder(tmp_path / "session-x", {"version": 1}, lines))
    found = [each for each in session.findings if each.code == "seq"]
    assert expected in found[-1].message
    assert found[-1].line == 3
    assert len(session.messages) == 3, "all messages are read nevertheless"


@pytest.mark.feature("N-34", "N-148")
def test_running_token_totals_are_checked_along_the_path(tmp_path: Path, read_sessions: ReadSessions) -> None:
    def counted(seq: int, count: int, cumulative: int, **more: object) -> dict[str, object]:
        return {**message(seq, "user"), "tokens": {"count": count, "cumulative": cumulative}, **more}

    right = [counted(1, 5, 5), counted(2, 7, 12), {**counted(3, 1, 6), "parentId": "m1"}]
    (session,) = read_sessions(folder(tmp_path / "session-a", {"version": 1}, right))
    assert session.codes(notes=True) == []
    (session,) = read_sessions(folder(tmp_path / "session-b", {"version": 1}, [counted(1, 5, 5), counted(2, 7, 13)]))
    (finding,) = session.findings
    assert (finding.code, finding.line) == ("tokens", 2)


def test_the_latest_summary_becomes_a_compaction_others_are_custom(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = folder(tmp_path / "session-n-1", {**METADATA, "context": {"summaryMessageId": "m2"}}, MESSAGES)
    (path / "summaries").mkdir()
    for key, last in (("aa", "m2"), ("bb", "m1")):
        limits = {"startMessageId": "m1", "endMessageId": last, "startSeq": 1, "endSeq": int(last[1])}
        about = {"id": f"s-{key}", "createdAt": "2026-03-01T09:30:00Z", "range": {**limits, "messageCount": 2}}
        said = {"summary": {"content": f"Sum {key}", "tokens": 4, "model": "qwen"}, "originalTokens": 40}
        summary = {**about, **said, "compressionRatio": 0.1}
        (path / "summaries" / f"{key}.json").write_text(json.dumps(summary))
    (session,) = read_sessions(path)
    (entry,) = (entry for entry in session.entries if isinstance(entry, CompactionEntry))
    compaction = entry.compaction
    assert (compaction.summary, compaction.first_kept_entry_id, compaction.tokens_before) == ("Sum aa", "m3", 40)
    (kept,) = session.of("custom")
    assert kept.id == "s-bb"


def test_all_sessions_under_a_folder_are_read(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    folder(tmp_path / "projects" / "h" / "session-n-1", METADATA, MESSAGES)
    (tmp_path / "6b6b.json").write_bytes((data / "nanocoder" / "nanocoder.json").read_bytes())
    (tmp_path / "sessions.json").write_text("[]")
    assert [session.header.id for session in read_sessions(tmp_path)] == ["6b6b6b6b-0000-4000-8000-000000000001", "n-1"]
    with pytest.raises(ForeignFormatError, match="import the files beside it"):
        read_sessions(tmp_path / "sessions.json", "nanocoder")


def test_damaged_metadata_are_reported_and_the_messages_are_read(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = folder(tmp_path / "session-n-9", None, MESSAGES, [RUN])
    for content in (None, "", "[]", '{"id":'):
        if content is not None:
            (path / "metadata.json").write_text(content)
        (session,) = read_sessions(path)
        assert (session.header.id, len(session.messages), session.codes()) == ("n-9", 4, ["damaged"])
        assert session.header.timestamp.second == 1, "the time of the first message"


@pytest.mark.feature("N-141")
def test_a_newer_version_is_refused(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = folder(tmp_path / "session-n-1", {**METADATA, "version": 2}, MESSAGES)
    with pytest.raises(ForeignFormatError, match="newer program"):
        read_sessions(path)


def test_a_compaction_is_placed_by_its_time(tmp_path: Path, read_sessions: ReadSessions) -> None:
    metadata = {**METADATA, "context": {"summaryMessageId": "m2"}, "stats": {"messageCount": 5}}
    later = message(5, "user", "And then?", timestamp="2026-03-01T10:00:00Z")
    path = folder(tmp_path / "session-n-1", metadata, [*MESSAGES, later], [RUN])
    (path / "summaries").mkdir()
    limits = {"startMessageId": "m1", "endMessageId": "m2"}
    summary = {"id": "s1", "createdAt": "2026-03-01T09:30:00Z", "range": limits, "summary": {"content": "Sum"}}
    (path / "summaries" / "a.json").write_text(json.dumps(summary))
    (session,) = read_sessions(path)
    assert [entry.id for entry in session.path()][-4:] == ["m4", "t1", "s1", "m5"]
    assert session.codes() == []


def test_damage_in_a_folder_is_reported_and_the_rest_is_read(tmp_path: Path, read_sessions: ReadSessions) -> None:
    again = {**message(4, "user", "Again."), "seq": 5}
    lost = {**message(6, "user", "Whose child?"), "parentId": "nobody"}
    odd = {**message(7, "nobody"), "parentId": "m6"}
    path = folder(tmp_path / "session-n-1", METADATA, [*MESSAGES, again, lost, odd], [RUN])
    (path / "summaries").mkdir()
    (path / "summaries" / "a.json").write_text('{"id":"s1","range":{"endMessageId":"m99"}}')
    (path / "summaries" / "b.json").write_text('{"id":')
    with (path / "tools.jsonl").open("a") as file:
        file.write('{"id":"t2"')
    (session,) = read_sessions(path)
    assert session.roles == ["system", "user", "assistant", "tool", "user", "user"]
    assert sorted(session.codes()) == ["count", "damaged", "damaged", "damaged", "duplicate_id", "orphan", "parent"]
    assert {(each.code, each.line) for each in session.findings if each.path.endswith("messages.jsonl")} == {
        ("duplicate_id", 5),
        ("parent", 6),
        ("damaged", 7),
        ("orphan", None),
    }
    assert [plain_text(each.message.content) for each in session.path() if isinstance(each, MessageEntry)][-2:] == [
        "Again.",
        "Whose child?",
    ], "a message with an unknown parent follows the line before it"


def test_metadata_without_messages_are_read_as_a_session(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = folder(tmp_path / "session-n-1", METADATA, [])
    (session,) = read_sessions(path)
    assert (session.header.title, session.messages, session.codes()) == ("Bread", [], ["damaged", "count"])
    (path / "metadata.json").write_text("{")
    with pytest.raises(ForeignFormatError, match="there are no messages"):
        read_sessions(path)
