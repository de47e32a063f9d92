"""`treering export` and `treering import`: formats, targets, redaction, damage."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import get_args

import pytest

from treering import ExportFormat
from treering.events.disk import OsDisk

from .conftest import Cli, line_of_message

SECRET = "sk-ant-api03-" + "a1B2" * 24


@pytest.mark.parametrize("format_", get_args(ExportFormat))
def test_each_format_is_written_to_stdout_and_to_a_private_file(cli: Cli, tmp_path: Path, format_: str) -> None:
    cli.create("What is a tree ring?", session_id="one")
    target = tmp_path / "out"
    if format_ == "nanocoder":
        cli.error("export", "one", "--format", format_)
    else:
        result = cli("export", "one", "--format", format_)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "What is a tree ring?" in result.stdout
    written = cli("export", "one", "-f", format_, "-o", target)
    assert (written.exit_code, written.stdout) == (0, "")
    assert written.stderr.startswith("written to ")
    assert target.exists()
    if target.is_file():
        assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_the_default_is_markdown_on_stdout(cli: Cli) -> None:
    cli.create("Hello", session_id="one", name="A title")
    assert cli("export", "one").stdout.startswith("# A title\n")


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("talk.html", "html"),
        ("TALK.HTM", "html"),
        ("talk.json", "json"),
        ("talk.jsonl", "native"),
        ("talk", "markdown"),
    ],
)
def test_the_ending_of_the_path_determines_the_format_unless_one_is_given(
    cli: Cli, tmp_path: Path, name: str, format_: str
) -> None:
    cli.create("Hello", session_id="one")
    assert cli.json("export", "one", "-o", tmp_path / name)["format"] == format_
    assert (tmp_path / name).read_text() == cli("export", "one", "-f", format_).stdout
    explicit = cli("export", "one", "-o", tmp_path / name, "-f", "markdown", "--force", "--json")
    assert json.loads(explicit.stdout)["format"] == "markdown"


def test_a_dash_means_stdout(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.create("Hello", session_id="one")
    monkeypatch.chdir(tmp_path)
    result = cli("export", "one", "-o", "-")
    assert (result.stdout, result.stderr) == (cli("export", "one").stdout, "")
    assert not (tmp_path / "-").exists()


def test_a_pipe_is_not_replaced(cli: Cli, tmp_path: Path) -> None:
    cli.create("Hello", session_id="one")
    os.mkfifo(tmp_path / "pipe")
    assert (
        cli.error("export", "one", "-o", tmp_path / "pipe", "--force")
        .rstrip()
        .endswith("leave out -o, and redirect stdout there")
    )


def test_an_existing_file_is_replaced_only_with_force(cli: Cli, tmp_path: Path) -> None:
    cli.create("Hello", session_id="one")
    target = tmp_path / "talk.md"
    target.write_text("mine")
    result = cli("export", "one", "-o", target)
    assert (result.exit_code, result.stdout, target.read_text()) == (1, "", "mine")
    assert str(target) in result.stderr
    assert cli("export", "one", "-o", target, "--force", "-q").output == ""
    assert "Hello" in target.read_text()


def test_a_path_that_reads_like_advice_is_left_as_it_is(cli: Cli, tmp_path: Path) -> None:
    cli.create("Hello", session_id="one")
    target = tmp_path / "overwrite=True.md"
    target.write_text("mine")
    result = cli("export", "one", "-o", target)
    assert result.stderr == f"treering: {target} already exists: give another path, or --force\n"


def test_a_read_only_disk_is_reported_with_what_to_check(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.create("Hello", session_id="one")

    def refuse(disk: OsDisk, path: str, flags: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return os.open(path, flags)

    monkeypatch.setattr(OsDisk, "open", refuse)
    result = cli("rename", "one", "Talk")
    assert result.exit_code == 1
    assert result.stderr.endswith("cannot be opened for writing (Read-only file system): check its permissions\n")


def test_a_root_without_permission_to_write_is_reported_with_its_place(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.create("Hello", session_id="one")

    def refuse(disk: OsDisk, path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(OsDisk, "make_directory", refuse)
    result = cli("rename", "one", "Talk")
    assert result.exit_code == 1
    place = f"(Permission denied: {cli.root}/.treering/locks)"
    assert result.stderr.endswith(f"{place}: see to the permissions there; viewing works\n")


def test_the_path_to_another_leaf_can_be_exported(cli: Cli, branched: Path) -> None:
    assert "read" in cli("export", branched, "--leaf", "x").stdout
    assert "This way." not in cli("export", branched, "--leaf", "x").stdout
    assert cli("export", branched, "--leaf", "nobody").exit_code == 1


@pytest.mark.feature("U-21")
def test_an_export_can_be_imported_unless_it_is_redacted(cli: Cli, tmp_path: Path) -> None:
    cli.create(f"The key is {SECRET}", session_id="one")
    elsewhere = ["--root", str(tmp_path / "elsewhere")]
    for format_ in ("native", "json"):
        target = tmp_path / f"whole.{format_}"
        assert cli("export", "one", "-f", format_, "-o", target).exit_code == 0
        result = cli("import", target, "--root", tmp_path / f"elsewhere-{format_}")
        assert result.exit_code == 0
        assert result.stdout.split("  ")[0] == "one"
        assert result.stderr == "1 session, 1 new, 2 lines added\n"
        assert SECRET in cli("context", "one", "--root", tmp_path / f"elsewhere-{format_}").stdout

    redacted = tmp_path / "redacted.json"
    result = cli("export", "one", "-f", "json", "-o", redacted, "--redact")
    assert result.exit_code == 0
    assert "secrets removed" in result.stderr or "secret removed" in result.stderr
    assert SECRET not in redacted.read_text()
    assert "secrets were taken out of this export" in cli.error("import", redacted, *elsewhere)
    assert cli("sessions", "--all", "-q", *elsewhere).stdout == ""
    assert cli("export", "one", "-f", "native", "--redact").exit_code == 1


def test_importing_again_adds_what_is_missing(cli: Cli) -> None:
    path = cli.write(line_of_message("a", None, "One", 1))
    (first,) = cli.json("import", path)["sessions"]
    assert (first["id"], first["format"], first["added"], first["existed"]) == ("s-1", "native", 1, False)
    cli.write(line_of_message("a", None, "One", 1), line_of_message("b", "a", "Two", 2))
    (again,) = cli.json("import", path)["sessions"]
    assert (again["entries"], again["added"], again["existed"]) == (2, 1, True)
    result = cli("import", path)
    assert "nothing to add" in result.stdout
    assert result.stderr == "1 session, 0 new, 0 lines added\n"
    assert cli("import", path, "-q").stderr == ""


def test_damaged_lines_are_reported_and_the_rest_is_imported(cli: Cli, tmp_path: Path) -> None:
    def line(uuid: str, parent: str | None, text: str) -> str:
        known = {
            "type": "user",
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": "cc-1",
            "cwd": "/work",
            "version": "2",
        }
        return json.dumps({**known, "timestamp": "2026-01-01T10:00:00Z", "message": {"role": "user", "content": text}})

    first = line("u1", None, "One") + "\n"
    path = tmp_path / "cc-1.jsonl"
    path.write_text(first + "garbage\n" + line("u2", "u1", "Two") + "\n")
    noise = tmp_path / "noise.txt"
    noise.write_text("noise\n")
    copied = cli.write(line_of_message("a", None, "One", 1), b"garbage\n")
    result = cli("import", noise, path, tmp_path / "gone.jsonl", copied)
    assert result.exit_code == 1
    assert [line.split("  ")[:2] for line in result.stdout.splitlines()] == [["cc-1", "claude-code"], ["s-1", "native"]]
    errors = result.stderr.splitlines()
    assert errors[0].startswith(f"treering: {noise}: ")
    assert errors[1].startswith(f"{path}:2:{len(first)}: ")
    assert "gone.jsonl" in errors[2]
    assert errors[3].startswith(f"{copied}: warning: 1 damaged line copied as found")
    assert errors[4] == "2 sessions, 2 new, 3 lines added, 2 findings"
    assert "Two" in cli("context", "cc-1").stdout


def test_the_format_of_an_import_can_be_given(cli: Cli) -> None:
    path = cli.write(line_of_message("a", None, "One", 1))
    assert cli("import", path, "--format", "native").exit_code == 0
    cli.error("import", path, "--format", "picoclaw")
    assert cli("import", path, "--format", "nonsense").exit_code == 2


def test_the_progress_of_an_import_is_gone_from_the_terminal_at_the_end(cli: Cli, tmp_path: Path) -> None:
    paths = [
        cli.write(
            line_of_message("a", None, f"Talk {n}", 1),
            name=f"f{n}.jsonl",
            header={"type": "session", "id": f"s{n}", **STAMP},
        )
        for n in range(3)
    ]
    terminal = cli.terminal("import", *paths, tmp_path / "gone", columns=400)
    assert terminal.wait() == 1
    lines = terminal.lines
    assert not any("importing" in line for line in lines)
    assert [line.split("  ")[0] for line in lines if line.startswith("s")] == ["s0", "s1", "s2"]
    assert sum(line.startswith("treering: ") and "/gone" in line for line in lines) == 1
    assert lines[-1] == "3 sessions, 3 new, 3 lines added"


STAMP = {"version": 1, "timestamp": "2026-01-01T10:00:00Z"}
