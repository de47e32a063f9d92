"""The three packages at the top of the checkout are importable and installed only as parts of treering."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import treering

from .installing import PACKAGES, PROJECT, install

TERMINAL = ["click", "curses", "prompt_toolkit", "readline", "rich", "textual"]


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)


def modules(package: Path) -> set[str]:
    # A walk does not enter linked folders.
    folders = [package, *(package / package_name for package_name in PACKAGES)]
    return {file.relative_to(package).as_posix() for folder in folders for file in folder.rglob("*.py")}


def files_below(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("package_name", PACKAGES)
def test_each_top_level_package_is_linked_into_treering(package_name: str) -> None:
    link = PROJECT / "src" / "treering" / package_name
    assert link.is_symlink()
    assert link.resolve() == PROJECT / package_name
    assert (link / "__init__.py").is_file()


def test_a_top_level_package_cannot_be_imported_by_its_short_name() -> None:
    outcome = python("import actors.host.host")
    assert outcome.returncode != 0
    assert "relative import" in outcome.stderr


def test_an_installation_contains_only_treering(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    site = install(tmp_path)
    assert {path.name for path in site.iterdir()} == {"treering", f"treering-{treering.__version__}.dist-info", "bin"}
    assert modules(site / "treering") == modules(PROJECT / "src" / "treering")
    assert (site / "treering" / "py.typed").is_file()
    for part in ["page.css", "page.js"]:
        assert (site / "treering" / "projections" / "documents" / part).is_file()
    viewer = Path("treering", "server", "viewer")
    assert files_below(site / viewer) == files_below(PROJECT / "src" / viewer)


def test_the_version_is_that_of_pyproject() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == treering.__version__


@pytest.mark.feature("G-8")
def test_importing_treering_loads_no_terminal_and_no_logging_library() -> None:
    outcome = python(
        f"import sys; from treering import *; print(*sys.modules.keys() & {{*{[*TERMINAL, 'structlog']!r}}})"
    )
    assert (outcome.stdout.split(), outcome.stderr) == ([], "")
