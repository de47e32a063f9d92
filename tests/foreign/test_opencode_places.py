"""Where sessions of opencode lie, what only looks like one, and that nothing is changed where they lie."""

from __future__ import annotations

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
from treering.events.foreign.json_lines import Notes
from treering.events.foreign.opencode import OpencodeFormat
from treering.events.foreign.opencode_database import InDatabase
from treering.events.foreign.opencode_storage import Record
from treering.events.foreign.walk import Walk

from .conftest import Take, Taken
from .test_opencode import database


@pytest.fixture
def storage(data: Path) -> Path:
    return data / "opencode" / "storage"


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def said(session: Taken) -> list[str]:
    return [plain_text(message.content) for message in session.messages]


# Trees


def first_tree(root: Path) -> Path:
    """Write a tree as the first versions did, and return the session's file."""
    folder = root / "storage" / "session"
    path = {"cwd": "/work/bakery", "root": "/work"}
    write(folder / "message/ses_1/msg_1.json", {"id": "msg_1", "role": "user", "time": {"created": 1}})
    write(folder / "message/ses_1/msg_2.json", {"id": "msg_2", "role": "assistant", "path": path})
    write(folder / "part/ses_1/msg_1/prt_1.json", {"id": "prt_1", "type": "text", "text": "Hello"})
    write(folder / "part/ses_1/msg_2/prt_2.json", {"id": "prt_2", "type": "text", "text": "Good morning"})
    return write(folder / "info/ses_1.json", {"id": "ses_1", "title": "Bread", "time": {"created": 1, "updated": 2}})


@pytest.mark.parametrize("place", ["", "storage", "storage/session", "storage/session/info/ses_1.json"])
def test_a_tree_of_the_first_versions_is_read(tmp_path: Path, take: Take, place: str) -> None:
    file = first_tree(tmp_path)
    (session,) = take(tmp_path / place)
    assert said(session) == ["Hello", "Good morning"]
    assert (session.header.title, session.header.cwd) == ("Bread", "/work/bakery")
    assert session.codes() == []
    assert take(file, "opencode") == [session]


@pytest.mark.parametrize("lost", ["message", "part"])
def test_a_session_without_its_tree_says_what_is_missing(storage: Path, tmp_path: Path, take: Take, lost: str) -> None:
    copy = tmp_path / "storage"
    shutil.copytree(storage, copy)
    shutil.rmtree(copy / lost)
    (session,) = take(copy / "session" / "bakery" / "ses_1.json")
    (finding,) = (each for each in session.findings if each.code == "missing")
    assert finding.severity == "error"
    assert str(copy / lost) in finding.message


# What is one, and what is not


def test_an_export_that_names_no_folder_is_known_and_its_folder_is_that_of_the_answers(
    tmp_path: Path, take: Take
) -> None:
    asked = {"info": {"id": "msg_1", "role": "user"}, "parts": [{"type": "text", "text": "Hello"}]}
    path = {"cwd": "/work/bakery", "root": "/work"}
    answer = {"info": {"id": "msg_2", "role": "assistant", "path": path}, "parts": [{"type": "text", "text": "Hi"}]}
    info = {"id": "ses_1", "version": "0.3.58", "title": "Bread", "time": {"created": 1}}
    (session,) = take(write(tmp_path / "exported.json", {"info": info, "messages": [asked, answer]}))
    assert said(session) == ["Hello", "Hi"]
    assert session.header.cwd == "/work/bakery"


@pytest.mark.parametrize("size", [10, 500_000])
def test_an_export_of_any_size_is_known(tmp_path: Path, take: Take, size: int) -> None:
    asked = {"info": {"id": "msg_1", "role": "user"}, "parts": [{"type": "text", "text": "Hello"}]}
    info = {"id": "ses_1", "directory": "/work", "summary": {"diffs": ["x" * size]}, "time": {"created": 1}}
    (session,) = take(write(tmp_path / "exported.json", {"info": info, "messages": [asked]}))
    assert said(session) == ["Hello"]


