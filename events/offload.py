"""Run blocking work outside the event loop.

Components with such work receive an offload: the default runs it in a thread, the simulation runs it inline. Work that
must not be left half done goes through `carried_out`, which completes even if its caller is cancelled; what is awaited
else without being left half done goes through `seen_through`.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Generic, Protocol, TypeVar, TypeVarTuple

from anyio import CancelScope, CapacityLimiter, get_cancelled_exc_class, to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

THREADS_MAX = 40
"""The most threads that the default offload uses."""
_SHARE = 16

_numbers = count(1)


class Offload(Protocol):
    """A callable that runs a blocking function outside the event loop and returns its result."""

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run `fn(*args)`; an exception of `fn` propagates to the caller."""
        ...


def share_of_descriptors(share: int, most: int) -> int:
    """Return how many descriptors one part of a process may use, at least one.

    Args:
        share: The part: one in this many of those that the process may have.
        most: The most that the part needs.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, soft // share))


class ThreadOffload:
    """Runs blocking functions in threads, with a limit separate from the one for the program's own threads.

    Args:
        threads_max: How many functions may run at once; the others wait. By default `THREADS_MAX`, or fewer if the
            process may have fewer than 640 descriptors, since each function may open files.
    """

    def __init__(self, threads_max: int | None = None) -> None:
        self.threads_max = share_of_descriptors(_SHARE, THREADS_MAX) if threads_max is None else threads_max
        # A limiter belongs to one event loop, and an offload may be used by several in turn.
        self._limiter: RunVar[CapacityLimiter] = RunVar(f"treering.offload.{next(_numbers)}")

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run `fn(*args)` in a thread."""
        limiter = self._limiter.get(None)
        if limiter is None:
            limiter = CapacityLimiter(self.threads_max)
            self._limiter.set(limiter)
        return await to_thread.run_sync(fn, *args, limiter=limiter)


async def run_inline(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Run `fn(*args)` on the event loop: an offload for what never blocks."""
    return fn(*args)


_INTERRUPTIONS_MAX = 8
"""How often a call that no thread has begun may be cancelled before it runs on the event loop. A task that awaits
another one, and is itself in a cancelled scope, passes a cancellation on in every round of the loop."""


class _Once(Generic[T]):
    """A call that runs once, however often it is requested; later requests wait for it to finish."""

    __slots__ = ("_call", "_error", "_lock", "_result", "begun", "done")

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._result: list[T] = []
        self.begun = False
        self.done = False

    def run(self) -> None:
        with self._lock:
            if self.done:
                return
            self.begun = True
            try:
                self._result.append(self._call())
            except BaseException as error:  # noqa: BLE001  # `outcome` raises it
                self._error = error
            self.done = True

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]


async def carried_out(offload: Offload, fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Run `fn(*args)` to completion through an offload, even if the caller is cancelled.

    A cancellation is delayed until the function has returned. This also holds for a bare `asyncio.Task.cancel`, which
    no shield stops: it is raised afterwards, and the result is then lost, so `fn` should store a result that matters.
    """
    once = _Once(partial(fn, *args))
    interruption: BaseException | None = None
    interruptions = 0
    with CancelScope(shield=True):
        while not once.done:
            try:
                await offload(once.run)
            except get_cancelled_exc_class() as error:
                interruption = error
                interruptions += 1
                if interruptions >= _INTERRUPTIONS_MAX and not once.begun:
                    once.run()
    if interruption is not None:
        raise interruption
    return once.outcome()


async def seen_through(step: Callable[[], Awaitable[object]], is_done: Callable[[], bool]) -> BaseException | None:
    """Repeat a step until something is done, and return how the caller was cancelled meanwhile, which hinders nothing.

    A bare `asyncio.Task.cancel`, which no shield stops, hinders nothing either: the step is begun again.
    """
    cancellation: BaseException | None = None
    with CancelScope(shield=True):
        while not is_done():
            try:
                await step()
            except get_cancelled_exc_class() as error:
                cancellation = cancellation or error
    return cancellation


def after_fork_in_child(give_up: Callable[[], None]) -> None:
    """Call a function in every forked child of this process, if the operating system supports fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=give_up)
