"""Archiving sessions of PostgreSQL as objects, and asking about them."""

from __future__ import annotations

import time

import anyio
import anyio.to_thread
import psycopg

from treering import SessionHost
from treering.stores.postgres.address import parse_address
from treering.stores.postgres.administration import Administration

from .archive import AT_ONCE, Archived
from .scale_measuring import append, asking, entries, make, sizes

_READ = "read"
_BACK = "back"


async def measure(url: str, sessions: int, place: str) -> Archived:
    """Make sessions, archive them in a place for objects, and return what that took."""
    url = f"{url}&archive={place}"
    await make(url, 0, sessions)
    before = await anyio.to_thread.run_sync(bytes_of_lines, url)
    took_ms: dict[str, float] = {}
    async with asking(url, took_ms, sessions) as (host, timed):
        await timed(_READ, lambda number: entries(host, number))
        read_ms = took_ms[_READ]
        began = time.perf_counter()
        await archive_all(host, sessions)
        archive_s = time.perf_counter() - began
    after = await anyio.to_thread.run_sync(bytes_of_lines, url)
    status = await anyio.to_thread.run_sync(Administration(url).status)
    assert status.archived == sessions
    async with asking(url, took_ms, sessions) as (host, timed):
        await timed(_READ, lambda number: entries(host, number))
        await timed(_BACK, lambda number: append(host, number))
    return Archived(sessions, archive_s, before, after, status.archived_bytes, read_ms, took_ms[_READ], took_ms[_BACK])


async def archive_all(host: SessionHost, sessions: int) -> None:
    """Archive all sessions, several at a time."""
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def archive(number: int) -> None:
        async with limiter:
            await host.archive(f"chat_{number}")

    async with anyio.create_task_group() as tasks:
        for number in range(sessions):
            tasks.start_soon(archive, number)


def bytes_of_lines(url: str) -> int:
    """Have the server give back the room of lines that were deleted, and return the bytes of what it holds of lines."""
    address = parse_address(url)
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute(f"vacuum full {address.schema}.lines".encode())
    return sizes(url)["lines"]
