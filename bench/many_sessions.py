"""The jobs of a treering host on many sessions: listing, searching, and holding them, live or passivated.

The peer itself is in `bench.peers.ours`, with the jobs on one session.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from .driving import list_all
from .jobs import TEXT_1_KB, Descriptors, Holds, Lists, Searches
from .peer import Peer
from .process import open_descriptors
from .search_data import write_sessions
from .timing import Sample, timed
from .workspace import Workspace

if TYPE_CHECKING:
    from treering import Session, SessionHost

_AT_ONCE = 1_000
"""How many sessions become live before they are passivated together."""


class ManySessions(Peer):
    """A host on one event loop, with the jobs on many sessions.

    Args:
        loop: The name of the event loop in the tables.
        backend: The backend of anyio.
        modules: The modules that it needs.
        options: The backend's options.
        full_only: Only full runs include it.
    """

    durability = "a process crash"

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
        """List the sessions of a root that no earlier run has listed."""
        from treering import SessionHost

        root = listed_sessions(job, space)

        async def run() -> Sample:
            if not job.warm:
                _forget_listing(root)
            async with SessionHost(root) as host:
                sample = await list_all(job, host.list_sessions)
                assert len(await host.list_sessions()) == job.sessions
            return sample

        return self._run(run)

    def search(self, job: Searches, space: Workspace) -> Sample:
        """Repeat a search in the same host, with the index or by reading the logs."""
        from treering import SessionHost

        def make(folder: Path) -> None:
            write_sessions(folder / "sessions", job.sessions, job.entries)

        root = space.cached_folder(f"search-{job.sessions}-{job.entries}", make) / "sessions"

        async def run() -> Sample:
            sample = Sample()
            async with SessionHost(root) as host:
                for _ in range(2):
                    sample = Sample()
                    with timed(sample):
                        hits = [hit async for hit in host.search(job.word, index=not job.scan)]
                assert len(hits) == job.hits
            return sample

        return self._run(run)

    # -- resting

    def hold(self, job: Holds, space: Workspace) -> Sample:
        """Trace the allocations for sessions that had one append each and, unless `live`, were passivated afterwards.

        The host's entry cache has a bound that does not depend on the number of sessions; it is small here.
        """
        from treering import Limits, SessionHost

        async def run() -> Sample:
            limits = Limits(cache_bytes_max=16 * 1024, live_max=2 * job.sessions + 200)
            allocated = 0
            async with SessionHost(space.new_folder(), limits=limits) as host:
                first = await _create_held_sessions(host, 100, live=job.live)
                gc.collect()
                tracemalloc.start()
                try:
                    before = tracemalloc.get_traced_memory()[0]
                    held = await _create_held_sessions(host, job.sessions, live=job.live)
                    gc.collect()
                    allocated = tracemalloc.get_traced_memory()[0] - before
                finally:
                    tracemalloc.stop()
                assert len(first) + len(held) == job.sessions + 100
                assert host.statistics().live == (job.sessions + 100 if job.live else 0)
            return Sample(job.sessions, value=allocated / job.sessions)

        return self._run(run)

    def descriptors(self, job: Descriptors, space: Workspace) -> Sample:
        """Count the files that are open after one append to each session; all sessions are live."""
        from treering import SessionHost

        async def run() -> Sample:
            before = open_descriptors()
            async with SessionHost(space.new_folder()) as host:
                sessions = await create_sessions(host, job.sessions, TEXT_1_KB)
                assert host.statistics().live == len(sessions)
                return Sample(job.sessions, value=float(open_descriptors() - before))

        return self._run(run)


def listed_sessions(job: Lists, space: Workspace) -> Path:
    """Return a folder of sessions to list; the first call writes them."""
    from treering import SyncHost

    def make(folder: Path) -> None:
        with SyncHost(folder / "sessions") as host:
            for _ in range(job.sessions):
                session = host.create()
                for number in range(job.entries):
                    session.append_message(("user", "assistant")[number % 2], TEXT_1_KB)

    return space.cached_folder(f"sessions-{job.sessions}-{job.entries}", make) / "sessions"


async def create_sessions(host: SessionHost, count: int, message: str = "hello") -> list[Session]:
    """Create sessions and append one message to each."""
    sessions = [await host.create() for _ in range(count)]
    for session in sessions:
        await session.append_message("user", message)
    return sessions


async def _create_held_sessions(host: SessionHost, count: int, *, live: bool) -> list[Session]:
    sessions: list[Session] = []
    while len(sessions) < count:
        sessions += await create_sessions(host, min(_AT_ONCE, count - len(sessions)))
        if not live:
            await host.passivate_idle()
    return sessions


def _forget_listing(root: Path) -> None:
    """Remove the indexes that an earlier listing left."""
    for path in (root / ".treering" / "index.jsonl", *root.rglob("*.index")):
        path.unlink(missing_ok=True)
