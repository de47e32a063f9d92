"""`treering sessions` and `treering current`: their output as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import Result

from treering.events.projects import project_hash

Treering = Callable[..., Result]
CreateSession = Callable[..., str]

NOW = datetime.now(UTC)


@pytest.fixture
def three_sessions(create_session: CreateSession, tmp_path: Path) -> dict[str, str]:
    """Three sessions: two of this project, one of another."""
    return {
        "auth": create_session("Implement auth system", "And tests?", at=NOW - timedelta(minutes=3)),
        "cors": create_session("Fix CORS", name="CORS issues", at=NOW - timedelta(days=400)),
        "other": create_session("Migrate the database", cwd=tmp_path / "bank", at=NOW - timedelta(minutes=1)),
    }


@pytest.mark.feature("N-112")
def test_sessions_lists_those_of_this_project(treering: Treering, three_sessions: dict[str, str]) -> None:
    result = treering("sessions")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second = result.stdout.splitlines()
    assert first.split()[:3] == ["Implement", "auth", "system"]
    assert "4 messages" in first
    assert three_sessions["auth"][:8] in first
    assert second.split()[:2] == ["CORS", "issues"]
    assert "2 messages" in second
    assert str((NOW - timedelta(days=400)).astimezone().year) in second


@pytest.mark.feature("N-113")
def test_sessions_lists_those_of_all_projects(
    treering: Treering, three_sessions: dict[str, str], tmp_path: Path
) -> None:
    lines = treering("sessions", "--all").stdout.splitlines()
    assert [line.split("  ")[1].split()[0] for line in lines] == ["Migrate", "Implement", "CORS"]
    assert str(tmp_path / "bank") in lines[0]
    assert str(tmp_path / "shop") in lines[1]
    rows = json.loads(treering("sessions", "--all", "--json").stdout)
    assert [row["id"] for row in rows] == [three_sessions["other"], three_sessions["auth"], three_sessions["cors"]]
    assert len(treering("sessions", "--all", "--limit", "2").stdout.splitlines()) == 2


@pytest.mark.feature("N-140")
def test_sessions_can_be_printed_as_json(treering: Treering, three_sessions: dict[str, str], project: Path) -> None:
    row = json.loads(treering("sessions", "--json", "--limit", "1").stdout)[0]
    assert row["id"] == three_sessions["auth"]
    assert row["project"] == str(project)
    assert row["project_hash"] == project_hash(project)
    assert row["title"] == "Implement auth system"
    for time in ("created", "last_accessed"):
        assert abs(datetime.fromisoformat(row[time]) - (NOW - timedelta(minutes=3))) < timedelta(milliseconds=1)
    assert (row["message_count"], row["status"]) == (4, "active")


def test_an_empty_list_prints_nothing_on_stdout(treering: Treering, three_sessions: dict[str, str]) -> None:
    result = treering("sessions", "--archived")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no archived sessions yet\n"
    assert treering("sessions", "--archived", "-q").output == ""
    assert json.loads(treering("sessions", "--archived", "--json", "-q").stdout) == []


def test_an_empty_list_mentions_sessions_of_other_projects(
    treering: Treering, create_session: CreateSession, tmp_path: Path
) -> None:
    create_session("Elsewhere", cwd=tmp_path / "bank")
    result = treering("sessions")
    assert (result.stdout, result.stderr) == ("", "no sessions in this project; 1 in others: --all lists them\n")


def test_quiet_does_not_hide_the_list(treering: Treering, three_sessions: dict[str, str]) -> None:
    assert treering("sessions", "-q").stdout == treering("sessions").stdout != ""
    assert treering("sessions", "-q", "--json").stdout == treering("sessions", "--json").stdout


def test_files_that_cannot_be_read_are_counted_and_listed_with_all(
    treering: Treering, three_sessions: dict[str, str], root: Path
) -> None:
    (root / "noise.jsonl").write_text("noise\n")
    result = treering("sessions")
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == "1 file cannot be read: --all lists them\n"
    (line,) = [line for line in treering("sessions", "--all").stdout.splitlines() if "noise" in line]
    assert "cannot be read" in line
    assert "corrupted" in line
    (row,) = [row for row in json.loads(treering("sessions", "-a", "--json").stdout) if row["id"] == "noise"]
    assert "noise.jsonl:1:0" in row["problem"]


def test_control_characters_in_names_are_not_printed(treering: Treering, create_session: CreateSession) -> None:
    create_session("red \x1b[31m \u202e back", name="a\x1bb\nc")
    for command in (["sessions"], ["sessions", "-a"], ["info", "last"], ["search", "back"]):
        output = treering(*command).output
        assert not {"\x1b", "\u202e"} & set(output), command


@pytest.mark.feature("N-47")
def test_the_current_session_can_be_set_used_and_cleared(treering: Treering, three_sessions: dict[str, str]) -> None:
    assert treering("current").stdout == ""
    assert treering("current").stderr == "this project has no current session\n"
    assert json.loads(treering("current", "--json").stdout) is None

    result = treering("current", three_sessions["cors"][:8])
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads(treering("current", "--json").stdout)["id"] == three_sessions["cors"]
    assert [line[0] for line in treering("sessions").stdout.splitlines()] == [" ", "*"]
    assert treering("chat", "--continue", "-p", "Once more").exit_code == 0
    assert json.loads(treering("info", three_sessions["cors"], "--json").stdout)["session"]["message_count"] == 4

    set_to = treering("current", three_sessions["cors"][:8], "--json")
    assert json.loads(set_to.stdout) == json.loads(treering("current", "--json").stdout)
    assert set_to.stderr.count("is the current session of") == 1

    assert treering("current", "--clear").exit_code == 0
    assert treering("current").stdout == ""
    assert treering("current", "--clear", "--json").stdout == "null\n"


def test_an_archived_session_is_reported_as_current_only_once_unarchived(
    treering: Treering, three_sessions: dict[str, str]
) -> None:
    cors = three_sessions["cors"]
    treering("archive", cors)
    assert "once unarchived, it is the current session" in treering("current", cors).stderr
    assert treering("current").stdout == ""
    treering("unarchive", cors)
    assert cors[:8] in treering("current").stdout


def test_unknown_and_ambiguous_texts_are_one_line_errors(treering: Treering, create_session: CreateSession) -> None:
    create_session("One", session_id="abc-1")
    create_session("Two", session_id="abc-2")
    for command in (["info"], ["current"], ["resume"], ["rename", "abc", "x"], ["export"], ["tree"], ["archive"]):
        args = command if command[0] == "rename" else [*command, "abc"]
        result = treering(*args)
        assert (result.exit_code, result.stdout) == (1, ""), command
        assert "abc-1" in result.stderr, command
        assert "abc-2" in result.stderr, command
        assert len(result.stderr.splitlines()) == 1, command
    assert "no session has the id or the name 'nobody'" in treering("info", "nobody").stderr
