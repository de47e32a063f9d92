"""`import treering` shows what `__all__` says: no more, no less, all of it explained."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import get_args, get_origin, get_type_hints

import treering

CALLED = (
    treering.SessionHost,
    treering.Session,
    treering.KeyedSessions,
    treering.AgentSession,
    treering.SyncHost,
    treering.SyncSession,
    treering.SyncKeyedSessions,
    treering.ContextBuilder,
)
"""What programs call."""
NOT_FOR_PROGRAMS = {"core", "log", "twin", "copy", "bridge"}


def shelf(name: str) -> tuple[bool, bool, str]:
    """Constants, then classes, then functions, each in the order of the alphabet, as ruff has it."""
    return not name.isupper(), not name[0].isupper(), name


def test_all_is_sorted_and_says_nothing_twice() -> None:
    assert list(treering.__all__) == sorted(set(treering.__all__), key=shelf)


def test_all_is_what_can_be_seen() -> None:
    seen = {
        name
        for name, value in vars(treering).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and type(value).__module__ != "__future__"
    }
    assert set(treering.__all__) - {"__version__"} == seen


def test_each_class_and_function_has_a_docstring() -> None:
    silent = [
        name
        for name in treering.__all__
        if inspect.isroutine(thing := getattr(treering, name)) or inspect.isclass(thing)
        if not thing.__doc__ or re.match(rf"{name}\(", thing.__doc__)  # the one that dataclass makes up
    ]
    assert silent == []


def test_help_shows_defaults_that_can_be_read() -> None:
    long = {
        f"{of.__name__}.{name}: {parameter}"
        for of in CALLED
        for name, member in inspect.getmembers(of, inspect.isfunction)
        for parameter in inspect.signature(member).parameters.values()
        if len(repr(parameter.default)) > 80
    }
    assert long == set()


def test_what_programs_give_and_get_can_be_named() -> None:
    public = [getattr(treering, name) for name in treering.__all__]
    hidden = {
        f"{of.__name__}.{name}: {each.__name__}"
        for of in CALLED
        for name, member in inspect.getmembers(of, inspect.isfunction)
        if not name.startswith("_") and name not in NOT_FOR_PROGRAMS
        for hint in get_type_hints(member, localns=vars(treering)).values()
        for each in classes(hint)
        if each.__module__.startswith("treering.") and each not in public
    }
    assert hidden == set()


def classes(hint: object) -> Iterator[type]:
    """Yield the classes of which a type is made."""
    origin, arguments = get_origin(hint), get_args(hint)
    for each in (*arguments, origin) if origin is not None else ():
        yield from classes(each)
    if isinstance(hint, list):
        for each in hint:
            yield from classes(each)
    elif isinstance(hint, type) and not arguments:
        yield hint
