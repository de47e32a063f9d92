"""Treering itself, on each of the event loops."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio

from treering import Limits, Message, Session, SessionHost, text

from ..jobs import TEXT_1_KB, Appends, Peer
from ..timing import Sample, timed
from ..workspace import Log, Workspace


class Treering:
    """A host on one event loop, durability "os"."""

    durability = "the process"

    def __init__(self, loop: str, backend: str, *, needs: str | None = None, options: dict[str, Any]) -> None:
        self.name = f"treering/{loop}"
        self._backend = backend
        self._needs = needs
        self._options = options

    def absent(self) -> str | None:
        """Say which package its event loop lacks."""
        return f"{self._needs} is not installed" if self._needs and find_spec(self._needs) is None else None

    def _run(self, job: Callable[[], Awaitable[Sample]]) -> Sample:
        return anyio.run(job, backend=self._backend, backend_options=self._options)

    # -- appending

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append from one task for each session."""

        async def run() -> Sample:
            sample = Sample(job.messages)
            async with SessionHost(space.fresh()) as host:
                sessions = [await host.create() for _ in range(job.sessions)]
                for session in sessions:
                    await session.append_message("user", "hello")
                one = _append_batches if job.batch > 1 else _append_messages
                with timed(sample):
                    async with anyio.create_task_group() as group:
                        for session in sessions:
                            group.start_soon(one, session, job, sample.latencies_s)
            return sample

        return self._run(run)

    # -- opening

    def open(self, log: Log, *, prepared: bool) -> Sample | None:
        """Load the session; what is prepared is the snapshot that passivation leaves."""

        async def run() -> Sample:
            sample = Sample()
            async with SessionHost(log.path.parent, limits=Limits(snapshot_after_lines=1)) as host:
                with timed(sample):
                    session = await host.load(log.path)
                assert session.cursor.seq == log.entries
            return sample

        if not prepared:
            _forget(log)
        elif not _snapshot(log).exists():
            self._run(run)
            assert _snapshot(log).exists()
        return self._run(run)

    def context(self, log: Log, *, again: bool) -> Sample:
        """Build the context once the session is loaded."""

        async def run() -> Sample:
            sample = Sample()
            async with SessionHost(log.path.parent) as host:
                session = await host.load(log.path)
                if again:
                    await session.context()
                with timed(sample):
                    context = await session.context()
                assert context.messages
            return sample

        return self._run(run)

    # -- resting

    def hold(self, sessions: int, space: Workspace) -> Sample:
        """Trace what is allocated for sessions that were appended to once and then passivated.

        The host's cache of entries has a bound of its own, whatever the number of sessions, and is made small here.
        """

        async def run() -> Sample:
            limits = Limits(cache_bytes_max=16 * 1024)
            grown = 0
            async with SessionHost(space.fresh(), limits=limits) as host:
                first = await _rested(host, 100)
                gc.collect()
                tracemalloc.start()
                try:
                    before = tracemalloc.get_traced_memory()[0]
                    held = await _rested(host, sessions)
                    gc.collect()
                    grown = tracemalloc.get_traced_memory()[0] - before
                finally:
                    tracemalloc.stop()
                assert len(first) + len(held) == sessions + 100
                assert host.statistics().live == 0
            return Sample(sessions, value=grown / sessions)

        return self._run(run)


async def _append_messages(session: Session, job: Appends, spent: list[float]) -> None:
    clock = time.perf_counter
    for _ in range(job.calls):
        began = clock()
        await session.append_message("user", TEXT_1_KB)
        spent.append(clock() - began)


async def _append_batches(session: Session, job: Appends, spent: list[float]) -> None:
    clock = time.perf_counter
    for _ in range(job.calls):
        began = clock()
        await session.append_many([Message("user", (text(TEXT_1_KB),)) for _ in range(job.batch)])
        spent.append(clock() - began)


async def _rested(host: SessionHost, count: int) -> list[Session]:
    sessions = [await host.create() for _ in range(count)]
    for session in sessions:
        await session.append_message("user", "hello")
    await host.passivate_idle()
    return sessions


def _snapshot(log: Log) -> Path:
    return log.path.with_name(log.path.name + ".index")


def _forget(log: Log) -> None:
    """Remove what an earlier opening left beside a log."""
    _snapshot(log).unlink(missing_ok=True)


PEERS: list[Peer] = [
    Treering("uvloop", "asyncio", needs="uvloop", options={"use_uvloop": True}),
    Treering("asyncio", "asyncio", options={"use_uvloop": False}),
    Treering("trio", "trio", needs="trio", options={}),
]
