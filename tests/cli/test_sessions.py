"""`treering sessions` and `treering current`: their output as text and as JSON."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from treering.events.projects import project_hash

from .conftest import Cli

NOW = datetime.now(UTC)


@pytest.fixture
def three_sessions(cli: Cli, tmp_path: Path) -> dict[str, str]:
    """Three sessions: two of this project, one of another."""
    return {
        "auth": cli.create("Implement auth system", "And tests?", at=NOW - timedelta(minutes=3)),
        "cors": cli.create("Fix CORS", name="CORS issues", at=NOW - timedelta(days=400)),
        "other": cli.create("Migrate the database", cwd=tmp_path / "bank", at=NOW - timedelta(minutes=1)),
    }


@pytest.mark.feature("N-112")
def test_sessions_lists_those_of_this_project(cli: Cli, three_sessions: dict[str, str]) -> None:
    result = cli("sessions")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second = result.stdout.splitlines()
    assert first.split()[:3] == ["Implement", "auth", "system"]
    assert "4 messages" in first
    assert three_sessions["auth"][:8] in first
    assert second.split()[:2] == ["CORS", "issues"]
    assert "2 messages" in second
    assert str((NOW - timedelta(days=400)).astimezone().year) in second


@pytest.mark.feature("N-113")
def test_sessions_lists_those_of_all_projects(cli: Cli, three_sessions: dict[str, str], tmp_path: Path) -> None:
    lines = cli.lines("sessions", "--all")
    assert [line.split("  ")[1].split()[0] for line in lines] == ["Migrate", "Implement", "CORS"]
    assert str(tmp_path / "bank") in lines[0]
    assert str(tmp_path / "shop") in lines[1]
    rows = cli.json("sessions", "--all")
    assert [row["id"] for row in rows] == [three_sessions["other"], three_sessions["auth"], three_sessions["cors"]]
    assert len(cli.lines("sessions", "--all", "--limit", "2")) == 2


@pytest.mark.feature("N-140")
def test_sessions_can_be_printed_as_json(cli: Cli, three_sessions: dict[str, str]) -> None:
    row = cli.json("sessions", "--limit", "1")[0]
    assert row["id"] == three_sessions["auth"]
    assert row["project"] == str(cli.project)
    assert row["project_hash"] == project_hash(cli.project)
    assert row["title"] == "Implement auth system"
    for time in ("created", "last_accessed"):
        assert abs(datetime.fromisoformat(row[time]) - (NOW - timedelta(minutes=3))) < timedelta(milliseconds=1)
    assert (row["message_count"], row["status"]) == (4, "active")


def test_an_empty_list_prints_nothing_on_stdout(cli: Cli, three_sessions: dict[str, str]) -> None:
    result = cli("sessions", "--archived")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no archived sessions yet\n"
    assert cli("sessions", "--archived", "-q").output == ""
    assert cli.json("sessions", "--archived", "-q") == []
    assert cli("sessions", "-q").stdout == cli("sessions").stdout != ""  # quiet does not hide the list
    assert cli("sessions", "-q", "--json").stdout == cli("sessions", "--json").stdout
    for each in ("auth", "cors"):
        cli.lines("delete", three_sessions[each], "--yes")
    result = cli("sessions")
    assert (result.stdout, result.stderr) == ("", "no sessions in this project; 1 in others: --all lists them\n")
    (cli.root / "noise.jsonl").write_text("noise\n")  # it is no session of another project
    assert cli("sessions").stderr.splitlines()[0] == result.stderr.rstrip()


def test_files_that_cannot_be_read_are_counted_and_listed_with_all(cli: Cli, three_sessions: dict[str, str]) -> None:
    (cli.root / "noise.jsonl").write_text("noise\n")
    result = cli("sessions")
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == "1 file cannot be read: --all lists them\n"
    (line,) = [line for line in cli.lines("sessions", "--all") if "noise" in line]
    assert "cannot be read" in line
    assert "corrupted" in line
    (row,) = [row for row in cli.json("sessions", "-a") if row["id"] == "noise"]
    assert "noise.jsonl:1:0" in row["problem"]


@pytest.mark.feature("N-47")
def test_the_current_session_can_be_set_used_and_cleared(cli: Cli, three_sessions: dict[str, str]) -> None:
    assert cli("current").stdout == ""
    assert cli("current").stderr == "this project has no current session\n"
    assert cli.json("current") is None
    result = cli("current", three_sessions["cors"][:8])
    assert (result.exit_code, result.stdout) == (0, "")
    assert cli.json("current")["id"] == three_sessions["cors"]
    assert [line[0] for line in cli.lines("sessions")] == [" ", "*"]
    assert cli("chat", "--continue", "-p", "Once more").exit_code == 0
    assert cli.json("info", three_sessions["cors"])["session"]["message_count"] == 4
    set_to = cli("current", three_sessions["cors"][:8], "--json")
    assert json.loads(set_to.stdout) == cli.json("current")
    assert set_to.stderr.count("is the current session of") == 1
    assert cli("current", "--clear").exit_code == 0
    assert cli("current").stdout == ""
    assert cli("current", "--clear", "--json").stdout == "null\n"


def test_an_archived_session_is_current_only_once_unarchived(cli: Cli, three_sessions: dict[str, str]) -> None:
    cors = three_sessions["cors"]
    cli("archive", cors)
    assert "once unarchived, it is the current session" in cli("current", cors).stderr
    assert cli("current").stdout == ""
    cli("unarchive", cors)
    assert cors[:8] in cli("current").stdout


def test_unknown_and_ambiguous_texts_are_one_line_errors(cli: Cli) -> None:
    cli.create("One", session_id="abc-1")
    cli.create("Two", session_id="abc-2")
    for command in (["info"], ["current"], ["resume"], ["rename", "abc", "x"], ["export"], ["tree"], ["archive"]):
        args = command if command[0] == "rename" else [*command, "abc"]
        error = cli.error(*args)
        assert ("abc-1" in error, "abc-2" in error) == (True, True), command
    assert "no session has the id or the name 'nobody'" in cli("info", "nobody").stderr
