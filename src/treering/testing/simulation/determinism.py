"""Makes a run depend on its seed alone: the scheduler, clock, ids and threads of a simulation.

trio shuffles the tasks that are ready. Here it sorts them first and shuffles with the simulation's seed. A run that
does not end is stopped at a bound of its own, however its tasks are shielded. Trio's private names are used only here.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from random import Random
from typing import Any, TypeVar, TypeVarTuple, get_args
from uuid import UUID

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint

from ...events.errors import InvalidInput
from ...events.stores.files import Durability, FileStore
from ..disks import MemoryDisk
from .checks import Broken

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)

HANGS_AFTER_S = 50_000.0
"""The virtual time in seconds after which a run counts as hanging."""

STEPS_MAX = 500_000
"""The steps of tasks after which a run counts as hanging: while tasks never wait, no time passes."""


def run(seed: int, fn: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Run an async function on trio with a virtual clock; the same seed gives the same order of events.

    When every task waits, time jumps ahead. The garbage collector is off during the run, since the moments at which it
    runs finalizers depend on the earlier history of the process.

    Raises:
        Broken: The run did not end.
    """
    scheduler: Any = import_module("trio._core._run")
    clock: Any = import_module("trio.testing").MockClock(autojump_threshold=0)
    random: Random = scheduler._r
    state, was_deterministic = random.getstate(), scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    was_enabled = gc.isenabled()
    gc.disable()
    random.seed(seed)
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    bound = _Bound()
    options = {"clock": clock, "instruments": [bound]}
    try:
        return anyio.run(partial(bound.run, fn, *args), backend="trio", backend_options=options)
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = was_deterministic
        random.setstate(state)
        if was_enabled:
            gc.enable()


class _Bound:
    """Stops a run that takes too much virtual time or too many steps."""

    def __init__(self) -> None:
        self._steps = 0
        self._stopped = False
        self._status: Any = None

    async def run(self, fn: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run an async function within the bound."""
        lowlevel: Any = import_module("trio.lowlevel")
        try:
            with anyio.CancelScope():
                self._status = lowlevel.current_task()._cancel_status
                lowlevel.spawn_system_task(self._watch)
                result = await fn(*args)
                if not self._stopped:
                    return result
        except Exception as error:
            if not self._stopped:
                raise
            raise self._hangs() from error
        raise self._hangs()

    def _hangs(self) -> Broken:
        return Broken(f"it hangs: {anyio.current_time():.0f} s of virtual time and {self._steps} steps have passed")

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(HANGS_AFTER_S)
            self._stop()

    def before_task_step(self, _: object) -> None:
        """Count a step of a task; called by trio."""
        self._steps += 1
        if self._steps % STEPS_MAX == 0:
            self._stop()

    def _stop(self) -> None:
        """Cancel everything, shielded or not; what shields itself anew meanwhile is cancelled the next time."""
        self._stopped = True
        statuses = [self._status]
        for status in statuses:
            status._scope.shield = False
            statuses += status._children
        self._status._scope.cancel()


class VirtualClock:
    """A wall clock based on the loop's time that is sometimes set back or forward.

    Args:
        random: Decides when, and by how much.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._offset_s = 0.0

    def __call__(self) -> datetime:
        """Return the time."""
        if self._random.random() < 0.01:
            self._offset_s = self._random.uniform(-3600, 3600)
        return BEGINNING + timedelta(hours=2, seconds=anyio.current_time() + self._offset_s)


class SeededIds:
    """Generates uuids that depend only on a seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def __call__(self) -> str:
        """Return a new uuid4."""
        return str(UUID(int=self._random.getrandbits(128), version=4))


class AtOnce:
    """An offload without threads: runs the work in one step, with turns for other tasks before and after it.

    Args:
        random: Decides how many turns the other tasks get; with None, one before and one after.
    """

    def __init__(self, random: Random | None = None) -> None:
        self._random = random

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run `fn(*args)` on the event loop."""
        await checkpoint()
        for _ in range(self._turns()):
            await cancel_shielded_checkpoint()
        try:
            return fn(*args)
        finally:
            for _ in range(self._turns()):
                await cancel_shielded_checkpoint()

    def _turns(self) -> int:
        return 1 if self._random is None else self._random.randrange(3)


def durabilities() -> list[Durability]:
    """Return the durability levels that the file store accepts."""
    accepted: list[Durability] = []
    for name in get_args(Durability):
        with suppress(InvalidInput):
            FileStore("/asked", durability=name, disk=MemoryDisk())
            accepted.append(name)
    return accepted
