"""How long commands may run on their callers' tasks before others go on, and how the tasks continue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import Limits, Session, SessionHost
from treering.actors.host.names import id_of_key
from treering.actors.host.turns import Turns
from treering.events.stores.base import Append, Outcome
from treering.events.stores.files import Durability, FileStore, Writes

pytestmark = pytest.mark.anyio

LEAST_S = 0.0001
MANY = 50
AT_ONCE = 16
"""How many tasks may continue in between: eight before anything else, and eight after it, in the order of trio."""
SLICES = [LEAST_S * factor for factor in (1, 2, 4, 8, 10, 10)]
"""How long commands may run while nothing else needs the event loop: twice as long each time, up to a millisecond."""


class Timer:
    """A timer that stands still until it is set forward."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


async def next_slice(turns: Turns, timer: Timer) -> float:
    """Go on until others must, let them, and return how long that took, to a hundredth of the least slice."""
    began = timer.seconds
    while not turns.is_over():
        timer.seconds += LEAST_S / 100
    went_on_for = timer.seconds - began
    await turns.pass_on()
    return went_on_for


def most_at_once(counts: Sequence[int]) -> int:
    return max(after - before for before, after in pairwise(counts))


async def test_a_task_stops_less_often_while_nothing_else_needs_the_event_loop() -> None:
    timer = Timer()
    turns = Turns(LEAST_S, timer)
    assert [await next_slice(turns, timer) for _ in SLICES] == pytest.approx(SLICES, rel=0.02)


async def test_a_task_stops_as_often_as_before_once_another_has_work() -> None:
    timer = Timer()
    turns = Turns(LEAST_S, timer)

    async def work() -> None:
        while True:
            timer.seconds += LEAST_S
            await checkpoint()

    for _ in SLICES:
        await next_slice(turns, timer)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        for _ in range(2):  # the other task works for the first time after one of these
            await next_slice(turns, timer)
        # trio runs tasks in any order, so that the other one may miss a turn, but not two
        assert max([await next_slice(turns, timer) for _ in range(20)]) <= 2.03 * LEAST_S
        tasks.cancel_scope.cancel()
    assert [await next_slice(turns, timer) for _ in range(8)][-2:] == pytest.approx(SLICES[-2:], rel=0.02)


@pytest.mark.parametrize("slice_s", [0.0, 5.0])
async def test_a_slice_of_nothing_or_of_more_than_a_millisecond_stays_as_it_is(slice_s: float) -> None:
    timer = Timer()
    turns = Turns(slice_s, timer)
    for _ in range(3):
        timer.seconds += slice_s
        assert not turns.is_over()
        timer.seconds += LEAST_S
        assert turns.is_over()
        turns.begin()
        assert not turns.is_over()
        await turns.pass_on()


