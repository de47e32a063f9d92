"""Makes a run depend on its seed alone: the scheduler, clock, ids and threads of a simulation.

trio shuffles the tasks that are ready. Here it sorts them first and shuffles with the simulation's seed. No other
module uses trio's private names.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from random import Random
from typing import Any, TypeVar, TypeVarTuple, get_args
from uuid import UUID

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint

from ...events.errors import InvalidInput
from ...events.stores.files import Durability, FileStore
from ..disks import MemoryDisk

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def run(seed: int, fn: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Run an async function on trio with a virtual clock; the same seed gives the same order of events.

    When every task waits, time jumps ahead. The garbage collector is off during the run, since the moments at which it
    runs finalizers depend on the earlier history of the process.
    """
    scheduler: Any = import_module("trio._core._run")
    clock: Any = import_module("trio.testing").MockClock(autojump_threshold=0)
    random: Random = scheduler._r
    state, was_deterministic = random.getstate(), scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    was_enabled = gc.isenabled()
    gc.disable()
    random.seed(seed)
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    try:
        return anyio.run(fn, *args, backend="trio", backend_options={"clock": clock})
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = was_deterministic
        random.setstate(state)
        if was_enabled:
            gc.enable()


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
