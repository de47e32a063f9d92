"""The checks that every store makes of what it is to write: the header block, lines, the kinds of data beside a log."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..dialects.detect import Detected, detect
from ..errors import InvalidInput, LogError
from .base import BlobKind


def check_header(block: bytes, name: str) -> Detected:
    """Refuse anything but one whole header, since a line after it would get no seq; return what it says.

    Raises:
        InvalidInput: The block is not a header that this version reads, lacks its newline, or holds more than that.
    """
    try:
        detected = detect(block, name)
    except LogError as error:
        raise InvalidInput(f"the header block is not valid: {error.message}") from error
    if detected.size != len(block) or not block.endswith(b"\n"):
        raise InvalidInput("the header block must consist of the header and its newline only")
    return detected


def check_lines(lines: Iterable[bytes]) -> None:
    """Refuse anything but whole lines, since it would shift the seqs of all following lines.

    Raises:
        InvalidInput: A line is empty or blank, or does not have exactly one newline, at its end.
    """
    for line in lines:
        if not line or line.find(b"\n") != len(line) - 1 or (line[0] <= 32 and line.isspace()):
            raise InvalidInput("each appended line must end with a newline, contain no other newline, and not be blank")


VIEW = "view-"
"""The prefix of the names of projection checkpoints."""

_KIND = re.compile(rf"index|leaf|{VIEW}[A-Za-z0-9_-]{{1,64}}")


def check_kind(kind: BlobKind) -> BlobKind:
    """Return `kind` if it is a valid name.

    Raises:
        InvalidInput: The name is unknown, or unsafe as part of a file name.
    """
    if not _KIND.fullmatch(kind):
        raise InvalidInput(
            f"{kind!r} cannot be kept beside a log: the name of a projection must be 1 to 64 letters, digits, '-', '_'"
        )
    return kind
