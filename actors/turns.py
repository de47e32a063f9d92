"""The turns of the tasks that carry out commands themselves, so that the event loop serves everything else in between.

A command that need not wait runs to completion on its caller's task, and so does that task's next one. When the time
for this is over, the task lets others go on. Of all tasks that did, one at a time continues, in the order in which they
stopped. A timer of the program is therefore late by one slice of time and not by a thousand when a thousand sessions
are busy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

_ALONE_FOR_S = 0.001
"""How long a slice may last, in seconds, while nothing else needs the event loop."""


class Turns:
    """Tells the tasks of a host when to let others go on, and lets them continue one by one.

    The line of tasks that wait is as long as there are tasks with a command to carry out, which the program bounds.

    Args:
        slice_s: Seconds that a task may go on for; up to a millisecond while there are no others.
        timer: A monotonic clock, in seconds.
    """

    __slots__ = ("_due_at", "_is_passing", "_least_s", "_line", "_slice_s", "_timer")

    def __init__(self, slice_s: float, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._least_s = self._slice_s = slice_s
        self._due_at = timer() + slice_s
        self._line: deque[anyio.Event] = deque()
        self._is_passing = False  # whether some task is about to continue, and will wake the first in line when it does

    def is_over(self) -> bool:
        """Tell whether the running task has gone on for so long that others must go on."""
        return self._timer() > self._due_at

    async def pass_on(self) -> None:
        """Let others go on, and return when it is this task's turn again, even if it is cancelled meanwhile."""
        if self._is_passing:
            await self._wait_in_line()
            self._slice_s = self._least_s
        else:
            began = self._timer()
            await self._wait_alone()
            is_alone = self._timer() - began < self._least_s
            # A turn that nobody else had a use for costs as much as half an append.
            self._slice_s = max(self._least_s, min(2 * self._slice_s, _ALONE_FOR_S)) if is_alone else self._least_s
        self._due_at = self._timer() + self._slice_s

    async def _wait_alone(self) -> None:
        self._is_passing = True
        try:
            await cancel_shielded_checkpoint()
        finally:
            self._wake_next()

    async def _wait_in_line(self) -> None:
        event = anyio.Event()
        self._line.append(event)
        try:
            with anyio.CancelScope(shield=True):
                await event.wait()
        finally:
            if event.is_set():
                self._wake_next()
            else:  # asyncio cancels a task without regard to shields
                self._line.remove(event)

    def _wake_next(self) -> None:
        """Let the first in line continue once the event loop has served everything else."""
        if self._line:
            self._line.popleft().set()
        else:
            self._is_passing = False
