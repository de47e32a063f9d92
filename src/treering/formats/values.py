"""Reading values of other programs' JSON without trusting their types.

A field of an unexpected type is read as absent, so that one odd field does not cost the whole message. A value that is
nested too deeply to be stored is replaced by its JSON text. `salvaged` does the same for the fields of a struct.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from types import UnionType
from typing import TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..events.dialects.base import in_utc
from ..events.entries import EPOCH
from ..events.errors import InvalidEntry
from ..events.json_values import JSON, NESTING_MAX, raw_json

Object: TypeAlias = dict[str, JSON]
"""A JSON object."""


def as_object(value: JSON) -> Object:
    """Return `value` if it is an object, otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: JSON) -> list[JSON]:
    """Return `value` if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def as_objects(value: JSON) -> list[Object]:
    """Return the objects in a list and ignore its other items; return [] if `value` is not a list."""
    return [each for each in as_list(value) if isinstance(each, dict)]


def as_text(value: JSON) -> str:
    """Return `value` if it is a string, otherwise the empty string."""
    return value if isinstance(value, str) else ""


def as_count(value: JSON) -> int:
    """Return `value` as a count: a whole number, or 0 if it is negative or not a number."""
    number = as_number(value)
    return 0 if number is None or number < 0 else int(number)


def as_number(value: JSON) -> float | None:
    """Return `value` if it is a finite number, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < 1e300 else None


def as_time(value: JSON) -> datetime | None:
    """Return the UTC time given by ISO text or by milliseconds since the epoch; None if `value` is neither."""
    if isinstance(value, str):
        try:
            return in_utc(msgspec.convert(value, datetime))
        except msgspec.ValidationError:
            return None
    number = as_number(value)
    if number is None:
        return None
    try:
        return EPOCH + timedelta(milliseconds=number)
    except OverflowError:
        return None


def as_arguments(value: JSON) -> Raw:
    """Return the arguments of a call, given as an object or as the JSON text of one.

    Any other value becomes the only member of an object, named `input`; null and the empty text become an empty object.
    """
    decoded: JSON = value
    if isinstance(value, str):
        try:
            decoded = msgspec.json.decode(value or "{}")
        except (ValueError, RecursionError):
            decoded = value
    if decoded is None:
        return Raw(b"{}")
    arguments: Object = decoded if isinstance(decoded, dict) else {"input": value}
    return kept_json(arguments)


def as_json_text(value: JSON) -> str:
    """Return a string unchanged, and any other value as JSON text, at any depth of nesting."""
    if isinstance(value, str):
        return value
    try:
        return bytes(raw_json(value)).decode()
    except InvalidEntry:
        return _deep_json(value)


def as_words(value: JSON) -> str:
    """Return a string unchanged, null as the empty text, and any other value as JSON text: no words are lost."""
    return "" if value is None else as_json_text(value)


def as_items(value: JSON) -> list[JSON]:
    """Return `value` if it is a list, nothing for null and the empty text, and otherwise a list of the value alone."""
    return value if isinstance(value, list) else [] if value in (None, "") else [value]


def kept_json(value: Object, levels: int = 1) -> Raw:
    """Encode an object for storage; parts of it that are nested too deeply become text, see `shallow`."""
    try:
        return raw_json(value)
    except InvalidEntry:
        return raw_json(shallow(value, levels))


def shallow(value: JSON, levels: int, room: int = NESTING_MAX) -> JSON:
    """Return a value that is not nested too deeply to be stored: parts that are become their JSON text.

    Args:
        value: The value.
        levels: How many levels below `value` to look for such parts: at 1, its members or items.
        room: The maximum nesting depth.
    """
    if _depth(value) <= room:
        return value
    if levels and isinstance(value, dict):
        return {name: shallow(each, levels - 1, room - 1) for name, each in value.items()}
    if levels and isinstance(value, list):
        return [shallow(each, levels - 1, room - 1) for each in value]
    return _deep_json(value)


def _depth(value: JSON) -> int:
    depth, level = 0, _containers([value])
    while level:
        depth += 1
        level = [inner for each in level for inner in _containers(each.values() if isinstance(each, dict) else each)]
    return depth


def _containers(values: Iterable[JSON]) -> list[Object | list[JSON]]:
    return [each for each in values if isinstance(each, (dict, list))]


def _deep_json(value: JSON) -> str:
    """Encode a value of any nesting depth as JSON text.

    Recursive encoders fail when the stack runs out, at a depth that depends on the caller's own depth.
    """
    chunks: list[str] = []
    pending: list[JSON | tuple[str]] = [value]  # a stack; literal text is wrapped in a tuple
    while pending:
        each = pending.pop()
        if isinstance(each, tuple):
            chunks += each
        elif isinstance(each, dict):
            chunks.append("{")
            pending.append(("}",))
            for position, (name, member) in enumerate(reversed(each.items())):
                pending += [(",",)] if position else []
                pending += [member, (f"{json.dumps(name, ensure_ascii=False)}:",)]
        elif isinstance(each, list):
            chunks.append("[")
            pending.append(("]",))
            for position, item in enumerate(reversed(each)):
                pending += [(",",), item] if position else [item]
        else:
            chunks.append(json.dumps(each, ensure_ascii=False))
    return "".join(chunks)


def iso(time: datetime) -> str:
    """Format a time as RFC 3339 text in UTC, to the microsecond."""
    return in_utc(time).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def salvaged(value: Object, kind: type[Struct]) -> Object:
    """Return `value` without the fields and list items that would keep it from being converted to `kind`."""
    parts = ((name, _usable_part(value[name], hint)) for name, hint in _fields(kind) if name in value)
    return {name: part for name, part in parts if not isinstance(part, UnsetType)}


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
