"""How much room sessions take in PostgreSQL, and how long what is asked of very many of them takes.

    python -m bench scale --sessions 1000000

The sessions are real ones, made through `SessionHost` on a server of the program's own, each with 20 entries of 1 KB.
It prints what it measured as a table in Markdown.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread
import click
import psycopg
from msgspec import Struct

from treering import Limits, SessionHost, Settings
from treering.stores.postgres.local_server import LocalServer

ENTRIES = 20
ENTRY_BYTES = 1024
AT_ONCE = 500
TRIES = 20
WORDS = tuple("".join(random.Random(number).choices("etaoinshrdlu", k=3 + number % 6)) for number in range(2000))

_SIZES = """
select case when relname like 'lines%%' then 'lines' else relname end, sum(pg_total_relation_size(c.oid))::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and relkind = 'r' group by 1 order by 2 desc
"""


class Measured(Struct, frozen=True):
    """What a run measured.

    Attributes:
        sessions: How many sessions there are.
        write_s: How long writing all of them took, in seconds.
        rows_s: How long the first list took, which makes the rows that are missing, in seconds.
        index_s: How long the first search took, which makes the index, in seconds.
        took_ms: How long each question took, in milliseconds: the median.
        table_bytes: The bytes of each table with its indexes.
        table_bytes_indexed: The same, with the index of a search.
    """

    sessions: int
    write_s: float
    rows_s: float
    index_s: float
    took_ms: dict[str, float]
    table_bytes: dict[str, int]
    table_bytes_indexed: dict[str, int]


def text_of(number: int, entry: int) -> str:
    """Return about 1 KB of words, the same each time, with one word that no other session has."""
    words = [f"unique{number}x{entry}", *random.Random(number * ENTRIES + entry).choices(WORDS, k=ENTRY_BYTES // 6)]
    return " ".join(words)[:ENTRY_BYTES]


async def write(url: str, sessions: int) -> None:
    """Make the sessions, many at a time."""
    async with SessionHost(url, limits=Limits(live_max=2 * AT_ONCE), settings=Settings(debounce_ms=60_000)) as host:

        async def make(number: int) -> None:
            session = await host.get_or_create(f"chat:{number}")
            for entry in range(ENTRIES):
                await session.append_message(("user", "assistant")[entry % 2], text_of(number, entry))
            await session.passivate()

        for first in range(0, sessions, AT_ONCE):
            async with anyio.create_task_group() as tasks:
                for number in range(first, min(first + AT_ONCE, sessions)):
                    tasks.start_soon(make, number)


async def timed(ask: Callable[[int], Awaitable[object]], sessions: int) -> float:
    """Return the median of how long a question takes, in milliseconds, about sessions anywhere among all."""
    times: list[float] = []
    for each in range(TRIES):
        began = time.perf_counter()
        await ask((each * 7919 + 13) % sessions)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


async def found(host: SessionHost, query: str, limit: int) -> int:
    """Search, and return how many hits there are."""
    return len([hit async for hit in host.search(query, limit=limit, index=True)])


def sizes(server: LocalServer, schema: str) -> dict[str, int]:
    """Return the bytes of each table with its indexes."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("vacuum analyze")
        return dict(connection.execute(_SIZES, [schema]).fetchall())


async def measure(server: LocalServer, sessions: int, schema: str = "scale") -> Measured:
    """Write sessions on a server, ask about them, and return what that took."""
    url = server.url(schema=schema)
    began = time.perf_counter()
    await write(url, sessions)
    write_s = time.perf_counter() - began
    async with SessionHost(url) as host:
        began = time.perf_counter()
        await host.list_sessions(limit=50)
        rows_s = time.perf_counter() - began
        table_bytes = await anyio.to_thread.run_sync(sizes, server, schema)
        took_ms = {
            "a page of 50 of the list": await timed(lambda _: host.list_sessions(limit=50), sessions),
            "a session by its key": await timed(lambda number: host.get_or_create(f"chat:{number}"), sessions),
            "all entries of a session": await timed(lambda number: entries(host, number), sessions),
        }
        began = time.perf_counter()
        assert await found(host, "unique0x0", 10) == 1
        index_s = time.perf_counter() - began
        table_bytes_indexed = await anyio.to_thread.run_sync(sizes, server, schema)
        took_ms["a search for a word of one session"] = await timed(
            lambda number: found(host, f"unique{number}x7", 10), sessions
        )
        common = "the first 20 hits of a word of all sessions"
        took_ms[common] = await timed(lambda _: found(host, "unique", 20), sessions)
    return Measured(sessions, write_s, rows_s, index_s, took_ms, table_bytes, table_bytes_indexed)


async def entries(host: SessionHost, number: int) -> int:
    """Open a session read-only, as one that is not loaded, and read all of it."""
    session = await host.load(f"chat_{number}", read_only=True)
    return len(await session.entries())


def report(measured: Measured) -> str:
    """Return what was measured as Markdown."""
    count = measured.sessions
    lines = [f"{count:,} sessions of {ENTRIES} entries of {ENTRY_BYTES:,} bytes", ""]
    lines += ["| table | bytes per session |", "|---|---|"]
    for name, size in measured.table_bytes_indexed.items():
        if size >= count:
            lines.append(f"| `{name}` | {size / count:,.0f} |")
    whole, indexed = sum(measured.table_bytes.values()), sum(measured.table_bytes_indexed.values())
    lines += [f"| all, without the index of a search | {whole / count:,.0f} |", f"| all | {indexed / count:,.0f} |", ""]
    lines += ["| what | takes |", "|---|---|"]
    lines += [f"| writing a session | {measured.write_s / count * 1000:.1f} ms |"]
    lines += [f"| making its row | {measured.rows_s / count * 1000:.1f} ms |"]
    lines += [f"| indexing its texts | {measured.index_s / count * 1000:.1f} ms |"]
    lines += [f"| {what} | {took:.1f} ms |" for what, took in measured.took_ms.items()]
    return "\n".join(lines)


@click.command("scale")
@click.option("--sessions", default=1_000_000, show_default=True, type=click.IntRange(min=1), help="How many to make.")
def scale_command(sessions: int) -> None:
    """Measure how much room sessions take in PostgreSQL, and how long questions about them take."""
    with LocalServer(durable=True, settings={"shared_buffers": "256MB", "max_wal_size": "4GB"}) as server:
        click.echo(report(anyio.run(measure, server, sessions)))
