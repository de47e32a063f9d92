"""The time of the demo: it begins some minutes ago, runs ahead until it meets the present, and goes on with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import monotonic

import anyio


class Pace:
    """The clock of a host, and the sleep of its agents.

    Args:
        before_s: How long ago the time of the demo begins.
        speed: How fast it runs until it meets the present.
    """

    def __init__(self, before_s: float, speed: float) -> None:
        self._begin = datetime.now(UTC) - timedelta(seconds=before_s)
        self._began_s = monotonic()
        self._speed = speed
        self._meets_s = before_s / (speed - 1)  # real seconds after which both times are the same

    def __call__(self) -> datetime:
        """Return the time of the demo."""
        return self._begin + timedelta(seconds=self._now_s())

    async def sleep(self, seconds: float) -> None:
        """Sleep for some seconds of the demo."""
        await anyio.sleep(max(0.0, self._real_s(self._now_s() + seconds) - self._passed_s()))

    async def meet(self) -> None:
        """Wait until the time of the demo is the present."""
        await anyio.sleep(max(0.0, self._meets_s - self._passed_s()))

    def _passed_s(self) -> float:
        return monotonic() - self._began_s

    def _now_s(self) -> float:
        """Return the seconds of the demo since it began."""
        passed = self._passed_s()
        return passed + (self._speed - 1) * min(passed, self._meets_s)

    def _real_s(self, seconds: float) -> float:
        """Return the real second at which a second of the demo comes."""
        met_at = self._speed * self._meets_s
        return seconds / self._speed if seconds < met_at else self._meets_s + seconds - met_at
