"""The beginnings of headers, as a crash in the middle of a session's first write leaves them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from ..entries import NATIVE_VERSION

TORN_HEADER_MAX = 64 * 1024
"""The size in bytes from which a file is not taken for the beginning of a header."""

_PI_VERSION = 3
_Field: TypeAlias = tuple[bytes, "re.Pattern[bytes]"]
"""What stands before a value, and the value, which may be cut at its end."""

_STRING = re.compile(rb'"(?:[^"\\\n]|\\.)*(?:"|\\?\Z)')
_OBJECT = re.compile(rb'\{(?:[^"{}\n]|"(?:[^"\\\n]|\\.)*(?:"|\\?\Z))*(?:\}|\Z)')


def _strings(*names: bytes) -> tuple[_Field, ...]:
    return tuple((b',"%s":' % name, _STRING) for name in names)


_NATIVE: tuple[_Field, ...] = (
    (b'{"type":"session","id":', _STRING),
    (b',"version":%d,"timestamp":' % NATIVE_VERSION, _STRING),
)
_PI: tuple[_Field, ...] = ((b'{"type":"session","version":%d,"id":' % _PI_VERSION, _STRING), *_strings(b"timestamp"))
_SLOT: tuple[_Field, ...] = ((b'{"type":"title","v":1,"title":', _STRING), *_strings(b"source", b"updatedAt", b"pad"))
_OMP: tuple[_Field, ...] = (*_SLOT, (b"}\n" + _PI[0][0], _STRING), *_PI[1:])
_NATIVE_OPTIONAL = _strings(b"cwd", b"parent_session", b"parent_entry", b"key", b"title")
_PI_OPTIONAL: tuple[_Field, ...] = (*_strings(b"cwd", b"parentSession"), (b',"treering":', _OBJECT))


def is_torn_header(data: bytes) -> bool:
    """Tell whether a file's content is the beginning of a header as treering writes it, and nothing else.

    A file system may leave zeros after it.
    """
    begun = data.rstrip(b"\0")
    return bool(begun) and (
        _begins(begun, _NATIVE, _NATIVE_OPTIONAL)
        or _begins(begun, _PI, _PI_OPTIONAL)
        or _begins(begun, _OMP, _PI_OPTIONAL)
    )


def _begins(data: bytes, fields: Sequence[_Field], optional: Sequence[_Field]) -> bool:
    """Tell whether data ends within these fields, or after any of those that may follow."""
    for number, (before, value) in enumerate((*fields, *optional)):
        if before.startswith(data):
            return True
        if data.startswith(before):
            found = value.match(data, len(before))
            if found is None:
                return False
            data = data[found.end() :]
        elif number < len(fields):
            return False
    return not data
