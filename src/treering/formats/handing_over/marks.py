"""The mark in a file that names the session which it was handed over from."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from ..json_lines import decoded
from ..opening import opened
from ..values import as_object, as_text
from .base import MARK

_LINE_MAX = 64 * 1024 * 1024


class Mark(Struct, frozen=True):
    """What a file says of where it comes from.

    Attributes:
        session: The session that was handed over.
        id: The program's session that it became.
    """

    session: str
    id: str


def mark_in(path: Path, own_id: str) -> Mark | None:
    """Return the mark in the first line of a file; None if it has none, or if the mark is that of another file.

    Args:
        path: The file, or a folder, which has no mark.
        own_id: The id of the program's session in the file; a copy under another id is another session.
    """
    if path.is_dir():
        return None
    with opened(path) as file:
        line = file.readline(_LINE_MAX)
    fields = as_object(as_object(decoded(line)).get(MARK)) if MARK.encode() in line else {}
    found = Mark(as_text(fields.get("session")), as_text(fields.get("id")))
    return found if found.session and found.id == own_id else None
