"""nanocoder's folder, written: its layout, its numbers, and that what is written is read again."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from treering.events.content import Content, image, raw_json, text, thinking, tool_result, tool_use
from treering.events.entries import (
    EPOCH,
    Compaction,
    Custom,
    Entry,
    Header,
    KnownEntry,
    Message,
    MessageEntry,
    ModelChange,
    Payload,
    Provider,
    SessionInfo,
    ToolExecution,
    ToolExecutionEntry,
)
from treering.events.errors import InvalidSessionId
from treering.events.foreign.chain import Chain
from treering.events.foreign.nanocoder_writing import write_nanocoder
from treering.events.projects import project_hash
from treering.projections.tokens import message_tokens
from treering.testing import strategies

from .conftest import Take

HEADER = Header(id="n-1", version=1, timestamp=EPOCH + timedelta(days=20000), cwd="/work/bakery", title="Bread")


def entries_of(*payloads: Payload) -> list[KnownEntry]:
    """Make entries a second apart."""
    chain = Chain("test", HEADER.id, HEADER.timestamp)
    return [chain.add(each, time=HEADER.timestamp + timedelta(seconds=n)) for n, each in enumerate(payloads, 1)]


SAID = (
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


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def metadata(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "metadata.json").read_bytes())
    return found


@pytest.mark.feature("N-13", "N-14", "N-15", "N-16", "N-17")
def test_the_layout(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    folder = write_nanocoder(HEADER, entries_of(*SAID), root)
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
def test_a_session_that_went_on_keeps_its_lines(tmp_path: Path) -> None:
    entries = entries_of(*SAID)
    folder = write_nanocoder(HEADER, entries[:5], tmp_path)
    before = (folder / "messages.jsonl").read_bytes()
    assert write_nanocoder(HEADER, entries, tmp_path) == folder
    assert (folder / "messages.jsonl").read_bytes().startswith(before)
    assert len(lines(tmp_path / "index.jsonl")) == 1
    write_nanocoder(replace(HEADER, id="n-2"), entries, tmp_path)
    assert [line["id"] for line in lines(tmp_path / "index.jsonl")] == ["n-1", "n-2"]


@pytest.mark.feature("N-15")
def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_nanocoder(HEADER, entries_of(*SAID[:3]), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def fails(self: object, fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("treering.events.disk.OsDisk.datasync", fails)
    with pytest.raises(OSError, match="No space"):
        write_nanocoder(HEADER, entries_of(*SAID), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert metadata(folder)["stats"]["messageCount"] == 1


@pytest.mark.feature("N-22", "N-23", "N-25", "N-27", "N-28", "N-141", "N-142", "N-143", "N-144")
def test_the_metadata(tmp_path: Path) -> None:
    project = tmp_path / "bakery"
    project.mkdir()
    (project / "package.json").write_text('{"name": "oven"}')
    entries = entries_of(*SAID)
    folder = write_nanocoder(replace(HEADER, cwd=str(project)), entries, tmp_path / "out", count=message_tokens)
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
def test_the_time_of_the_last_access_moves_with_an_append_and_not_with_an_export(tmp_path: Path) -> None:
    entries = entries_of(*SAID)

    def accessed(count: int) -> str:
        found: str = metadata(write_nanocoder(HEADER, entries[:count], tmp_path))["timestamps"]["lastAccessedAt"]
        return found

    assert accessed(4) == accessed(4) < accessed(5)


@pytest.mark.feature("N-25")
def test_the_title_is_a_persons_else_the_files_else_the_first_words(tmp_path: Path) -> None:
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
def test_the_provider_is_what_the_session_says_last(tmp_path: Path) -> None:
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
def test_the_messages(tmp_path: Path) -> None:
    entries = entries_of(*SAID)
    folder = write_nanocoder(HEADER, entries, tmp_path, count=message_tokens)
    found = lines(folder / "messages.jsonl")
    said = [entry for entry in entries if isinstance(entry, MessageEntry)]
    assert [line["id"] for line in found] == [entry.id for entry in said]
    assert len({line["id"] for line in found}) == len(found)
    assert [line["seq"] for line in found] == [1, 2, 3, 4, 5]
    assert [line["parentId"] for line in found] == [None, *(entry.id for entry in said[:-1])]
    assert [line["timestamp"] for line in found] == [f"2024-10-04T00:00:0{n}.000000Z" for n in (3, 4, 5, 7, 8)]
    assert [line["content"] for line in found] == ["Read it, please", "Sure.", "no such folder", "flour", "Flour."]
    total = 0
    for line, entry in zip(found, said, strict=True):
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
def test_the_runs_of_tools(tmp_path: Path) -> None:
    entries = entries_of(*SAID)
    folder = write_nanocoder(HEADER, entries, tmp_path, count=message_tokens)
    first, second = lines(folder / "tools.jsonl")
    (record,) = (entry for entry in entries if isinstance(entry, ToolExecutionEntry))
    assert first == {
        "id": record.id,
        "seq": 1,
        "timestamp": "2024-10-04T00:00:06.000000Z",
        "messageId": entries[3].id,
        "toolCallId": "c1",
        "tool": "execute_bash",
        "arguments": {"command": "ls"},
        "result": {"success": False, "content": "no such folder", "error": "exit 2", "exitCode": 2},
        "tokens": 3,
        "durationMs": 12.5,
    }
    calls = {call["id"]: line["id"] for line in lines(folder / "messages.jsonl") for call in _calls(line)}
    assert (second["seq"], second["toolCallId"], second["messageId"]) == (2, "c2", calls["c2"])
    assert second["result"] == {"success": True, "content": "flour"}
    told = next(
        entry.message for entry in entries if isinstance(entry, MessageEntry) and entry.message.tool_name == "read"
    )
    assert second["tokens"] == message_tokens(told)
    assert second["durationMs"] == 3000, "from the call to the result, where nobody measured it"


def _calls(line: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = line.get("assistant", {}).get("toolCalls", [])
    return found


@pytest.mark.feature("N-146", "N-156", "N-157", "N-158", "N-159")
def test_a_summary_is_in_force_after_a_compaction(tmp_path: Path, take: Take) -> None:
    entries = entries_of(*SAID)
    chain = Chain("test", HEADER.id, HEADER.timestamp)
    chain.leaf = entries[-1].id
    last = entries[-1]
    late = HEADER.timestamp + timedelta(minutes=1)
    compaction = chain.add(Compaction("They read it.", last.id, 0), time=late)
    kept = {"key": "abc", "start_id": entries[2].id, "end_id": entries[3].id, "message_count": 2, "content": "Half"}
    stored = chain.add(Custom("treering.summary", raw_json({**kept, "tokens": 2, "summarizer": "m"})), time=late)
    folder = write_nanocoder(HEADER, [*entries, compaction, stored], tmp_path, count=message_tokens)
    told = lines(folder / "messages.jsonl")
    assert metadata(folder)["context"] == {
        "lastSummaryAt": "2024-10-04T00:01:00.000000Z",
        "summaryMessageId": told[3]["id"],
    }
    files = {path.stem: json.loads(path.read_bytes()) for path in (folder / "summaries").iterdir()}
    (key,) = set(files) - {"abc"}
    assert files[key]["range"] == {
        "startMessageId": told[0]["id"],
        "endMessageId": told[3]["id"],
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
    assert files[key]["originalTokens"] == told[3]["tokens"]["cumulative"]
    assert files[key]["compressionRatio"] == files[key]["summary"]["tokens"] / files[key]["originalTokens"]
    (again,) = take(folder)
    (entry,) = again.of("compaction")
    assert entry == replace(
        compaction,
        compaction=Compaction("They read it.", last.id, files[key]["originalTokens"]),
        parent_id=entry.parent_id,
    )
    assert [each.id for each in again.of("custom")] == [stored.id]
    assert again.codes() == []


def test_a_summary_of_another_path_goes_with_its_messages(tmp_path: Path) -> None:
    entries = entries_of(*SAID)
    chain = Chain("test", HEADER.id, HEADER.timestamp)
    folder = write_nanocoder(HEADER, [*entries, chain.add(Compaction("Sum", None, 0))], tmp_path)
    assert len(list((folder / "summaries").iterdir())) == 1
    assert "context" in metadata(folder)
    write_nanocoder(HEADER, entries, tmp_path)
    assert not list((folder / "summaries").iterdir())
    assert "context" not in metadata(folder)


def test_an_id_that_names_no_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for name in ("", "a/b", "../x", "a\0"):
        with pytest.raises(InvalidSessionId):
            write_nanocoder(replace(HEADER, id=name), entries_of(*SAID), tmp_path)
    assert not list(tmp_path.iterdir())


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
OBJECTS = st.dictionaries(WORDS, strategies.json_values(max_leaves=3), max_size=2)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """Messages such as nanocoder has them: a text each, and calls with their results."""
    found: list[Message] = []
    for number in range(draw(st.integers(0, 3))):
        found.append(Message(draw(st.sampled_from(["user", "system"])), (text(draw(WORDS)),)))
        calls = [tool_use(f"c{number}-{n}", f"t{n}", draw(OBJECTS)) for n in range(draw(st.integers(0, 3)))]
        said: list[Content] = [text(draw(WORDS))] if not calls or draw(st.booleans()) else []
        model = draw(st.none() | st.just("qwen"))
        found.append(Message("assistant", (*said, *calls), model=model, stop_reason=draw(st.none() | WORDS)))
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
@settings(max_examples=15)
@given(messages=turns())
def test_what_is_written_comes_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, take: Take, messages: list[Message]
) -> None:
    entries: list[Entry] = [*entries_of(*messages)]
    folder = write_nanocoder(HEADER, entries, tmp_path_factory.getbasetemp() / "property")
    (again,) = take(folder, "nanocoder")
    assert again.header == HEADER
    assert [(each.id, each.timestamp) for each in again.of("message")] == [
        (each.id, each.timestamp) for each in entries
    ]
    assert again.messages == messages
    assert again.codes(notes=True) == []


def test_what_only_some_programs_can_say_is_told_in_words(tmp_path: Path) -> None:
    said = Message("user", (text("See:"), image("QUJD", "image/png")))
    both = Message("user", (tool_result("x", "late"), text("and this")))
    folder = write_nanocoder(HEADER, entries_of(said, both), tmp_path)
    told = [(line["role"], line["content"]) for line in lines(folder / "messages.jsonl")]
    assert told == [("user", "See:\n[image: image/png]"), ("tool", "late"), ("user", "and this")]
