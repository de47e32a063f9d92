"""Recovering the usable fields of an object whose other fields have unexpected types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..events.json_values import JSON
from .values import Object


def salvaged(value: Object, kind: type[Struct]) -> Object:
    """Return `value` without the fields and list items that would keep it from being converted to `kind`."""
    usable: Object = {}
    for name, hint in _fields(kind):
        if name in value:
            usable_value = _usable_part(value[name], hint)
            if not isinstance(usable_value, UnsetType):
                usable[name] = usable_value
    return usable


def dropped(value: Object, kind: type[Struct]) -> Iterator[tuple[str, JSON]]:
    """Yield what `salvaged` leaves out of the fields of `kind`: the name of its field, and the value or list item."""
    for name, hint in _fields(kind):
        for unusable in _unusable_parts(value[name], hint) if value.get(name) is not None else ():
            if isinstance(unusable, tuple):
                yield unusable
            else:
                yield name, unusable


def _unusable_parts(value: JSON, hint: object) -> Iterator[JSON | tuple[str, JSON]]:
    """Yield a value that cannot be used, or what cannot be used within it; with the name of the field if it has one."""
    if isinstance(_usable_part(value, hint), UnsetType):
        yield value
        return
    for option in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        if isinstance(option, type) and issubclass(option, Struct) and isinstance(value, dict):
            yield from dropped(value, option)
        elif get_origin(option) is list and isinstance(value, list):
            (item,) = get_args(option)
            for each in value:
                yield from _unusable_parts(each, item)


@lru_cache
def _fields(kind: type[Struct]) -> tuple[tuple[str, object], ...]:
    hints = get_type_hints(kind)
    return tuple((each.encode_name, hints[each.name]) for each in msgspec.structs.fields(kind))


def _usable_part(value: JSON, hint: object) -> JSON | UnsetType:
    for option in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        if option is Raw:
            return value
        if isinstance(option, type) and issubclass(option, Struct):
            if isinstance(value, dict):
                return salvaged(value, option)
        elif get_origin(option) is list:
            if isinstance(value, list):
                (item,) = get_args(option)
                usable_items = (_usable_part(each, item) for each in value)
                return [each for each in usable_items if not isinstance(each, UnsetType)]
        else:
            try:
                msgspec.convert(value, option)
            except msgspec.ValidationError:
                continue
            return value
    return UNSET
