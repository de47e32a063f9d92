"""Checks of the bounds that a program sets: they must be numbers, and large enough to let anything through."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from ...events.errors import InvalidInput


def check_bounds(settings: Struct, least: Mapping[str, float], *, may_be_none: Collection[str] = ()) -> None:
    """Refuse settings that are not numbers, or too small.

    Args:
        settings: The program's settings. A field whose name ends with `_s` counts seconds, and may be a fraction.
        least: The minimum of each field; other fields are not checked.
        may_be_none: The fields that may be None, which means no bound.

    Raises:
        InvalidInput: A setting is not a number, or too small.
    """
    for name, smallest in least.items():
        bound: object = getattr(settings, name)
        if bound is None and name in may_be_none:
            continue
        accepted_types = (int, float) if name.endswith("_s") else int
        if not isinstance(bound, accepted_types) or isinstance(bound, bool) or not bound >= smallest:
            raise InvalidInput(f"`{name}` cannot be {bound!r}: give a number of {smallest} or more")
