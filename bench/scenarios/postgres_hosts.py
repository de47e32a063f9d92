"""Several hosts on one PostgreSQL server: how late a follower hears, what leases cost, how long a take-over takes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import anyio
import psycopg
from psycopg import sql

from treering import SessionHost
from treering.events.stores.base import Lease
from treering.stores.postgres import PostgresStore

from ..jobs import TEXT_1_KB
from ..peer import Peer
from ..postgres import fill, is_installed, new_schema, run, server
from ..scenario import Goal, Scale, Scenario, Side, value
from ..timing import Sample
from ..workspace import Workspace

EVENTS = 200
PAUSE_S = 0.005
LEASES = 2_000
TAKEN = 1_000
LEASE_S = 2.0

_OWNER = """
import sys
import anyio
from treering import SessionHost

async def own(url, refs):
    async with SessionHost(url) as host:
        async with anyio.create_task_group() as tasks:
            for ref in refs:
                tasks.start_soon(host.load, ref)
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(own, sys.argv[1], sys.stdin.read().split())
"""


def _bare_notify(scale: Scale, space: Workspace) -> Sample:
    """Notify from one connection, and hear it on another: the delay from the call on."""
    sample = Sample(EVENTS)
    url = server().url()
    with psycopg.connect(url, autocommit=True) as hearing, psycopg.connect(url, autocommit=True) as telling:
        hearing.execute("listen bench_delay")
        for number in range(EVENTS):
            began = time.perf_counter()
            telling.execute("select pg_notify('bench_delay', %s)", [str(number)])
            (note,) = hearing.notifies(timeout=10, stop_after=1)
            sample.latencies_s.append(time.perf_counter() - began)
            assert note.payload == str(number)
            time.sleep(PAUSE_S)
    sample.value = statistics.median(sample.latencies_s) * 1000
    return sample


def _bare_line(scale: Scale, space: Workspace) -> Sample:
    """Insert a line and notify by one statement on one connection, hear it on another, and select the line there."""
    sample, schema = Sample(EVENTS), new_schema()
    url = server().url()
    with psycopg.connect(url, autocommit=True) as hearing, psycopg.connect(url, autocommit=True) as telling:
        telling.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
        table = sql.Identifier(schema, "lines")
        telling.execute(sql.SQL("create table {} (seq int8 primary key, line bytea not null)").format(table))
        insert = sql.SQL(
            "with line as (insert into {} values (%s, %s) returning seq) "
            "select pg_notify('bench_line', seq::text) from line"
        ).format(table)
        select = sql.SQL("select line from {} where seq = %s").format(table)
        hearing.execute("listen bench_line")
        for number in range(EVENTS):
            began = time.perf_counter()
            telling.execute(insert, [number, TEXT_1_KB.encode()])
            (note,) = hearing.notifies(timeout=10, stop_after=1)
            row = hearing.execute(select, [int(note.payload)]).fetchone()
            sample.latencies_s.append(time.perf_counter() - began)
            assert row == (TEXT_1_KB.encode(),)
            time.sleep(PAUSE_S)
    sample.value = statistics.median(sample.latencies_s) * 1000
    return sample


def _follow(scale: Scale, space: Workspace) -> Sample:
    """Append on one host, and receive the entry on another: the delay from the call on."""
    url = server().url(schema=new_schema())

    async def follow() -> Sample:
        sample = Sample(EVENTS)
        async with SessionHost(url) as host, SessionHost(url) as other:
            session = await host.create()
            await session.append_message("user", "hello")
            reader = await other.load(session.id, read_only=True)
            async with reader.subscribe() as entries:
                await anext(entries)
                for _ in range(EVENTS):
                    began = time.perf_counter()
                    await session.append_message("user", TEXT_1_KB)
                    await anext(entries)
                    sample.latencies_s.append(time.perf_counter() - began)
                    await anyio.sleep(PAUSE_S)
        sample.value = statistics.median(sample.latencies_s) * 1000
        return sample

    return run(follow)


def _renew(scale: Scale, space: Workspace) -> Sample:
    """Renew the leases on many logs; the value is the median time of a round in milliseconds."""
    url = server().url(schema=new_schema())

    async def renew() -> Sample:
        sample = Sample(10)
        await fill(url, LEASES, ["hello"])
        store = PostgresStore(url)
        refs = [info.ref for info in await store.page(limit=LEASES)]
        leases = [each for each in await store.acquire(refs, "bench") if isinstance(each, Lease)]
        for _ in range(10):
            began = time.perf_counter()
            kept = await store.renew(leases)
            sample.latencies_s.append(time.perf_counter() - began)
            assert kept == [True] * LEASES
        await store.aclose()
        sample.value = statistics.median(sample.latencies_s) * 1000
        return sample

    return run(renew)


def _take_over(scale: Scale, space: Workspace) -> Sample:
    """Kill a host of many sessions, and append to all of them on another; the value is how long that takes."""
    url = server().url(schema=new_schema(), lease_s=str(LEASE_S))
    return Sample(TAKEN, value=take_over(url, anyio.run(fill, url, TAKEN, ["hello"])))


def take_over(url: str, ids: Sequence[str]) -> float:
    """Kill a host that has loaded sessions, and return how many seconds another one takes to append to all of them."""
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        owner.stdin.write(" ".join(ids))
        owner.stdin.close()
        assert owner.stdout.readline() == "ready\n"

        async def take() -> float:
            async with SessionHost(url) as host:
                await host.list_sessions(limit=1)  # a host that has connected
                owner.kill()
                began = time.perf_counter()

                async def append(session_id: str) -> None:
                    session = await host.load(session_id)
                    await session.append_message("user", "taken")

                async with anyio.create_task_group() as tasks:
                    for session_id in ids:
                        tasks.start_soon(append, session_id)
                return time.perf_counter() - began

        return run(take)


def _sides(**runs: Callable[[Scale, Workspace], Sample]) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    def sides(peers: Sequence[Peer], scale: Scale) -> list[Side]:
        each = [Side(name.replace("_", " "), partial(job, scale)) for name, job in runs.items()]
        return each if is_installed() else []

    return sides


_NOTE = "Server, hosts and client share the processors of this machine."

SCENARIOS = [
    Scenario(
        "postgres-follow",
        "PostgreSQL: how long after the call of an append a follower on another host has the entry (p50)",
        "ms",
        value,
        _sides(bare_NOTIFY=_bare_notify, bare_INSERT_and_SELECT=_bare_line, treering=_follow),
        (Goal("treering", "cost", 2.0),),
        "bare NOTIFY",
        5,
        f"An append is a commit that is flushed, and its line is read; the bare NOTIFY is neither. {_NOTE}",
        full_only=True,
    ),
    Scenario(
        "postgres-leases",
        f"PostgreSQL: renew the leases on {LEASES:,} sessions",
        "ms",
        value,
        _sides(treering=_renew),
        (Goal("treering", "figure", 50.0),),
        rounds_max=5,
        note=_NOTE,
        full_only=True,
    ),
    Scenario(
        "postgres-take-over",
        f"PostgreSQL: from the kill of a host of {TAKEN:,} sessions to an append to each of them on another",
        "s",
        value,
        _sides(treering=_take_over),
        (Goal("treering", "figure", LEASE_S + 1),),
        rounds_max=3,
        note=f"The lease lasts {LEASE_S:g} s. {_NOTE}",
        full_only=True,
    ),
]
