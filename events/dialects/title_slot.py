"""oh-my-pi's title slot: a line of a fixed size in front of the header, so that the title can be changed in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Raw, Struct
from msgspec.json import Decoder

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
