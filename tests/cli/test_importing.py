"""`treering import` of folders: everything below comes in, and what does not is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Treering = Callable[..., Result]

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """Lay out the folder that the README imports."""
    folder = tmp_path / ".claude" / "projects" / "-work-shop"
    folder.mkdir(parents=True)
    shutil.copy(DATA / "claude_code" / "work.jsonl", folder / "c0ffee00.jsonl")
    return folder.parent


def test_the_readmes_own_command(treering: Treering, projects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(projects.parents[1]))
    result = treering("import", projects.expanduser())
    assert result.exit_code == 0
    assert result.stdout.split("  ")[1] == "claude-code"
    assert result.stdout.rstrip().endswith("c0ffee00.jsonl")


def test_what_is_no_session_is_counted_and_named(treering: Treering, projects: Path, tmp_path: Path) -> None:
    for number in range(9):
        (projects / f"{number}.md").write_text("# Notes\n")
    shutil.copy(DATA / "pi_v3.jsonl", projects / "pi.jsonl")
    result = treering("import", projects, tmp_path / ".claude")
    assert result.exit_code == 0
    assert [told.split("  ")[1] for told in result.stdout.splitlines()] == ["pi", "claude-code"] * 2
    named = ", ".join(str(projects / f"{number}.md") for number in range(5))
    assert f"18 files are not sessions of a known format: {named} and 13 more" in result.stderr.splitlines()
    assert "no session" not in treering("import", projects, "-q").stderr

    told = json.loads(treering("import", projects, "--json").stdout)
    assert [each["format"] for each in told["sessions"]] == ["pi", "claude-code"]
    assert (told["unknown"], len(told["unknown_paths"]), told["failed"], told["refused"]) == (9, 5, [], 0)
    result = treering("import", projects, "--format", "pi")
    assert f"10 files are not sessions of the format pi: {named} and 5 more" in result.stderr.splitlines()


def test_only_what_was_named_makes_it_fail(treering: Treering, projects: Path, tmp_path: Path) -> None:
    newer = projects / "newer.jsonl"
    newer.write_text('{"type":"session","version":99,"id":"n","timestamp":"2026-01-01T10:00:00Z"}\n')
    result = treering("import", projects)
    assert result.exit_code == 0
    assert any(told.startswith(f"{newer}:") and ": error: " in told for told in result.stderr.splitlines())
    assert treering("import", projects, newer).exit_code == 1
    told = treering("import", projects, newer, "--json")
    assert told.exit_code == 1
    failed = json.loads(told.stdout)["failed"]
    assert [each["path"] for each in failed] == [str(newer), str(newer)]

    (tmp_path / "empty").mkdir()
    result = treering("import", tmp_path / "empty")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "holds no session in any known format" in result.stderr


@pytest.mark.parametrize("more", [(), ("--format", "pi"), ("--format", "claude-code"), ("--format", "picoclaw")])
def test_a_path_that_is_not_there_is_said_once_and_plainly(
    treering: Treering, tmp_path: Path, more: tuple[str, ...]
) -> None:
    gone = tmp_path / "gone"
    result = treering("import", gone, *more)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"treering: {gone}: there is no such file or folder\n"
