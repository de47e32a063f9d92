"""The time of the demo: it begins some minutes ago, catches up with the present, and goes on with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import monotonic

import anyio

_STEP_S = 0.25
_PAUSE_S = 0.0005  # until the next step, if whoever is awake needs no longer


class Pace:
    """The clock of a host, and the sleep of its agents.

    Args:
        behind_s: How long ago the time of the demo begins.
    """

    def __init__(self, behind_s: float = 0.0) -> None:
        self._behind_s = behind_s
        self._step = anyio.Event()

    def __call__(self) -> datetime:
        """Return the time of the demo."""
        return datetime.now(UTC) - timedelta(seconds=self._behind_s)

    async def sleep(self, seconds: float) -> None:
        """Sleep for some seconds of the demo."""
        until = self._now_s() + seconds
        while (remaining := until - self._now_s()) > 0:
            with anyio.move_on_after(remaining):
                await self._step.wait()

    async def catch_up(self) -> None:
        """Let the time run to the present, as fast as those who sleep in it can do what they wake up for."""
        while self._behind_s > 0:
            self._behind_s = max(0.0, self._behind_s - _STEP_S)
            self._step.set()
            self._step = anyio.Event()
            await anyio.sleep(_PAUSE_S)

    def _now_s(self) -> float:
        return monotonic() - self._behind_s
