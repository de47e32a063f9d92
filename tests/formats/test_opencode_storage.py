"""Where opencode's sessions are stored, what only looks like one, and that reading changes nothing there."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from treering.events.content import plain_text
from treering.events.errors import ForeignFormatError
from treering.formats.json_lines import Notes
from treering.formats.opencode import OpencodeFormat
from treering.formats.opencode.storage import InDatabase, Record
from treering.formats.walk import Walk

from .conftest import ParsedSession, ReadSessions
from .test_opencode import database


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def texts(parsed: ParsedSession) -> list[str]:
    return [plain_text(message.content) for message in parsed.messages]


# Storage folders


def storage_of_first_versions(root: Path) -> Path:
    """Write a storage folder of the first versions, and return the session's file."""
    folder = root / "storage" / "session"
    path = {"cwd": "/work/bakery", "root": "/work"}
    write(folder / "message/ses_1/msg_1.json", {"id": "msg_1", "role": "user", "time": {"created": 1}})
    write(folder / "message/ses_1/msg_2.json", {"id": "msg_2", "role": "assistant", "path": path})
    write(folder / "part/ses_1/msg_1/prt_1.json", {"id": "prt_1", "type": "text", "text": "Hello"})
    write(folder / "part/ses_1/msg_2/prt_2.json", {"id": "prt_2", "type": "text", "text": "Good morning"})
    return write(folder / "info/ses_1.json", {"id": "ses_1", "title": "Bread", "time": {"created": 1, "updated": 2}})


@pytest.mark.parametrize("place", ["", "storage", "storage/session", "storage/session/info/ses_1.json"])
def test_a_storage_folder_of_first_versions_is_read(tmp_path: Path, read_sessions: ReadSessions, place: str) -> None:
    file = storage_of_first_versions(tmp_path)
    (session,) = read_sessions(tmp_path / place)
    assert texts(session) == ["Hello", "Good morning"]
    assert (session.header.title, session.header.cwd) == ("Bread", "/work/bakery")
    assert session.codes() == []
    assert read_sessions(file, "opencode") == [session]


@pytest.mark.parametrize("lost", ["message", "part"])
def test_a_session_without_its_messages_or_parts_reports_what_is_missing(
    storage: Path, tmp_path: Path, read_sessions: ReadSessions, lost: str
) -> None:
    copy = tmp_path / "storage"
    shutil.copytree(storage, copy)
    shutil.rmtree(copy / lost)
    (session,) = read_sessions(copy / "session" / "bakery" / "ses_1.json")
    (finding,) = (each for each in session.findings if each.code == "missing")
    assert finding.severity == "error"
    assert str(copy / lost) in finding.message


# Exported files, and files that only look like them


def test_an_export_without_a_directory_is_recognized_and_takes_the_directory_of_its_answers(
    tmp_path: Path, read_sessions: ReadSessions
) -> None:
    question = {"info": {"id": "msg_1", "role": "user"}, "parts": [{"type": "text", "text": "Hello"}]}
    path = {"cwd": "/work/bakery", "root": "/work"}
    answer = {"info": {"id": "msg_2", "role": "assistant", "path": path}, "parts": [{"type": "text", "text": "Hi"}]}
    info = {"id": "ses_1", "version": "0.3.58", "title": "Bread", "time": {"created": 1}}
    (session,) = read_sessions(write(tmp_path / "exported.json", {"info": info, "messages": [question, answer]}))
    assert texts(session) == ["Hello", "Hi"]
    assert session.header.cwd == "/work/bakery"


@pytest.mark.parametrize("size", [10, 500_000])
def test_an_export_of_any_size_is_recognized(tmp_path: Path, read_sessions: ReadSessions, size: int) -> None:
    question = {"info": {"id": "msg_1", "role": "user"}, "parts": [{"type": "text", "text": "Hello"}]}
    info = {"id": "ses_1", "directory": "/work", "summary": {"diffs": ["x" * size]}, "time": {"created": 1}}
    (session,) = read_sessions(write(tmp_path / "exported.json", {"info": info, "messages": [question]}))
    assert texts(session) == ["Hello"]


