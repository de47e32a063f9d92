"""The output of commands: stdout and stderr, exit codes, colors, encodings, help; and reading changes nothing."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
import structlog

from treering import SyncHost, __version__, text, thinking, tool_result, tool_use
from treering.actors.transfer.exporting import export_names, foreign_format
from treering.cli import main
from treering.entries import SessionInfo
from treering.events.telemetry import logger
from treering.formats.base import WritesFolder

from .conftest import HEADER, Cli, line_of_message

VIEWS = ["context", "tree", "labels", "entries"]
ON_A_FILE = [*VIEWS, "follow"]
NAMES = [name for section in main.sections for name in section.commands]


def loaded(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


@pytest.mark.parametrize("command", ON_A_FILE)
def test_an_error_about_a_file_is_one_line(cli: Cli, command: str) -> None:
    (cli.folder / "no.jsonl").write_text("hello\n")
    cli.write(name="new.jsonl", header={**HEADER, "version": 99})
    (cli.folder / "empty.jsonl").touch()
    for name, what in {
        "gone.jsonl": "gone.jsonl: No such file or directory",
        ".": "this is a directory: give the path of a session file",
        "no.jsonl": "no.jsonl:1:0: this is not a session header; the file was left as it is",
        "new.jsonl": "new.jsonl:1:0: the session has version 99",
        "empty.jsonl": "empty.jsonl: the file is empty",
        "no.jsonl/x": "Not a directory",
    }.items():
        assert what in cli.error(command, cli.folder / name)


def test_a_session_with_the_name_of_a_folder_is_shown(cli: Cli) -> None:
    cli.create("One", session_id="one", name="docs")
    for name in ("docs", "last"):
        (cli.project / name).mkdir()
        assert "One" in cli("tree", name).stdout
    (cli.project / "empty").mkdir()
    for name in ("empty", "."):
        assert "this is a directory" in cli.error("tree", name)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root can read every file")
def test_a_file_without_read_permission_is_a_one_line_error(cli: Cli, branched: Path) -> None:
    branched.chmod(0)
    assert cli.error("tree", branched) == f"treering: {branched}: Permission denied\n"


@pytest.mark.parametrize(
    "args", [["tree"], ["tree", "a", "--nonsense"], ["nonsense"], ["doctor"], ["follow", "a", "b"]]
)
def test_wrong_usage_ends_with_2(cli: Cli, args: list[str]) -> None:
    cli.error(*args, status=2)


@pytest.mark.parametrize("command", VIEWS)
def test_reading_changes_nothing(cli: Cli, branched: Path, command: str) -> None:
    branched.write_bytes(branched.read_bytes() + b'garbage\n{"type":"mess')
    before, stat = branched.read_bytes(), branched.stat()
    for option in ([], ["--json"]):
        assert cli(command, branched, *option).exit_code == 0
    assert branched.read_bytes() == before
    assert branched.stat().st_mtime_ns == stat.st_mtime_ns
    assert os.listdir(branched.parent) == [branched.name]


@pytest.mark.parametrize("command", VIEWS)
def test_damaged_lines_are_warnings(cli: Cli, command: str) -> None:
    path = cli.write(
        line_of_message("a", None, "One", 1),
        b"garbage\n",
        b"\n",
        line_of_message("b", "a", "Two", 3),
        b"[1]\n",
        b'{"type":"mess',
    )
    lines = path.read_bytes().splitlines(keepends=True)
    offsets = [sum(map(len, lines[:n])) for n in range(len(lines))]
    result = cli(command, path, "--json")
    assert result.exit_code == 0
    for line in result.stdout.splitlines():
        json.loads(line)
    assert result.stderr.splitlines() == [
        f"treering: warning: {path}:3:{offsets[2]}: this line is not a JSON object and was skipped",
        f"treering: warning: {path}:6:{offsets[5]}: this line is not a JSON object and was skipped",
        f"treering: warning: {path}:7:{offsets[6]}: the file ends in an unfinished line, which was left out",
    ]


def test_a_whole_last_line_without_a_newline_is_shown(cli: Cli, branched: Path) -> None:
    branched.write_bytes(branched.read_bytes().rstrip(b"\n"))
    result = cli("entries", branched, "--json")
    assert (len(result.stdout.splitlines()), result.stderr) == (5, "")


def test_the_logging_configuration_is_restored(cli: Cli, branched: Path) -> None:
    before = structlog.get_config(), type(logger())
    cli("tree", branched)
    assert (structlog.get_config(), type(logger())) == before


def test_control_characters_are_not_printed(cli: Cli) -> None:
    cli.create("red \x1b[31m \u202e back", name="a\x1bb\nc")
    for args in (["sessions"], ["sessions", "-a"], ["info", "last"], ["search", "back"]):
        assert not {"\x1b", "\u202e"} & set(cli(*args).output), args
    path = cli.write(line_of_message("a", None, "red \x1b[31m \u202e back", 1, "us\x1ber"))
    for command in ("context", "tree", "entries"):
        output = cli(command, path).output
        assert "red" in output
        assert not {"\x1b", "\u202e"} & set(output)


@pytest.fixture
def shown_at_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run the command with a terminal as its stdout, and return what is written there, without the command's colors."""

    def run(*args: str) -> str:
        written = io.BytesIO()
        stdout = TerminalOutput(written, encoding="utf-8")
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stdout)
            with suppress(SystemExit):
                main(list(args), prog_name="treering")
        stdout.flush()
        return COLORS.sub("", written.getvalue().decode())

    return run


