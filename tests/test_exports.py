"""`import treering` shows what `__all__` says: no more, no less, all of it explained."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

import treering


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
