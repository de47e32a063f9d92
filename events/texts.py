"""Texts: made safe to write, shortened to one line, and counts in words.

Half of a surrogate pair is not a character, and neither files nor providers accept it. Such halves come from file names
that are not UTF-8, and from text that was cut in the middle of a character.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TypeVar, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

T = TypeVar("T")

_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)

LINE_CHARS = 120
"""The length of a one-line preview of what is no message."""


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
        return Raw(whole_json(data))
    return raw


def whole_json(data: bytes) -> bytes:
    """Return JSON with every escaped half of a surrogate pair replaced by U+FFFD, and otherwise unchanged."""
    return _ESCAPE.sub(lambda found: "\ufffd".encode() if found[1] else found[0], data)


PREVIEW_CHARS_MAX = 200
"""The greatest length of a preview of the first message."""

TITLE_CHARS_MAX = 80
"""The greatest length of a title made from the first message."""

_JOINER = "\u200d"


def preview(text: str, chars_max: int = PREVIEW_CHARS_MAX) -> str:
    """Return the beginning of a text on one line; a cut is marked by an ellipsis and never splits a grapheme."""
    # Long pastes are common, so only a small multiple of the preview's length is processed: more only for much space.
    line = " ".join(text[: 2 * chars_max].split())
    if len(line) <= chars_max and len(text) > 2 * chars_max:
        line = " ".join(text[: 8 * chars_max].split())
    if len(line) <= chars_max:
        return line if len(text) <= 8 * chars_max else f"{line}…"
    end = chars_max - 1
    while end > 0 and (_continues(line[end]) or line[end - 1] == _JOINER):
        end -= 1
    return f"{line[:end].rstrip()}…"


def _continues(char: str) -> bool:
    """Return whether a character is displayed as part of the one before it."""
    return char == _JOINER or unicodedata.category(char).startswith("M") or "\U0001f3fb" <= char <= "\U0001f3ff"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def entries_counted(count: int) -> str:
    """Return a count of entries in words."""
    return "1 entry" if count == 1 else f"{count:,} entries"


def one_line(text: str, chars: int = LINE_CHARS) -> str:
    """Return the beginning of a text that is no message on one line; see `preview`."""
    return preview(text, chars)
