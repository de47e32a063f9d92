"""Treering on each of the event loops."""

from __future__ import annotations

import statistics
import sys
import time
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from ..driving import Call, call_repeatedly
from ..jobs import TEXT_1_KB, Appends, Begins, Branches, Contexts, FanOuts, Opens, Reads, Stalls
from ..many_sessions import ManySessions, create_sessions
from ..peer import Peer
from ..timing import Sample, timed
from ..watching import tick
from ..workspace import Log, Workspace

if TYPE_CHECKING:
    from treering import Session, SessionHost


class Treering(ManySessions):
    """A treering host on one event loop: adds the jobs on one session, and appends to many, to `ManySessions`."""

    # -- appending

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append from one task per session."""
        from treering import SessionHost

        return self._run(lambda: append_to_sessions(SessionHost(space.new_folder()), job))

    def begin(self, job: Begins, space: Workspace) -> Sample:
        """Append to each session in turn: to new ones, to passivated ones, or creating and closing each."""
        from treering import SessionHost

        async def run() -> Sample:
            sample = Sample(job.sessions)
            async with SessionHost(space.new_folder()) as host:
                await create_sessions(host, 1)
                sessions = [] if job.messages > 1 else [await host.create() for _ in range(job.sessions)]
                if job.again:
                    for session in sessions:
                        await session.append_message("user", TEXT_1_KB)
                        await session.passivate()
                with timed(sample):
                    for number in range(job.sessions):
                        session = sessions[number] if sessions else await host.create()
                        for _ in range(job.messages):
                            await session.append_message("user", TEXT_1_KB)
                        if not sessions:
                            await session.close()
            return sample

        return self._run(run)

    def stall(self, job: Stalls, space: Workspace) -> Sample:
        """Append to all sessions as fast as possible, and measure the delay of a ticker."""
        from treering import SessionHost

        async def run() -> Sample:
            delays_s: list[float] = []
            async with SessionHost(space.new_folder()) as host:
                sessions = await create_sessions(host, job.sessions)
                with anyio.move_on_after(job.seconds):
                    async with anyio.create_task_group() as group:
                        group.start_soon(tick, delays_s.append)
                        for session in sessions:
                            group.start_soon(call_repeatedly, _append(session), sys.maxsize, inf, [])
            return Sample(len(delays_s), value=statistics.quantiles(delays_s, n=100)[98] * 1000)

        return self._run(run)

    # -- reading

    def open(self, job: Opens, space: Workspace) -> Sample:
        """Load the session; if the job is prepared, with the snapshot that passivation leaves."""
        from treering import Limits, SessionHost

        log = space.log(job.entries, compacted=job.compacted)

        async def run() -> Sample:
            sample = Sample()
            async with SessionHost(log.path.parent, limits=Limits(snapshot_after_lines=1)) as host:
                with timed(sample):
                    session = await host.load(log.path)
                    if job.context:
                        await session.context()
                assert session.cursor.seq == log.entries
            return sample

        if not job.prepared:
            _snapshot(log).unlink(missing_ok=True)
        elif not _snapshot(log).exists():
            self._run(run)
            assert _snapshot(log).exists()
        return self._run(run)

    def read(self, job: Reads, space: Workspace) -> Sample:
        """Load the session and read all of its messages."""
        from treering import SessionHost

        log = space.log(job.entries)

        async def run() -> Sample:
            sample = Sample()
            _snapshot(log).unlink(missing_ok=True)
            async with SessionHost(log.path.parent) as host:
                with timed(sample):
                    session = await host.load(log.path)
                    messages = await session.messages()
                assert len(messages) == job.entries
            return sample

        return self._run(run)

    def context(self, job: Contexts, space: Workspace) -> Sample:
        """Build the context once the session is loaded."""
        from treering import SessionHost

        log = space.log(job.entries, compacted=job.compacted)

        async def run() -> Sample:
            sample = Sample()
            async with SessionHost(log.path.parent) as host:
                session = await host.load(log.path)
                if job.again:
                    await session.context()
                with timed(sample):
                    context = await session.context()
                assert context.messages
            return sample

        return self._run(run)

    def branch(self, job: Branches, space: Workspace) -> Sample:
        """Move the leaf to the middle and append, in a copy of a long session."""
        from treering import SessionHost

        log = space.log(job.entries)

        async def run() -> Sample:
            sample = Sample(job.count)
            async with SessionHost(space.new_folder()) as host:
                session = await host.fork_from(log.path)
                middle = session.path()[job.entries // 2]
                await session.branch(middle)  # activates the session: the other peers' sessions are open, too
                with timed(sample):
                    for _ in range(job.count):
                        began = time.perf_counter()
                        await session.branch(middle)
                        await session.append_message("user", TEXT_1_KB)
                        sample.latencies_s.append(time.perf_counter() - began)
            return sample

        return self._run(run)

    # -- following

    def fan_out(self, job: FanOuts, space: Workspace) -> Sample:
        """Append in bursts until every subscriber has received every entry."""
        from treering import SessionHost

        async def run() -> Sample:
            sample = Sample(job.subscribers * job.events)
            async with SessionHost(space.new_folder()) as host:
                (session,) = await create_sessions(host, 1)
                append = _append(session, job.burst)
                subscribers = _Subscribers(session, job)
                async with anyio.create_task_group() as group:
                    for _ in range(job.subscribers):
                        group.start_soon(subscribers.follow)
                    while subscribers.ready < job.subscribers:
                        await anyio.lowlevel.checkpoint()
                    with timed(sample):
                        for _ in range(job.events // job.burst):
                            await append()
                            await anyio.lowlevel.checkpoint()
                        await subscribers.all_finished.wait()
            return sample

        return self._run(run)


class _Subscribers:
    """The subscribers of one session, each of which leaves after the last entry of the job.

    Attributes:
        ready: How many have subscribed.
        all_finished: Set when all have received everything.
    """

    def __init__(self, session: Session, job: FanOuts) -> None:
        self._session = session
        self._job = job
        self._finished = 0
        self.ready = 0
        self.all_finished = anyio.Event()

    async def follow(self) -> None:
        """Receive the entries of the job."""
        remaining = self._job.events
        async with self._session.subscribe(after=self._session.cursor) as entries:
            self.ready += 1
            if self._job.at_once:
                while remaining:
                    remaining -= len(await entries.receive_many())
            else:
                async for _ in entries:
                    remaining -= 1
                    if not remaining:
                        break
        self._finished += 1
        if self._finished == self._job.subscribers:
            self.all_finished.set()


async def append_to_sessions(new_host: SessionHost, job: Appends) -> Sample:
    """Append to the sessions of a host from one task per session."""
    sample = Sample(0)
    async with new_host as host:
        sessions = await create_sessions(host, job.sessions)
        with timed(sample):
            until = time.perf_counter() + job.seconds_max
            async with anyio.create_task_group() as group:
                for session in sessions:
                    append = _append(session, job.batch)
                    group.start_soon(call_repeatedly, append, job.calls, until, sample.latencies_s)
    sample.operations = len(sample.latencies_s) * job.batch
    return sample


def _append(session: Session, batch: int = 1) -> Call:
    if batch > 1:
        return partial(_append_batch, session, batch)
    return partial(session.append_message, "user", TEXT_1_KB)


async def _append_batch(session: Session, count: int) -> None:
    from treering import Message, text

    await session.append_many([Message("user", (text(TEXT_1_KB),)) for _ in range(count)])


def _snapshot(log: Log) -> Path:
    return log.path.with_name(log.path.name + ".index")


PEERS: list[Peer] = [
    Treering("uvloop", "asyncio", modules=("uvloop",), options={"use_uvloop": True}),
    Treering("asyncio", "asyncio", options={"use_uvloop": False}, full_only=True),
    Treering("trio", "trio", modules=("trio",), options={}, full_only=True),
]
