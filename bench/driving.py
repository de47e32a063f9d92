"""How peers whose calls are awaited are driven: one task for each session, on asyncio with uvloop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from .jobs import Appends
from .timing import Sample, timed

AppendOne: TypeAlias = Callable[[], Awaitable[object]]
"""Appends one message to one session."""


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
    clock, spent = time.perf_counter, sample.latencies_s

    async def drive(append: AppendOne) -> None:
        for _ in range(job.calls * job.batch):
            if (began := clock()) > until:
                return
            await append()
            spent.append(clock() - began)

    with timed(sample):
        until = clock() + job.seconds_max
        async with asyncio.TaskGroup() as group:
            for append in sessions:
                group.create_task(drive(append))
    sample.operations = len(spent)
    return sample


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
