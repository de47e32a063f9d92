"""The manners of the command line: what goes where, how it ends, and that looking changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import structlog
from click.testing import Result

from treering import __version__
from treering.cli import main

Talked = Callable[..., str]
Treering = Callable[..., Result]
Write = Callable[..., Path]
Say = Callable[..., dict[str, Any]]
Spawn = Callable[..., "subprocess.Popen[bytes]"]

VIEWS = ["context", "tree", "labels", "entries"]
ON_A_FILE = [*VIEWS, "follow"]
NAMES = [name for section in main.sections for name in section.commands]


def loaded(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


@pytest.mark.parametrize("command", ON_A_FILE)
def test_errors_are_one_sentence(treering: Treering, tmp_path: Path, command: str) -> None:
    (tmp_path / "no.jsonl").write_text("hello\n")
    (tmp_path / "new.jsonl").write_text('{"type":"session","id":"x","version":99,"timestamp":"2026-01-01T10:00:00Z"}\n')
    (tmp_path / "empty.jsonl").write_text("")
    cases = {
        "gone.jsonl": "gone.jsonl: No such file or directory",
        ".": "this is a directory: give the path of a session file",
        "no.jsonl": "no.jsonl:1:0: this is not a session header; the file was left as it is",
        "new.jsonl": "new.jsonl:1:0: the session has version 99",
        "empty.jsonl": "empty.jsonl: the file is empty",
        "no.jsonl/x": "Not a directory",
    }
    for name, what in cases.items():
        result = treering(command, tmp_path / name)
        assert result.exit_code == 1, name
        assert result.stdout == "", name
        assert what in result.stderr, name
        assert result.stderr.startswith("treering: "), name
        assert len(result.stderr.splitlines()) == 1, name


def test_a_session_that_is_called_like_a_folder_is_shown(treering: Treering, talked: Talked, project: Path) -> None:
    talked("One", session_id="one", name="docs")
    for name in ("docs", "last"):
        (project / name).mkdir()
        assert "One" in treering("tree", name).stdout
    (project / "empty").mkdir()
    for name in ("empty", "."):
        result = treering("tree", name)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "this is a directory" in result.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(treering: Treering, branched: Path) -> None:
    branched.chmod(0)
    result = treering("tree", branched)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"treering: {branched}: Permission denied\n"


@pytest.mark.parametrize(
    "args", [["tree"], ["tree", "a", "--nonsense"], ["nonsense"], ["doctor"], ["follow", "a", "b"]]
)
def test_wrong_usage(treering: Treering, args: list[str]) -> None:
    result = treering(*args)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("command", VIEWS)
def test_looking_changes_nothing(treering: Treering, branched: Path, command: str) -> None:
    branched.write_bytes(branched.read_bytes() + b'garbage\n{"type":"mess')
    before, stat = branched.read_bytes(), branched.stat()
    for option in ([], ["--json"]):
        assert treering(command, branched, *option).exit_code == 0
    assert branched.read_bytes() == before
    assert branched.stat().st_mtime_ns == stat.st_mtime_ns
    assert os.listdir(branched.parent) == [branched.name]


@pytest.mark.parametrize("command", VIEWS)
def test_damaged_lines_are_warnings(treering: Treering, write: Write, say: Say, command: str) -> None:
    path = write(say("a", None, "One", 1), b"garbage\n", b"\n", say("b", "a", "Two", 3), b"[1]\n", b'{"type":"mess')
    lines = path.read_bytes().splitlines(keepends=True)
    offsets = [sum(map(len, lines[:n])) for n in range(len(lines))]
    result = treering(command, path, "--json")
    assert result.exit_code == 0
    for line in result.stdout.splitlines():
        json.loads(line)
    assert result.stderr.splitlines() == [
        f"treering: warning: {path}:3:{offsets[2]}: this line is not a JSON object and was skipped",
        f"treering: warning: {path}:6:{offsets[5]}: this line is not a JSON object and was skipped",
        f"treering: warning: {path}:7:{offsets[6]}: the file ends in an unfinished line, which was left out",
    ]


def test_a_whole_last_line_without_a_newline_is_shown(treering: Treering, branched: Path) -> None:
    branched.write_bytes(branched.read_bytes().rstrip(b"\n"))
    result = treering("entries", branched, "--json")
    assert (len(result.stdout.splitlines()), result.stderr) == (5, "")


def test_logs_are_left_as_the_program_set_them(treering: Treering, branched: Path) -> None:
    before = structlog.get_config()
    treering("tree", branched)
    assert structlog.get_config() == before


def test_what_would_steer_the_terminal_is_not_passed_on(treering: Treering, write: Write, say: Say) -> None:
    path = write(say("a", None, "red \x1b[31m \u202e back", 1, "us\x1ber"))
    for command in ("context", "tree", "entries"):
        output = treering(command, path).output
        assert "red" in output
        assert not {"\x1b", "\u202e"} & set(output)


def test_colors_are_for_terminals(treering: Treering, branched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for command in VIEWS:
        assert "\x1b[" not in treering(command, branched).output
    for command in ("context", "tree", "entries"):
        assert "\x1b[" in treering(command, branched, env={"FORCE_COLOR": "1"}).output
        assert "\x1b[" not in treering(command, branched, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}, color=True).output


def test_version(treering: Treering) -> None:
    assert treering("--version").output == f"treering {__version__}\n"


@pytest.mark.parametrize("name", [None, *NAMES])
def test_every_help_has_an_example(treering: Treering, name: str | None) -> None:
    output = treering(*([name] if name else []), "--help").stdout
    assert "Examples:\n" in output
    assert f"  treering {name or 'tree'}" in output


def test_the_list_of_commands_says_what_each_command_says_of_itself(treering: Treering) -> None:
    told = {name: place.help for section in main.sections for name, place in section.commands.items()}
    assert told == {name: loaded(name).get_short_help_str(limit=200) for name in NAMES}
    output = " ".join(treering("--help").stdout.split())
    for name, line in told.items():
        assert f" {name} {line}" in output


def test_help_loads_no_command(treering: Treering) -> None:
    code = (
        "import sys; from click.testing import CliRunner; from treering.cli import main; "
        "assert 'sessions' in CliRunner().invoke(main, ['--help']).output; "
        "sys.exit(any(name in sys.modules for name in ('treering.cli.tree', 'treering.cli.home', 'rich')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- for real


def test_it_runs_as_a_module(spawn: Spawn, branched: Path) -> None:
    with spawn("labels", branched, "--json") as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out) == [{"entry_id": "q", "label": "crossroads"}]


def test_an_error_ends_a_real_process_with_1(spawn: Spawn, tmp_path: Path) -> None:
    with spawn("tree", tmp_path / "gone.jsonl") as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert err.decode() == f"treering: {tmp_path / 'gone.jsonl'}: No such file or directory\n"


def test_a_reader_that_goes_away_is_no_error(spawn: Spawn, write: Write, say: Say) -> None:
    path = write(*(say(f"e{n}", None, "x" * 200, n + 1) for n in range(3000)))
    for command in ("tree", "entries", "context"):
        with spawn(command, path) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0


def test_a_terminal_without_unicode_is_served(spawn: Spawn, branched: Path) -> None:
    with spawn("tree", branched, PYTHONIOENCODING="ascii", PYTHONUTF8="0") as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert [line[:6] for line in out.decode("ascii").splitlines()] == ["* q us", "|-   x", "`- * a", "   * m", "   * l"]


def test_json_is_utf8_whatever_the_terminal_is(spawn: Spawn, write: Write, say: Say) -> None:
    path = write(say("a", None, "größer", 1))
    with spawn("context", path, "--json", PYTHONIOENCODING="ascii", PYTHONUTF8="0") as process:
        out, _ = process.communicate()
    assert json.loads(out.decode())["messages"][0]["content"][0]["text"]["content"] == "größer"


def test_importing_the_command_imports_no_rich() -> None:
    code = "import sys, treering.cli; sys.exit('rich' in sys.modules or 'structlog' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
