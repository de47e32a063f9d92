"""The figures of the house are those of its source, and a figure that got worse is reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from bench.source import Module, circles, questions_of_class, read_modules
from click.testing import CliRunner, Result

import treering

pytest.importorskip("rich")

BOUND = """
[at_most]
files = {files}
append_functions = {append_functions}

[at_least]
median_lines = {median_lines} # of a file
"""


def house(*arguments: str) -> Result:
    from bench.__main__ import main

    return CliRunner().invoke(main, ["house", *arguments])


@pytest.fixture(scope="module", autouse=True)
def _surveyed_once() -> Iterator[None]:
    """The library does not change while these tests run, and a survey takes a second."""
    from bench import house as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "survey", cache(module.survey))
        yield


def bounds(folder: Path, files: int = 99_999, append_functions: int = 1_001, median_lines: int = 1) -> Path:
    path = folder / "bounds.toml"
    text = BOUND.format(files=files, append_functions=append_functions, median_lines=median_lines)
    path.write_text(text)
    return path


def package(folder: Path, sources: dict[str, str]) -> list[Module]:
    """Write a package `house` of some files, by their paths in it, and read it."""
    for name, text in sources.items():
        path = folder / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_modules(folder / "house")


def test_each_figure_that_got_worse_is_named(tmp_path: Path) -> None:
    process = house("--check", "--bounds", str(bounds(tmp_path, files=1, median_lines=9_999)))
    assert process.exit_code == 1
    assert [line.split()[0] for line in process.output.splitlines()] == ["files", "median_lines"]
    assert "more than 1 (bounds.toml)" in process.output
    assert "less than 9,999 (bounds.toml)" in process.output


def test_a_bound_of_an_unknown_figure_is_refused(tmp_path: Path) -> None:
    path = bounds(tmp_path)
    path.write_text(path.read_text().replace("files", "flies"))
    process = house("--check", "--bounds", str(path))
    assert process.exit_code == 2
    assert "no figure that can be bounded is called flies" in process.output


def test_tightening_lowers_bounds_and_raises_none(tmp_path: Path) -> None:
    path = bounds(tmp_path, append_functions=1, median_lines=1)
    house("--tighten", "--check", "--bounds", str(path))
    lines = path.read_text().splitlines()
    files, functions, median = (
        next(each for each in lines if each.startswith(name)) for name in ("files", "append_functions", "median_lines")
    )
    assert int(files.split()[2]) == len([*walked()])
    assert functions == "append_functions = 1"
    assert median.endswith(" # of a file")
    assert float(median.split()[2]) > 1


def walked() -> list[Path]:
    from bench.house import WINGS

    root = Path(treering.__file__).parent
    return [
        path
        for folder in (root, *(each for each in root.iterdir() if each.is_symlink()))
        for path in folder.rglob("*.py")
        if WINGS.isdisjoint(path.relative_to(root).parts)
    ]


def test_the_figures_are_those_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench import house as module

    assert module.import_times(rounds=1) > 0
    monkeypatch.setattr(module, "import_times", lambda: 2.125)
    figures = json.loads(house("--json").output)["figures"]
    printed = house().output
    assert figures["files"] == len(walked())
    assert figures["lines"] == sum(len(path.read_text().splitlines()) for path in walked())
    assert figures["public_names"] == len(treering.__all__)
    assert figures["import_times"] == 2.12
    assert f"{figures['lines']:,}" in printed


def test_circles_count_imports_in_functions_and_for_types(tmp_path: Path) -> None:
    modules = package(
        tmp_path,
        {
            "__init__.py": "from .a import x\n",
            "a.py": "def late():\n    from . import b\n",
            "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .c.d import y\n",
            "c/__init__.py": "",
            "c/d.py": "import house.a\n",
            "c/e.py": "from ..a import late\nfrom .f import z\n",
            "c/f.py": "from . import d\n",
        },
    )
    assert circles(modules) == [["house.a", "house.b", "house.c.d"]]


def test_a_package_and_a_module_of_it_can_be_a_circle(tmp_path: Path) -> None:
    modules = package(tmp_path, {"c/__init__.py": "from .d import x\n", "c/d.py": "from ..c import y\n"})
    assert circles(modules) == [["house.c", "house.c.d"]]


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(store, FileStore)",
        "issubclass(kind, (Memory, stores.FileStore))",
        "isinstance(store, Memory | FileStore)",
        "type(store) is FileStore",
        "FileStore == type(store)",
    ],
)
def test_a_question_of_class_is_found_in_any_spelling(tmp_path: Path, question: str) -> None:
    modules = package(tmp_path, {"a.py": f"from x import FileStore\nstore = FileStore()\nok = {question}\n"})
    assert questions_of_class(modules) == ["a.py:3"]


def test_a_pattern_is_a_question_and_the_store_itself_may_ask(tmp_path: Path) -> None:
    pattern = "match store:\n    case FileStore():\n        pass\n"
    modules = package(tmp_path, {"a.py": pattern, "stores/files/deep/b.py": pattern, "stores/c.py": pattern})
    assert questions_of_class(modules) == ["a.py:2", "stores/c.py:2"]
