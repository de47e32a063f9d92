"""The turns of the tasks that carry out commands themselves, so that the event loop serves everything else in between.

A command that need not wait runs to completion on its caller's task, and so does that task's next one. When a slice of
time is over, the next command of any task begins by letting others go on. Of all tasks that did, a few at a time
continue, in the order in which they stopped. When a thousand sessions are busy, a timer of the program is late by a
few slices and not by a thousand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint

_ALONE_FOR_S = 0.001
"""How long a slice may last, in seconds, while nothing else needs the event loop."""

_AT_ONCE = 8
"""How many tasks continue before the event loop serves everything else; an iteration of it costs half an append."""


class _Group:
    """Tasks that continue together, once their event is set."""

    __slots__ = ("event", "size")

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.size = 0


class Turns:
    """Tells the tasks of a host when to let others go on, and lets them continue a few at a time, in line.

    Args:
        slice_s: Seconds that a task may go on for; up to a millisecond while there are no others.
        timer: A monotonic clock, in seconds.

    Attributes:
        timer: The clock.
        due_at: When others must go on.
    """

    __slots__ = ("_awake", "_least_s", "_line", "_slice_s", "due_at", "timer")

    def __init__(self, slice_s: float, timer: Callable[[], float]) -> None:
        self.timer = timer
        self._least_s = self._slice_s = slice_s
        self.due_at = timer() + slice_s
        self._line: deque[_Group] = deque()
        self._awake = 0  # how many tasks are about to continue; the last of them wakes the next group when it does

    def begin(self) -> None:
        """Begin a slice of a task that the event loop has just started, as a server starts one for each request."""
        self.due_at = self.timer() + self._slice_s

    def is_over(self) -> bool:
        """Return whether the running task has gone on for so long that others must go on."""
        return self.timer() > self.due_at

    async def pass_on(self) -> None:
        """Let others go on, and return when it is this task's turn again."""
        if self._awake:
            await self._wait_in_line()
            self._slice_s = self._least_s
        else:
            began, self._awake = self.timer(), 1
            try:
                await checkpoint()
            finally:
                self._note_continued()
            is_alone = self.timer() - began < self._least_s
            # A turn that nobody else had a use for costs as much as half an append.
            self._slice_s = max(self._least_s, min(2 * self._slice_s, _ALONE_FOR_S)) if is_alone else self._least_s
        self.due_at = self.timer() + self._slice_s

    async def _wait_in_line(self) -> None:
        if not self._line or self._line[-1].size == _AT_ONCE:
            self._line.append(_Group())
        group = self._line[-1]
        group.size += 1
        try:
            await group.event.wait()
        finally:
            if group.event.is_set():
                self._note_continued()
            else:  # cancelled in line
                group.size -= 1

    def _note_continued(self) -> None:
        """Note that an awake task continues; the last of them wakes the next group, to continue after all others."""
        self._awake -= 1
        while not self._awake and self._line:
            group = self._line.popleft()
            group.event.set()
            self._awake = group.size
