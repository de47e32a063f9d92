"""`treering resume`: a session given by text, or chosen at a terminal."""

import re
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from .conftest import Cli

NOW = datetime.now(UTC)


@pytest.fixture
def three_sessions(cli: Cli, tmp_path: Path) -> dict[str, str]:
    """Three sessions: two of this project, one of another."""
    return {
        "cors": cli.create("Fix CORS", session_id="cors-1", name="CORS issues", at=NOW - timedelta(minutes=9)),
        "auth": cli.create("Implement auth", session_id="auth-1", at=NOW - timedelta(minutes=3)),
        "bank": cli.create("Migrate", session_id="bank-1", cwd=tmp_path / "bank", at=NOW - timedelta(minutes=1)),
    }


@pytest.mark.feature("N-109")
@pytest.mark.parametrize("text", ["cors-1", "cor", "CORS issues"])
def test_a_session_is_resumed_by_id_beginning_or_name(cli: Cli, three_sessions: dict[str, str], text: str) -> None:
    result = cli("resume", text, typed="Once more\n")
    assert result.exit_code == 0
    assert "Once more" in result.stdout
    found = {str(row["id"]): row["message_count"] for row in cli.json("sessions", "--all")}
    assert found == {"cors-1": 4, "auth-1": 2, "bank-1": 2}
    assert cli.json("current")["id"] == "cors-1"


def test_a_resumed_session_becomes_current_in_its_own_project(
    cli: Cli, three_sessions: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("resume", "bank", typed="On\n").exit_code == 0
    assert cli("current").stdout == ""
    (tmp_path / "bank").mkdir()
    monkeypatch.chdir(tmp_path / "bank")
    assert cli.json("current")["id"] == "bank-1"


def test_resuming_an_archived_session_unarchives_it(cli: Cli, three_sessions: dict[str, str]) -> None:
    assert cli("archive", "cors").exit_code == 0
    assert [row["id"] for row in cli.json("sessions")] == ["auth-1"]
    assert cli("resume", "CORS issues", typed="On\n").exit_code == 0
    assert [row["id"] for row in cli.json("sessions")] == ["cors-1", "auth-1"]


@pytest.mark.feature("N-110")
def test_without_a_terminal_the_sessions_are_listed(cli: Cli, three_sessions: dict[str, str]) -> None:
    result = cli("resume", typed="q")
    assert result.exit_code == 2
    assert result.stdout == cli("sessions").stdout != ""
    assert result.stderr == "treering: there is no terminal to choose on: name one of these, as resume SESSION\n"
    assert cli("resume", "--all").stdout == cli("sessions", "--all").stdout
    terminal = cli.terminal("resume", dumb=True)
    assert terminal.wait() == 2
    assert "Implement auth" in "\n".join(terminal.lines)


def test_without_any_session_the_error_says_how_to_start_one(cli: Cli) -> None:
    for command in (("resume",), ("chat", "-r")):
        error = cli.error(*command, status=2)
        assert error == "treering: there are no sessions here yet; start one with treering chat\n"


@pytest.mark.feature("N-119", "N-120")
def test_the_list_at_a_terminal_shows_filters_resizes_and_quits(cli: Cli, three_sessions: dict[str, str]) -> None:
    terminal = cli.terminal("resume")
    lines = terminal.until("About 'Implement auth'")
    assert lines[0] == "Select a session to resume:  2 sessions in this project"
    assert re.fullmatch(r"▸ Implement auth  (Today \d+:\d\d [AP]M|Yesterday) {2,}2 messages", lines[1])
    assert re.fullmatch(r"  CORS issues     (Today \d+:\d\d [AP]M|Yesterday) {2,}2 messages", lines[2])
    assert lines[4:6] == ["user: Implement auth", "assistant: About 'Implement auth': yes."]
    assert lines[-1] == "[Enter] Resume  [n] New session  [/] Filter  [Tab] All projects  [q] Quit"
    terminal.press("\x1b[B")
    assert terminal.until("About 'Fix CORS'")[2].startswith("▸ CORS issues")
    terminal.press("\t")
    assert "bank" in terminal.until("3 sessions in all projects", "bank")[1]
    terminal.press("/migr")
    assert terminal.until("/migr_", "1 session ", "About 'Migrate'")[2].startswith("▸ Migrate")
    terminal.press("\x1b")
    terminal.until("3 sessions", without="/migr")
    terminal.resize(60, 12)
    terminal.until("Select a session to resume:", without="[q] Quit")
    terminal.press("q")
    assert terminal.wait() == 0
    assert [row["message_count"] for row in cli.json("sessions", "--all")] == [2, 2, 2]
    assert cli("current").stdout == ""


@pytest.mark.feature("N-120")
def test_enter_resumes_the_selected_session(cli: Cli, three_sessions: dict[str, str]) -> None:
    terminal = cli.terminal("resume")
    terminal.until("▸ Implement auth")
    terminal.press("j\r")
    terminal.until("Fix CORS", without="Select a session")
    terminal.ask("Once more", "(echo, 3 messages) Once more")
    assert terminal.leave() == 0
    assert [(row["id"], row["message_count"]) for row in cli.json("sessions")] == [("cors-1", 4), ("auth-1", 2)]
    assert cli.json("current")["id"] == "cors-1"


@pytest.mark.feature("N-111", "N-120")
def test_n_starts_a_new_session_and_keeps_the_others(cli: Cli, three_sessions: dict[str, str]) -> None:
    before = cli.files()
    terminal = cli.terminal("resume")
    terminal.until("▸ Implement auth")
    terminal.press("n")
    terminal.ask("Something else", "(echo, 1 message) Something else")
    assert terminal.leave() == 0
    assert [row["title"] for row in cli.json("sessions")] == ["Something else", "Implement auth", "CORS issues"]
    assert cli.files().items() >= before.items()


@pytest.mark.parametrize(("sent", "status"), [("\x03", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_terminal_is_restored_after_an_interrupt_or_a_signal(
    cli: Cli, three_sessions: dict[str, str], sent: str | signal.Signals, status: int
) -> None:
    terminal = cli.terminal("resume")
    terminal.until("▸ Implement auth")
    during = terminal.settings
    if isinstance(sent, str):
        terminal.press(sent)
    else:
        terminal.signal(sent)
    assert terminal.wait() == status
    assert during != terminal.first_settings == terminal.settings
    assert terminal.lines == [""]


def test_log_events_are_printed_after_the_list_is_closed(cli: Cli, three_sessions: dict[str, str]) -> None:
    path = cli.root / "auth-1.jsonl"
    path.write_bytes(path.read_bytes() + b"garbage\n")
    terminal = cli.terminal("resume", columns=400)
    lines = terminal.until("About 'Implement auth'")
    assert not any("warning" in line for line in lines)
    terminal.press("q")
    assert terminal.wait() == 0
    assert "this line is not a JSON object and was skipped" in " ".join(terminal.lines)
