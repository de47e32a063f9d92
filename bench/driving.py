"""How peers whose calls are awaited are driven: one task for each session, on asyncio with uvloop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from .jobs import Appends
from .timing import Sample, timed

AppendOne: TypeAlias = Callable[[], Awaitable[object]]
"""Appends to one session: a message, or a batch of them."""


def on_loop(run: Callable[[], Coroutine[Any, Any, Sample]]) -> Sample:
    """Run a job on asyncio, with uvloop where it is there."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(run())
    return uvloop.run(run())


async def appended(job: Appends, sessions: Sequence[AppendOne]) -> Sample:
    """Append to all sessions, as often as the job says or until its time is up.

    Args:
        job: How often.
        sessions: What appends one message, for each session.
    """
    sample = Sample(0)
    with timed(sample):
        until = time.perf_counter() + job.seconds_max
        async with asyncio.TaskGroup() as group:
            for append in sessions:
                group.create_task(repeated(append, job.calls * job.batch, until, sample.latencies_s))
    sample.operations = len(sample.latencies_s)
    return sample


async def repeated(append: AppendOne, calls: int, until: float, spent: list[float]) -> None:
    """Append to one session, one call after the other, and note how long each took.

    Args:
        append: Makes a call.
        calls: How many there are.
        until: When to make no further one.
        spent: Gets the durations, in seconds.
    """
    clock = time.perf_counter
    for _ in range(calls):
        if (began := clock()) > until:
            return
        await append()
        spent.append(clock() - began)


def appended_in_turn(job: Appends, sessions: Sequence[Callable[[], object]]) -> Sample:
    """Do the same with calls that block."""
    sample = Sample(0)
    clock, spent = time.perf_counter, sample.latencies_s
    with timed(sample):
        until = clock() + job.seconds_max
        for _ in range(job.calls * job.batch):
            for append in sessions:
                began = clock()
                append()
                spent.append(clock() - began)
            if clock() > until:
                break
    sample.operations = len(spent)
    return sample
