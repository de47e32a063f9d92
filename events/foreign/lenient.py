"""Saving what can be saved of an object whose fields are not all of the types that they should be."""

from __future__ import annotations

from functools import lru_cache
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..content import JSON
from .values import Object


def salvaged(value: Object, kind: type[Struct]) -> Object:
    """Return an object without what would keep it from being a `kind`: odd fields, and odd items of lists."""
    fitting: Object = {}
    for name, hint in _fields(kind):
        if name in value:
            fit = _fit(value[name], hint)
            if not isinstance(fit, UnsetType):
                fitting[name] = fit
    return fitting


@lru_cache
def _fields(kind: type[Struct]) -> tuple[tuple[str, object], ...]:
    hints = get_type_hints(kind)
    return tuple((each.encode_name, hints[each.name]) for each in msgspec.structs.fields(kind))


def _fit(value: JSON, hint: object) -> JSON | UnsetType:
    for option in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        if option is Raw:
            return value
        if isinstance(option, type) and issubclass(option, Struct):
            if isinstance(value, dict):
                return salvaged(value, option)
        elif get_origin(option) is list:
            if isinstance(value, list):
                (item,) = get_args(option)
                fitted = (_fit(each, item) for each in value)
                return [each for each in fitted if not isinstance(each, UnsetType)]
        else:
            try:
                msgspec.convert(value, option)
            except msgspec.ValidationError:
                continue
            return value
    return UNSET
