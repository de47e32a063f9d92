"""Writing nanocoder's folder: its layout, its numbers, and that written files can be read back."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from treering.entries import MessageEntry, ModelChange, SessionInfo, ToolExecution, ToolExecutionEntry
from treering.events.content import Content, image, text, thinking, tool_result, tool_use
from treering.events.entries import EPOCH, Compaction, Custom, Entry, Header, KnownEntry, Message, Payload, Provider
from treering.events.errors import InvalidSessionId
from treering.events.json_values import raw_json
from treering.events.projects import project_hash
from treering.formats.chain import Chain
from treering.formats.nanocoder.writing import write_nanocoder
from treering.projections.tokens import message_tokens
from treering.testing import strategies

from ..sampling import examples
from .conftest import ReadSessions

HEADER = Header(id="n-1", version=1, timestamp=EPOCH + timedelta(days=20000), cwd="/work/bakery", title="Bread")


def entries_of(*payloads: Payload) -> list[KnownEntry]:
    """Make entries one second apart."""
    chain = Chain("test", HEADER.id, HEADER.timestamp)
    return [chain.add(each, time=HEADER.timestamp + timedelta(seconds=n)) for n, each in enumerate(payloads, 1)]


PAYLOADS = (
    ModelChange("ollama", "qwen"),
    SessionInfo(provider=Provider("ollama", "qwen", 8192, "http://localhost:11434")),
    Message("user", (text("Read it, please"),)),
    Message(
        "assistant",
        (
            thinking("Look."),
            text("Sure."),
            tool_use("c1", "execute_bash", {"command": "ls"}),
            tool_use("c2", "read", {}),
        ),
        model="qwen",
        stop_reason="tool_use",
        duration_ms=70,
    ),
    Message("tool", (tool_result("c1", "no such folder", is_error=True),), tool_name="execute_bash"),
    ToolExecution(
        "c1",
        "execute_bash",
        raw_json({"command": "ls"}),
        success=False,
        error="exit 2",
        exit_code=2,
        duration_ms=12.5,
        tokens=3,
    ),
    Message("tool", (tool_result("c2", "flour"),), tool_name="read"),
    Message("assistant", (text("Flour."),), model="qwen"),
)


ENTRIES = entries_of(*PAYLOADS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder with these entries."""
    return write_nanocoder(HEADER, ENTRIES, tmp_path, count=message_tokens)


def following(*payloads: Payload) -> list[KnownEntry]:
    """The entries, and more after them a minute later."""
    chain = Chain("test", HEADER.id, HEADER.timestamp)
    chain.leaf = ENTRIES[-1].id
    return [*ENTRIES, *(chain.add(each, time=HEADER.timestamp + timedelta(minutes=1)) for each in payloads)]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def metadata(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "metadata.json").read_bytes())
    return found


