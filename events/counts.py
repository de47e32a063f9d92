"""How many of something a caller asks for."""

from __future__ import annotations

import reprlib

from .errors import InvalidInput


def check_count(name: str, value: object) -> None:
    """Refuse what is no count.

    Args:
        name: What the caller calls it.
        value: What the caller gave.

    Raises:
        InvalidInput: It is no whole number, or negative.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(f"{name} is {reprlib.repr(value)}: give a whole number from 0 on")
