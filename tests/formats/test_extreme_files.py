"""Files of extreme shape: very deep nesting, numbers that JSON does not have, tens of thousands of records.

Each is read in time linear in its size, or refused with an error that names it."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from treering import SessionHost
from treering.events.dialects.base import in_utc
from treering.events.entries import EPOCH, SessionInfo
from treering.events.errors import ForeignFormatError, InvalidInput
from treering.formats.chain import Chain, describes
from treering.sessions import ImportReports

from .conftest import ReadSessions

MANY = 20_000
TIME = "2026-01-01T00:00:00Z"


def lines(*values: object) -> str:
    return "".join(json.dumps(value, separators=(",", ":")) + "\n" for value in values)


def record(uuid: str, parent: str | None, content: object, type: str = "user", **more: object) -> dict[str, object]:
    message = {"role": type, "content": content, **({"id": "m"} if type == "assistant" else {})}
    return {"parentUuid": parent, "type": type, "uuid": uuid, "sessionId": "s", "message": message, **more}


def record_with_call(value: object) -> dict[str, object]:
    call = {"type": "tool_use", "id": "c", "name": "run", "input": {"given": value}}
    return record("a", "u", [call], "assistant")


def boundary(number: int, above: str, **facts: object) -> dict[str, object]:
    name = {"type": "system", "subtype": "compact_boundary", "uuid": f"b{number}", "parentUuid": None}
    return {**name, "logicalParentUuid": above, "sessionId": "s", "compactMetadata": facts}


def codex_line(kind: str, /, **payload: object) -> dict[str, object]:
    return {"timestamp": TIME, "type": kind, "payload": payload}


def one_long_answer() -> Iterator[object]:
    yield record("a0", None, "go")
    for number in range(1, MANY):
        yield record(f"a{number}", f"a{number - 1}", [{"type": "text", "text": str(number)}], "assistant")


def compaction_boundaries_without_summaries() -> Iterator[object]:
    yield record("k", None, "go")
    for number in range(MANY):
        yield boundary(number, f"b{number - 1}" if number else "k")
        yield record(f"k{number}", f"b{number}", "go on")


def compactions_that_keep_a_segment() -> Iterator[object]:
    yield record("s-1", None, "go")
    for number in range(MANY):
        yield boundary(number, f"s{number - 1}", preservedSegment={"headUuid": f"s{number - 1}"})
        yield record(f"s{number}", f"b{number}", "summary", isCompactSummary=True)


def parallel_calls() -> Iterator[object]:
    yield codex_line("session_meta", id="s")
    for number in range(MANY):
        yield codex_line("response_item", type="function_call", call_id=f"c{number}", name="run", arguments="{}")
    for number in range(MANY):
        yield codex_line("response_item", type="function_call_output", call_id=f"c{number}", output="done")
        yield codex_line("event_msg", type="exec_command_end", call_id=f"c{number}", exit_code=0)


def rewinds() -> Iterator[object]:
    yield {"sessionId": "s", "projectHash": "p"}
    yield from ({"id": f"u{number}", "type": "user", "content": "go"} for number in range(MANY))
    yield from ({"$rewindTo": f"u{number}"} for number in reversed(range(MANY)))


@pytest.mark.timeout(15)
@pytest.mark.parametrize(
    "make",
    [
        one_long_answer,
        compaction_boundaries_without_summaries,
        compactions_that_keep_a_segment,
        parallel_calls,
        rewinds,
    ],
)
def test_a_file_with_many_records_is_read_within_the_time_limit(
    tmp_path: Path, read_sessions: ReadSessions, make: Callable[[], Iterator[object]]
) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text(lines(*make()))
    (session,) = read_sessions(path)
    assert session.entries


@pytest.mark.timeout(15)
@pytest.mark.parametrize(
    ("name", "first", "start"),
    [
        ("claude-code", record("u", None, "go"), '{"type"'),
        ("codex", codex_line("session_meta", id="s"), '{"timestamp"'),
        ("gemini", {"sessionId": "s", "projectHash": "p"}, '{"id"'),
        ("picoclaw", {"role": "user", "content": "go"}, '{"role"'),
        ("qwen", {"uuid": "u", "parentUuid": None, "message": {"role": "user", "parts": []}}, '{"uuid"'),
        ("dive", {"line_type": "header", "data": {"id": "s"}}, '{"line_type"'),
    ],
)
def test_a_torn_line_with_many_possible_starts_is_one_finding(
    tmp_path: Path, read_sessions: ReadSessions, name: str, first: object, start: str
) -> None:
    path = tmp_path / "torn.jsonl"
    path.write_text(lines(first) + f'{start}:"x",' * 200_000 + "\n")
    (session,) = read_sessions(path, name)
    (finding,) = (each for each in session.findings if each.code == "damaged" and each.line == 2)
    assert finding.byte == len(lines(first))


@pytest.mark.parametrize(
    "number", ["NaN", "-Infinity", "1e999", "9" * 5000], ids=["nan", "infinity", "1e999", "digits"]
)
def test_a_message_with_a_number_not_json_is_read(tmp_path: Path, read_sessions: ReadSessions, number: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(lines(record("u", None, "go"), record_with_call("@")).replace('"@"', number))
    (session,) = read_sessions(path)
    assert session.roles == ["user", "assistant"]
    path = tmp_path / "odd.json"
    message = {"role": "user", "content": "go", "score": "@"}
    path.write_text(lines({"key": "k", "skip": "@", "messages": [message]}).replace('"@"', number))
    (session,) = read_sessions(path, "picoclaw")
    assert session.roles == ["user"]


@pytest.mark.parametrize("depth", [900, 100_000])
async def test_a_deeply_nested_value_is_imported_or_reported_with_its_line(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "deep.jsonl"
    result = record("r", "a", [{"type": "tool_result", "tool_use_id": "c", "content": "done"}])
    whole = lines(record("u", None, "go"), record_with_call("@"), result, record("v", "r", "well?"))
    path.write_text(whole.replace('"@"', "[" * depth + "]" * depth))
    async with SessionHost(tmp_path / "sessions") as host:
        (report,) = await host.import_sessions(path)
        assert report.messages == (4 if depth == 900 else 3)
        assert [each.line for each in report.findings] == ([] if depth == 900 else [2, 3])
        session = await host.load(report.id)
        shown = [entry.entry_id for entry in (await session.context()).messages]
        assert shown == (["u", "a", "r", "v"] if depth == 900 else ["u", "r", "v"])
        for index in (False, True):
            assert [hit.entry_id async for hit in host.search("well", index=index)] == ["v"]


@pytest.mark.parametrize("size", [150_000, 300_000])
def test_a_transcript_that_begins_with_a_long_prompt_is_recognized(
    tmp_path: Path, read_sessions: ReadSessions, size: int
) -> None:
    prompt, path = "x" * size, tmp_path / "s.jsonl"
    queued = {"type": "queue-operation", "operation": "enqueue", "timestamp": TIME, "sessionId": "s", "content": prompt}
    path.write_text(lines(queued, record("u", None, prompt)))
    (session,) = read_sessions(path)
    assert session.roles == ["user"]


def sample_with_free_values(kind: str) -> tuple[str, str]:
    """Return a file name, and a session with a placeholder in each place where a format keeps any value."""
    session: list[object]
    match kind:
        case "codex":
            call = codex_line("response_item", type="function_call", call_id="c", name="run", arguments={"given": "@"})
            output = codex_line("response_item", type="function_call_output", call_id="c", output={"given": "@"})
            odd = codex_line("response_item", type="odd", given="@")
            nameless = codex_line("response_item", type="message", role="odd", given="@")
            agent = codex_line("response_item", type="agent_message", content="go", given="@")
            back = codex_line("event_msg", type="thread_rolled_back", num_turns=0, given="@")
            session = [codex_line("session_meta", id="s"), call, output, odd, nameless, agent, back]
        case "gemini":
            record = {"id": "c", "name": "run", "args": {"given": "@"}, "result": {"given": "@"}}
            answer = {"id": "g", "type": "gemini", "content": [{"given": "@"}], "toolCalls": [record]}
            session = [{"sessionId": "s", "projectHash": "p"}, answer, {"id": "i", "type": "info", "content": "@"}]
        case "opencode":
            state = {"status": "completed", "input": {"given": "@"}, "output": "done"}
            parts = [
                {"type": "tool", "id": "p", "callID": "c", "tool": "run", "state": state},
                {"type": "odd", "x": "@"},
            ]
            info: dict[str, object] = {"id": "s", "directory": "/", "time": {}}
            session = [{"info": info, "messages": [{"info": {"id": "m", "role": "assistant"}, "parts": parts}]}]
        case _:
            content = [
                {"type": "text", "text": "Look."},
                {"type": "tool_use", "id": "c", "name": "run", "input": {"given": "@"}},
                {"type": "document", "given": "@"},
            ]
            header = {"line_type": "header", "data": {"id": "s", "metadata": {"given": "@"}, "odd": "@"}}
            turn = {"type": "turn", "messages": [{"role": "assistant", "content": content}], "metadata": {"given": "@"}}
            kept: dict[str, object] = {"type": "compaction", "messages": [], "metadata": {"given": "@"}}
            session = [header, {"line_type": "event", "data": turn}, {"line_type": "event", "data": kept}]
    return f"{kind}.{'json' if kind == 'opencode' else 'jsonl'}", lines(*session)


@pytest.mark.parametrize("shape", [("[", "]"), ('{"in":', "}")], ids=["lists", "objects"])
@pytest.mark.parametrize("kind", ["codex", "gemini", "opencode", "dive"])
async def test_a_value_nested_too_deeply_is_kept_as_text(tmp_path: Path, kind: str, shape: tuple[str, str]) -> None:
    name, whole = sample_with_free_values(kind)
    path = tmp_path / name
    types: list[list[str]] = []
    for depth in (3, 255, 256, 257, 300, 900):
        value = shape[0] * depth + "1" + shape[1] * depth
        path.write_text(whole.replace('"@"', value))
        async with SessionHost(tmp_path / f"sessions-{depth}") as host:
            (report,) = await host.import_sessions(tmp_path, format=kind)
            assert not [each for each in report.findings if each.severity == "error"]
            session = await host.load(report.id)
            entries = await session.entries()
        kept = msgspec.json.encode(entries).decode().replace("\\", "")  # text inside JSON is escaped
        assert kept.count(value) >= whole.count('"@"')
        types.append([entry.type for entry in entries])
    assert types == [types[0]] * len(types)


async def test_a_folder_is_imported_despite_unreadable_entries_in_it(tmp_path: Path, host: SessionHost) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "0.jsonl").write_bytes(b"")
    (folder / "1.jsonl").mkdir()
    (folder / "2.jsonl").symlink_to("nowhere")
    (folder / "agent-1.jsonl").mkdir()
    (folder / "agent-2.jsonl").symlink_to("agent-2.jsonl")
    (folder / "s.jsonl").write_text(lines(record("u", None, "go")))
    (report,) = reports = await host.import_sessions(folder)
    assert isinstance(reports, ImportReports)
    assert [Path(each).name for each in reports.unknown_paths] == ["0.jsonl"]
    assert report.messages == 1


async def test_a_path_that_cannot_be_opened_is_refused(tmp_path: Path, host: SessionHost) -> None:
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for path in ("loop", "missing", "pipe"):
        for name in (None, "codex", "claude-code", "opencode", "native"):
            with pytest.raises(ForeignFormatError):
                await host.import_sessions(tmp_path / path, format=name)
    with pytest.raises(ForeignFormatError):
        await host.import_sessions(tmp_path, format="native")
    with pytest.raises(InvalidInput, match="leave out null characters"):
        await host.import_sessions(tmp_path / "a\0b")


@pytest.mark.parametrize("name", ["x" * 5000, "../../../elsewhere", "a/b", ".."])
def test_ids_unsafe_as_file_names_are_told_and_not_used(tmp_path: Path, read_sessions: ReadSessions, name: str) -> None:
    storage = tmp_path / "storage"
    for folder in ("session/p", "message/s", "part"):
        (storage / folder).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "m.json").write_text('{"id":"m","role":"user","type":"text","text":"secret"}')
    session = {"directory": "/", "projectID": "p", "time": {}}
    (storage / "session" / "p" / "1.json").write_text(json.dumps({"id": name, **session}))
    (storage / "session" / "p" / "2.json").write_text(json.dumps({"id": "s", **session}))
    (storage / "message" / "s" / "m.json").write_text(json.dumps({"id": name, "role": "user"}))
    (storage / "message" / "s" / "n.json").mkdir()
    one, two = read_sessions(storage, "opencode")
    assert one.messages == []
    assert "secret" not in str([one.messages, two.messages])
    assert "damaged" in two.codes()


def test_what_describes_a_session_is_known_again_if_utc_does_not_have_its_time() -> None:
    time = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
    entry = Chain("test", "s", EPOCH).describe(SessionInfo(name="Loaves"), time=time)
    assert describes(replace(entry, timestamp=in_utc(time)), "test", "s")
