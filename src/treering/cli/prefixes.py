"""Session ids for display: an id that looks like a uuid, or is too long, is shortened to a unique prefix."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from .output import clean

LEAST = 8
"""The minimum number of characters shown of an id."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class Prefixes:
    """Shortens the ids of sessions for display.

    A version 7 uuid begins with the time, so two sessions of the same minute share their first digits.

    Args:
        ids: The ids of all sessions that a prefix may refer to.
        longest: The length beyond which an id that is not a uuid is shortened as well, to this length if that prefix is
            unique; None if it never is.
    """

    def __init__(self, ids: Iterable[str], longest: int | None = None) -> None:
        self._longest = longest
        self._common_chars: dict[str, int] = {}
        for one, other in pairwise(sorted(ids)):
            common_chars = next(
                (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
            )
            for each in (one, other):
                self._common_chars[each] = max(self._common_chars.get(each, 0), common_chars)

    def of(self, session_id: str) -> str:
        """Return the shortest unique prefix of a uuid or of an id that is too long; return any other id unchanged."""
        least = LEAST if _UUID.fullmatch(session_id) else self._longest
        if least is None or len(session_id) <= least:
            return clean(session_id)
        end = max(least, self._common_chars.get(session_id, 0) + 1)
        if session_id[end - 1 : end] == "-":
            end += 1  # a prefix that ends in a hyphen looks cut off
        return clean(session_id[:end])
