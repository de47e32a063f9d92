"""One way to say a thing: the public signatures name durations, paths, words and options alike."""

import inspect
import os
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from treering import agents, sessions, stores

from .test_exports import EVERYWHERE

KNOWN = {name: getattr(chapter, name) for name, chapter in EVERYWHERE.items()}

IN_ORDER = {
    "add_message": "a key before what `append_message` takes",
    "append_compaction": "the order of its fields in a line",
    "append_tool_execution": "the order of its fields in a line",
    "build": "called by the library, with all of them",
    "calculate_budget": "the parts of a request in their order",
    "offered": "called by stores, with all of them",
    "summary_for_range": "what it reads, and how",
    "tool_use": "the order of its fields in a line",
    "Where": "file:line:byte, as it is written",
}
"""Callables that take more than two arguments by position, and why; the methods of stores are called by the library."""

WORDS = ("backend", "dialect", "durability", "mode", "writes")
"""Arguments that take one of a few words. Not among them, since programs add words of their own: the format of an
import, the kind of a usage, the level of thinking, the role of a message, the status of a session."""

FLOATS = ("duration_ms", "min_gain", "target_ratio", "trigger", "value")
"""Numbers that are no durations, and one that keeps the unit of its field in a line."""

PATHS = ("path", "root", "cwd", "directory", "folder", "destination", "project")
"""Arguments that name something in the file system."""

TEXTS = {
    "ContextSource.of": "the project's path is shown to the model",
    "Where": "a place as it is written",
    "detect": "the name of a log in errors",
}
"""Callables whose paths are texts, and why."""


def callables() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield what programs call: functions, classes that are no records, and methods, by their qualified names."""
    for name, value in KNOWN.items():
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            if "__init__" in vars(value) and not issubclass(value, Struct):
                yield name, value.__init__
            for member in sorted({each for base in value.__mro__ if is_ours(base) for each in vars(base)}):
                raw = inspect.getattr_static(value, member)
                of = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
                if member[0] != "_" and inspect.isfunction(of):
                    yield f"{name}.{member}", of


def is_ours(of: type) -> bool:
    return of.__module__.startswith("treering.")


CALLABLES = dict(callables())
INTERNAL = {"Session.log", "KeyedSessions.core", "SessionHost.core"}


def parameters(of: Callable[..., object]) -> list[inspect.Parameter]:
    return [each for each in inspect.signature(of).parameters.values() if each.name not in ("self", "cls")]


def hints() -> Iterator[tuple[str, str, set[object]]]:
    """Yield each argument of each callable with the types that it may have."""
    for name in CALLABLES.keys() - INTERNAL:
        found = get_type_hints(CALLABLES[name], localns=KNOWN)
        yield from ((name, each, types_in(hint)) for each, hint in found.items() if each != "return")


def types_in(hint: object) -> set[object]:
    is_union = get_origin(hint) in (Union, UnionType)
    return {each for part in get_args(hint) for each in types_in(part)} if is_union else {hint}


def test_the_walk_finds_functions_classes_and_methods() -> None:
    assert {"calculate_budget", "SessionHost", "Session.append_message", "SyncSession.tree", "Tool.of"} <= {*CALLABLES}


def test_arguments_beyond_two_are_named() -> None:
    positional = {
        name: [each.name for each in parameters(of) if each.kind is each.POSITIONAL_OR_KEYWORD]
        for name, of in CALLABLES.items()
        if name.partition(".")[0] not in stores.__all__ and name.rpartition(".")[2] not in IN_ORDER
    }
    assert {name: given for name, given in positional.items() if len(given) > 2} == {}


def test_durations_are_in_seconds_and_say_so() -> None:
    assert {
        f"{name}: {each}"
        for name, each, types in hints()
        if float in types and not each.endswith("_s") and each not in FLOATS
    } == set()


def test_a_path_may_be_a_string_or_a_path() -> None:
    assert {
        f"{name}: {each}"
        for name, each, types in hints()
        if each in PATHS and not {str, os.PathLike[str]} <= types and name not in TEXTS
    } == set()


def test_a_word_of_a_closed_list_is_a_literal() -> None:
    assert {f"{name}: {each}" for name, each, types in hints() if each in WORDS and str in types} == set()


def test_the_fields_of_options_name_their_units() -> None:
    assert {
        f"{of.__name__}.{field}"
        for of in (sessions.Limits, sessions.Settings, agents.AgentOptions)
        for field, hint in get_type_hints(of).items()
        if float in types_in(hint) and not field.endswith(("_s", "_share"))
    } == set()
