"""A clock for tests that makes times, and any order that depends on them, the same in every run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ManualClock:
    """A wall clock that moves only when a test sets it, and by `step` with each reading.

    Example::

        clock = ManualClock(step=timedelta(seconds=1))
        async with SessionHost(root, clock=clock) as host:
            ...                              # each entry is at least a second later than the one before
            clock.now += timedelta(days=30)  # a month has passed

    Args:
        now: The initial time, with a time zone.
        step: How far it advances before each reading.

    Attributes:
        now: The time of the latest reading.
        step: How far it advances before each reading.
    """

    def __init__(self, now: datetime = datetime(2026, 1, 1, 10, tzinfo=UTC), step: timedelta = timedelta()) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> datetime:
        """Advance by `step` and return the time."""
        self.now += self.step
        return self.now
