"""Work for worker threads, shared by its callers: many appends in one hop, many flushes at a time.

There is no thread and no task of its own here. A caller who brings work leads a round, if not too many do so already:
takes a share of all that waits, has it done in a thread, and tells those whose work it was. When the leader's own work is
done, it hands its place to the next one who waits. So a thousand sessions that each flush a file keep a small number of
threads busy, with a share of the files each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from anyio import CancelScope, Event, create_task_group, get_cancelled_exc_class

from ...offload import Offload, carried_out


class _Call:
    """What one caller brought: how much of it is left, and how the caller is woken."""

    __slots__ = ("chosen", "error", "event", "leads", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.leads = 0
        self.chosen = False  # to lead the next round
        self.event: Event | None = None
        self.error: BaseException | None = None

    def wake(self) -> None:
        if self.event is not None:
            self.event.set()


class Syncer:
    """Carries out blocking jobs in shared rounds.

    Args:
        offload: Where a round is carried out.
        width: How many rounds run at a time.
    """

    def __init__(self, offload: Offload, width: int) -> None:
        self._offload = offload
        self._width = width
        self._leaders = 0
        self._waiting: deque[tuple[_Call, Callable[[], None]]] = deque()

    async def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Carry out all jobs, whatever becomes of the caller; they must not raise."""
        call = _Call(len(jobs))
        self._waiting.extend((call, job) for job in jobs)
        interruption: BaseException | None = None
        with CancelScope(shield=True):
            while call.left:
                try:
                    await self._take_part(call)
                except get_cancelled_exc_class() as error:
                    interruption = error
        if call.chosen:  # and yet others did its work first
            self._hand_over()
        if call.error is not None:
            raise call.error
        if interruption is not None:
            raise interruption

    async def _take_part(self, call: _Call) -> None:
        """Lead as many rounds at a time as there is room for, or wait."""
        room = min(self._width - self._leaders, call.left, len(self._waiting))
        if room == 1:
            await self._lead(call)
        elif room > 1:
            async with create_task_group() as leaders:
                for _ in range(room):
                    leaders.start_soon(self._lead, call)
        if call.left:
            call.chosen = False
            call.event = Event()
            await call.event.wait()

    async def _lead(self, call: _Call) -> None:
        self._leaders += 1
        call.leads += 1
        call.chosen = False
        try:
            with CancelScope(shield=True):
                while self._waiting and call.left:
                    share = -(-len(self._waiting) // self._width)
                    await self._round([self._waiting.popleft() for _ in range(share)])
        finally:
            self._leaders -= 1
            call.leads -= 1
            self._hand_over()

    async def _round(self, share: list[tuple[_Call, Callable[[], None]]]) -> None:
        failed: BaseException | None = None
        try:
            await carried_out(self._offload, _do, [job for _, job in share])
        except get_cancelled_exc_class():
            raise
        except BaseException as error:
            failed = error
            if not isinstance(error, Exception):
                raise
        finally:
            for owner, _ in share:
                owner.left -= 1
                owner.error = owner.error or failed
                if not owner.left:
                    owner.wake()

    def _hand_over(self) -> None:
        """Have somebody else lead, if work is left."""
        for owner, _ in self._waiting:
            if not owner.leads and not owner.chosen and owner.event is not None:
                owner.chosen = True
                owner.wake()
                return


def _do(jobs: Iterable[Callable[[], None]]) -> None:
    for job in jobs:
        job()
