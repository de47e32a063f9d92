"""Text that can be written: half of a surrogate pair is no character, so that no file and no provider can hold it.

Such halves come of names of files that are no UTF-8, and of texts that were cut in the middle of a character.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TypeVar, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

T = TypeVar("T")


def whole_text(said: str) -> str:
    """Return a text with U+FFFD in the place of each half of a surrogate pair that stands alone."""
    try:
        said.encode()
    except UnicodeEncodeError:
        return said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return said


def why_unwritable(error: Exception) -> str:
    """Say why something cannot be written as JSON; where that is half a character, how to get whole ones."""
    if isinstance(error, UnicodeEncodeError):
        half = error.object[error.start]
        return f"{half!r} is half a character: give valid Unicode, such as bytes decoded with errors='replace'"
    return str(error)


def whole(value: T) -> T:
    """Return a value with all the texts in it as `whole_text` has them: a text, a struct, what JSON is decoded to."""
    made: object = value
    if isinstance(value, str):
        made = whole_text(value)
    elif isinstance(value, tuple):
        made = tuple(map(whole, cast("tuple[object, ...]", value)))
    elif isinstance(value, list):
        made = list(map(whole, cast("list[object]", value)))
    elif isinstance(value, dict):
        pairs = cast("dict[object, object]", value)
        made = {whole(key): whole(each) for key, each in pairs.items()}
    elif isinstance(value, Raw):
        made = _whole_raw(value)
    elif isinstance(value, Struct):
        made = replace(value, **{name: whole(getattr(value, name)) for name in value.__struct_fields__})
    return cast("T", made)  # of the same type, as each branch has it


def _whole_raw(raw: Raw) -> Raw:
    """Return JSON as it is where it can be decoded, or else with U+FFFD for the halves that it escapes."""
    data = bytes(raw)
    if b"\\u" not in data:
        return raw
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError:
        with suppress(ValueError):  # it is no JSON for another reason, which whoever reads it tells of
            return Raw(whole_json(data))
    return raw


def whole_json(data: bytes) -> bytes:
    """Return JSON whose texts hold no escaped half of a surrogate pair.

    Raises:
        ValueError: It is no JSON.
    """
    return whole_text(json.dumps(json.loads(data), ensure_ascii=False)).encode()
