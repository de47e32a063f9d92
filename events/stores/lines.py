"""What a line is, to every store: text that is not blank, and one newline, at its end."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InvalidInput


def check_lines(lines: Iterable[bytes]) -> None:
    """Refuse what is not a whole line, since it would shift the ordinals of all that follow.

    Raises:
        InvalidInput: A line is empty or blank, or does not end with its one newline.
    """
    for line in lines:
        if not line or line.find(b"\n") != len(line) - 1 or (line[0] <= 32 and line.isspace()):
            raise InvalidInput("what is appended has to be whole lines, each with its newline, and none blank")