@pytest.mark.feature("N-13", "N-14", "N-15", "N-16", "N-17")
def test_the_folder_has_the_documented_layout_and_modes(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    folder = write_nanocoder(HEADER, ENTRIES, root)
    assert folder == root / "projects" / project_hash("/work/bakery") / "session-n-1"
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    inside = folder.relative_to(root).as_posix()
    assert files == [
        "index.jsonl",
        *(f"{inside}/{name}" for name in ("messages.jsonl", "metadata.json", "tools.jsonl")),
    ]
    for path in (root, *root.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    assert [line["role"] for line in lines(folder / "messages.jsonl")] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert len(lines(folder / "tools.jsonl")) == 2


@pytest.mark.feature("N-16")
def test_writing_a_grown_session_again_keeps_its_lines(tmp_path: Path) -> None:
    folder = write_nanocoder(HEADER, ENTRIES[:5], tmp_path)
    before = (folder / "messages.jsonl").read_bytes()
    assert write_nanocoder(HEADER, ENTRIES, tmp_path) == folder
    assert (folder / "messages.jsonl").read_bytes().startswith(before)
    assert len(lines(tmp_path / "index.jsonl")) == 1
    write_nanocoder(replace(HEADER, id="n-2"), ENTRIES, tmp_path)
    assert [line["id"] for line in lines(tmp_path / "index.jsonl")] == ["n-1", "n-2"]


@pytest.mark.feature("N-15")
def test_a_failed_write_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_nanocoder(HEADER, entries_of(*PAYLOADS[:3]), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def fails(self: object, fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("treering.events.disk.OsDisk.datasync", fails)
    with pytest.raises(OSError, match="No space"):
        write_nanocoder(HEADER, ENTRIES, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert metadata(folder)["stats"]["messageCount"] == 1


@pytest.mark.feature("N-22", "N-23", "N-25", "N-27", "N-28", "N-141", "N-142", "N-143", "N-144")
def test_the_metadata_and_the_index_describe_the_session(tmp_path: Path) -> None:
    project = tmp_path / "bakery"
    project.mkdir()
    (project / "package.json").write_text('{"name": "oven"}')
    folder = write_nanocoder(replace(HEADER, cwd=str(project)), ENTRIES, tmp_path / "out", count=message_tokens)
    found = metadata(folder)
    messages, runs = lines(folder / "messages.jsonl"), lines(folder / "tools.jsonl")
    assert (found["version"], found["id"], found["status"]) == (1, "n-1", "active")
    assert found["project"] == {"path": str(project), "hash": project_hash(project), "name": "oven"}
    assert found["timestamps"] == {
        "createdAt": "2024-10-04T00:00:00.000000Z",
        "lastAccessedAt": "2024-10-04T00:00:08.000000Z",
        "lastMessageAt": "2024-10-04T00:00:08.000000Z",
    }
    assert found["stats"] == {
        "messageCount": len(messages),
        "toolExecutionCount": len(runs),
        "totalTokens": sum(line["tokens"]["count"] for line in messages),
        "userMessageCount": [line["role"] for line in messages].count("user"),
        "assistantMessageCount": [line["role"] for line in messages].count("assistant"),
    }
    assert found["provider"] == {
        "type": "ollama",
        "model": "qwen",
        "contextWindow": 8192,
        "baseUrl": "http://localhost:11434",
    }
    assert found["display"] == {"title": "Bread", "description": "Read it, please"}
    assert "context" not in found
    archived = entries_of(*PAYLOADS, SessionInfo(status="waiting"), SessionInfo(archived=True))
    assert metadata(write_nanocoder(HEADER, archived, tmp_path / "archived"))["status"] == "archived"
    (line,) = lines(tmp_path / "out" / "index.jsonl")
    assert line == {
        "id": "n-1",
        "projectPath": str(project),
        "projectHash": project_hash(project),
        "title": "Bread",
        "createdAt": "2024-10-04T00:00:00.000000Z",
        "lastAccessedAt": "2024-10-04T00:00:08.000000Z",
        "messageCount": 5,
        "status": "active",
    }


@pytest.mark.feature("N-24")
def test_an_append_moves_the_time_of_the_last_access_and_an_export_does_not(tmp_path: Path) -> None:

    def accessed(count: int) -> str:
        found: str = metadata(write_nanocoder(HEADER, ENTRIES[:count], tmp_path))["timestamps"]["lastAccessedAt"]
        return found

    assert accessed(4) == accessed(4) < accessed(5)


@pytest.mark.feature("N-25")
def test_the_title_is_the_set_name_or_the_headers_title_or_the_first_user_message(tmp_path: Path) -> None:
    bare = replace(HEADER, title=None)
    asked = Message("user", (text("How long\ndoes it bake?"),))

    def title(header: Header, *payloads: Payload) -> str:
        found: str = metadata(write_nanocoder(header, entries_of(*payloads), tmp_path))["display"]["title"]
        return found

    assert title(HEADER, asked, SessionInfo(name="Cake")) == "Cake"
    assert title(HEADER, asked) == "Bread"
    assert title(bare, asked) == "How long does it bake?"
    assert title(bare) == ""


@pytest.mark.feature("N-27", "N-28")
def test_the_provider_is_the_latest_one_in_the_session(tmp_path: Path) -> None:
    def provider(*payloads: Payload) -> dict[str, Any]:
        found: dict[str, Any] = metadata(write_nanocoder(HEADER, entries_of(*payloads), tmp_path))["provider"]
        return found

    assert provider() == {"type": "unknown", "model": "", "contextWindow": 0}
    assert provider(ModelChange("a", "b"))["type"] == "a"
    assert provider(Message("assistant", (), model="m", provider="p")) == {
        "type": "p",
        "model": "m",
        "contextWindow": 0,
    }
    assert provider(SessionInfo(provider=Provider("garden-shed", "m", 4096)))["type"] == "garden-shed"


@pytest.mark.feature(
    "N-30", "N-31", "N-32", "N-33", "N-34", "N-35", "N-36", "N-147", "N-148", "N-149", "N-150", "N-151"
)
def test_the_message_lines_have_all_fields(folder: Path) -> None:
    found = lines(folder / "messages.jsonl")
    expected = [entry for entry in ENTRIES if isinstance(entry, MessageEntry)]
    assert [line["id"] for line in found] == [entry.id for entry in expected]
    assert len({line["id"] for line in found}) == len(found)
    assert [line["seq"] for line in found] == [1, 2, 3, 4, 5]
    assert [line["parentId"] for line in found] == [None, *(entry.id for entry in expected[:-1])]
    assert [line["timestamp"] for line in found] == [f"2024-10-04T00:00:0{n}.000000Z" for n in (3, 4, 5, 7, 8)]
    assert [line["content"] for line in found] == ["Read it, please", "Sure.", "no such folder", "flour", "Flour."]
    total = 0
    for line, entry in zip(found, expected, strict=True):
        assert line["tokens"]["count"] == message_tokens(entry.message)
        total += line["tokens"]["count"]
        assert line["tokens"]["cumulative"] == total
    assert [line.get("tool") for line in found[2:4]] == [
        {"callId": "c1", "name": "execute_bash"},
        {"callId": "c2", "name": "read"},
    ]
    assert found[1]["assistant"] == {
        "model": "qwen",
        "toolCalls": [
            {"id": "c1", "name": "execute_bash", "arguments": '{"command":"ls"}'},
            {"id": "c2", "name": "read", "arguments": "{}"},
        ],
        "finishReason": "tool_use",
        "durationMs": 70,
    }
    assert found[4]["assistant"] == {"model": "qwen"}


@pytest.mark.feature("N-17", "N-37", "N-38", "N-39", "N-152", "N-153", "N-154", "N-155")
def test_the_tool_lines_have_all_fields(folder: Path) -> None:
    first, second = lines(folder / "tools.jsonl")
    (record,) = (entry for entry in ENTRIES if isinstance(entry, ToolExecutionEntry))
    assert first == {
        "id": record.id,
        "seq": 1,
        "timestamp": "2024-10-04T00:00:06.000000Z",
        "messageId": ENTRIES[3].id,
        "toolCallId": "c1",
        "tool": "execute_bash",
        "arguments": {"command": "ls"},
        "result": {"success": False, "content": "no such folder", "error": "exit 2", "exitCode": 2},
        "tokens": 3,
        "durationMs": 12.5,
    }
    calls = {call["id"]: line["id"] for line in lines(folder / "messages.jsonl") for call in calls_of(line)}
    assert (second["seq"], second["toolCallId"], second["messageId"]) == (2, "c2", calls["c2"])
    assert second["result"] == {"success": True, "content": "flour"}
    read_result = next(
        entry.message for entry in ENTRIES if isinstance(entry, MessageEntry) and entry.message.tool_name == "read"
    )
    assert second["tokens"] == message_tokens(read_result)
    assert second["durationMs"] == 3000, "without a measurement, the time from the call to the result"


def calls_of(line: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = line.get("assistant", {}).get("toolCalls", [])
    return found


@pytest.mark.feature("N-146", "N-156", "N-157", "N-158", "N-159")
def test_a_compaction_is_written_as_the_current_summary(tmp_path: Path, read_sessions: ReadSessions) -> None:
    last = ENTRIES[-1]
    kept = {"key": "abc", "start_id": ENTRIES[2].id, "end_id": ENTRIES[3].id, "message_count": 2, "content": "Half"}
    custom = Custom("treering.summary", raw_json({**kept, "tokens": 2, "summarizer": "m"}))
    *before, compaction, stored = following(Compaction("They read it.", last.id, 0), custom)
    folder = write_nanocoder(HEADER, [*before, compaction, stored], tmp_path, count=message_tokens)
    messages = lines(folder / "messages.jsonl")
    assert metadata(folder)["context"] == {
        "lastSummaryAt": "2024-10-04T00:01:00.000000Z",
        "summaryMessageId": messages[3]["id"],
    }
    files = {path.stem: json.loads(path.read_bytes()) for path in (folder / "summaries").iterdir()}
    (key,) = set(files) - {"abc"}
    assert files[key]["range"] == {
        "startMessageId": messages[0]["id"],
        "endMessageId": messages[3]["id"],
        "startSeq": 1,
        "endSeq": 4,
        "messageCount": 4,
    }
    assert (files[key]["id"], files[key]["createdAt"]) == (compaction.id, "2024-10-04T00:01:00.000000Z")
    tokens = message_tokens(Message("system", (text("They read it."),)))
    assert files[key]["summary"] == {"content": "They read it.", "tokens": tokens, "model": ""}
    assert files["abc"]["id"] == stored.id
    assert files["abc"]["summary"] == {"content": "Half", "tokens": 2, "model": "m"}
    assert files["abc"]["range"]["messageCount"] == 2
    assert files[key]["originalTokens"] == messages[3]["tokens"]["cumulative"]
    assert files[key]["compressionRatio"] == files[key]["summary"]["tokens"] / files[key]["originalTokens"]
    (again,) = read_sessions(folder)
    (entry,) = again.of("compaction")
    assert entry == replace(
        compaction,
        compaction=Compaction("They read it.", last.id, files[key]["originalTokens"]),
        parent_id=entry.parent_id,
    )
    assert [each.id for each in again.of("custom")] == [stored.id]
    assert again.codes() == []


def test_a_summary_is_deleted_when_its_compaction_is_no_longer_written(tmp_path: Path) -> None:
    folder = write_nanocoder(HEADER, following(Compaction("Sum", None, 0)), tmp_path)
    assert len(list((folder / "summaries").iterdir())) == 1
    assert "context" in metadata(folder)
    write_nanocoder(HEADER, ENTRIES, tmp_path)
    assert not list((folder / "summaries").iterdir())
    assert "context" not in metadata(folder)


@pytest.mark.parametrize("summary", ["", "Less"])
def test_a_compaction_that_keeps_everything_ends_an_earlier_one(tmp_path: Path, summary: str) -> None:
    compactions = Compaction("They read it.", ENTRIES[-1].id, 0), Compaction(summary, ENTRIES[0].id, 0)
    folder = write_nanocoder(HEADER, following(*compactions), tmp_path)
    assert "context" not in metadata(folder)


def test_an_id_that_cannot_name_a_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for name in ("", "a/b", "../x", "a\0"):
        with pytest.raises(InvalidSessionId):
            write_nanocoder(replace(HEADER, id=name), ENTRIES, tmp_path)
    assert not list(tmp_path.iterdir())


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
OBJECTS = st.dictionaries(WORDS, strategies.json_values(max_leaves=3), max_size=2)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """Messages that nanocoder can represent: one text each, and calls, whose ids each turn uses again, with results."""
    found: list[Message] = []
    for _ in range(draw(st.integers(0, 3))):
        found.append(Message(draw(st.sampled_from(["user", "system"])), (text(draw(WORDS)),)))
        calls = [tool_use(f"c{n}", f"t{n}", draw(OBJECTS)) for n in range(draw(st.integers(0, 3)))]
        texts: list[Content] = [text(draw(WORDS))] if not calls or draw(st.booleans()) else []
        model = draw(st.none() | st.just("qwen"))
        found.append(Message("assistant", (*texts, *calls), model=model, stop_reason=draw(st.none() | WORDS)))
        found += (
            Message(
                "tool",
                (tool_result(call.tool_use.id, draw(WORDS), is_error=draw(st.booleans())),),
                tool_name=call.tool_use.name,
            )
            for call in calls
        )
    return found


@pytest.mark.feature("N-16", "N-33", "N-36")
@settings(max_examples=examples(15))
@given(messages=turns())
def test_written_messages_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, read_sessions: ReadSessions, messages: list[Message]
) -> None:
    entries: list[Entry] = [*entries_of(*messages)]
    folder = write_nanocoder(HEADER, entries, tmp_path_factory.getbasetemp() / "property")
    (again,) = read_sessions(folder, "nanocoder")
    assert again.header == HEADER
    assert [(each.id, each.timestamp) for each in again.of("message")] == [
        (each.id, each.timestamp) for each in entries
    ]
    assert again.messages == messages
    assert again.codes(notes=True) == []
    shown = [part.tool_result.text for message in messages for part in message.content if part.type == "tool_result"]
    assert [run["result"]["content"] for run in lines(folder / "tools.jsonl")] == shown


def test_images_become_text_and_results_become_messages_of_their_own(tmp_path: Path) -> None:
    with_image = Message("user", (text("See:"), image("QUJD", "image/png")))
    both = Message("user", (tool_result("x", "late"), text("and this")))
    folder = write_nanocoder(HEADER, entries_of(with_image, both), tmp_path)
    written = [(line["role"], line["content"]) for line in lines(folder / "messages.jsonl")]
    assert written == [("user", "See:\n[image: image/png]"), ("tool", "late"), ("user", "and this")]
