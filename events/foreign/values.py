"""Values of other programs' JSON, taken for what they are meant to be and never believed to be it.

A field of another type than its program writes is read as absent, so that one odd field does not cost the message that
it stands in. A value that is nested too deeply to be kept stands as its JSON text where it stood.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ..content import JSON, NESTING_MAX, raw_json
from ..dialects.native import in_utc
from ..entries import EPOCH
from ..errors import InvalidEntry

Object: TypeAlias = dict[str, JSON]
"""A JSON object."""


def as_object(value: JSON) -> Object:
    """Return an object, an empty one where the value is none."""
    return value if isinstance(value, dict) else {}


def as_list(value: JSON) -> list[JSON]:
    """Return a list, an empty one where the value is none."""
    return value if isinstance(value, list) else []


def as_objects(value: JSON) -> list[Object]:
    """Return the objects of a list, leaving out everything else in it."""
    return [each for each in as_list(value) if isinstance(each, dict)]


def as_text(value: JSON) -> str:
    """Return a string, the empty one where the value is none."""
    return value if isinstance(value, str) else ""


def as_count(value: JSON) -> int:
    """Return a number of things, 0 where the value is none."""
    number = as_number(value)
    return 0 if number is None or number < 0 else int(number)


def as_number(value: JSON) -> float | None:
    """Return a finite number, None where the value is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < 1e300 else None


def as_time(value: JSON) -> datetime | None:
    """Return a time, ISO text or milliseconds since the epoch, in UTC; None where the value is neither."""
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
    """Return the arguments of a call, which may be an object, or a text that holds one.

    Anything else becomes the one member `input` of an object; nothing at all becomes an empty one.
    """
    given: JSON = value
    if isinstance(value, str):
        try:
            given = msgspec.json.decode(value or "{}")
        except (ValueError, RecursionError):
            given = value
    if given is None:
        return Raw(b"{}")
    arguments: Object = given if isinstance(given, dict) else {"input": value}
    return kept_json(arguments)


def as_json_text(value: JSON) -> str:
    """Return a string as it is, and any other value as JSON, however deep it is nested."""
    if isinstance(value, str):
        return value
    try:
        return bytes(raw_json(value)).decode()
    except InvalidEntry:
        return _written(value)


def kept_json(value: Object, levels: int = 1) -> Raw:
    """Encode an object, so that it can be kept as it is; what is nested too deeply in it becomes text, see `shallow`."""
    try:
        return raw_json(value)
    except InvalidEntry:
        return raw_json(shallow(value, levels))


def shallow(value: JSON, levels: int, room: int = NESTING_MAX) -> JSON:
    """Return a value that is nested no deeper than can be kept: a part of it that is stands as its JSON text.

    Args:
        value: The value.
        levels: How far below it that part may be looked for: at 1 it is a member, or an item.
        room: How deep it may be nested.
    """
    if _depth(value) <= room:
        return value
    if levels and isinstance(value, dict):
        return {name: shallow(each, levels - 1, room - 1) for name, each in value.items()}
    if levels and isinstance(value, list):
        return [shallow(each, levels - 1, room - 1) for each in value]
    return _written(value)


def _depth(value: JSON) -> int:
    depth, level = 0, _containers([value])
    while level:
        depth += 1
        level = [inner for each in level for inner in _containers(each.values() if isinstance(each, dict) else each)]
    return depth


def _containers(values: Iterable[JSON]) -> list[Object | list[JSON]]:
    return [each for each in values if isinstance(each, (dict, list))]


def _written(value: JSON) -> str:
    """Write JSON, however deep it is nested; encoders give up where the stack ends, wherever their caller stands on it."""
    written: list[str] = []
    waiting: list[JSON | tuple[str]] = [value]  # the next one last; what is written as it is stands in a tuple
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            written += each
        elif isinstance(each, dict):
            written.append("{")
            waiting.append(("}",))
            for position, (name, member) in enumerate(reversed(each.items())):
                waiting += [(",",)] if position else []
                waiting += [member, (f"{json.dumps(name, ensure_ascii=False)}:",)]
        elif isinstance(each, list):
            written.append("[")
            waiting.append(("]",))
            for position, item in enumerate(reversed(each)):
                waiting += [(",",), item] if position else [item]
        else:
            written.append(json.dumps(each, ensure_ascii=False))
    return "".join(written)


def iso(time: datetime) -> str:
    """Write a time as RFC 3339 text in UTC, to the microsecond."""
    return in_utc(time).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
