"""Where blocking work goes, so that the event loop does not wait for it.

An offload is given to whoever has such work: the default runs it in a thread, the simulation runs it at once. What must
not be left half done goes through `carried_out`, which outlasts its caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Generic, Protocol, TypeVar, TypeVarTuple

from anyio import CancelScope, CapacityLimiter, get_cancelled_exc_class, to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

THREADS_MAX = 40
"""How many threads of its own the default offload uses at most."""

_numbers = count(1)


class Offload(Protocol):
    """Runs a blocking function elsewhere and returns what it returns."""

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run `fn(*args)`; its exception becomes the caller's."""
        ...


class ThreadOffload:
    """Runs blocking functions in threads, apart from those that the program itself uses.

    Args:
        threads_max: How many of them may run at once; the others wait.
    """

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self.threads_max = threads_max
        # A limiter belongs to an event loop, and one offload may see several of them come and go.
        self._limiter: RunVar[CapacityLimiter] = RunVar(f"treering.offload.{next(_numbers)}")

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run `fn(*args)` in a thread."""
        limiter = self._limiter.get(None)
        if limiter is None:
            limiter = CapacityLimiter(self.threads_max)
            self._limiter.set(limiter)
        return await to_thread.run_sync(fn, *args, limiter=limiter)


class _Once(Generic[T]):
    """A call that happens once, however often it is asked for; who asks later waits for it."""

    __slots__ = ("_call", "_error", "_lock", "_result", "done")

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._result: list[T] = []
        self.done = False

    def run(self) -> None:
        with self._lock:
            if self.done:
                return
            try:
                self._result.append(self._call())
            except BaseException as error:  # noqa: BLE001  # it is raised where it was asked for
                self._error = error
            self.done = True

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]


async def carried_out(offload: Offload, fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Run `fn(*args)` elsewhere, to its end, whatever becomes of the caller.

    A cancellation is held back until the function has returned. That goes for a bare `asyncio.Task.cancel`, too, which
    no shield stops: it is raised afterwards, and the result is then lost, so `fn` had better keep it.
    """
    once = _Once(partial(fn, *args))
    interruption: BaseException | None = None
    with CancelScope(shield=True):
        while not once.done:
            try:
                await offload(once.run)
            except get_cancelled_exc_class() as error:
                interruption = error
    if interruption is not None:
        raise interruption
    return once.outcome()
