"""The checks that every store makes of what it is to write: the header block and the lines after it."""

from __future__ import annotations

from collections.abc import Iterable

from ..dialects.detect import Detected, detect
from ..errors import InvalidInput, LogError


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
