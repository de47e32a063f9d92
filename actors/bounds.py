"""Bounds that a program sets: refused where they are no numbers, or nothing would ever get through."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from ..events.errors import InvalidInput


def check_bounds(settings: Struct, least: Mapping[str, float], *, may_be_none: Collection[str] = ()) -> None:
    """Refuse settings that are no numbers, or too small.

    Args:
        settings: What the program set. A field whose name ends with `_s` counts seconds, and may be a fraction.
        least: The least that each field may be; the others are not looked at.
        may_be_none: The fields that may be None, which stands for no bound.

    Raises:
        InvalidInput: One is no number, or too small.
    """
    for name, smallest in least.items():
        bound: object = getattr(settings, name)
        if bound is None and name in may_be_none:
            continue
        wanted = (int, float) if name.endswith("_s") else int
        if not isinstance(bound, wanted) or isinstance(bound, bool) or not bound >= smallest:
            raise InvalidInput(f"`{name}` cannot be {bound!r}: give a number of {smallest} or more")
