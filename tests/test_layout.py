"""The three rooms lie at the top, and reach the world as parts of treering alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import treering

HOUSE = Path(__file__).resolve().parents[1]
ROOMS = ["actors", "events", "projections"]
TERMINAL = ["click", "curses", "prompt_toolkit", "readline", "rich", "textual"]


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=HOUSE, capture_output=True, text=True, check=False)


def modules(package: Path) -> set[str]:
    return {
        file.relative_to(package).as_posix()
        for folder in [package, *(package / room for room in ROOMS)]  # a walk does not enter linked folders
        for file in folder.rglob("*.py")
    }


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_is_linked_into_the_package(room: str) -> None:
    link = HOUSE / "src" / "treering" / room
    assert link.is_symlink()
    assert link.resolve() == HOUSE / room
    assert (link / "__init__.py").is_file()


def test_no_room_opens_from_the_street() -> None:
    outcome = python("import actors.host")
    assert outcome.returncode != 0
    assert "relative import" in outcome.stderr


def test_an_installation_is_treering_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    house, site = tmp_path / "house", tmp_path / "site"
    shutil.copytree(HOUSE / "src", house / "src", symlinks=True, ignore=shutil.ignore_patterns("*.egg-info"))
    for room in ROOMS:
        shutil.copytree(HOUSE / room, house / room)
    for file in ["pyproject.toml", "README.md", "LICENSE"]:
        shutil.copy(HOUSE / file, house)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--no-build-isolation", "--target", site, house], check=True)

    assert {path.name for path in site.iterdir()} == {"treering", f"treering-{treering.__version__}.dist-info", "bin"}
    assert modules(site / "treering") == modules(HOUSE / "src" / "treering")
    assert (site / "treering" / "py.typed").is_file()
    for part in ["page.css", "page.js"]:
        assert (site / "treering" / "projections" / "exporting" / part).is_file()


def test_the_version_is_told_once() -> None:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == treering.__version__


@pytest.mark.feature("G-8")
def test_importing_loads_no_terminal_and_no_logging_library() -> None:
    outcome = python(f"import sys, treering; print(*sys.modules.keys() & {{*{[*TERMINAL, 'structlog']!r}}})")
    assert (outcome.stdout.split(), outcome.stderr) == ([], "")
