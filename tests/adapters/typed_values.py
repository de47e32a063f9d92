"""Values of a framework's typed dicts, made from their annotations: a new kind or field is tried without work."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict  # for typed dicts of both modules

Value = dict[str, object]


def values_of(kind: object) -> Iterator[Value]:
    """Yield, for each typed dict in a union, a value with all its keys, and one with only those that it requires."""
    for each in members(kind):
        yield _dict(each, itertools.count(), whole=True)
        yield _dict(each, itertools.count(), whole=False)


def members(kind: object) -> list[Any]:
    """Return the typed dicts of a union."""
    kind = _plain(kind)
    return [kind] if is_typeddict(kind) else [each for part in get_args(kind) for each in members(part)]


def _dict(kind: Any, numbers: Iterator[int], *, whole: bool) -> Value:  # noqa: ANN401  # a typed dict
    hints = get_type_hints(kind, include_extras=False)
    names = hints if whole else [name for name in hints if name in kind.__required_keys__]
    return {name: _value(hints[name], numbers, whole=whole) for name in names}


def _value(kind: object, numbers: Iterator[int], *, whole: bool) -> object:
    kind = _plain(kind)
    origin, args = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        return _dict(kind, numbers, whole=whole)
    if origin is Literal:
        return args[0]
    if origin in (Union, UnionType):
        return _value(next(each for each in args if each is not NoneType), numbers, whole=whole)
    if origin is dict or kind is dict:
        return {"a": 1}
    if origin is not None and issubclass(origin, Iterable):  # lists, iterables, sequences
        return [_value(args[0], numbers, whole=whole)]
    return {int: next(numbers), float: 0.5, bool: True, NoneType: None}.get(kind, f"text {next(numbers)}")


def _plain(kind: Any) -> Any:  # noqa: ANN401  # annotations have no common type
    while get_origin(kind) in (Required, NotRequired, Annotated):
        kind = get_args(kind)[0]
    return kind