async def test_busy_tasks_continue_in_turn_and_everything_else_goes_on_in_between(
    anyio_backend: tuple[str, dict[str, Any]],
) -> None:
    timer = Timer()
    turns = Turns(LEAST_S, timer)
    order: list[int] = []
    served: list[int] = []

    async def busy(number: int) -> None:
        for _ in range(5):
            await next_slice(turns, timer)
            order.append(number)

    async def serve() -> None:
        while True:
            served.append(len(order))
            await checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        async with anyio.create_task_group() as all_busy:
            for number in range(MANY):
                all_busy.start_soon(busy, number)
        tasks.cancel_scope.cancel()
    for end in range(MANY, len(order) + 1):
        continued = Counter(order[:end])
        assert max(continued.values()) - min(continued[number] for number in range(MANY)) <= 2
    assert most_at_once(served) <= (AT_ONCE if anyio_backend[0] == "trio" else AT_ONCE // 2)


async def test_a_task_that_is_cancelled_in_line_does_not_go_on_and_others_do() -> None:
    timer = Timer()
    turns = Turns(LEAST_S, timer)
    finished: list[int] = []

    async def busy(number: int, scope: anyio.CancelScope) -> None:
        with scope:
            await next_slice(turns, timer)
            finished.append(number)
            await checkpoint()
            finished.append(-number)

    scopes = [anyio.CancelScope() for _ in range(4)]
    async with anyio.create_task_group() as tasks:
        for number, scope in enumerate(scopes, 1):
            tasks.start_soon(busy, number, scope)
        await checkpoint()
        scopes[1].cancel()
    assert {*finished} == {1, 3, 4, -1, -3, -4}
    assert turns.is_over() is False


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("cancelled", [0, 1, 8, 9, 19])
@pytest.mark.parametrize("after", range(4))
async def test_others_continue_after_a_task_that_asyncio_cancelled_in_line(
    anyio_backend: str, cancelled: int, after: int
) -> None:
    timer = Timer()
    turns = Turns(LEAST_S, timer)
    finished: list[int] = []

    async def busy(number: int) -> None:
        for _ in range(3):
            await next_slice(turns, timer)
        finished.append(number)

    tasks = [asyncio.create_task(busy(number)) for number in range(20)]
    for _ in range(after):
        await asyncio.sleep(0)
    tasks[cancelled].cancel()
    await asyncio.wait(tasks)
    assert {*finished} >= {*range(20)} - {cancelled}
    assert tasks[cancelled].cancelled() is (cancelled not in finished)


async def test_busy_sessions_let_other_tasks_go_on_between_any_two_of_them(tmp_path: Path) -> None:
    served: list[int] = []

    async with SessionHost(tmp_path, limits=Limits(inline_for_s=0)) as host, anyio.create_task_group() as tasks:
        sessions = [await host.create() for _ in range(MANY)]
        for session in sessions:
            await session.append_message("user", "first")

        def count() -> int:
            return sum(session.cursor.seq for session in sessions)

        async def serve() -> None:
            while True:
                served.append(count())
                await checkpoint()

        async def busy(session: Session) -> None:
            for _ in range(10):
                await session.append_message("user", "hello")

        tasks.start_soon(serve)
        async with anyio.create_task_group() as all_busy:
            for session in sessions:
                all_busy.start_soon(busy, session)
        tasks.cancel_scope.cancel()
        assert count() == 11 * MANY
    assert most_at_once(served) <= AT_ONCE


class CountingStore(FileStore):
    """A store that counts the appends that it was given and could not carry out at once."""

    appends = 0

    def append(self, appends: Sequence[Append]) -> Awaitable[list[Outcome]]:
        self.appends += len(appends)
        return super().append(appends)


@pytest.mark.parametrize(("durability", "writes"), [("os", "thread"), ("file", "auto"), ("group", "auto")])
async def test_appends_that_wait_for_the_store_are_all_handed_to_it_at_once(
    tmp_path: Path, durability: Durability, writes: Writes
) -> None:
    store = CountingStore(tmp_path, durability=durability, writes=writes)
    given: list[int] = []

    async def watch() -> None:
        while True:
            given.append(store.appends)
            await checkpoint()

    async with SessionHost(store=store, limits=Limits(inline_for_s=0)) as host, anyio.create_task_group() as tasks:
        sessions = [await host.create() for _ in range(MANY)]
        for session in sessions:
            await session.append_message("user", "first")
        given.append(store.appends)
        tasks.start_soon(watch)
        async with anyio.create_task_group() as all_busy:
            for session in sessions:
                all_busy.start_soon(session.append_message, "user", "hello")
        tasks.cancel_scope.cancel()
        assert store.appends == 2 * MANY
    assert most_at_once(given) > AT_ONCE


class Other:
    """A task that does nothing but go on, and how often it did."""

    served = 0

    async def __call__(self) -> None:
        while True:
            self.served += 1
            await checkpoint()


READS: dict[str, Callable[[Session], Awaitable[object]]] = {
    "context": lambda session: session.context(),
    "messages": lambda session: session.messages(),
    "entries": lambda session: session.entries(),
    "entry": lambda session: session.entry(session.path()[0]),
}


@pytest.mark.parametrize("read", READS.values(), ids=[*READS])
async def test_reads_from_memory_let_other_tasks_go_on_and_can_be_cancelled(
    tmp_path: Path, read: Callable[[Session], Awaitable[object]]
) -> None:
    async with SessionHost(tmp_path, limits=Limits(inline_for_s=0)) as host, anyio.create_task_group() as tasks:
        session = await host.create()
        await session.append_message("user", "hello")
        tasks.start_soon(other := Other())
        await checkpoint()
        before = other.served
        for _ in range(20):
            await read(session)
        assert other.served - before >= 19

        finished = False
        with anyio.CancelScope() as scope:
            scope.cancel()
            await read(session)
            finished = True
        assert not finished
        tasks.cancel_scope.cancel()


OPENINGS: list[Callable[[SessionHost, str], Awaitable[Session]]] = [
    lambda host, key: host.get_or_create(key),
    lambda host, key: host.load(id_of_key(key)),
    lambda host, key: host.load(id_of_key(key), read_only=True),
]


@pytest.mark.parametrize("open_session", OPENINGS)
async def test_sessions_that_are_opened_one_after_another_let_other_tasks_go_on(
    tmp_path: Path, open_session: Callable[[SessionHost, str], Awaitable[Session]]
) -> None:
    keys = [str(number) for number in range(20)]
    async with SessionHost(tmp_path) as host:
        for key in keys:
            await (await host.get_or_create(key)).append_message("user", "hello")
    async with SessionHost(tmp_path, limits=Limits(inline_for_s=0)) as host, anyio.create_task_group() as tasks:
        await open_session(host, keys.pop())  # in a thread, since nothing is known of the folder
        tasks.start_soon(other := Other())
        await checkpoint()
        before = other.served
        for key in keys:
            await open_session(host, key)
        assert other.served - before >= len(keys) - 1
        tasks.cancel_scope.cancel()
