"""The check that every store makes of appended lines: not blank, with exactly one newline, at the end."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InvalidInput


def check_lines(lines: Iterable[bytes]) -> None:
    """Refuse anything but whole lines, since it would shift the seqs of all following lines.

    Raises:
        InvalidInput: A line is empty or blank, or does not have exactly one newline, at its end.
    """
    for line in lines:
        if not line or line.find(b"\n") != len(line) - 1 or (line[0] <= 32 and line.isspace()):
            raise InvalidInput("each appended line must end with a newline, contain no other newline, and not be blank")
