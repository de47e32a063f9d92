"""One seed, one course of events: the scheduler, the clock, the ids and the threads of a simulation.

trio runs the tasks that are ready in an order that it draws afresh each time. Here it sorts them first and draws with the
simulation's seed. Its private names are touched in this file and nowhere else.
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
    """Run an async function on trio with a virtual clock, always in the same order of events for the same seed.

    Time passes when every task waits, and then at once. Garbage is not collected meanwhile, since that runs finalizers at
    moments that depend on what the process did before.
    """
    scheduler: Any = import_module("trio._core._run")
    clock: Any = import_module("trio.testing").MockClock(autojump_threshold=0)
    random: Random = scheduler._r
    state, sorts = random.getstate(), scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    collects = gc.isenabled()
    gc.disable()
    random.seed(seed)
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    try:
        return anyio.run(fn, *args, backend="trio", backend_options={"clock": clock})
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = sorts
        random.setstate(state)
        if collects:
            gc.enable()


class VirtualClock:
    """A wall clock over the loop's own time, which somebody sets back or forward now and then.

    Args:
        random: Says when, and by how much.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._off_s = 0.0

    def __call__(self) -> datetime:
        """Return the time."""
        if self._random.random() < 0.01:
            self._off_s = self._random.uniform(-3600, 3600)
        return BEGINNING + timedelta(hours=2, seconds=anyio.current_time() + self._off_s)


class SeededIds:
    """Gives uuids that follow from a seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def __call__(self) -> str:
        """Return a fresh uuid4."""
        return str(UUID(int=self._random.getrandbits(128), version=4))


class AtOnce:
    """An offload without threads: others may come first, the work itself is one step, and others may come after it.

    Args:
        random: Says how many turns the others get; None gives them one before and one after.
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
    """Return what the file store takes for its durability, by asking it."""
    taken: list[Durability] = []
    for name in get_args(Durability):
        with suppress(InvalidInput):
            FileStore("/asked", durability=name, disk=MemoryDisk())
            taken.append(name)
    return taken
