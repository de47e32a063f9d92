"""The front door and its chapters: what they have, that it is documented, and that it suffices for type hints."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import get_args, get_origin, get_type_hints

import pytest

import treering
from treering import models, sync, testing

_NAMES = "agents contexts entries errors models projections sessions stores subscriptions sync"
CHAPTERS: tuple[ModuleType, ...] = tuple(import_module(f"treering.{name}") for name in _NAMES.split())
EVERYWHERE = {name: chapter for chapter in CHAPTERS for name in chapter.__all__}
"""Every public name, and the chapter that has it."""

CALLED = (
    treering.SessionHost,
    treering.Session,
    treering.KeyedSessions,
    treering.AgentSession,
    treering.SyncHost,
    treering.SyncSession,
    sync.SyncKeyedSessions,
    treering.ContextBuilder,
)
"""Classes whose methods programs call."""
NOT_FOR_PROGRAMS = {"catalog", "core", "log", "twin", "copy", "bridge", "write_copy", "write_fork"}

parametrized_by_chapter = pytest.mark.parametrize("chapter", [treering, *CHAPTERS], ids=lambda it: it.__name__)


def sort_key(name: str) -> tuple[bool, bool, str]:
    """Constants, then classes, then functions, each in alphabetical order, as ruff sorts them."""
    return not name.isupper(), not name[0].isupper(), name


@parametrized_by_chapter
def test_all_is_sorted_and_has_no_duplicates(chapter: ModuleType) -> None:
    assert list(chapter.__all__) == sorted(set(chapter.__all__), key=sort_key)


@parametrized_by_chapter
def test_all_lists_exactly_the_public_names(chapter: ModuleType) -> None:
    seen = {
        name
        for name, value in vars(chapter).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "TYPE_CHECKING"
    }
    assert seen <= {*chapter.__all__}
    assert [name for name in chapter.__all__ if not hasattr(chapter, name)] == []


def test_the_front_has_at_most_sixty_names_and_each_is_in_a_chapter_too() -> None:
    assert len(treering.__all__) <= 60
    assert {name for name in treering.__all__ if name not in EVERYWHERE} == {"__version__"}
    both = {*treering.__all__} & {*EVERYWHERE}
    assert [name for name in both if getattr(treering, name) is not getattr(EVERYWHERE[name], name)] == []


def test_a_name_is_in_one_chapter() -> None:
    assert sum(len(chapter.__all__) for chapter in CHAPTERS) == len(EVERYWHERE)


def test_a_name_that_is_not_in_front_is_refused_with_its_chapter() -> None:
    for name in sorted({*EVERYWHERE} - {*treering.__all__}):
        where = f"from {EVERYWHERE[name].__name__} import {name}"
        with pytest.raises(ImportError, match=re.escape(where)):
            getattr(treering, name)
        with pytest.raises(ImportError, match=re.escape(where)):
            exec(f"from treering import {name}")  # noqa: S102  # as a program writes it


def test_a_name_that_exists_nowhere_is_refused_as_python_does() -> None:
    assert not hasattr(treering, "Sesion")
    with pytest.raises(ImportError, match="cannot import name 'Sesion' from 'treering'"):
        exec("from treering import Sesion")  # noqa: S102  # as a program writes it
    assert not hasattr(models, "OpenAIModell")


FIRST_IMPORT = """
import os, sys
for name in sys.argv[1:]:
    if not (child := os.fork()):
        exec(f"from {name} import *; import {name}")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def test_each_chapter_can_be_the_first_import() -> None:
    names = [chapter.__name__ for chapter in (treering, *CHAPTERS)]
    subprocess.run([sys.executable, "-c", FIRST_IMPORT, *names], check=True)


def loaded_by(code: str) -> set[str]:
    """Return which modules of treering are loaded once a new process has run some code, without the first name."""
    code += "; import sys; print(*(name[9:] for name in sys.modules if name.startswith('treering.')))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {*shown.stdout.split()}


def test_importing_the_front_loads_nothing_before_a_name_is_used() -> None:
    assert loaded_by("import treering; treering.__all__, treering.__version__, dir(treering)") == set()
    assert {each.split(".")[0] for each in loaded_by("from treering import NotFound")} == {"errors", "events"}
    rooms = {each.split(".")[0] for each in loaded_by("from treering import *")}
    assert rooms.isdisjoint({"cli", "models", "server", "remote", "testing", "mcp"})


def test_a_name_of_the_front_is_listed_before_it_is_loaded() -> None:
    assert {*treering.__all__} <= {*dir(treering)}


@pytest.mark.parametrize("chapter", [treering, *CHAPTERS, testing], ids=lambda it: it.__name__)
def test_a_chapter_has_a_guide_with_an_example(chapter: ModuleType) -> None:
    guide = inspect.getdoc(chapter) or ""
    summary, _, example = guide.partition("::\n\n")
    assert summary.partition("\n")[0].endswith(".")
    lines = [line for line in example.splitlines() if line.startswith("    ")]
    assert 3 <= len(lines) <= 12


@parametrized_by_chapter
def test_each_class_and_function_has_a_docstring(chapter: ModuleType) -> None:
    undocumented = [
        name
        for name in chapter.__all__
        if inspect.isroutine(thing := getattr(chapter, name)) or inspect.isclass(thing)
        if not thing.__doc__ or re.match(rf"{name}\(", thing.__doc__)  # the default docstring of a dataclass
    ]
    assert undocumented == []


def test_nothing_inside_imports_the_front_or_a_chapter_module() -> None:
    doors = {f"treering.{name}" for name in ("agents", "contexts", "entries", "errors", "sessions", "stores")}
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, treering.cli, treering.testing.models; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert doors & {*loaded} == set()


def test_defaults_of_parameters_have_a_short_repr() -> None:
    long = {
        f"{of.__name__}.{name}: {parameter}"
        for of in CALLED
        for name, member in inspect.getmembers(of, inspect.isfunction)
        for parameter in inspect.signature(member).parameters.values()
        if len(repr(parameter.default)) > 80
    }
    assert long == set()


def test_classes_in_type_hints_of_public_methods_are_public() -> None:
    public = [getattr(chapter, name) for name, chapter in EVERYWHERE.items()]
    known = {name: getattr(chapter, name) for name, chapter in EVERYWHERE.items()}
    hidden = {
        f"{of.__name__}.{name}: {each.__name__}"
        for of in CALLED
        for name, member in inspect.getmembers(of, inspect.isfunction)
        if not name.startswith("_") and name not in NOT_FOR_PROGRAMS
        for hint in get_type_hints(member, localns=known).values()
        for each in classes(hint)
        if each.__module__.startswith("treering.") and each not in public
    }
    assert hidden == set()


def classes(hint: object) -> Iterator[type]:
    """Yield the classes in a type hint."""
    origin, arguments = get_origin(hint), get_args(hint)
    for each in (*arguments, origin) if origin is not None else ():
        yield from classes(each)
    if isinstance(hint, list):
        for each in hint:
            yield from classes(each)
    elif isinstance(hint, type) and not arguments:
        yield hint
