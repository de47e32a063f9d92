"""Making very many sessions in PostgreSQL, and asking about them."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
import psycopg
from psycopg import sql

from treering import Limits, SessionHost, SessionSummary, Settings
from treering.stores.postgres.address import parse_address

from .scale import ENTRIES, ENTRY_BYTES, Measured
from .scenarios.postgres_hosts import LEASE_S, take_over

AT_ONCE = 500
A_HOST = 2000
TRIES = 20
TAKEN_MAX = 1000
INDEX_TABLES = ("texts", "indexed")  # of a search; they hold the sessions that there were when it was made
WORDS = tuple("".join(random.Random(number).choices("etaoinshrdlu", k=3 + number % 6)) for number in range(2000))
_TEXTS = tuple(" ".join(random.Random(-number).choices(WORDS, k=ENTRY_BYTES // 6)) for number in range(1, 997))

_SIZES = """
select case when relname like 'lines%%' then 'lines' else relname end, sum(pg_total_relation_size(c.oid))::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and relkind = 'r' group by 1 order by 2 desc
"""


def text_of(number: int, entry: int) -> str:
    """Return about 1 KB of words, the same each time, with one word that no other entry has."""
    return f"unique{number}x{entry} {_TEXTS[(number * 31 + entry) % len(_TEXTS)]}"[:ENTRY_BYTES]


# -- making


async def made(url: str) -> int:
    """Return how many sessions are whole, of those whose successors were begun only after them."""
    async with SessionHost(url) as host:
        await host.list_sessions(limit=1)  # so that there are tables
    return await anyio.to_thread.run_sync(_whole, url)


def _whole(url: str) -> int:
    address = parse_address(url)
    count = sql.SQL("select count(*) from {} where head >= %s").format(sql.Identifier(address.schema, "logs"))
    with psycopg.connect(address.conninfo) as connection:
        row = connection.execute(count, [ENTRIES]).fetchone()
    whole = 0 if row is None else int(row[0])
    return whole // AT_ONCE * AT_ONCE  # those that were being made together may be missing anywhere


async def make(url: str, first: int, end: int) -> None:
    """Make sessions, many at a time; what is there of them is continued."""
    for begin in range(first, end, A_HOST):
        unsaved = Settings(debounce_ms=600_000)  # rows are written when the host closes
        async with SessionHost(url, limits=Limits(live_max=2 * A_HOST), settings=unsaved) as host:
            for some in range(begin, min(begin + A_HOST, end), AT_ONCE):
                async with anyio.create_task_group() as tasks:
                    for number in range(some, min(some + AT_ONCE, end)):
                        tasks.start_soon(_make, host, number)


async def _make(host: SessionHost, number: int) -> None:
    session = await host.get_or_create(f"chat:{number}")
    for entry in range(session.cursor.seq, ENTRIES):
        await session.append_message(("user", "assistant")[entry % 2], text_of(number, entry))


# -- asking


async def grow(url: str, sessions: int, index_through: int) -> Measured:
    """Make the sessions that are missing, ask about all of them, and return what that took."""
    first = min(await made(url), sessions)
    began = time.perf_counter()
    await make(url, first, sessions)
    write_s = time.perf_counter() - began
    return await measure(url, sessions, sessions - first, write_s, index=sessions <= index_through)


async def measure(url: str, sessions: int, newly: int, write_s: float, *, index: bool) -> Measured:
    """Ask about sessions that were made, and return what that took."""
    took_ms: dict[str, float] = {}
    async with asking(url, took_ms, sessions) as (host, timed):
        found_bytes = await anyio.to_thread.run_sync(sizes, url)
        table_bytes = {table: size for table, size in found_bytes.items() if table not in INDEX_TABLES}
        for what, ask in questions(host, sessions).items():
            await timed(what, ask)
    taken = [f"chat_{number * (sessions // min(sessions, TAKEN_MAX))}" for number in range(min(sessions, TAKEN_MAX))]
    leased = f"{url}&lease_s={LEASE_S}"
    took = await anyio.to_thread.run_sync(take_over, leased, taken)
    took_ms[f"appends to {len(taken):,} sessions of a host that is killed, with a lease of {LEASE_S:g} s"] = took * 1000
    if not index:
        return Measured(sessions, newly, write_s, took_ms, table_bytes)
    async with asking(url, took_ms, sessions) as (host, timed):
        began = time.perf_counter()
        assert await found(host, "unique0x0", 10) == 1
        index_s = time.perf_counter() - began
        for what, ask in searches(host).items():
            await timed(what, ask)
    indexed = await anyio.to_thread.run_sync(sizes, url)
    index_bytes = sum(size for table, size in indexed.items() if table in INDEX_TABLES)
    return Measured(sessions, newly, write_s, took_ms, table_bytes, index_s, index_bytes)


Ask = Callable[[int], Awaitable[object]]
"""Asks about the session of a number, or about all."""


def questions(host: SessionHost, sessions: int) -> dict[str, Ask]:
    """Return what is asked of so many sessions, without searches."""
    middle: list[SessionSummary] = []

    async def page_after(_: int) -> list[SessionSummary]:
        if not middle:
            middle.extend(await host.list_sessions(limit=1, offset=sessions // 2))
        return await host.list_sessions(limit=50, after=middle[0])

    return {
        "a page of 50 of the list": lambda _: host.list_sessions(limit=50),
        "a page of 50 after a row in the middle": page_after,
        "a page of 50 by an offset in the middle": lambda _: host.list_sessions(limit=50, offset=sessions // 2),
        "a session by its key, opened for writing": lambda number: host.get_or_create(f"chat:{number}"),
        "an append to it": lambda number: append(host, number),
        "all entries of a session that is not loaded": lambda number: entries(host, (number + 1) % sessions),
    }


def searches(host: SessionHost) -> dict[str, Ask]:
    """Return what is searched for."""
    return {
        "a search for a word of one session": lambda number: found(host, f"unique{number}x7", 10),
        "the first 20 hits of a word of all sessions": lambda _: found(host, "unique", 20),
    }


_Timed = Callable[[str, Ask], Awaitable[None]]


@asynccontextmanager
async def asking(url: str, took_ms: dict[str, float], sessions: int) -> AsyncGenerator[tuple[SessionHost, _Timed]]:
    """Open a host, and yield it with a function that notes how long a question takes, about sessions anywhere."""
    async with SessionHost(url) as host:
        await host.list_sessions(limit=1)  # a host that has connected, and rows that are current

        async def timed(what: str, ask: Ask) -> None:
            times: list[float] = []
            for each in range(TRIES):
                began = time.perf_counter()
                await ask((each * 7919 + 13) % sessions)
                times.append((time.perf_counter() - began) * 1000)
            took_ms[what] = statistics.median(times)

        yield host, timed


async def append(host: SessionHost, number: int) -> None:
    """Append to a session that is loaded."""
    session = await host.get_or_create(f"chat:{number}")
    await session.append_message("user", text_of(number, ENTRIES))


async def entries(host: SessionHost, number: int) -> int:
    """Open a session read-only, and read all of it."""
    session = await host.load(f"chat_{number}", read_only=True)
    return len(await session.entries())


async def found(host: SessionHost, query: str, limit: int) -> int:
    """Search, and return how many hits there are."""
    return len([hit async for hit in host.search(query, limit=limit, index=True)])


def sizes(url: str) -> dict[str, int]:
    """Return the bytes of each table with its indexes."""
    address = parse_address(url)
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute("vacuum analyze")
        return dict(connection.execute(_SIZES, [address.schema]).fetchall())
