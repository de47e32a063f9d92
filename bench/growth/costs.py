"""The costs that are measured: what one operation is, what it depends on, and how it should grow.

Each function prepares a size, does the operation until that has taken long enough to tell, and returns the sample. They
run on uvloop, in a process of their own.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from treering import ContextBudget, ContextBuilder, Limits, Message, Session, SessionHost, text

from ..driving import on_loop
from ..jobs import TEXT_1_KB, Branches, Contexts, FanOuts, Job, Opens
from ..peers.ours import PEERS
from ..search_data import RARE, write_sessions
from ..timing import Sample, timed
from ..transcripts import write_transcript
from ..workspace import Workspace
from .curves import Axis

LONG_ENOUGH_S = 0.3
_PAGE = 100
_WINDOW = 32_000
_TRANSCRIPT_ENTRY_BYTES = 2_000
_NEW_BYTES = 20_000

Measure = Callable[[int, Workspace], Sample]


@dataclass(frozen=True)
class Cost:
    """One cost.

    Attributes:
        name: Its name on the command line.
        title: What one operation is.
        axis: What there is more and more of.
        expected: The exponent that it should have: 0 or 1.
        measure: Measures it at a size.
        why: What explains an exponent above the expected one, as the end of a sentence.
        largest: The largest size at which it is measured; None for that of its axis.
    """

    name: str
    title: str
    axis: Axis
    expected: int
    measure: Measure
    why: str = ""
    largest: int | None = None


async def _repeat(operation: Callable[[], Awaitable[object]], least: int = 3) -> Sample:
    """Do an operation once untimed, then until it has taken long enough."""
    await operation()
    sample = Sample(0)
    with timed(sample):
        until = time.perf_counter() + LONG_ENOUGH_S
        while sample.operations < least or time.perf_counter() < until:
            await operation()
            sample.operations += 1
    return sample


def _job(make: Callable[[int], Job], size: int, space: Workspace) -> Sample:
    """Do a job of the scenarios."""
    sample = PEERS[0].do(make(size), space)
    assert sample is not None
    return sample


# -- many sessions


def _root(sessions: int, space: Workspace) -> Path:
    """Return a folder of sessions with keys, each with two messages, that was listed before."""

    async def fill(root: Path) -> Sample:
        async with SessionHost(root, limits=Limits(live_max=2_000)) as host:
            for number in range(sessions):
                session = await host.get_or_create(f"chat:{number}")
                await session.append_many([Message("user", (text(TEXT_1_KB),))] * 2)
        async with SessionHost(root) as host:
            assert len(await host.list_sessions()) == sessions
        return Sample()

    def make(folder: Path) -> None:
        on_loop(partial(fill, folder / "sessions"))

    return space.cached_folder(f"growth-sessions-{sessions}", make) / "sessions"


def _among(operation: Callable[[SessionHost], Awaitable[object]]) -> Measure:
    """Return what measures an operation of a host that has listed its sessions."""

    def measure(sessions: int, space: Workspace) -> Sample:
        root = _root(sessions, space)

        async def run() -> Sample:
            async with SessionHost(root) as host:
                await host.list_sessions()
                return await _repeat(lambda: operation(host))

        return on_loop(run)

    return measure


def _start(sessions: int, space: Workspace) -> Sample:
    root = _root(sessions, space)

    async def run() -> Sample:
        async def start() -> None:
            async with SessionHost(root):
                pass

        return await _repeat(start)

    return on_loop(run)


def _open_by_key(sessions: int, space: Workspace) -> Sample:
    root = _root(sessions, space)

    async def run() -> Sample:
        numbers = count()
        async with SessionHost(root) as host:

            async def open_and_close() -> None:
                session = await host.get_or_create(f"chat:{next(numbers) * 7919 % sessions}")
                await session.close()

            return await _repeat(open_and_close)

    return on_loop(run)


def _append_in_turn(sessions: int, space: Workspace) -> Sample:
    """Append to live sessions, one after another."""

    async def run() -> Sample:
        limits = Limits(live_max=sessions + 1, idle_after_s=3_600)
        async with SessionHost(space.new_folder(), limits=limits) as host:
            all_sessions = [await host.create() for _ in range(sessions)]
            for session in all_sessions:
                await session.append_message("user", "hello")
            numbers = count()
            return await _repeat(
                lambda: all_sessions[next(numbers) % sessions].append_message("user", TEXT_1_KB), least=sessions
            )

    return on_loop(run)


def _search(sessions: int, space: Workspace) -> Sample:
    def make(folder: Path) -> None:
        write_sessions(folder / "sessions", sessions, 5)

    root = space.cached_folder(f"growth-search-{sessions}", make) / "sessions"

    async def run() -> Sample:
        async with SessionHost(root) as host:

            async def search() -> None:
                assert [hit async for hit in host.search(RARE, index=True)]

            await search()
            return await _repeat(search)

    return on_loop(run)


# -- many entries


@asynccontextmanager
async def _copied(entries: int, space: Workspace) -> AsyncGenerator[tuple[SessionHost, Session]]:
    """Copy a long log, and yield its session, live."""
    log = space.log(entries)
    folder = space.new_folder()
    shutil.copy(log.path, folder)
    try:
        async with SessionHost(folder) as host:
            session = await host.load(folder / log.path.name)
            await session.append_message("user", TEXT_1_KB)
            yield host, session
    finally:
        shutil.rmtree(folder)


def _of_long(operation: Callable[[SessionHost, Session], Awaitable[object]], least: int = 3) -> Measure:
    """Return what measures an operation of a live session that has so many entries."""

    def measure(entries: int, space: Workspace) -> Sample:
        async def run() -> Sample:
            async with _copied(entries, space) as (host, session):
                return await _repeat(lambda: operation(host, session), least)

        return on_loop(run)

    return measure


def _append(_: SessionHost, session: Session) -> Awaitable[object]:
    return session.append_message("user", TEXT_1_KB)


async def _reopen(_: SessionHost, session: Session) -> None:
    assert await session.passivate()
    await session.append_message("user", TEXT_1_KB)


async def _last_page(_: SessionHost, session: Session) -> None:
    after = max(0, session.cursor.seq - _PAGE)
    assert [entry async for entry in session.iter_entries(after=after)]


async def _row(host: SessionHost, session: Session) -> None:
    await session.append_message("user", TEXT_1_KB)
    assert await host.get_session(session.id) is not None


async def _read_all(_: SessionHost, session: Session) -> None:
    assert await session.entries()


def _turn(entries: int, space: Workspace) -> Sample:
    budget, builder = ContextBudget(_WINDOW, 0, 0, 0, _WINDOW), ContextBuilder()
    sample = Sample(0)

    async def run() -> Sample:
        async with _copied(entries, space) as (_, session):
            await session.build_context(budget, builder)
            until = time.perf_counter() + LONG_ENOUGH_S
            while time.perf_counter() < until or sample.operations < 3:
                await session.append_message("user", TEXT_1_KB)
                wall, cpu = time.perf_counter(), time.process_time()
                assert (await session.build_context(budget, builder)).messages
                sample.wall_s += time.perf_counter() - wall
                sample.cpu_s += time.process_time() - cpu
                sample.operations += 1
        return sample

    return on_loop(run)


def _import(entries: int, space: Workspace) -> Sample:
    path = space.new_folder() / "transcript.jsonl"
    write_transcript(path, entries * _TRANSCRIPT_ENTRY_BYTES)
    return on_loop(partial(_timed_import, path, space.new_folder()))


def _import_grown(entries: int, space: Workspace) -> Sample:
    path, root = space.new_folder() / "transcript.jsonl", space.new_folder()
    written = write_transcript(path, entries * _TRANSCRIPT_ENTRY_BYTES)
    on_loop(partial(_timed_import, path, root))
    write_transcript(path, written + _NEW_BYTES)
    return on_loop(partial(_timed_import, path, root))


async def _timed_import(path: Path, root: Path) -> Sample:
    sample = Sample()
    async with SessionHost(root) as host:
        with timed(sample):
            reports = await host.import_sessions(path)
        assert reports
    return sample


# -- long lines


def _append_bytes(size: int, space: Workspace) -> Sample:
    async def run() -> Sample:
        async with SessionHost(space.new_folder()) as host:
            session = await host.create()
            return await _repeat(lambda: session.append_message("user", "x" * size), least=10)

    return on_loop(run)


def _read_bytes(size: int, space: Workspace) -> Sample:
    async def run() -> Sample:
        async with SessionHost(space.new_folder(), limits=Limits(cache_bytes_max=0)) as host:
            session = await host.create()
            entry = await session.append_message("user", "x" * size)
            return await _repeat(lambda: session.entry(entry), least=10)

    return on_loop(run)


def _follow_bytes(size: int, space: Workspace) -> Sample:
    async def run() -> Sample:
        async with SessionHost(space.new_folder()) as host:
            session = await host.create()
            await session.append_message("user", "hello")
            async with session.subscribe(after=session.cursor) as entries:

                async def deliver() -> None:
                    await session.append_message("user", "x" * size)
                    await anext(entries)

                return await _repeat(deliver, least=10)

    return on_loop(run)


_ASKED = "any program may have written to a session, so the store is asked for each file whether it has changed"
_REOPENED = (
    "an append opens its file anew where more sessions are live than files may be open, 1,024 at most by default"
)
_KERNEL = "most of it is the kernel's, which takes 0.4 ms for a MB, and 18 for 10 MB"
_NOT_KEPT = (
    "a path of more bytes than `Limits.cache_bytes_max` is not kept, and its context is built from the log each time"
)
_SNAPSHOT = (
    "the index is written to the snapshot and read from it whole; it is small, and what it costs is hidden at first"
)
_READ_WHOLE = "an import reads the transcript whole, since programs also rewrite them; following it reads what is new"

COSTS: tuple[Cost, ...] = (
    Cost("start", "start a host, and close it", "sessions", 0, _start),
    Cost("open-by-key", "open a session by its key, and close it", "sessions", 0, _open_by_key),
    Cost("append-in-turn", "an append to one of the live sessions, in turn", "sessions", 0, _append_in_turn, _REOPENED),
    Cost(
        "page",
        "a page of 50 of the listing",
        "sessions",
        0,
        _among(lambda host: host.list_sessions(limit=50)),
        _ASKED,
    ),
    Cost("list", "the whole listing", "sessions", 1, _among(lambda host: host.list_sessions())),
    Cost("search", "a search for a word of 20 entries", "sessions", 0, _search, _ASKED),
    Cost("append", "an append", "entries", 0, _of_long(_append, least=100)),
    Cost("branch", "branch from the middle, and append", "entries", 0, partial(_job, Branches)),
    Cost("row", "an append, and its row of the listing", "entries", 0, _of_long(_row, least=100)),
    Cost("last-page", "read the last 100 entries", "entries", 0, _of_long(_last_page)),
    Cost("turn", "fit the context into a window of 32,000 tokens, after an append", "entries", 0, _turn, _NOT_KEPT),
    Cost("reopen", "an append to a session at rest", "entries", 0, _of_long(_reopen), _SNAPSHOT),
    Cost("open-cold", "open a session, from its log alone", "entries", 1, partial(_job, Opens)),
    Cost(
        "open-snapshot", "open a session, with its snapshot", "entries", 1, partial(_job, partial(Opens, prepared=True))
    ),
    Cost("context", "the whole context, for the first time", "entries", 1, partial(_job, Contexts)),
    Cost("read-all", "read all entries", "entries", 1, _of_long(_read_all, least=1)),
    Cost("import", "import a transcript of Claude Code", "entries", 1, _import, largest=100_000),
    Cost(
        "import-grown",
        "import one again that has 20 KB more",
        "entries",
        0,
        _import_grown,
        _READ_WHOLE,
        largest=100_000,
    ),
    Cost("deliver", "a delivery to one follower", "followers", 0, partial(_job, lambda size: FanOuts(size, 40))),
    Cost(
        "deliver-bursts",
        "a delivery to one follower, of bursts of 20",
        "followers",
        0,
        partial(_job, lambda size: FanOuts(size, 200, burst=20, at_once=True)),
    ),
    Cost("append-bytes", "an append", "bytes", 1, _append_bytes, _KERNEL),
    Cost("read-bytes", "read one entry from the disk", "bytes", 1, _read_bytes),
    Cost("follow-bytes", "an append, until its follower has it", "bytes", 1, _follow_bytes, _KERNEL),
)
"""All costs, in the order of the report."""
