"""What both processes of the demo know: the session that they share, and time and ids that are the same each time."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

SESSION = "worker"
"""The session of the process that is killed."""
TORN = "torn"
"""What that process says when half a line stands in its file."""


def story_clock(minute: int) -> Callable[[], datetime]:
    """Return a clock that goes on by a second each time that it is asked."""
    start, asked = datetime(2026, 1, 1, 10, minute, tzinfo=UTC), 0

    def now() -> datetime:
        nonlocal asked
        asked += 1
        return start + timedelta(seconds=asked)

    return now


def story_ids(seed: int) -> Callable[[], str]:
    """Return an id source that gives the same ids each time that the story is played."""
    chance = random.Random(seed)
    return lambda: str(UUID(int=chance.getrandbits(128), version=4))
