"""The public names of `treering`: equal to `__all__`, documented, and sufficient for type hints."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import get_args, get_origin, get_type_hints

import treering
import treering.sync

CALLED = (
    treering.SessionHost,
    treering.Session,
    treering.KeyedSessions,
    treering.AgentSession,
    treering.SyncHost,
    treering.SyncSession,
    treering.sync.SyncKeyedSessions,
    treering.ContextBuilder,
)
"""Classes whose methods programs call."""
NOT_FOR_PROGRAMS = {"core", "log", "twin", "copy", "bridge"}


def sort_key(name: str) -> tuple[bool, bool, str]:
    """Constants, then classes, then functions, each in alphabetical order, as ruff sorts them."""
    return not name.isupper(), not name[0].isupper(), name


def test_all_is_sorted_and_has_no_duplicates() -> None:
    assert list(treering.__all__) == sorted(set(treering.__all__), key=sort_key)


def test_all_lists_exactly_the_public_names() -> None:
    seen = {
        name
        for name, value in vars(treering).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and type(value).__module__ != "__future__"
    }
    assert set(treering.__all__) - {"__version__"} == seen


def test_each_class_and_function_has_a_docstring() -> None:
    undocumented = [
        name
        for name in treering.__all__
        if inspect.isroutine(thing := getattr(treering, name)) or inspect.isclass(thing)
        if not thing.__doc__ or re.match(rf"{name}\(", thing.__doc__)  # the default docstring of a dataclass
    ]
    assert undocumented == []


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
    """Yield the classes in a type hint."""
    origin, arguments = get_origin(hint), get_args(hint)
    for each in (*arguments, origin) if origin is not None else ():
        yield from classes(each)
    if isinstance(hint, list):
        for each in hint:
            yield from classes(each)
    elif isinstance(hint, type) and not arguments:
        yield hint