OTHERS = {
    "package": {"name": "x", "repository": {"directory": "packages/x"}, "scripts": {"info": "node info.js"}},
    "interface": {"openapi": "3.1.1", "info": {"title": "x"}, "paths": {"/": {"get": [{"name": "directory"}]}}},
    "interface with the info first": {"info": {"title": "x"}, "paths": {"/": [{"name": "directory"}]}},
    "interface of sessions": {"openapi": "3.1.1", "properties": {"id": 1, "projectID": 1, "directory": 1, "time": 1}},
    "chat": {"info": {"id": "x", "directory": "/"}, "messages": [{"role": "user", "content": "Hello"}]},
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_has_words_of_it_is_unknown(tmp_path: Path, name: str) -> None:
    write(tmp_path / "other.json", OTHERS[name])
    walk = Walk(tmp_path, "opencode")
    assert list(walk.sessions()) == []
    assert (walk.unknown, walk.failed) == (1, [])


# The database


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def logged(storage: Path, folder: Path, *, checkpoint: bool) -> Path:
    """Make a database with a log that holds something, as it lies while opencode runs, or after it was killed."""
    made = folder / "made"
    made.mkdir()
    with closing(sqlite3.connect(made / "opencode.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("SELECT * FROM sqlite_master").fetchall()  # from now on the log is held
        database(storage, made / "opencode.db")
        if checkpoint:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            told = json.dumps({"role": "user", "time": {"created": 1772355630000}})
            connection.execute("INSERT INTO message VALUES ('msg_9', 'ses_2', 1, ?)", (told,))
            connection.execute(
                "INSERT INTO part VALUES ('p', 'msg_9', 'ses_2', 1, ?)", ('{"type":"text","text":"Hi"}',)
            )
            connection.commit()
        lies = folder / "lies"
        lies.mkdir()
        for name in ("opencode.db", "opencode.db-wal"):
            shutil.copy(made / name, lies / name)
    return lies / "opencode.db"


def test_a_database_that_keeps_a_log_gets_no_files_beside_it(storage: Path, tmp_path: Path, take: Take) -> None:
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    database(storage, path)
    before = held(tmp_path)
    assert [*before] == ["opencode.db"]
    for place in (path, tmp_path):
        assert [each.entries for each in take(place)] == [each.entries for each in take(storage)]
    assert held(tmp_path) == before


@pytest.mark.parametrize("checkpoint", [False, True], ids=["all of it", "what came last"])
def test_what_stands_in_the_log_alone_is_read_and_left_there(
    storage: Path, tmp_path: Path, take: Take, checkpoint: bool
) -> None:
    path = logged(storage, tmp_path, checkpoint=checkpoint)
    before = held(path.parent)
    assert before["opencode.db-wal"]
    for place in (path, path.parent):
        first, second = take(place)
        assert first.entries == take(storage)[0].entries
        assert said(second) == (["Hi"] if checkpoint else [])
    assert held(path.parent) == before


def test_a_database_behind_a_link_is_read_with_its_log(storage: Path, tmp_path: Path, take: Take) -> None:
    path = logged(storage, tmp_path, checkpoint=True)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    assert said(take(link)[1]) == ["Hi"]


def test_a_change_that_was_torn_is_taken_back_in_the_copy_alone(storage: Path, tmp_path: Path, take: Take) -> None:
    path, lies = database(storage, tmp_path / "opencode.db"), tmp_path / "lies"
    whole = path.read_bytes()
    lies.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.execute("UPDATE part SET data = ?", (json.dumps({"type": "text", "text": "x" * 9000}),))
        for name in ("opencode.db", "opencode.db-journal"):
            shutil.copy(tmp_path / name, lies / name)
        connection.rollback()
    before = held(lies)
    assert before["opencode.db"] != whole
    assert [each.entries for each in take(lies / "opencode.db")] == [each.entries for each in take(storage)]
    assert held(lies) == before


def sessions_in(path: Path, *ids: object, data: object = '{"role":"user","time":{"created":1}}') -> Path:
    """Make a database of sessions with one message each, whose columns take values of any type."""
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
def test_a_record_that_is_no_text_is_damaged_and_costs_itself(tmp_path: Path, take: Take, data: object) -> None:
    (session,) = take(sessions_in(tmp_path / "opencode.db", "a", data=data))
    assert session.messages == []
    assert session.codes() == ["damaged"]


@pytest.mark.parametrize("ids", [(7, "a", "b"), ("a", None, "b"), ("a", "b", b"c")])
def test_a_session_of_a_database_that_cannot_be_read_costs_itself_alone(
    tmp_path: Path, take: Take, ids: tuple[object, ...]
) -> None:
    sessions = take(sessions_in(tmp_path / "opencode.db", *ids))
    assert [said(each) for each in sessions] == [["Hello a"], ["Hello b"]]
    assert [code for each in sessions for code in each.codes()] == ["unreadable"]


def test_a_database_of_which_no_session_can_be_read_is_refused(tmp_path: Path, take: Take) -> None:
    with pytest.raises(ForeignFormatError, match="it has no id"):
        take(sessions_in(tmp_path / "opencode.db", 7, None))
    assert take(sessions_in(tmp_path / "empty.db")) == []


def test_what_a_database_held_before_it_was_written_to_is_read_and_nothing_after(tmp_path: Path) -> None:
    path = sessions_in(tmp_path / "opencode.db", "a", "b", "c", "d")
    sessions = OpencodeFormat().read(path)
    assert next(sessions).header.id == "a"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM part")
        connection.commit()
    os.utime(path, (1, 1))  # however coarse the clock of the disk is
    with pytest.raises(ForeignFormatError, match="import it again"):
        next(sessions)


def test_a_session_is_not_given_where_the_database_was_written_to_while_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sessions_in(tmp_path / "opencode.db", "a")
    records = InDatabase.records

    def meanwhile(session: InDatabase, notes: Notes) -> Iterator[Record]:
        for record in records(session, notes):
            os.utime(path, (1, 1))
            yield record

    monkeypatch.setattr(InDatabase, "records", meanwhile)
    with pytest.raises(ForeignFormatError, match="import it again"):
        next(OpencodeFormat().read(path))
