"""Text made safe to write: half of a surrogate pair is not a character, and neither files nor providers accept it.

Such halves come from file names that are not UTF-8, and from text that was cut in the middle of a character.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TypeVar, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from .errors import InvalidInput

T = TypeVar("T")


def is_text(name: str) -> bool:
    """Return whether a name is valid text; file names may be arbitrary bytes, which cannot be stored."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def check_text(name: str, value: object) -> None:
    """Refuse a value that cannot be stored as text; None is accepted.

    Args:
        name: The caller's name for it.
        value: The value.

    Raises:
        InvalidInput: It is not a string, or contains bytes that are not UTF-8.
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is of type `{type(value).__name__}`: give a string")
    if not is_text(value):
        raise InvalidInput(f"{name} is {value!r}, which is not valid text: leave out what is not UTF-8")


def whole_text(text: str) -> str:
    """Return a text with each unpaired half of a surrogate pair replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def why_unwritable(error: Exception) -> str:
    """Return why a value cannot be written as JSON and, where the cause is half a character, how to avoid it."""
    if isinstance(error, UnicodeEncodeError):
        half = error.object[error.start]
        return f"{half!r} is half a character: give valid Unicode, such as bytes decoded with errors='replace'"
    return str(error)


def whole(value: T) -> T:
    """Apply `whole_text` to every text in a value: a text, a struct, raw JSON, or decoded JSON."""
    result: object = value
    if isinstance(value, str):
        result = whole_text(value)
    elif isinstance(value, tuple):
        result = tuple(map(whole, cast("tuple[object, ...]", value)))
    elif isinstance(value, list):
        result = list(map(whole, cast("list[object]", value)))
    elif isinstance(value, dict):
        pairs = cast("dict[object, object]", value)
        result = {whole(key): whole(each) for key, each in pairs.items()}
    elif isinstance(value, Raw):
        result = _whole_raw(value)
    elif isinstance(value, Struct):
        result = replace(value, **{name: whole(getattr(value, name)) for name in value.__struct_fields__})
    return cast("T", result)  # every branch keeps the type


def _whole_raw(raw: Raw) -> Raw:
    """Return JSON unchanged where it can be decoded, otherwise with its escaped surrogate halves as U+FFFD."""
    data = bytes(raw)
    if b"\\u" not in data:
        return raw
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError:
        with suppress(ValueError):  # invalid for another reason, which the reader reports
            return Raw(whole_json(data))
    return raw


def whole_json(data: bytes) -> bytes:
    """Return JSON with every escaped half of a surrogate pair replaced by U+FFFD.

    Raises:
        ValueError: `data` is not JSON.
    """
    return whole_text(json.dumps(json.loads(data), ensure_ascii=False)).encode()
