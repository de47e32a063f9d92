"""opencode's sessions: a storage folder, a database and an exported file read to the same session."""

import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from treering.events.content import ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart, plain_text
from treering.events.entries import CompactionEntry, ModelChangeEntry, ToolExecutionEntry, Usage
from treering.events.errors import ForeignFormatError

from .conftest import ReadSessions


def database(storage: Path, path: Path) -> Path:
    """Copy a storage folder into a database, as opencode did when it changed its format."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT,
                                  revert TEXT, time_created INTEGER, time_updated INTEGER);
            CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
            CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
            """
        )
        for file in storage.glob("session/*/*.json"):
            value = json.loads(file.read_bytes())
            time = value["time"]
            row = (value["id"], value["projectID"], value.get("parentID"), value["directory"], value["title"])
            revert = json.dumps(value["revert"]) if "revert" in value else None
            whole = (*row, revert, time["created"], time["updated"])
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?)", whole)
        for file in storage.glob("message/*/*.json"):
            value = json.loads(file.read_bytes())
            key, session = value.pop("id"), value.pop("sessionID")
            values = (key, session, value["time"]["created"], json.dumps(value))
            connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", values)
        for file in storage.glob("part/*/*.json"):
            value = json.loads(file.read_bytes())
            key, session, message = value.pop("id"), value.pop("sessionID"), value.pop("messageID")
            connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", (key, message, session, 0, json.dumps(value)))
        connection.commit()
    return path


def test_a_storage_folder_is_read(storage: Path, read_sessions: ReadSessions) -> None:
    session, empty = read_sessions(storage)
    header = session.header
    assert (header.id, header.title, header.cwd, header.parent_session) == ("ses_1", "Baking", "/work/bakery", "ses_0")
    assert (empty.header.id, empty.entries) == ("ses_2", [])
    assert session.roles == ["user", "assistant", "tool", "tool", "assistant", "user", "assistant"]
    assert [type(part) for part in session.messages[0].content] == [TextPart, ImagePart]
    (model,) = (entry.model_change for entry in session.entries if isinstance(entry, ModelChangeEntry))
    assert (model.provider, model.model_id) == ("anthropic", "claude-5")
    assert {"msg_01", "msg_02", "msg_04", "msg_05", "msg_06"} <= {entry.id for entry in session.entries}


def test_the_steps_of_an_answer_become_messages(storage: Path, read_sessions: ReadSessions) -> None:
    session, _ = read_sessions(storage)
    first, good, bad, second = session.messages[1:5]
    thought, *calls = first.content
    assert isinstance(thought, ThinkingPart)
    assert [part.tool_use.name for part in calls if isinstance(part, ToolUsePart)] == ["read", "bash"]
    assert first.usage == Usage(40, 10, 0, 0, 50, 0.005)
    results = [part.tool_result for part in (*good.content, *bad.content) if isinstance(part, ToolResultPart)]
    assert [(each.content, each.is_error) for each in results] == [("40 minutes", False), ("no oven", True)]
    assert plain_text(second.content) == "Forty minutes."
    assert second.stop_reason == "stop"
    runs = [entry.tool_execution for entry in session.entries if isinstance(entry, ToolExecutionEntry)]
    assert [(run.tool_name, run.duration_ms, run.success) for run in runs] == [
        ("read", 250, True),
        ("bash", 1000, False),
    ]
    assert session.messages[-1].error == "MessageAbortedError: stopped"


def test_a_summary_becomes_a_compaction_that_keeps_the_latest(storage: Path, read_sessions: ReadSessions) -> None:
    session, _ = read_sessions(storage)
    (entry,) = (entry for entry in session.entries if isinstance(entry, CompactionEntry))
    assert entry.compaction.summary == "Bread bakes forty minutes."
    assert entry.compaction.first_kept_entry_id == "msg_02"


def test_reverted_messages_come_after_the_leaf(storage: Path, read_sessions: ReadSessions) -> None:
    session, _ = read_sessions(storage)
    assert session.path()[-2].id == "msg_04"
    assert session.path()[-1].type == "custom", "a mark of the revert is the leaf"
    assert [entry.id for entry in session.entries][-3:-1] == ["msg_05", "msg_06"]


def test_one_file_is_one_session_and_the_parent_folder_holds_all(storage: Path, read_sessions: ReadSessions) -> None:
    both = read_sessions(storage)
    assert read_sessions(storage / "session" / "bakery" / "ses_1.json") == both[:1]
    assert read_sessions(storage.parent)[:1] == both[:1]


def test_a_database_has_the_same_and_is_unchanged(storage: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = database(storage, tmp_path / "opencode.db")
    before = path.read_bytes()
    for place in (path, tmp_path):
        found = read_sessions(place)
        assert [(each.header, each.entries, each.leaf_id) for each in found] == [
            (each.header, each.entries, each.leaf_id) for each in read_sessions(storage)
        ]
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["opencode.db"]


def test_a_database_of_another_program_is_refused(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE session (id TEXT)")
    for name in (None, "opencode"):
        with pytest.raises(ForeignFormatError):
            read_sessions(path, name)


def test_a_damaged_database_is_read_or_refused(storage: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    whole, chance = database(storage, tmp_path / "whole.db").read_bytes(), random.Random(7)
    path, refused, read = tmp_path / "opencode.db", 0, 0
    for number in range(120):
        copy = bytearray(whole if number % 2 else whole[: len(whole) * number // 120])
        for _ in range(8 if copy else 0):
            copy[chance.randrange(len(copy))] = chance.randrange(256)
        path.write_bytes(copy)
        try:
            read_sessions(path, "opencode")
            read += 1
        except ForeignFormatError:
            refused += 1
    assert refused
    assert read


def test_an_exported_file_reads_to_the_same_session(storage: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    messages = [
        {"info": json.loads(file.read_bytes()), "parts": [json.loads(part.read_bytes()) for part in sorted(parts)]}
        for file in sorted(storage.glob("message/ses_1/*.json"))
        for parts in [storage.glob(f"part/{file.stem}/*.json")]
    ]
    info = json.loads((storage / "session" / "bakery" / "ses_1.json").read_bytes())
    path = tmp_path / "exported.json"
    path.write_text(json.dumps({"info": info, "messages": messages}))
    (session,) = read_sessions(path)
    assert (session.header, session.entries) == (read_sessions(storage)[0].header, read_sessions(storage)[0].entries)


def test_damaged_files_are_told_and_the_rest_read(storage: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    copy = tmp_path / "storage"
    shutil.copytree(storage, copy)
    (copy / "part" / "msg_02" / "prt_4.json").write_bytes(b"")
    (copy / "session" / "bakery" / "ses_2.json").write_bytes(b"{")
    (session,) = read_sessions(copy)
    assert session.roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert session.codes() == ["damaged", "unreadable"]
    assert any("msg_02/prt_4.json" in each.message for each in session.findings)
    assert any(each.path.endswith("ses_2.json") for each in session.findings)
