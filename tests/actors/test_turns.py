"""How long commands may run on their callers' tasks before the event loop gets its turn."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import Limits
from treering.actors.runtime import Runtime, random_id, system_clock
from treering.events.offload import ThreadOffload
from treering.events.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

LEAST_S = 0.0001
SLICES = [LEAST_S * factor for factor in (1, 2, 4, 8, 10, 10)]
"""How long commands may run while nothing else needs the event loop: twice as long each time, up to a millisecond."""


class Timer:
    """A timer that stands still until it is set forward."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def _no_task(_run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    raise AssertionError("a turn needs no task of its own")


def runtime_of(timer: Timer, inline_for_s: float = LEAST_S) -> Runtime:
    return Runtime(
        store=MemoryStore(),
        owner="test",
        clock=system_clock,
        new_id=random_id,
        offload=ThreadOffload(),
        limits=Limits(inline_for_s=inline_for_s),
        spawn=_no_task,
        timer=timer,
    )


async def next_slice(runtime: Runtime, timer: Timer) -> float:
    """Run commands until a turn is due, give it, and return for how long they ran."""
    slice_s = runtime.turn_due_at - timer.seconds
    timer.seconds += 0.99 * slice_s
    assert not runtime.turn_is_due()
    timer.seconds += 0.02 * slice_s
    assert runtime.turn_is_due()
    await runtime.give_turn()
    return slice_s


async def test_turns_are_given_less_often_while_nothing_else_needs_them() -> None:
    timer = Timer()
    runtime = runtime_of(timer)
    assert [await next_slice(runtime, timer) for _ in SLICES] == pytest.approx(SLICES)


async def test_turns_are_given_as_often_as_the_limit_says_once_another_task_has_work() -> None:
    timer = Timer()
    runtime = runtime_of(timer)
    turns = 0

    async def work() -> None:
        nonlocal turns
        while True:
            turns += 1
            timer.seconds += LEAST_S
            await checkpoint()

    for _ in SLICES:
        await next_slice(runtime, timer)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        for _ in range(2):  # during the turn after one of these, the other task works for the first time
            await next_slice(runtime, timer)
        # trio runs tasks in any order, so the other one may miss a turn, but not the next
        assert max([await next_slice(runtime, timer) for _ in range(20)]) <= 2.001 * LEAST_S
        assert turns >= 20
        tasks.cancel_scope.cancel()
    await next_slice(runtime, timer)
    assert [await next_slice(runtime, timer) for _ in SLICES[1:]] == pytest.approx(SLICES[1:])


@pytest.mark.parametrize("inline_for_s", [0.0, 5.0])
async def test_a_limit_of_nothing_or_of_more_than_a_millisecond_stays_as_it_is(inline_for_s: float) -> None:
    timer = Timer()
    runtime = runtime_of(timer, inline_for_s)
    for _ in range(3):
        assert runtime.turn_due_at - timer.seconds == pytest.approx(inline_for_s)
        timer.seconds += inline_for_s + 0.001
        assert runtime.turn_is_due()
        await runtime.give_turn()
