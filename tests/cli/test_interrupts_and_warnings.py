"""The command line when it is interrupted, called wrongly or given odd times, and the warnings that it prints."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from treering.cli.messages import be_verbose, logs_on_stderr, sentence, sentence_of
from treering.events.telemetry import logger

from .conftest import PACKAGES, Cli, line_of_message


def test_ctrl_c_ends_a_command_with_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("treering.cli.commands.demo.play", interrupted)
    result = cli("demo")
    assert (result.exit_code, result.output) == (130, "")


def test_ctrl_c_while_stdin_is_read_ends_the_command_with_130(cli: Cli) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _READING, "chat", "-p", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PACKAGES},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"reading\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


_READING = """
import sys
from treering.cli import main

class ReportingStdin:
    def __init__(self, stdin):
        self.read_all = stdin.read
    def isatty(self):
        return False
    def read(self):
        print("reading", flush=True)
        return self.read_all()

sys.stdin = ReportingStdin(sys.stdin)
main(prog_name="treering")
"""


@pytest.mark.parametrize("closed", ["0", "1", "2"])
def test_a_closed_standard_stream_is_not_an_error(cli: Cli, closed: str) -> None:
    cli.create("Hello", session_id="one")
    script = f'exec "$0" -m treering.cli sessions {closed}>&-'
    command, env = ["sh", "-c", script, sys.executable], {**os.environ, "PYTHONPATH": PACKAGES}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Hello" in done.stdout) == (closed != "1")


@pytest.mark.parametrize("given", [["--version"], ["tree", "--help"], ["completion", "bash"]])
def test_a_stdout_that_cannot_be_written_is_a_one_line_error(given: list[str]) -> None:
    command = [sys.executable, "-m", "treering.cli", *given]
    with open(os.devnull) as unwritable:
        done = subprocess.run(
            command,
            stdout=unwritable,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": PACKAGES},
        )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("treering: ")


def test_an_unknown_command_gets_a_suggestion_if_one_resembles_it(cli: Cli) -> None:
    suggested = {"list": "'sessions'", "show": "'context' or 'entries'", "stats": "'info'", "serach": "'search'"}
    for given, names in suggested.items():
        assert cli.error(given, status=2).endswith(f"Did you mean {names}?\n")
    assert "Did you mean" not in cli.error("xyzzy", status=2)


def test_an_option_may_stand_before_the_command_that_has_it(cli: Cli) -> None:
    cli.create("Hello", session_id="one")
    told = json.loads(cli("info", "one", "--json").stdout)
    for given in ("--json info one", f"--json --root={cli.root} info one", f"--root {cli.root} info --json one"):
        assert json.loads(cli(*given.split()).stdout) == told, given
    assert json.loads(cli("--json", "debug", "context", "one").stdout)["messages"]
    assert "no sessions" in cli("--root", "sessions", "sessions").stderr  # a folder that is called like a command
    assert cli("-n", "1", "--all", "sessions").stdout.count("\n") == 1
    for given in ("--nonsense sessions", "sessions --nonsense", "--json delete-all", "--root there", "--root x copy a"):
        assert "No such option" in cli.error(*given.split(), status=2), given
    advice = "'--verbose' here; put it before the command: treering --verbose sessions"
    assert cli.error("sessions", "--verbose", status=2).endswith(f"Error: No such option {advice}\n")


def test_the_error_for_last_says_that_there_are_no_sessions(cli: Cli) -> None:
    for command in (["tree", "last"], ["info", "last"], ["rename", "last", "x"]):
        assert "there are no sessions yet" in cli(*command).stderr
    cli.create("Hello", session_id="one")
    cli("archive", "one")
    assert "all are archived" in cli("tree", "last").stderr


def test_a_missing_working_directory_is_one_line(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentence(FileNotFoundError(2, "no such socket")) == "no such socket"
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert cli.error("sessions") == "treering: the current directory no longer exists: change to another one\n"


def test_a_root_that_is_a_file_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = cli.error("sessions", env={"TREERING_ROOT": str(tmp_path / "file")})
    assert f"{tmp_path}/file is not a directory" in error
    assert "there is no directory" in cli.error("copy", tmp_path / "file", tmp_path / "to")
    assert "is a file" in cli.error("serve", tmp_path / "file", status=2)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_missing_api_key_is_named(cli: Cli, provider: str) -> None:
    pytest.importorskip(provider)
    keys = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    result = cli("chat", "-p", "hi", "--model", f"{provider}:m", env=dict.fromkeys(keys))
    assert result.exit_code == 1
    assert f"set {provider.upper()}_API_KEY" in result.stderr


def _printed_for(capsys: pytest.CaptureFixture[str], name: str, **fields: object) -> str:
    with logs_on_stderr():
        logger().warning(name, **fields)
    return capsys.readouterr().err


def test_log_events_are_printed_as_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    be_verbose(verbose=False)
    printed = _printed_for(capsys, "search_index_unavailable", why="[Errno 30] Read-only file system: '/x'")
    assert printed == (
        "treering: warning: the search index is not available, so the sessions are read instead: "
        "Read-only file system: '/x'\n"
    )
    assert _printed_for(capsys, "not_compacted", session_id="s", raised_at=["a"]) == ""
    printed = _printed_for(capsys, "something_new", session_id="s", raised_at=["a:1 b"])
    assert printed == "treering: warning: something new (session s); run `treering --verbose` for details\n"


def test_verbose_prints_events_with_all_their_fields(capsys: pytest.CaptureFixture[str]) -> None:
    be_verbose(verbose=True)
    try:
        printed = _printed_for(capsys, "not_compacted", session_id="s", error="ContextOverflow", raised_at=["a"])
        assert printed == "treering: warning: not_compacted session_id=s error=ContextOverflow raised_at=['a']\n"
        printed = _printed_for(capsys, "line_damaged", where="/a:1:2", seq=3)
        assert printed.endswith("skipped [line_damaged where=/a:1:2 seq=3]\n")
    finally:
        be_verbose(verbose=False)


def test_each_warning_of_the_library_has_a_sentence() -> None:
    """A new warning needs a sentence, or must be reported in another way."""
    package = Path(__file__).resolve().parents[2]
    pattern = re.compile(r'logger\(\)\.(?:warning|error|critical)\(\s*"(\w+)"')
    names = {
        name
        for folder in ("actors", "events", "projections")
        for path in (package / folder).rglob("*.py")
        for name in pattern.findall(path.read_text(encoding="utf-8"))
    }
    assert len(names) > 10
    words = (
        "where seq count ref error why path moved_to journal session_id projection tool timeout_s work sessions program"
    )
    given: dict[str, object] = dict.fromkeys([*words.split(), "sessions"], "X")
    assert [name for name in sorted(names) if "--verbose" in (sentence_of(name, given) or "")] == []


def test_a_conversation_that_cannot_be_compacted_prints_no_log_line(cli: Cli) -> None:
    result = cli("chat", "--window", "100", "-p", "word " * 400)
    assert "raised_at" not in result.stderr
    assert "not_compacted" not in result.stderr


def test_a_torn_line_that_was_moved_away_is_named(cli: Cli) -> None:
    cli.create("Hello", session_id="one")
    with (cli.root / "one.jsonl").open("ab") as file:
        file.write(b'{"type":"message","id":"torn')
    result = cli("chat", "-r", "one", "-p", "Again")
    assert result.exit_code == 0
    (fragment,) = cli.root.glob("one.jsonl.torn-*")
    (notice,) = [line for line in result.stderr.splitlines() if "interrupted" in line]
    assert str(fragment) in notice
    assert "0 calls" not in notice


@pytest.fixture
def move_to() -> Iterator[Callable[[str], None]]:
    """Moves this process to another time zone."""
    with pytest.MonkeyPatch.context() as patch:

        def move(zone: str) -> None:
            patch.setenv("TZ", zone)
            time.tzset()

        yield move
    time.tzset()


def test_times_are_printed_in_the_local_zone_and_as_utc_in_json(cli: Cli, move_to: Callable[[str], None]) -> None:
    path = cli.write(line_of_message("a", None, "Hello", 1))
    move_to("XXX-05:30")
    assert "2026-01-01 15:30:01" in cli("entries", path).stdout
    assert '"2026-01-01T10:00:01Z"' in cli("entries", path, "--json").stdout


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00"])
@pytest.mark.parametrize("zone", ["XXX+05", "XXX-09", "XXX-24"])
def test_extreme_times_can_be_printed_in_any_zone(cli: Cli, at: str, zone: str, move_to: Callable[[str], None]) -> None:
    cli.create("Hello", session_id="near")
    lines = [
        {"type": "session", "id": "far", "version": 1, "timestamp": at},
        {**line_of_message("a", None, "Hello", 1), "timestamp": at},
    ]
    (cli.root / "far.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    move_to(zone)
    for command in (("sessions", "--all"), ("search", "Hello"), ("entries", "far")):
        assert any(at[:4].lstrip("0") in line for line in cli.lines(*command))
    assert cli("export", "far").exit_code == cli("hand-over", "far", "--to", "codex", "--dry-run").exit_code == 0
