"""Work in threads: completed even if the caller is cancelled, and shared between callers."""

# ruff: noqa: ASYNC110  # polling for a thread is harmless in a test

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio
import pytest

from treering.events.offload import ThreadOffload, carried_out
from treering.events.stores.files.durability.flushing import Syncer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def test_results_and_errors_are_returned() -> None:
    offload = ThreadOffload()
    assert await offload(divmod, 7, 2) == (3, 1)
    assert await carried_out(offload, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await carried_out(offload, divmod, 7, 0)


def test_one_offload_works_on_several_event_loops() -> None:
    offload = ThreadOffload(threads_max=1)

    async def work() -> int:
        return await offload(sum, [1, 2])

    assert [anyio.run(work, backend=backend) for backend in ("asyncio", "trio", "asyncio")] == [3, 3, 3]


async def test_a_cancelled_scope_waits_for_the_work_to_end() -> None:
    started, go, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go.wait(30)
        done.set()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(carried_out, ThreadOffload(), work)
            while not started.is_set():
                await anyio.lowlevel.checkpoint()
            scope.cancel()
            go.set()
    assert done.is_set()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_jobs_of_cancelled_tasks_are_completed() -> None:
    done: list[int] = []
    go = threading.Event()
    syncer = Syncer(ThreadOffload(), 2)

    def job(number: int) -> Callable[[], None]:
        def work() -> None:
            go.wait(30)
            done.append(number)

        return work

    calls = [asyncio.create_task(syncer.run([job(10 * caller + at) for at in range(5)])) for caller in range(6)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.sleep(0)
    go.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    assert sorted(done) == sorted(10 * caller + at for caller in range(6) for at in range(5))


def test_a_call_that_is_cancelled_in_every_round_of_the_loop_is_carried_out() -> None:
    calls: list[str] = []

    async def cancel_always() -> bool:
        task = asyncio.create_task(carried_out(ThreadOffload(), calls.append, "carried out"))
        await asyncio.sleep(0)
        for _ in range(1000):
            task.cancel()
            await asyncio.sleep(0)
        return task.cancelled()

    assert asyncio.run(cancel_always())
    assert calls == ["carried out"]


def test_a_call_that_has_begun_never_blocks_the_loop_and_is_waited_for_however_often_it_is_cancelled() -> None:
    begun, release = threading.Event(), threading.Event()
    released: list[bool] = []

    def work() -> None:
        begun.set()
        released.append(release.wait(10))

    async def cancel_often() -> bool:
        task = asyncio.create_task(carried_out(ThreadOffload(), work))
        while not begun.is_set():
            await asyncio.sleep(0)
        for _ in range(20):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        release.set()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(cancel_often())
    assert released == [True]