OTHERS = {
    "package": {"name": "x", "repository": {"directory": "packages/x"}, "scripts": {"info": "node info.js"}},
    "interface": {"openapi": "3.1.1", "info": {"title": "x"}, "paths": {"/": {"get": [{"name": "directory"}]}}},
    "interface with the info first": {"info": {"title": "x"}, "paths": {"/": [{"name": "directory"}]}},
    "interface of sessions": {"openapi": "3.1.1", "properties": {"id": 1, "projectID": 1, "directory": 1, "time": 1}},
    "chat": {"info": {"id": "x", "directory": "/"}, "messages": [{"role": "user", "content": "Hello"}]},
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_that_share_only_some_field_names_are_not_recognized(tmp_path: Path, name: str) -> None:
    write(tmp_path / "other.json", OTHERS[name])
    walk = Walk(tmp_path, "opencode")
    assert list(walk.sessions()) == []
    assert (walk.unknown, walk.failed) == (1, [])


# The database


def file_contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def database_with_wal(storage: Path, folder: Path, *, checkpoint: bool) -> Path:
    """Return a copy of a database with a non-empty WAL, as it is while opencode runs or after it was killed."""
    live = folder / "live"
    live.mkdir()
    with closing(sqlite3.connect(live / "opencode.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("SELECT * FROM sqlite_master").fetchall()  # an open reader keeps the WAL
        database(storage, live / "opencode.db")
        if checkpoint:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            message = json.dumps({"role": "user", "time": {"created": 1772355630000}})
            connection.execute("INSERT INTO message VALUES ('msg_9', 'ses_2', 1, ?)", (message,))
            connection.execute(
                "INSERT INTO part VALUES ('p', 'msg_9', 'ses_2', 1, ?)", ('{"type":"text","text":"Hi"}',)
            )
            connection.commit()
        copied = folder / "copied"
        copied.mkdir()
        for name in ("opencode.db", "opencode.db-wal"):
            shutil.copy(live / name, copied / name)
    return copied / "opencode.db"


def test_reading_a_wal_database_leaves_no_files(storage: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    database(storage, path)
    before = file_contents(tmp_path)
    assert [*before] == ["opencode.db"]
    for place in (path, tmp_path):
        assert [each.entries for each in read_sessions(place)] == [each.entries for each in read_sessions(storage)]
    assert file_contents(tmp_path) == before


@pytest.mark.parametrize("checkpoint", [False, True], ids=["everything", "latest"])
def test_changes_in_the_wal_are_read_and_stay_there(
    storage: Path, tmp_path: Path, read_sessions: ReadSessions, checkpoint: bool
) -> None:
    path = database_with_wal(storage, tmp_path, checkpoint=checkpoint)
    before = file_contents(path.parent)
    assert before["opencode.db-wal"]
    for place in (path, path.parent):
        first, second = read_sessions(place)
        assert first.entries == read_sessions(storage)[0].entries
        assert texts(second) == (["Hi"] if checkpoint else [])
    assert file_contents(path.parent) == before


def test_a_database_behind_a_link_has_its_wal(storage: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = database_with_wal(storage, tmp_path, checkpoint=True)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    assert texts(read_sessions(link)[1]) == ["Hi"]


def test_a_transaction_is_rolled_back_in_a_copy(storage: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path, copied = database(storage, tmp_path / "opencode.db"), tmp_path / "copied"
    whole = path.read_bytes()
    copied.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.execute("UPDATE part SET data = ?", (json.dumps({"type": "text", "text": "x" * 9000}),))
        for name in ("opencode.db", "opencode.db-journal"):
            shutil.copy(tmp_path / name, copied / name)
        connection.rollback()
    before = file_contents(copied)
    assert before["opencode.db"] != whole
    assert [each.entries for each in read_sessions(copied / "opencode.db")] == [
        each.entries for each in read_sessions(storage)
    ]
    assert file_contents(copied) == before


def loose_database(path: Path, *ids: object, data: object = '{"role":"user","time":{"created":1}}') -> Path:
    """Create a database of sessions with one message each, whose columns accept values of any type."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            CREATE TABLE session (id, parent_id, directory, title, revert, time_created, time_updated);
            CREATE TABLE message (id, session_id, time_created, data);
            CREATE TABLE part (id, message_id, data);
            """
        )
        for number, each_id in enumerate(ids):
            row = (each_id, None, "/work", "Bread", None, number, number)
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            connection.execute("INSERT INTO message VALUES (?, ?, 1, ?)", (f"m{number}", each_id, data))
            part = json.dumps({"type": "text", "text": f"Hello {each_id}"})
            connection.execute("INSERT INTO part VALUES (?, ?, ?)", (f"p{number}", f"m{number}", part))
        connection.commit()
    return path


@pytest.mark.parametrize("data", [5, 1.5, -1, 2**40, 2**62, b"\xff", None])
def test_a_record_that_is_no_text_is_damaged(tmp_path: Path, read_sessions: ReadSessions, data: object) -> None:
    (session,) = read_sessions(loose_database(tmp_path / "opencode.db", "a", data=data))
    assert session.messages == []
    assert session.codes() == ["damaged"]


@pytest.mark.parametrize("ids", [(7, "a", "b"), ("a", None, "b"), ("a", "b", b"c")])
def test_an_unreadable_session_of_a_database_is_reported_and_the_others_are_read(
    tmp_path: Path, read_sessions: ReadSessions, ids: tuple[object, ...]
) -> None:
    sessions = read_sessions(loose_database(tmp_path / "opencode.db", *ids))
    assert [texts(each) for each in sessions] == [["Hello a"], ["Hello b"]]
    assert [code for each in sessions for code in each.codes()] == ["unreadable"]


def test_a_database_without_any_readable_session_is_refused(tmp_path: Path, read_sessions: ReadSessions) -> None:
    with pytest.raises(ForeignFormatError, match="it has no id"):
        read_sessions(loose_database(tmp_path / "opencode.db", 7, None))
    assert read_sessions(loose_database(tmp_path / "empty.db")) == []


def test_reading_stops_with_an_error_once_the_database_was_changed(tmp_path: Path) -> None:
    path = loose_database(tmp_path / "opencode.db", "a", "b", "c", "d")
    sessions = OpencodeFormat().read(path)
    assert next(sessions).header.id == "a"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM part")
        connection.commit()
    os.utime(path, (1, 1))  # the change shows even if the file system's clock is coarse
    with pytest.raises(ForeignFormatError, match="import it again"):
        next(sessions)


def test_no_session_of_a_database_that_changed_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = loose_database(tmp_path / "opencode.db", "a")
    records = InDatabase.records

    def touching(session: InDatabase, notes: Notes) -> Iterator[Record]:
        for record in records(session, notes):
            os.utime(path, (1, 1))
            yield record

    monkeypatch.setattr(InDatabase, "records", touching)
    with pytest.raises(ForeignFormatError, match="import it again"):
        next(OpencodeFormat().read(path))
