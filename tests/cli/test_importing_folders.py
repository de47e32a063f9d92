"""`treering import` of folders: every session below is imported, and other files are counted."""

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
def projects(tmp_path: Path, root: Path) -> Path:
    """A folder like the one that the README imports."""
    folder = tmp_path / ".claude" / "projects" / "-work-shop"
    folder.mkdir(parents=True)
    shutil.copy(DATA / "claude_code" / "work.jsonl", folder / "c0ffee00.jsonl")
    return folder.parent


def test_the_import_command_of_the_readme_works(
    treering: Treering, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(projects.parents[1]))
    result = treering("import", projects.expanduser())
    assert result.exit_code == 0
    assert result.stdout.split("  ")[1] == "claude-code"
    assert result.stdout.rstrip().endswith("c0ffee00.jsonl")


def test_files_that_are_not_sessions_are_counted_and_named(treering: Treering, projects: Path, tmp_path: Path) -> None:
    for number in range(9):
        (projects / f"{number}.md").write_text("# Notes\n")
    shutil.copy(DATA / "pi_v3.jsonl", projects / "pi.jsonl")
    result = treering("import", projects, tmp_path / ".claude")
    assert result.exit_code == 0
    assert [line.split("  ")[1] for line in result.stdout.splitlines()] == ["pi", "claude-code"] * 2
    named = ", ".join(str(projects / f"{number}.md") for number in range(5))
    assert f"18 files are not sessions of a known format: {named} and 13 more" in result.stderr.splitlines()
    assert "not sessions" not in treering("import", projects, "-q").stderr

    report = json.loads(treering("import", projects, "--json").stdout)
    assert [each["format"] for each in report["sessions"]] == ["pi", "claude-code"]
    assert (report["unknown"], len(report["unknown_paths"]), report["failed"], report["refused"]) == (9, 5, [], 0)
    result = treering("import", projects, "--format", "pi")
    assert f"10 files are not sessions of the format pi: {named} and 5 more" in result.stderr.splitlines()


def test_an_import_fails_only_if_a_named_path_cannot_be_imported(
    treering: Treering, projects: Path, tmp_path: Path
) -> None:
    newer = projects / "newer.jsonl"
    newer.write_text('{"type":"session","version":99,"id":"n","timestamp":"2026-01-01T10:00:00Z"}\n')
    result = treering("import", projects)
    assert result.exit_code == 0
    assert any(line.startswith(f"{newer}:") and ": error: " in line for line in result.stderr.splitlines())
    assert treering("import", projects, newer).exit_code == 1
    result = treering("import", projects, newer, "--json")
    assert result.exit_code == 1
    failed = json.loads(result.stdout)["failed"]
    assert [each["path"] for each in failed] == [str(newer), str(newer)]

    (tmp_path / "empty").mkdir()
    result = treering("import", tmp_path / "empty")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "holds no session in any known format" in result.stderr


@pytest.mark.parametrize("more", [(), ("--format", "pi"), ("--format", "claude-code"), ("--format", "picoclaw")])
def test_a_missing_path_is_a_one_line_error(treering: Treering, tmp_path: Path, more: tuple[str, ...]) -> None:
    gone = tmp_path / "gone"
    result = treering("import", gone, *more)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"treering: {gone}: there is no such file or folder\n"


def test_an_error_about_a_path_names_it_once(treering: Treering, tmp_path: Path) -> None:
    gone = f"{tmp_path / 'gone'}"
    assert treering("import", f"{gone}/").stderr == f"treering: {gone}: there is no such file or folder\n"


def test_an_empty_path_does_not_mean_the_current_directory(
    treering: Treering, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(projects)
    result = treering("import", "")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "treering: '' is not a path: give '.' for the current directory\n"
    assert treering("import", ".").exit_code == 0
