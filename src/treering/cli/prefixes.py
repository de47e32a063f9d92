"""Ids of sessions as they are shown: of those that look like a uuid, so much that no other session begins like it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from .output import clean

LEAST = 8
"""How much of an id is shown at least."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class Prefixes:
    """Tells how the ids of sessions are shown.

    A uuid of version 7 begins with the time, so the first digits of two sessions of the same minute are the same.

    Args:
        ids: The ids of all sessions that a text may mean.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._shared: dict[str, int] = {}
        for one, other in pairwise(sorted(ids)):
            shared = next(
                (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
            )
            for each in (one, other):
                self._shared[each] = max(self._shared.get(each, 0), shared)

    def of(self, session_id: str) -> str:
        """Return the shortest beginning of a uuid that means this session alone; any other id as it is."""
        if not _UUID.fullmatch(session_id):
            return clean(session_id)
        end = max(LEAST, self._shared.get(session_id, 0) + 1)
        return session_id[: end + 1] if session_id[end - 1 : end] == "-" else session_id[:end]
