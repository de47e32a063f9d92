"""`treering export` and `treering import`: sessions go out and come in."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import Result

from treering import ExportFormat
from treering.events.disk import OsDisk

from .terminal import Terminal

Treering = Callable[..., Result]
Talked = Callable[..., str]
Write = Callable[..., Path]
Say = Callable[..., dict[str, Any]]
AtTerminal = Callable[..., Terminal]

SECRET = "sk-ant-api03-" + "a1B2" * 24


@pytest.mark.parametrize("format_", get_args(ExportFormat))
def test_every_format(treering: Treering, talked: Talked, tmp_path: Path, format_: str) -> None:
    talked("What is a tree ring?", session_id="one")
    target = tmp_path / "out"
    if format_ == "nanocoder":
        result = treering("export", "one", "--format", format_)
        assert (result.exit_code, result.stdout) == (1, "")
        assert len(result.stderr.splitlines()) == 1
    else:
        result = treering("export", "one", "--format", format_)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "What is a tree ring?" in result.stdout
    written = treering("export", "one", "-f", format_, "-o", target)
    assert (written.exit_code, written.stdout) == (0, "")
    assert written.stderr.startswith("written to ")
    assert target.exists()
    if target.is_file():
        assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_markdown_goes_to_stdout_unless_it_is_said_otherwise(treering: Treering, talked: Talked) -> None:
    talked("Hello", session_id="one", name="A title")
    assert treering("export", "one").stdout.startswith("# A title\n")


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
def test_the_path_tells_the_format_unless_it_is_said(
    treering: Treering, talked: Talked, tmp_path: Path, name: str, format_: str
) -> None:
    talked("Hello", session_id="one")
    assert json.loads(treering("export", "one", "-o", tmp_path / name, "--json").stdout)["format"] == format_
    assert (tmp_path / name).read_text() == treering("export", "one", "-f", format_).stdout
    said = treering("export", "one", "-o", tmp_path / name, "-f", "markdown", "--force", "--json")
    assert json.loads(said.stdout)["format"] == "markdown"


def test_a_dash_is_stdout(treering: Treering, talked: Talked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talked("Hello", session_id="one")
    monkeypatch.chdir(tmp_path)
    result = treering("export", "one", "-o", "-")
    assert (result.stdout, result.stderr) == (treering("export", "one").stdout, "")
    assert not (tmp_path / "-").exists()


def test_a_pipe_is_not_replaced(treering: Treering, talked: Talked, tmp_path: Path) -> None:
    talked("Hello", session_id="one")
    os.mkfifo(tmp_path / "pipe")
    result = treering("export", "one", "-o", tmp_path / "pipe", "--force")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.rstrip().endswith("leave out -o, and redirect stdout there")


def test_what_is_there_is_not_replaced(treering: Treering, talked: Talked, tmp_path: Path) -> None:
    talked("Hello", session_id="one")
    target = tmp_path / "talk.md"
    target.write_text("mine")
    result = treering("export", "one", "-o", target)
    assert (result.exit_code, result.stdout, target.read_text()) == (1, "", "mine")
    assert str(target) in result.stderr
    assert treering("export", "one", "-o", target, "--force", "-q").output == ""
    assert "Hello" in target.read_text()


def test_a_path_that_reads_like_advice_is_left_as_it_is(treering: Treering, talked: Talked, tmp_path: Path) -> None:
    talked("Hello", session_id="one")
    target = tmp_path / "overwrite=True.md"
    target.write_text("mine")
    result = treering("export", "one", "-o", target)
    assert result.stderr == f"treering: {target} already exists: give another path, or --force\n"


def test_a_disk_that_is_mounted_for_reading_is_no_matter_of_arguments(
    treering: Treering, talked: Talked, monkeypatch: pytest.MonkeyPatch
) -> None:
    talked("Hello", session_id="one")

    def refuse(disk: OsDisk, path: str, flags: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return os.open(path, flags)

    monkeypatch.setattr(OsDisk, "open", refuse)
    result = treering("rename", "one", "Talk")
    assert result.exit_code == 1
    assert result.stderr.endswith("cannot be opened for writing (Read-only file system): check its permissions\n")


def test_a_path_of_the_tree(treering: Treering, talked: Talked, branched: Path) -> None:
    assert "read" in treering("export", branched, "--leaf", "x").stdout
    assert "This way." not in treering("export", branched, "--leaf", "x").stdout
    assert treering("export", branched, "--leaf", "nobody").exit_code == 1


@pytest.mark.feature("U-21")
def test_one_file_goes_out_and_comes_in_and_what_was_redacted_does_not(
    treering: Treering, talked: Talked, tmp_path: Path
) -> None:
    talked(f"The key is {SECRET}", session_id="one")
    elsewhere = ["--root", tmp_path / "elsewhere"]
    for format_ in ("native", "json"):
        target = tmp_path / f"whole.{format_}"
        assert treering("export", "one", "-f", format_, "-o", target).exit_code == 0
        result = treering("import", target, "--root", tmp_path / f"elsewhere-{format_}")
        assert result.exit_code == 0
        assert result.stdout.split("  ")[0] == "one"
        assert result.stderr == "1 session, 1 new, 2 lines added\n"
        assert SECRET in treering("context", "one", "--root", tmp_path / f"elsewhere-{format_}").stdout

    redacted = tmp_path / "redacted.json"
    result = treering("export", "one", "-f", "json", "-o", redacted, "--redact")
    assert result.exit_code == 0
    assert "secrets removed" in result.stderr or "secret removed" in result.stderr
    assert SECRET not in redacted.read_text()
    result = treering("import", redacted, *elsewhere)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "secrets were taken out of this export" in result.stderr
    assert treering("sessions", "--all", "-q", *elsewhere).stdout == ""
    assert treering("export", "one", "-f", "native", "--redact").exit_code == 1


def test_importing_again_adds_what_is_missing(treering: Treering, project: Path, write: Write, say: Say) -> None:
    path = write(say("a", None, "One", 1))
    (first,) = json.loads(treering("import", path, "--json").stdout)["sessions"]
    assert (first["id"], first["format"], first["added"], first["existed"]) == ("s-1", "native", 1, False)
    write(say("a", None, "One", 1), say("b", "a", "Two", 2))
    (again,) = json.loads(treering("import", path, "--json").stdout)["sessions"]
    assert (again["entries"], again["added"], again["existed"]) == (2, 1, True)
    result = treering("import", path)
    assert "nothing to add" in result.stdout
    assert result.stderr == "1 session, 0 new, 0 lines added\n"
    assert treering("import", path, "-q").stderr == ""


def test_what_was_damaged_is_reported_and_the_rest_is_taken_in(
    treering: Treering, project: Path, write: Write, say: Say, tmp_path: Path
) -> None:
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
    copied = write(say("a", None, "One", 1), b"garbage\n")
    result = treering("import", noise, path, tmp_path / "gone.jsonl", copied)
    assert result.exit_code == 1
    assert [told.split("  ")[:2] for told in result.stdout.splitlines()] == [["cc-1", "claude-code"], ["s-1", "native"]]
    told = result.stderr.splitlines()
    assert told[0].startswith(f"treering: {noise}: ")
    assert told[1].startswith(f"{path}:2:{len(first)}: ")
    assert "gone.jsonl" in told[2]
    assert told[3].startswith(f"{copied}: warning: 1 damaged line copied as found")
    assert told[4] == "2 sessions, 2 new, 3 lines added, 2 findings"
    assert "Two" in treering("context", "cc-1").stdout


def test_a_format_that_is_named(treering: Treering, project: Path, write: Write, say: Say) -> None:
    path = write(say("a", None, "One", 1))
    assert treering("import", path, "--format", "native").exit_code == 0
    result = treering("import", path, "--format", "picoclaw")
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert treering("import", path, "--format", "nonsense").exit_code == 2


def test_how_far_it_is_is_shown_at_a_terminal_and_goes(
    at_terminal: AtTerminal, treering: Treering, project: Path, write: Write, say: Say, tmp_path: Path
) -> None:
    paths = [
        write(say("a", None, f"Talk {n}", 1), name=f"f{n}.jsonl", header={"type": "session", "id": f"s{n}", **STAMP})
        for n in range(3)
    ]
    terminal = at_terminal("import", *paths, tmp_path / "gone", columns=400)
    assert terminal.ended() == 1
    lines = terminal.lines
    assert not any("importing" in line for line in lines)
    assert [line.split("  ")[0] for line in lines if line.startswith("s")] == ["s0", "s1", "s2"]
    assert sum(line.startswith("treering: ") and "/gone" in line for line in lines) == 1
    assert lines[-1] == "3 sessions, 3 new, 3 lines added"


STAMP = {"version": 1, "timestamp": "2026-01-01T10:00:00Z"}
