"""Free-form JSON: kept as raw bytes, and decoded afresh for every caller.

So a value can be shared, but not changed. Nothing here knows what a value is for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec
from msgspec import MsgspecError, Raw, Struct

from .errors import InvalidEntry
from .texts import why_unwritable

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"
"""Any JSON value, as the standard library decodes it."""

if TYPE_CHECKING:
    MaybeRaw: TypeAlias = Raw | None
else:
    MaybeRaw = Raw  # msgspec decodes a union of Raw and None only from null, and never checks a default
"""The type of a field that holds raw JSON and defaults to None."""

UNDECODABLE = (MsgspecError, UnicodeDecodeError, RecursionError)
"""Not JSON, or of another shape; a key or a string that is not UTF-8; nested too deeply."""


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    return plain_str(value)


def plain_str(value: object) -> str:
    """Return an instance of a `str` subclass as a plain `str`: the hook that encoders call for types they do not know.

    Raises:
        TypeError: The value is not a string.
    """
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"values of type `{type(value).__name__}` have no JSON form")


_encode_quickly = msgspec.json.Encoder(enc_hook=_plain).encode
_encode_strictly = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode


NESTING_MAX = 256
"""How deep a JSON value may be nested. Beyond some depth decoders exhaust the stack; which depends on their caller."""

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]").finditer


def raw_json(value: object) -> Raw:
    """Encode a JSON value once, so that it can be kept and shared but not changed.

    Tuples become lists; raw JSON is returned unchanged.

    Raises:
        InvalidEntry: The value has no JSON form (a set, an object, a NaN), or is nested deeper than `NESTING_MAX`.
    """
    if isinstance(value, Raw):
        _check_nesting(bytes(value))
        return value
    try:
        encoded = _encode_quickly(value)
        # msgspec writes a set as a list, bytes as base64, a NaN as null: the value would not survive a round trip.
        if msgspec.json.decode(encoded) != value:
            encoded = _encode_strictly(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEntry(f"this value cannot be written as JSON: {why_unwritable(error)}") from error
    _check_nesting(encoded)
    return Raw(encoded)


def raw_object(value: object, name: str) -> Raw:
    """Encode a JSON object once; see `raw_json`.

    Args:
        value: A mapping, or the raw JSON of an object.
        name: What the value is called in the error message.

    Raises:
        InvalidEntry: The value is not an object, or holds something that has no JSON form.
    """
    if isinstance(value, Raw):
        require_object(value, name)
    elif not isinstance(value, Mapping):
        raise InvalidEntry(f"Expected `object`, got `{type(value).__name__}` - as {name}: give a dict with str keys")
    return raw_json(cast("object", value))


def _check_nesting(encoded: bytes) -> None:
    """Refuse JSON that a reader could not decode when its own stack is already deep.

    Raises:
        InvalidEntry: The JSON is nested deeper than `NESTING_MAX`.
    """
    if encoded.count(b"[") + encoded.count(b"{") <= NESTING_MAX:
        return
    depth = 0
    for bracket in _BRACKETS(_STRINGS.sub(b"", encoded)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > NESTING_MAX:
            raise InvalidEntry(f"this value is nested deeper than {NESTING_MAX} levels: flatten it, or keep it as text")


def json_value(raw: Raw) -> JSON:
    """Decode raw JSON afresh, so that the caller may change the result."""
    try:
        value: JSON = msgspec.json.decode(raw)
    except ValueError:  # a number too large for a float, or bytes that are not UTF-8: lines are not checked for these
        value = json.loads(bytes(raw).decode(errors="replace"))
    return value


def json_object(raw: Raw) -> dict[str, JSON]:
    """Decode a raw JSON object afresh; anything else counts as an empty object."""
    value = json_value(raw)
    return value if isinstance(value, dict) else {}


def json_text(value: JSON) -> str:
    """Return a value as JSON, with the keys of its objects in order: the same text for equal values."""
    return msgspec.json.encode(value, order="deterministic").decode()


def same_json(one: JSON, other: JSON) -> bool:
    """Return whether two values are equal, with numbers and booleans told apart."""
    return json_text(one) == json_text(other)


def require_object(raw: Raw, name: str) -> None:
    if not bytes(raw).lstrip().startswith(b"{"):
        raise InvalidEntry(f"Expected `object` at `{name}`")


def shown(self: Struct) -> str:
    """Return a struct's repr that shows raw JSON as text, under its public name: `__repr__ = shown`.

    Defaults are left out if the struct has `repr_omit_defaults`.
    """
    fields = ", ".join(_field(*each) for each in self.__rich_repr__())
    return f"{type(self).__name__}({fields})"


def _field(name: str, value: object) -> str:
    if not isinstance(value, Raw):
        return f"{name}={value!r}"
    return f"{name.removeprefix('raw_')}={bytes(value).decode('utf-8', 'replace')}"
