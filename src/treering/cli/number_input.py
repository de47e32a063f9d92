"""Numbers as people enter them."""

from __future__ import annotations

import click


class Count(click.ParamType[int]):
    """A whole number.

    Args:
        min: The least number that is allowed.
    """

    name = "number"

    def __init__(self, *, min: int) -> None:
        self._min = min

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a number."""
        try:
            number = int(value)
        except ValueError:
            number = None
        if number is None or number < self._min:
            self.fail(f"{str(value)!r} is not a whole number of {self._min} or more", param, ctx)
        return number
