"""What both processes of the demo share: the name of a session, and a clock and ids that repeat on every run."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

SESSION = "worker"
"""The id of the worker's session."""
TORN = "torn"
"""What the worker prints once half a line is in its file."""


def story_clock(minute: int) -> Callable[[], datetime]:
    """Return a clock that advances by one second per call, starting at 10:`minute`."""
    start, calls = datetime(2026, 1, 1, 10, minute, tzinfo=UTC), 0

    def now() -> datetime:
        nonlocal calls
        calls += 1
        return start + timedelta(seconds=calls)

    return now


def story_ids(seed: int) -> Callable[[], str]:
    """Return an id source that gives the same ids on every run."""
    random_source = random.Random(seed)
    return lambda: str(UUID(int=random_source.getrandbits(128), version=4))
