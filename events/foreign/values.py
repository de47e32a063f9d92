"""Values of other programs' JSON, taken for what they are meant to be and never believed to be it.

A field of another type than its program writes is read as absent, so that one odd field does not cost the message that
it stands in.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ..content import JSON, raw_json
from ..dialects.native import in_utc
from ..entries import EPOCH

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
    return raw_json(arguments)


def as_json_text(value: JSON) -> str:
    """Return a string as it is, and any other value as JSON."""
    return value if isinstance(value, str) else bytes(raw_json(value)).decode()


def iso(time: datetime) -> str:
    """Write a time as RFC 3339 text in UTC, to the microsecond."""
    return in_utc(time).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
