"""What a host of treering does with many sessions: it lists and searches them, and holds them while they rest.

The peer itself is in `bench.peers.ours`; this is the half of it that is not about one session.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from .jobs import TEXT_1_KB, Descriptors, Holds, Lists, Searches
from .peer import Peer
from .process import open_descriptors
from .searched import write_sessions
from .timing import Sample, timed
from .workspace import Workspace

if TYPE_CHECKING:
    from treering import Session, SessionHost

_AT_ONCE = 1_000
"""How many sessions are live before they are let go, where many are to rest."""


class ManySessions(Peer):
    """A host on one event loop, and the jobs that are about many sessions.

    Args:
        loop: What the tables call it.
        backend: The backend of anyio.
        modules: The modules that have to be there.
        options: The backend's options.
        full_only: Runs that are not full leave it out.
    """

    durability = "the process"

    def __init__(
        self,
        loop: str,
        backend: str,
        *,
        modules: tuple[str, ...] = (),
        options: dict[str, Any],
        full_only: bool = False,
    ) -> None:
        self.name = f"treering/{loop}"
        self.modules = modules
        self.full_only = full_only
        self._backend = backend
        self._options = options

    def _run(self, job: Callable[[], Awaitable[Sample]]) -> Sample:
        return anyio.run(job, backend=self._backend, backend_options=self._options)

    # -- finding

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

    def search(self, job: Searches, space: Workspace) -> Sample:
        """Search once more in a host that has searched before, with the index or by reading the logs."""
        from treering import SessionHost

        def make(folder: Path) -> None:
            write_sessions(folder / "sessions", job.sessions, job.entries)

        root = space.kept(f"searched-{job.sessions}-{job.entries}", make) / "sessions"

        async def run() -> Sample:
            sample = Sample()
            async with SessionHost(root) as host:
                for _ in range(2):
                    sample = Sample()
                    with timed(sample):
                        found = [hit async for hit in host.search(job.word, index=not job.scan)]
                assert len(found) == job.hits
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

    def descriptors(self, job: Descriptors, space: Workspace) -> Sample:
        """Count the files that are open once each session was appended to; all sessions are live."""
        from treering import SessionHost

        async def run() -> Sample:
            before = open_descriptors()
            async with SessionHost(space.fresh()) as host:
                sessions = await begun(host, job.sessions, TEXT_1_KB)
                assert host.statistics().live == len(sessions)
                return Sample(job.sessions, value=float(open_descriptors() - before))

        return self._run(run)


async def begun(host: SessionHost, count: int, said: str = "hello") -> list[Session]:
    """Make sessions, and append one message to each."""
    sessions = [await host.create() for _ in range(count)]
    for session in sessions:
        await session.append_message("user", said)
    return sessions


async def _rested(host: SessionHost, count: int, *, live: bool) -> list[Session]:
    sessions: list[Session] = []
    while len(sessions) < count:
        sessions += await begun(host, min(_AT_ONCE, count - len(sessions)))
        if not live:
            await host.passivate_idle()
    return sessions


def _forget_listing(root: Path) -> None:
    """Remove what an earlier listing left."""
    for path in (root / ".treering" / "index.jsonl", *root.rglob("*.index")):
        path.unlink(missing_ok=True)
