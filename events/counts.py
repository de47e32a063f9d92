"""The check of the counts that callers pass."""

from __future__ import annotations

import reprlib

from .errors import InvalidInput


def check_count(name: str, value: object) -> None:
    """Refuse a value that is not a count.

    Args:
        name: The caller's name for it.
        value: The value.

    Raises:
        InvalidInput: It is not a whole number, or negative.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(f"{name} is {reprlib.repr(value)}: give a whole number of 0 or more")
