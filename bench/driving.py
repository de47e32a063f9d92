"""Drives peers through a job of many calls: appends with one task per session on asyncio, or in turn; listings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from .jobs import Appends, Lists
from .timing import Sample, timed

Call: TypeAlias = Callable[[], Awaitable[object]]
"""Does one operation, such as the append of a message or a batch to one session."""


def on_loop(run: Callable[[], Coroutine[Any, Any, Sample]]) -> Sample:
    """Run a job on asyncio, with uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(run())
    return uvloop.run(run())


async def append_all(job: Appends, sessions: Sequence[Call]) -> Sample:
    """Append to all sessions concurrently, until the calls of the job are done or its time is up.

    Args:
        job: The number of calls, and the time limit.
        sessions: For each session, a function that appends one message.
    """
    sample = Sample(0)
    with timed(sample):
        until = time.perf_counter() + job.seconds_max
        async with asyncio.TaskGroup() as group:
            for append in sessions:
                group.create_task(call_repeatedly(append, job.calls * job.batch, until, sample.latencies_s))
    sample.operations = len(sample.latencies_s)
    return sample


async def list_all(job: Lists, listing: Call) -> Sample:
    """List all sessions, on any event loop, after a first listing if the job is warm.

    Args:
        job: Whether it is warm, how many listings are timed, and the time limit.
        listing: Lists all sessions.
    """
    if job.warm:
        await listing()
    sample = Sample(0)
    with timed(sample):
        await call_repeatedly(listing, job.calls, time.perf_counter() + job.seconds_max, sample.latencies_s)
    sample.operations = len(sample.latencies_s)
    return sample


async def call_repeatedly(call: Call, calls: int, until: float, spent: list[float]) -> None:
    """Make one call after another, and record how long each took.

    Args:
        call: Makes one call.
        calls: The number of calls.
        until: The time after which no further call is made.
        spent: Receives the durations, in seconds.
    """
    clock = time.perf_counter
    for _ in range(calls):
        if (began := clock()) > until:
            return
        await call()
        spent.append(clock() - began)


def append_all_in_turn(job: Appends, sessions: Sequence[Callable[[], object]]) -> Sample:
    """Append to all sessions in turn with calls that block."""
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
