"""Treering itself, on each of the event loops."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from ..jobs import TEXT_1_KB, Appends, Branches, Contexts, FanOuts, Holds, Lists, Opens, Reads, Stalls
from ..peer import Peer
from ..timing import Sample, timed
from ..workspace import Log, Workspace

if TYPE_CHECKING:
    from treering import Session, SessionHost

TICK_S = 0.005


class Treering(Peer):
    """A host on one event loop."""

    durability = "the process"

    def __init__(self, loop: str, backend: str, *, modules: tuple[str, ...] = (), options: dict[str, Any]) -> None:
        self.name = f"treering/{loop}"
        self.modules = modules
        self._backend = backend
        self._options = options

    def _run(self, job: Callable[[], Awaitable[Sample]]) -> Sample:
        return anyio.run(job, backend=self._backend, backend_options=self._options)

    # -- appending

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append from one task for each session."""
        from treering import SessionHost

        async def run() -> Sample:
            sample = Sample(0)
            async with SessionHost(space.fresh()) as host:
                sessions = await _begun(host, job.sessions)
                one = _append_batches if job.batch > 1 else _append_messages
                with timed(sample):
                    until = time.perf_counter() + job.seconds_max
                    async with anyio.create_task_group() as group:
                        for session in sessions:
                            group.start_soon(one, session, job, until, sample.latencies_s)
            sample.operations = len(sample.latencies_s) * job.batch
            return sample

        return self._run(run)

    def stall(self, job: Stalls, space: Workspace) -> Sample:
        """Append from all sessions as fast as it goes, and look at how late a ticker is."""
        from treering import SessionHost

        async def run() -> Sample:
            late: list[float] = []
            async with SessionHost(space.fresh()) as host:
                sessions = await _begun(host, job.sessions)
                endless = Appends(job.sessions, 1_000_000_000)
                with anyio.move_on_after(job.seconds):
                    async with anyio.create_task_group() as group:
                        group.start_soon(_tick, late)
                        for session in sessions:
                            group.start_soon(_append_messages, session, endless, float("inf"), [])
            return Sample(len(late), value=statistics.quantiles(late, n=100)[98] * 1000)

        return self._run(run)

    # -- reading

    def open(self, job: Opens, space: Workspace) -> Sample:
        """Load the session; what is prepared is the snapshot that passivation leaves."""
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
            async with SessionHost(space.fresh()) as host:
                session = await host.fork_from(log.path)
                middle = session.path()[job.entries // 2]
                with timed(sample):
                    for _ in range(job.count):
                        began = time.perf_counter()
                        await session.branch(middle)
                        await session.append_message("user", TEXT_1_KB)
                        sample.latencies_s.append(time.perf_counter() - began)
            return sample

        return self._run(run)

    def list(self, job: Lists, space: Workspace) -> Sample:
        """List the sessions of a root, which a run before this one has not listed."""
        from treering import SessionHost

        def make(folder: Path) -> None:
            async def fill() -> Sample:
                async with SessionHost(folder / "sessions") as host:
                    for _ in range(job.sessions):
                        session = await host.create()
                        for number in range(job.entries):
                            await session.append_message(("user", "assistant")[number % 2], TEXT_1_KB)
                return Sample()

            self._run(fill)

        root = space.kept(f"sessions-{job.sessions}-{job.entries}", make) / "sessions"

        async def run() -> Sample:
            sample = Sample()
            if not job.warm:
                _forget_listing(root)
            async with SessionHost(root) as host:
                if job.warm:
                    await host.list_sessions()
                with timed(sample):
                    rows = await host.list_sessions()
                assert len(rows) == job.sessions
            return sample

        return self._run(run)

    # -- following

    def fan_out(self, job: FanOuts, space: Workspace) -> Sample:
        """Append in bursts, and let every subscriber take in all of it."""
        from treering import Message, SessionHost, text

        async def run() -> Sample:
            sample = Sample(job.subscribers * job.events)
            async with SessionHost(space.fresh()) as host:
                (session,) = await _begun(host, 1)
                ready, through = 0, 0
                done = anyio.Event()

                async def follow() -> None:
                    nonlocal ready, through
                    async with session.subscribe(after=session.cursor) as entries:
                        ready += 1
                        left = job.events
                        async for _ in entries:
                            left -= 1
                            if not left:
                                break
                    through += 1
                    if through == job.subscribers:
                        done.set()

                async with anyio.create_task_group() as group:
                    for _ in range(job.subscribers):
                        group.start_soon(follow)
                    while ready < job.subscribers:
                        await anyio.lowlevel.checkpoint()
                    with timed(sample):
                        for _ in range(job.events // job.burst):
                            if job.burst == 1:
                                await session.append_message("user", TEXT_1_KB)
                            else:
                                await session.append_many([Message("user", (text(TEXT_1_KB),))] * job.burst)
                            await anyio.lowlevel.checkpoint()
                        await done.wait()
            return sample

        return self._run(run)

    # -- resting

    def hold(self, job: Holds, space: Workspace) -> Sample:
        """Trace what is allocated for sessions that were appended to once and then, unless `live`, passivated.

        The host's cache of entries has a bound of its own, whatever the number of sessions, and is made small here.
        """
        from treering import Limits, SessionHost

        async def run() -> Sample:
            limits = Limits(cache_bytes_max=16 * 1024, live_max=2 * job.sessions + 200)
            grown = 0
            async with SessionHost(space.fresh(), limits=limits) as host:
                first = await _rested(host, 100, live=job.live)
                gc.collect()
                tracemalloc.start()
                try:
                    before = tracemalloc.get_traced_memory()[0]
                    held = await _rested(host, job.sessions, live=job.live)
                    gc.collect()
                    grown = tracemalloc.get_traced_memory()[0] - before
                finally:
                    tracemalloc.stop()
                assert len(first) + len(held) == job.sessions + 100
                assert host.statistics().live == (job.sessions + 100 if job.live else 0)
            return Sample(job.sessions, value=grown / job.sessions)

        return self._run(run)


async def _begun(host: SessionHost, count: int) -> list[Session]:
    sessions = [await host.create() for _ in range(count)]
    for session in sessions:
        await session.append_message("user", "hello")
    return sessions


async def _append_messages(session: Session, job: Appends, until: float, spent: list[float]) -> None:
    clock = time.perf_counter
    for _ in range(job.calls):
        began = clock()
        await session.append_message("user", TEXT_1_KB)
        spent.append((now := clock()) - began)
        if now > until:
            break


async def _append_batches(session: Session, job: Appends, until: float, spent: list[float]) -> None:
    from treering import Message, text

    clock = time.perf_counter
    for _ in range(job.calls):
        began = clock()
        await session.append_many([Message("user", (text(TEXT_1_KB),)) for _ in range(job.batch)])
        spent.append((now := clock()) - began)
        if now > until:
            break


async def _tick(late: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await anyio.sleep(TICK_S)
        late.append(time.perf_counter() - began - TICK_S)


async def _rested(host: SessionHost, count: int, *, live: bool) -> list[Session]:
    sessions = await _begun(host, count)
    if not live:
        await host.passivate_idle()
    return sessions


def _snapshot(log: Log) -> Path:
    return log.path.with_name(log.path.name + ".index")


def _forget_listing(root: Path) -> None:
    """Remove what an earlier listing left."""
    for path in (root / "index.jsonl", *root.rglob("*.index")):
        path.unlink(missing_ok=True)


PEERS: list[Peer] = [
    Treering("uvloop", "asyncio", modules=("uvloop",), options={"use_uvloop": True}),
    Treering("asyncio", "asyncio", options={"use_uvloop": False}),
    Treering("trio", "trio", modules=("trio",), options={}),
]
