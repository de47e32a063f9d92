"""A clock for tests, so that times and the order that follows from them are the same in every run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ManualClock:
    """A wall clock that moves when somebody moves it, and by `step` with each look at it.

    Example::

        clock = ManualClock(step=timedelta(seconds=1))
        async with SessionHost(root, clock=clock) as host:
            ...                              # each entry is at least a second later than the one before
            clock.now += timedelta(days=30)  # and now a month has gone

    Args:
        now: Where it begins, with a time zone.
        step: How far it goes before it answers.

    Attributes:
        now: The time of the latest look.
        step: As given.
    """

    def __init__(self, now: datetime = datetime(2026, 1, 1, 10, tzinfo=UTC), step: timedelta = timedelta()) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> datetime:
        """Return the time."""
        self.now += self.step
        return self.now
