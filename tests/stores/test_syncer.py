"""Jobs of several callers in shared rounds: who leads, how large each share is, who is told of a failure, and when.

The loop has virtual time, and a run that does not end is stopped.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, TypeVarTuple

import anyio
import pytest

from treering.events.stores.files.durability.flushing import Syncer
from treering.testing.simulation.determinism import run

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SlowOffload:
    """Each round takes a second, and fails if it is one of those that should; notes when rounds begin, with what."""

    def __init__(self, failing: tuple[int, ...]) -> None:
        self.failing = failing
        self.begun = 0
        self.rounds: list[tuple[float, str]] = []
        self.jobs: list[str] = []

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        began, number = anyio.current_time(), self.begun
        self.begun += 1
        await anyio.sleep(1)
        if number in self.failing:
            self.rounds.append((began, "failed"))
            raise ArithmeticError(f"round {number}")
        self.jobs = []
        try:
            return fn(*args)
        finally:
            self.rounds.append((began, " ".join(self.jobs)))


async def told(calls: list[tuple[float, int]], width: int, failing: tuple[int, ...]) -> list[str]:
    """Return the rounds and the ends of calls in the order of time, for calls with a beginning and a number of jobs."""
    began = anyio.current_time()
    offload = SlowOffload(failing)
    syncer = Syncer(offload, width)
    ends: list[tuple[float, str]] = []

    async def call(name: str, at: float, count: int) -> None:
        await anyio.sleep(at)
        try:
            await syncer.run([partial(lambda job: offload.jobs.append(job), f"{name}{each}") for each in range(count)])
        except ArithmeticError as error:
            name += f": {error}"
        ends.append((anyio.current_time(), f"end of {name}"))

    async with anyio.create_task_group() as tasks:
        for name, (at, count) in zip("abcdef", calls, strict=False):
            tasks.start_soon(call, name, at, count)
    return [f"{at - began:g} {what}" for at, what in sorted(offload.rounds + ends)]


CASES: list[tuple[list[tuple[float, int]], int, tuple[int, ...], str]] = [
    ([(0, 0)], 1, (), "0 end of a"),
    ([(0, 10)], 1, (), "0 a0 a1 a2 a3 a4 a5 a6 a7 a8 a9, 1 end of a"),
    ([(0, 10)], 3, (), "0 a0 a1 a2 a3, 0 a4 a5, 0 a6 a7, 1 a8, 1 a9, 2 end of a"),
    ([(0, 7)], 4, (), "0 a0 a1, 0 a2 a3, 0 a4, 0 a5, 1 a6, 2 end of a"),
    ([(0, 3)], 32, (), "0 a0, 0 a1, 0 a2, 1 end of a"),
    ([(0, 4), (0.1, 4), (0.2, 1)], 1, (), "0 a0 a1 a2 a3, 1 b0 b1 b2 b3 c0, 1 end of a, 2 end of b, 2 end of c"),
    (
        [(0, 1), (0.1, 3), (0.2, 3), (0.3, 2)],
        2,
        (),
        "0 a0, 0.1 b0 b1, 1 b2 c0 c1, 1 end of a, 1.1 c2 d0, 2 d1, 2.1 end of b, 3 end of c, 3 end of d",
    ),
    (
        [(0, 1), (0.1, 2), (0.2, 2), (0.3, 2), (1.3, 1)],
        1,
        (),
        "0 a0, 1 b0 b1 c0 c1 d0 d1, 1 end of a, 2 e0, 2 end of b, 2 end of c, 2 end of d, 3 end of e",
    ),
    (
        [(0, 1), (0.1, 1), (0.2, 2), (0.3, 5), (2.05, 1), (6, 2)],
        2,
        (),
        (
            "0 a0, 0.1 b0, 1 c0 c1 d0 d1, 1 end of a, 1.1 d2 d3, 1.1 end of b, 2 end of c, 2.05 d4, 2.1 e0, "
            "3.1 end of d, 3.1 end of e, 6 f0, 6 f1, 7 end of f"
        ),
    ),
    (
        [(0, 3), (0.1, 3), (0.2, 3)],
        3,
        (),
        "0 a0, 0 a1, 0 a2, 1 b0 b1, 1 b2 c0, 1 c1, 2 c2, 2 end of a, 2 end of b, 3 end of c",
    ),
    ([(0, 3), (0.1, 1)], 2, (0,), "0 a2, 0 failed, 1 b0, 2 end of a: round 0, 2 end of b"),
    ([(0, 1), (0.1, 3), (0.2, 1)], 1, (1,), "0 a0, 1 end of a, 1 failed, 2 end of b: round 1, 2 end of c: round 1"),
    (
        [(0, 2), (0.1, 1), (0.2, 2)],
        1,
        (0, 1),
        "0 failed, 1 end of a: round 0, 1 failed, 2 end of b: round 1, 2 end of c: round 1",
    ),
    ([(0, 1), (0.1, 4)], 2, (1, 2), "0 a0, 0.1 failed, 1 end of a, 1.1 failed, 2.1 b3, 3.1 end of b: round 1"),
    (
        [(0, 1), (0.1, 4), (0.2, 2), (1.5, 1)],
        2,
        (2, 3),
        (
            "0 a0, 0.1 b0 b1, 1 end of a, 1 failed, 1.1 failed, 2 c1, 2.1 d0, "
            "2.1 end of b: round 2, 3 end of c: round 3, 3.1 end of d"
        ),
    ),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_rounds_are_shared_evenly_and_each_caller_returns_as_soon_as_its_own_jobs_are_done(number: int) -> None:
    calls, width, failing, expected = CASES[number]
    for seed in range(3):
        assert ", ".join(run(seed, told, calls, width, failing)) == expected
