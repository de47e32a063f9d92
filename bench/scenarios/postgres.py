"""Sessions in PostgreSQL: what the store adds to the statements that it sends, and what others need for the same.

Server and client share the machine's processors. The server flushes each commit; the slow one waits 2 ms before.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
import psycopg
from anyio.lowlevel import checkpoint
from psycopg import sql
from psycopg.abc import Params

from treering import MemoryStore, SessionHost
from treering.events.stores.base import Append, Committed, Lease
from treering.stores.postgres import PostgresStore
from treering.testing.stores.case import line

from ..jobs import TEXT_1_KB, DatabaseAppends
from ..peer import Peer
from ..postgres import FLUSH_MS, BareStatement, fill, is_installed, new_schema, recorded, run, server
from ..scenario import Goal, Scale, Scenario, Side, micros, millis, peer_sides
from ..timing import Sample, timed
from ..workspace import Workspace

WAVES = 10
ALONE = 300
PAGE = 50
LONG = 10_000

_STATEMENT, _STORE, _SESSIONS = "the statement alone", "treering, the store", "treering, sessions"
_MEMORY, _TASKS = "treering, sessions in memory", "tasks that wait for an event"
_SURVIVES = "a power cut"


def _bare(sessions: int, waves: int, scale: Scale, space: Workspace, *, slow: bool) -> Sample:
    schema = new_schema()
    anyio.run(fill, server(slow=slow).url(schema=schema), sessions, ["hello"])
    bare = BareStatement(server(slow=slow).url(), schema, line(1, TEXT_1_KB)[:-1])
    warm, sample = Sample(), Sample(sessions * waves)
    for _ in range(6):  # so that the driver has prepared it
        bare.append(warm)
    with timed(sample):
        for _ in range(waves):
            bare.append(sample)
    bare.close()
    return sample


def _store(sessions: int, waves: int, scale: Scale, space: Workspace, *, slow: bool) -> Sample:
    schema = new_schema()
    url = server(slow=slow).url(schema=schema)
    ids = anyio.run(fill, url, sessions, ["hello"])

    async def append() -> Sample:
        store = PostgresStore(url)
        taken = await store.acquire([info.ref for info in await store.page(limit=sessions + 1)], "bench")
        leases = [each for each in taken if isinstance(each, Lease)]
        heads = [each.head for each in leases]
        sample = Sample(len(ids) * waves)

        async def wave() -> None:
            nonlocal heads, sample
            appends = [
                Append(lease, head, (line(head.seq + 1, TEXT_1_KB),)) for lease, head in zip(leases, heads, strict=True)
            ]
            with timed(sample):
                began = time.perf_counter()
                outcomes = await store.append(appends)
                sample.latencies_s.append(time.perf_counter() - began)
            heads = [each.head for each in outcomes if isinstance(each, Committed)]
            assert len(heads) == len(ids)

        for _ in range(6):
            await wave()
        sample = Sample(len(ids) * waves)
        for _ in range(waves):
            await wave()
        await store.aclose()
        return sample

    return run(append)


async def _timed_each(sample: Sample, times: int, once: Callable[[], Awaitable[object]]) -> None:
    """Do something so many times, one after the other, and note how long each took."""
    with timed(sample):
        for _ in range(times):
            began = time.perf_counter()
            await once()
            sample.latencies_s.append(time.perf_counter() - began)


def _sessions(sessions: int, waves: int, scale: Scale, space: Workspace, *, slow: bool) -> Sample:
    url = server(slow=slow).url(schema=new_schema())
    return _waves_of_sessions(lambda: SessionHost(url), sessions, waves)


def _in_memory(sessions: int, waves: int, scale: Scale, space: Workspace) -> Sample:
    """Append the same without a database: what the library takes by itself, which no store makes less."""
    return _waves_of_sessions(lambda: SessionHost(store=MemoryStore()), sessions, waves)


def _waves_of_sessions(host_of: Callable[[], SessionHost], sessions: int, waves: int) -> Sample:
    async def append() -> Sample:
        sample = Sample(sessions * waves)
        async with host_of() as host:
            handles = [await host.create() for _ in range(sessions)]

            async def wave() -> None:
                async with anyio.create_task_group() as tasks:
                    for each in handles:
                        tasks.start_soon(each.append_message, "user", TEXT_1_KB)

            for _ in range(7):
                await wave()
            await _timed_each(sample, waves, wave)
        return sample

    return run(append)


def _tasks(sessions: int, waves: int, scale: Scale, space: Workspace) -> Sample:
    """Start as many tasks that wait for one event, and do nothing else."""

    async def wait() -> Sample:
        sample = Sample(sessions * waves)

        async def wave() -> None:
            event = anyio.Event()
            async with anyio.create_task_group() as tasks:
                for _ in range(sessions):
                    tasks.start_soon(event.wait)
                await checkpoint()
                event.set()

        await wave()
        await _timed_each(sample, waves, wave)
        return sample

    return run(wait)


def _alone(scale: Scale, space: Workspace) -> Sample:
    url = server().url(schema=new_schema())

    async def append() -> Sample:
        sample = Sample(ALONE)
        async with SessionHost(url) as host:
            session = await host.create()
            for _ in range(7):
                await session.append_message("user", TEXT_1_KB)
            await _timed_each(sample, ALONE, lambda: session.append_message("user", TEXT_1_KB))
        return sample

    return run(append)


# -- reading


def _long_url() -> tuple[str, str]:
    """Return an address, and a session there of many entries that was opened and closed before."""
    schema = new_schema()
    url = server().url(schema=schema)

    async def make() -> str:
        async with SessionHost(url) as host:
            session = await host.create()
            for _ in range(LONG // 1000):
                async with anyio.create_task_group() as tasks:
                    for _ in range(1000):
                        tasks.start_soon(session.append_message, "user", TEXT_1_KB)
            return session.id

    return schema, anyio.run(make)


def _open(scale: Scale, space: Workspace) -> Sample:
    schema, session_id = _long_url()

    async def load() -> Sample:
        sample = Sample(1)
        async with SessionHost(server().url(schema=schema)) as host:
            await host.create()  # a host that has connected
            with timed(sample):
                session = await host.load(session_id, read_only=True)
            assert session.cursor.seq == LONG
        return sample

    return run(load)


def _select(scale: Scale, space: Workspace) -> Sample:
    schema, _ = _long_url()
    sample = Sample(1)
    with psycopg.connect(server().url(), autocommit=True) as connection:
        connection.execute("select 1")
        query = sql.SQL("select line from {}.lines order by seq").format(sql.Identifier(schema))
        with timed(sample):
            rows = connection.execute(query, binary=True).fetchall()
        assert len(rows) == LONG
    return sample


def _list(scale: Scale, space: Workspace) -> Sample:
    url = server().url(schema=new_schema())
    anyio.run(fill, url, scale.many, ["hello"])

    async def show() -> Sample:
        sample = Sample(20)
        async with SessionHost(url) as host:
            for _ in range(6):
                await host.list_sessions(limit=PAGE)
            with timed(sample):
                for _ in range(20):
                    rows = await host.list_sessions(limit=PAGE)
            assert len(rows) == min(PAGE, scale.many)
        return sample

    return run(show)


def _list_select(scale: Scale, space: Workspace) -> Sample:
    """Send the statement that a page of the listing sends, and nothing else."""
    url = server().url(schema=new_schema())
    anyio.run(fill, url, scale.many, ["hello"])
    asked: list[tuple[bytes, Params | None]] = []

    async def record() -> None:
        async with SessionHost(url) as host:
            await host.list_sessions(limit=PAGE)
            with recorded(asked):
                await host.list_sessions(limit=PAGE)

    anyio.run(record)
    query, parameters = next((query, given) for query, given in asked if b" offset " in query)
    sample = Sample(20)
    with psycopg.connect(server().url(), autocommit=True) as connection:
        for _ in range(6):
            connection.execute(query, parameters, binary=True).fetchall()
        with timed(sample):
            for _ in range(20):
                rows = connection.execute(query, parameters, binary=True).fetchall()
        assert len(rows) == min(PAGE, scale.many)
    return sample


# -- scenarios


def _many(slow: bool) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    def sides(peers: Sequence[Peer], scale: Scale) -> list[Side]:
        runs = ((_STATEMENT, _bare), (_STORE, _store), (_SESSIONS, _sessions))
        sides = [Side(name, partial(each, scale.many, WAVES, scale, slow=slow), _SURVIVES) for name, each in runs]
        without = ((_MEMORY, _in_memory), (_TASKS, _tasks))
        return sides + [Side(name, partial(each, scale.many, WAVES, scale), "nothing") for name, each in without]

    return _if_installed(sides)


def _if_installed(
    sides: Callable[[Sequence[Peer], Scale], list[Side]],
) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    return lambda peers, scale: sides(peers, scale) if is_installed() else []


def _two(
    first: str, one: Callable[[Scale, Workspace], Sample], second: str, other: Callable[[Scale, Workspace], Sample]
) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    return _if_installed(lambda peers, scale: [Side(first, partial(one, scale)), Side(second, partial(other, scale))])


def _peers(peers: Sequence[Peer], scale: Scale) -> list[Side]:
    return peer_sides(peers, DatabaseAppends(server().url(), scale.many, WAVES, scale.seconds_max * 4), appends=True)


_SHARED = "Server and client share the processors of this machine."
_SLOW = f"The server waits {FLUSH_MS} ms before each flush (commit_delay). {_SHARED}"
_STATEMENT_NOTE = "The statement is the store's own, with lines that were encoded before."

SCENARIOS = [
    Scenario(
        "postgres-many",
        lambda scale: f"PostgreSQL: one pending append of 1 KB in each of {scale.many:,} sessions",
        "µs/append",
        micros,
        _many(slow=False),
        (Goal(_STORE, "speed", 0.7), Goal(_SESSIONS, "speed", 0.7)),
        _STATEMENT,
        5,
        f"{_STATEMENT_NOTE} {_SHARED}",
        full_only=True,
    ),
    Scenario(
        "postgres-many-slow",
        lambda scale: f"PostgreSQL whose flushes take {FLUSH_MS} ms more: one pending append in each of {scale.many:,}",
        "µs/append",
        micros,
        _many(slow=True),
        (Goal(_STORE, "speed", 0.7), Goal(_SESSIONS, "speed", 0.7)),
        _STATEMENT,
        5,
        f"{_STATEMENT_NOTE} {_SLOW}",
        full_only=True,
    ),
    Scenario(
        "postgres-one",
        "PostgreSQL: awaited appends of 1 KB to one session alone",
        "µs/append",
        micros,
        _two(_STATEMENT, partial(_bare, 1, ALONE, slow=False), _SESSIONS, _alone),
        (Goal(_SESSIONS, "speed", 0.6),),
        _STATEMENT,
        5,
        f"{_STATEMENT_NOTE} {_SHARED}",
        full_only=True,
    ),
    Scenario(
        "postgres-peers",
        lambda scale: f"PostgreSQL: awaited appends of 1 KB, one at a time in each of {scale.many:,} sessions",
        "µs/append",
        micros,
        _if_installed(_peers),
        (Goal("treering on PostgreSQL", "speed", 10.0, against=("langgraph", "openai-agents")),),
        "treering on PostgreSQL",
        3,
        _SHARED,
        full_only=True,
    ),
    Scenario(
        "postgres-open",
        f"PostgreSQL: open a session of {LONG:,} entries of 1 KB that was closed in order",
        "ms",
        millis,
        _two("one SELECT of its lines", _select, "treering, load", _open),
        (Goal("treering, load", "cost", 1.5),),
        "one SELECT of its lines",
        5,
        _SHARED,
        full_only=True,
    ),
    Scenario(
        "postgres-list",
        lambda scale: f"PostgreSQL: a page of {PAGE} rows of the listing of {scale.many:,} sessions",
        "ms/page",
        millis,
        _two("its SELECT", _list_select, "treering, list_sessions", _list),
        (Goal("treering, list_sessions", "cost", 2.0),),
        "its SELECT",
        5,
        _SHARED,
        full_only=True,
    ),
]
