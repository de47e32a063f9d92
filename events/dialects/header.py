"""The beginnings of files: oh-my-pi's title slot, and headers that a crash in the middle of a first write left torn.

The slot is a line of a fixed size in front of the header, so that the title can be changed in place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Raw, Struct
from msgspec.json import Decoder

from ..entries import NATIVE_VERSION
from .base import attempt, encode_json, well_formed

SLOT_SIZE = 256
"""The size of the title slot in bytes, its newline included."""

_LONGEST_ESCAPE = 6  # in a slot with less padding than this, the title may have been cut


class TitleSlot(Struct, kw_only=True, rename="camel"):
    """The line in front of the header."""

    type: Literal["title"]  # a field, not a tag, since msgspec permits a tag to be absent
    v: int = 1
    title: str | None = None
    source: str | None = None
    updated_at: str | None = None
    pad: str | None = None

    def is_cut_of(self, title: str | None) -> bool:
        """Return whether the slot holds only the beginning of this title for lack of room."""
        return len(self.pad or "") < _LONGEST_ESCAPE and (title or "").startswith(self.title or "")


_as_slot: Callable[[bytes | Raw], TitleSlot] = Decoder(TitleSlot).decode


def read_slot(line: bytes) -> TitleSlot | None:
    """Decode a title slot of any size, or return None if the line is not one."""
    return attempt(_as_slot, well_formed(line))


def write_slot(title: str, updated_at: str) -> bytes:
    """Write a slot of exactly 256 bytes; a title that does not fit is cut between two characters."""

    def slot(text: str, pad: str) -> bytes:
        fields = {"type": "title", "v": 1, "title": text, "source": "user", "updatedAt": updated_at, "pad": pad}
        return encode_json(fields) + b"\n"

    title = title[:SLOT_SIZE]
    while len(slot(title, "")) > SLOT_SIZE:
        title = title[:-1]
    return slot(title, " " * (SLOT_SIZE - len(slot(title, ""))))


TORN_HEADER_MAX = 64 * 1024
"""The size in bytes from which a file is not taken for the beginning of a header."""

_PI_VERSION = 3
_Field: TypeAlias = tuple[bytes, "re.Pattern[bytes]"]
"""What stands before a value, and the value, which may be cut at its end."""

_STRING = re.compile(rb'"(?:[^"\\\n]|\\.)*(?:"|\\?\Z)')
_OBJECT = re.compile(rb'\{(?:[^"{}\n]|"(?:[^"\\\n]|\\.)*(?:"|\\?\Z))*(?:\}|\Z)')


def _strings(*names: bytes) -> tuple[_Field, ...]:
    return tuple((b',"%s":' % name, _STRING) for name in names)


class HeaderForm(NamedTuple):
    """The fields of a header block as treering writes it: those that come first, and those that may follow."""

    fields: tuple[_Field, ...]
    optional: tuple[_Field, ...]

    def is_begun_by(self, data: bytes) -> bool:
        """Tell whether data ends within these fields, or after any of those that may follow."""
        for number, (before, value) in enumerate((*self.fields, *self.optional)):
            if before.startswith(data):
                return True
            if data.startswith(before):
                found = value.match(data, len(before))
                if found is None:
                    return False
                data = data[found.end() :]
            elif number < len(self.fields):
                return False
        return not data


_PI: tuple[_Field, ...] = ((b'{"type":"session","version":%d,"id":' % _PI_VERSION, _STRING), *_strings(b"timestamp"))
_PI_OPTIONAL: tuple[_Field, ...] = (*_strings(b"cwd", b"parentSession"), (b',"treering":', _OBJECT))
_SLOT: tuple[_Field, ...] = ((b'{"type":"title","v":1,"title":', _STRING), *_strings(b"source", b"updatedAt", b"pad"))

PI_FORM = HeaderForm(_PI, _PI_OPTIONAL)
"""The header of pi's version 3."""

OMP_FORM = HeaderForm((*_SLOT, (b"}\n" + _PI[0][0], _STRING), *_PI[1:]), _PI_OPTIONAL)
"""oh-my-pi's title slot and header."""

NATIVE_FORM = HeaderForm(
    ((b'{"type":"session","id":', _STRING), (b',"version":%d,"timestamp":' % NATIVE_VERSION, _STRING)),
    _strings(b"cwd", b"parent_session", b"parent_entry", b"key", b"title"),
)
"""The native header."""
