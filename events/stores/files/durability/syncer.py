"""Worker threads shared by many callers: many appends in one thread switch, several flushes at a time.

No thread or task is dedicated to this. A caller with jobs leads a round, unless there are enough leaders already: it
takes a share of all waiting jobs, runs them in a thread, and wakes the callers whose jobs are done. When its own jobs
are done, the leader hands over to another waiting caller. So a thousand sessions that each flush a file keep a small
number of threads busy, each with a share of the files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from anyio import CancelScope, Event, create_task_group, get_cancelled_exc_class

from ....offload import Offload, carried_out


class _Call:
    """The jobs of one caller: how many are left, and how to wake the caller."""

    __slots__ = ("chosen", "error", "event", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.chosen = False  # to lead the next round
        self.event: Event | None = None
        self.error: BaseException | None = None

    def wake(self) -> None:
        if self.event is not None:
            self.event.set()


class Syncer:
    """A runner of blocking jobs in shared rounds.

    Args:
        offload: Runs a round.
        width: How many rounds run at a time.
    """

    def __init__(self, offload: Offload, width: int) -> None:
        self._offload = offload
        self._width = width
        self._leaders = 0
        self._waiting: deque[tuple[_Call, Callable[[], None]]] = deque()

    async def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run all jobs to completion, even if the caller is cancelled; jobs must not raise."""
        call = _Call(len(jobs))
        self._waiting.extend((call, job) for job in jobs)
        cancellation: BaseException | None = None
        with CancelScope(shield=True):
            while call.left:
                try:
                    await self._take_part(call)
                except get_cancelled_exc_class() as error:
                    cancellation = error
        if call.chosen:  # to lead, but other leaders completed its jobs first
            self._hand_over()
        if call.error is not None:
            raise call.error
        if cancellation is not None:
            raise cancellation

    async def _take_part(self, call: _Call) -> None:
        """Lead as many rounds as may run now, or wait."""
        rounds = min(self._width - self._leaders, call.left, len(self._waiting))
        if rounds == 1:
            await self._lead(call)
        elif rounds > 1:
            async with create_task_group() as leaders:
                for _ in range(rounds):
                    leaders.start_soon(self._lead, call)
        if call.left:
            call.chosen = False
            call.event = Event()
            await call.event.wait()

    async def _lead(self, call: _Call) -> None:
        self._leaders += 1
        call.chosen = False
        try:
            with CancelScope(shield=True):
                while self._waiting and call.left:
                    share = -(-len(self._waiting) // self._width)
                    await self._run_round([self._waiting.popleft() for _ in range(share)])
        finally:
            self._leaders -= 1
            self._hand_over()

    async def _run_round(self, share: list[tuple[_Call, Callable[[], None]]]) -> None:
        failure: BaseException | None = None
        try:
            await carried_out(self._offload, _do, [job for _, job in share])
        except get_cancelled_exc_class():
            raise
        except BaseException as error:
            failure = error
            if not isinstance(error, Exception):
                raise
        finally:
            for call, _ in share:
                call.left -= 1
                call.error = call.error or failure
                if not call.left:
                    call.wake()

    def _hand_over(self) -> None:
        """Choose another caller to lead, one that waits, if jobs are left."""
        for call, _ in self._waiting:
            if call.event is not None and not call.event.is_set():
                call.chosen = True
                call.event.set()
                return


def _do(jobs: Iterable[Callable[[], None]]) -> None:
    for job in jobs:
        job()