class TerminalOutput(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


COLORS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "\x1b]0;title\x07 \x9b2J \u202ereversed\u2066 \x08\x7f\rover\x00 back"
OBEYED = set(HOSTILE) - set(map(chr, range(32, 127)))
SHOWING = [
    ("sessions", "--all"), ("info", "last"), ("context", "last"), ("tree", "last"), ("entries", "last"),
    ("labels", "last"), ("search", "back"), ("gc",), ("compact", "last"), ("debug", "context", "last"),
]  # fmt: skip


@pytest.fixture
def hostile_session(cli: Cli) -> None:
    """A session with control characters in every text."""
    with SyncHost(cli.root, clock=lambda: datetime(2020, 1, 1, tzinfo=UTC)) as host:
        session = host.create(cwd=cli.project, parent_session=HOSTILE)
        asked = session.append_message("user", HOSTILE)
        session.append_message(
            "assistant", [thinking(HOSTILE), text(HOSTILE), tool_use("c", HOSTILE, {HOSTILE: HOSTILE})]
        )
        session.append_message("tool", [tool_result("c", HOSTILE)], tool_name=HOSTILE)
        session.append_message(HOSTILE, HOSTILE, metadata={HOSTILE: HOSTILE})
        session.append_model_change(HOSTILE, HOSTILE)
        session.append_thinking_level_change(HOSTILE)
        session.append_custom_entry(HOSTILE, {HOSTILE: HOSTILE})
        session.append_custom_message(HOSTILE, HOSTILE)
        session.set_label(asked, HOSTILE)
        session.append(SessionInfo(name=HOSTILE, status=HOSTILE, description=HOSTILE, summary=HOSTILE))
        session.append_compaction(HOSTILE, asked, 5)


@pytest.mark.parametrize("command", SHOWING, ids=" ".join)
@pytest.mark.usefixtures("hostile_session")
def test_a_terminal_shows_control_characters(shown_at_terminal: Callable[..., str], command: tuple[str, ...]) -> None:
    output = shown_at_terminal(*command)
    assert "back" in output or command[0] in ("gc", "compact")
    assert not OBEYED & set(output) - {"\n"}


@pytest.mark.parametrize("command", [("info", "last"), ("context", "last"), ("tree", "last"), ("entries", "last")])
@pytest.mark.usefixtures("hostile_session")
def test_json_at_a_terminal_has_the_same_value_without_control_characters(
    cli: Cli, shown_at_terminal: Callable[..., str], command: tuple[str, ...]
) -> None:
    output, piped = shown_at_terminal(*command, "--json"), cli(*command, "--json").stdout
    assert not OBEYED & set(output) - {"\n"}
    assert "\u202e" in piped
    assert list(map(json.loads, output.splitlines())) == list(map(json.loads, piped.splitlines()))


@pytest.mark.parametrize(
    "format_", [each for each in export_names() if not isinstance(foreign_format(each), WritesFolder)]
)
@pytest.mark.usefixtures("hostile_session")
def test_an_export_at_a_terminal_is_shown_and_one_to_a_pipe_is_whole(
    cli: Cli, shown_at_terminal: Callable[..., str], tmp_path: Path, format_: str
) -> None:
    output = shown_at_terminal("export", "last", "--format", format_, "-o", "-")
    assert "back" in output
    assert not OBEYED & set(output) - {"\n"}
    cli("export", "last", "--format", format_, "-o", tmp_path / "export")
    piped = cli("export", "last", "--format", format_).stdout_bytes
    assert piped == (tmp_path / "export").read_bytes()
    assert output.count("\\u202ereversed") >= piped.decode().count("\u202ereversed")


def test_titles_and_labels_are_bounded_in_pipes_and_whole_in_json(cli: Cli) -> None:
    long = "back " * 200_000
    with SyncHost(cli.root, clock=lambda: datetime(2020, 1, 1, tzinfo=UTC)) as host:
        for _ in range(2):
            session = host.create(cwd=cli.project)
            asked = session.append_message("r" * 100_000, long)
            session.set_label(asked, long)
            session.append(SessionInfo(name=long, status=long, description=f"About {long}"))
        host.set_current_session(cli.project, session)
    for command in (*SHOWING, ("current",)):
        if command[0] not in ("context", "debug"):
            lines = cli.lines(*command)
            assert max(map(len, lines), default=0) < 400, command
    assert [row["name"] for row in cli.json("sessions", "-a")] == [long.strip()] * 2
    assert cli.json("info", "last")["description"] == f"About {long}"
    ambiguous = cli("info", long.strip())
    assert (ambiguous.exit_code, len(ambiguous.stderr) < len(long) + 500) == (1, True)


def test_colors_are_for_terminals(cli: Cli, branched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for command in VIEWS:
        assert "\x1b[" not in cli(command, branched).output
    for command in ("context", "tree", "entries"):
        assert "\x1b[" in cli(command, branched, env={"FORCE_COLOR": "1"}).output
        assert "\x1b[" not in cli(command, branched, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}, color=True).output
    for terminal, colored in (("xterm", True), ("dumb", False)):
        assert ("\x1b[" in cli("context", branched, env={"TERM": terminal}, color=True).output) == colored


def test_version_prints_name_and_version(cli: Cli) -> None:
    assert cli("--version").output == f"treering {__version__}\n"


@pytest.mark.parametrize("name", [None, *NAMES])
def test_every_help_has_an_example(cli: Cli, name: str | None) -> None:
    output = cli(*([name] if name else []), "--help").stdout
    assert "Examples:\n" in output
    assert f"  treering {name or 'tree'}" in output


def test_the_list_of_commands_shows_the_help_of_each(cli: Cli) -> None:
    listed = {name: place.help for section in main.sections for name, place in section.commands.items()}
    assert listed == {name: loaded(name).get_short_help_str(limit=200) for name in NAMES}
    output = " ".join(cli("--help").stdout.split())
    for name, line in listed.items():
        assert f" {name} {line}" in output


def test_help_imports_no_command(cli: Cli) -> None:
    code = (
        "import sys; from click.testing import CliRunner; from treering.cli import main; "
        "assert 'sessions' in CliRunner().invoke(main, ['--help']).output; "
        "sys.exit(any(name in sys.modules for name in ('treering.cli.commands.tree', 'treering.cli.home', 'rich')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_runs_as_a_module(cli: Cli, branched: Path) -> None:
    with cli.spawn("labels", branched, "--json") as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out) == [{"entry_id": "q", "label": "crossroads"}]


def test_a_test_that_fails_does_not_wait_for_its_process(cli: Cli, branched: Path) -> None:
    process = cli.spawn("follow", branched)
    too_late = threading.Timer(60, process.terminate)  # else nothing ends it
    too_late.start()
    with pytest.raises(AssertionError, match="wrong"), process:
        raise AssertionError("wrong")
    too_late.cancel()
    assert process.returncode == -signal.SIGKILL


def test_an_error_ends_the_process_with_1(cli: Cli, tmp_path: Path) -> None:
    with cli.spawn("tree", tmp_path / "gone.jsonl") as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert err.decode() == f"treering: {tmp_path / 'gone.jsonl'}: No such file or directory\n"


def test_a_closed_output_is_not_an_error(cli: Cli) -> None:
    path = cli.write(*(line_of_message(f"e{n}", None, "x" * 200, n + 1) for n in range(3000)))
    for command in ("tree", "entries", "context"):
        with cli.spawn(command, path) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0


def test_without_unicode_trees_are_drawn_in_ascii(cli: Cli, branched: Path) -> None:
    with cli.spawn("tree", branched, PYTHONIOENCODING="ascii", PYTHONUTF8="0") as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert [line[:6] for line in out.decode("ascii").splitlines()] == ["* q us", "|-   x", "`- * a", "   * m", "   * l"]


def test_json_is_utf8_whatever_the_encoding_of_stdout(cli: Cli) -> None:
    path = cli.write(line_of_message("a", None, "größer", 1))
    with cli.spawn("context", path, "--json", PYTHONIOENCODING="ascii", PYTHONUTF8="0") as process:
        out, _ = process.communicate()
    assert json.loads(out.decode())["messages"][0]["content"][0]["text"]["content"] == "größer"


def test_importing_the_command_imports_neither_rich_nor_structlog() -> None:
    code = "import sys, treering.cli; sys.exit('rich' in sys.modules or 'structlog' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_short_command_loads_no_library_that_it_does_not_need(cli: Cli) -> None:
    cli.create("Hello")
    code = """
import sys
from treering.cli import main
for line in sys.argv[2:]:
    main([*line.split(), "--root", sys.argv[1]], standalone_mode=False)
    print("loaded:", *{"structlog", "rich", "tomllib"} & set(sys.modules), file=sys.stderr)
"""
    short = ["sessions", "tree last", "search Hello", "info"]
    command = [sys.executable, "-c", code, str(cli.root), *short]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert [line for line in ended.stderr.splitlines() if "loaded" in line] == ["loaded:"] * len(short)
    assert ended.stdout.count("Hello") >= len(short)


def test_a_command_leaves_nothing_to_be_visited_when_the_interpreter_ends(cli: Cli) -> None:
    cli.create("Hello")
    code = """
import atexit, gc, sys
from treering.cli import main
atexit.register(lambda: print("frozen:", gc.get_freeze_count() > 0))  # runs last
main(["sessions", "--all", "--root", sys.argv[1]])
"""
    ended = subprocess.run([sys.executable, "-c", code, str(cli.root)], check=True, capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1] == "frozen: True"
