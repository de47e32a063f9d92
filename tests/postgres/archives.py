"""Sessions that are archived as objects, and what is then in the database and in the place of objects."""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from treering import SessionHost
from treering.entries import plain_text
from treering.stores import Lease, Store
from treering.stores.postgres.address import parse_address
from treering.stores.postgres.archive import objects

SAID = [f"entry {number}: the cart is in the yard" for number in range(5)]


@contextmanager
def database_of(url: str) -> Generator[psycopg.Connection]:
    """A connection whose statements find the tables of a store."""
    with psycopg.connect(parse_address(url).conninfo, autocommit=True) as connection:
        connection.execute("select set_config('search_path', %s, false)", [parse_address(url).schema])
        yield connection


def stored(place: str) -> list[str]:
    """Return the names of all objects in a place."""
    return objects.names(place)


def lines_in(database: psycopg.Connection, session: str) -> int:
    row = database.execute("select count(*) from entries where session = %s", [f"{session}.jsonl"]).fetchone()
    assert row is not None
    return int(row[0])


def archived(database: psycopg.Connection, session: str) -> tuple[str | None, int | None, bytes | None]:
    row = database.execute(
        "select object, object_head, object_hash from logs where ref = %s", [f"{session}.jsonl"]
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


async def fill(host: SessionHost, *names: str) -> None:
    for name in names:
        session = await host.create(name, cwd="/shop")
        for text in SAID:
            await session.append_message("user", text)


async def found(host: SessionHost, *, index: bool | None = None) -> set[str]:
    return {hit.session_id async for hit in host.search("cart", index=index)}


async def said(host: SessionHost, name: str) -> list[str]:
    session = await host.load(name, read_only=True)
    return [plain_text(each.content) for each in await session.messages()]


async def leased(store: Store, ref: str) -> Lease:
    (lease,) = await store.acquire([ref], "test")
    assert isinstance(lease, Lease)
    return lease
