"""`treering import` of folders: every session below is imported, and other files are counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from .conftest import DATA, Cli


@pytest.fixture
def projects(cli: Cli, tmp_path: Path) -> Path:
    """A folder like the one that the README imports."""
    folder = tmp_path / ".claude" / "projects" / "-work-shop"
    folder.mkdir(parents=True)
    shutil.copy(DATA / "claude_code" / "work.jsonl", folder / "c0ffee00.jsonl")
    return folder.parent


def test_the_import_command_of_the_readme_works(cli: Cli, projects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(projects.parents[1]))
    result = cli("import", projects.expanduser())
    assert result.exit_code == 0
    assert result.stdout.split("  ")[1] == "claude-code"
    assert result.stdout.rstrip().endswith("c0ffee00.jsonl")


def test_files_that_are_not_sessions_are_counted_and_named(cli: Cli, projects: Path, tmp_path: Path) -> None:
    for number in range(9):
        (projects / f"{number}.md").write_text("# Notes\n")
    shutil.copy(DATA / "pi_v3.jsonl", projects / "pi.jsonl")
    result = cli("import", projects, tmp_path / ".claude")
    assert result.exit_code == 0
    assert [line.split("  ")[1] for line in result.stdout.splitlines()] == ["pi", "claude-code"] * 2
    named = ", ".join(str(projects / f"{number}.md") for number in range(5))
    assert f"18 files are not sessions of a known format: {named} and 13 more" in result.stderr.splitlines()
    assert "not sessions" not in cli("import", projects, "-q").stderr

    report = cli.json("import", projects)
    assert [each["format"] for each in report["sessions"]] == ["pi", "claude-code"]
    assert (report["unknown"], len(report["unknown_paths"]), report["failed"], report["refused"]) == (9, 5, [], 0)
    result = cli("import", projects, "--format", "pi")
    assert f"10 files are not sessions of the format pi: {named} and 5 more" in result.stderr.splitlines()


def test_an_import_fails_only_if_a_named_path_cannot_be_imported(cli: Cli, projects: Path, tmp_path: Path) -> None:
    newer = projects / "newer.jsonl"
    newer.write_text('{"type":"session","version":99,"id":"n","timestamp":"2026-01-01T10:00:00Z"}\n')
    result = cli("import", projects)
    assert result.exit_code == 0
    assert any(line.startswith(f"{newer}:") and ": error: " in line for line in result.stderr.splitlines())
    assert cli("import", projects, newer).exit_code == 1
    result = cli("import", projects, newer, "--json")
    assert result.exit_code == 1
    failed = json.loads(result.stdout)["failed"]
    assert [each["path"] for each in failed] == [str(newer), str(newer)]

    (tmp_path / "empty").mkdir()
    assert "holds no session in any known format" in cli.error("import", tmp_path / "empty")


@pytest.mark.parametrize("more", [(), ("--format", "pi"), ("--format", "claude-code"), ("--format", "picoclaw")])
def test_a_missing_path_is_a_one_line_error(cli: Cli, tmp_path: Path, more: tuple[str, ...]) -> None:
    gone = tmp_path / "gone"
    assert cli.error("import", gone, *more) == f"treering: {gone}: there is no such file or folder\n"


def test_an_error_about_a_path_names_it_once(cli: Cli, tmp_path: Path) -> None:
    gone = f"{tmp_path / 'gone'}"
    assert cli("import", f"{gone}/").stderr == f"treering: {gone}: there is no such file or folder\n"


def test_an_empty_path_does_not_mean_the_current_directory(
    cli: Cli, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(projects)
    assert cli.error("import", "") == "treering: '' is not a path: give '.' for the current directory\n"
    assert cli("import", ".").exit_code == 0
