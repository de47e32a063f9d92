"""Rows that the database finds: by indexes, and right while others write, keep and remove."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import anyio
import anyio.to_thread
import msgspec
import psycopg
import pytest
from msgspec.structs import replace

from treering.stores import Among, Append, FindsRows, KeptRow, Lease, RowColumns, RowQuery, Store
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.local_server import LocalServer
from treering.testing.stores.case import NATIVE, header_of

ROWS = 10_000
BATCH = 1000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
EXPLAINED = "-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0"


def row_of(number: int) -> RowColumns:
    """Return a row that differs from the others in what is asked for."""
    time = BEGAN + timedelta(minutes=number)
    return RowColumns(
        id=f"id-{number:05}",
        ref=f"log-{number:05}",
        key=f"chat:{number}",
        name=f"name {number}",
        title=f"Title {number} of the {number % 97}th kind",
        created=time,
        modified=time,
        last_entry=time,
        parent_session=f"id-{number // 10:05}",
        project=f"/work/{number // 100}",
        project_hash=f"hash-{number // 100}",
        status="active" if number % 7 else "done",
        archived=number % 3 == 0,
    )


async def write_logs(store: Store, refs: Sequence[str]) -> None:
    """Begin logs of no lines."""
    for at in range(0, len(refs), BATCH):
        leases = await store.acquire(refs[at : at + BATCH], "a host")
        appends = [
            Append(lease, lease.head, (), False, NATIVE.encode_header(header_of(f"id-of-{lease.ref}")), NATIVE)
            for lease in leases
            if isinstance(lease, Lease)
        ]
        await store.append(appends)
        await store.release([append.lease for append in appends])


def keep_rows(finds: FindsRows, rows: Sequence[RowColumns]) -> None:
    """Keep rows with the present stamps of their logs."""
    stamps = {each.ref: each.stamp for each in finds.outdated()}
    assert finds.keep([KeptRow(row.ref, stamps[row.ref], msgspec.json.encode(row)) for row in rows], ())


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[Store, FindsRows]]:
    """Open a store and its rows."""
    store = PostgresStore(url)
    try:
        finds = store.capability(FindsRows)
        assert finds is not None
        yield store, finds
    finally:
        await store.aclose()


@pytest.mark.feature("C-13")
async def test_ten_thousand_rows_are_found_by_indexes(server: LocalServer, schema: str, url: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("create extension if not exists pg_trgm")
    rows = [*map(row_of, range(ROWS))]
    async with opened(url) as (store, finds):
        await write_logs(store, [row.ref for row in rows])
        await anyio.to_thread.run_sync(keep_rows, finds, rows)
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for table in ("rows", "logs", "currents"):
            connection.execute(f"vacuum analyze {schema}.{table}".encode())
    async with opened(f"{server.url(schema=schema)}&options={quote(EXPLAINED)}") as (_, finds):
        first = RowQuery(archived=False, limit=50)
        page = finds.find(first)
        last = msgspec.json.decode(page[-1].data, type=RowColumns)
        before = len((server.folder / "log").read_text())
        queries = [
            first,
            replace(first, after=first.place_of(last)),
            RowQuery(limit=50),
            RowQuery(order="created", limit=50),
            RowQuery(order="modified", limit=50),
            RowQuery(order="last_entry", limit=50, since=BEGAN, until=BEGAN + timedelta(days=1)),
            RowQuery(order="title", limit=50),
            RowQuery(project=("/elsewhere", "hash-7"), archived=False, limit=50),
            RowQuery(key="chat:77"),
            RowQuery(key_prefix="chat:777"),
            RowQuery(id="id-00077", limit=1000),
            RowQuery(id_prefix="id-0077", limit=1000),
            RowQuery(name="name 77"),
            RowQuery(title="Title 77 of the 77th kind"),
            RowQuery(parent="id-00077"),
            RowQuery(text="KIND 77", limit=50),
            RowQuery(among=(Among(refs=["log-00077"]),)),
        ]
        for query in queries:
            expected = replace(query, limit=None).select(rows, lambda row: row.word)
            assert [row.ref for row in finds.find(query)] == [row.ref for row in expected][: query.limit], query
        counted = RowQuery(archived=False, status="done")
        assert finds.count(counted) == {"": len(counted.select(rows, lambda row: row.word))}
        assert finds.outdated(limit=1) == finds.outdated(["log-00077"]) == []
        plans = (server.folder / "log").read_text()[before:]
    assert plans.count("Query Text:") > len(queries)
    assert [line for line in plans.splitlines() if "Seq Scan" in line] == []


async def test_keeping_a_row_waits_for_no_append_and_leaves_it_old(server: LocalServer, schema: str, url: str) -> None:
    async with opened(url) as (store, finds):
        await write_logs(store, ["log-00001", "log-00002"])
        with psycopg.connect(server.url()) as writing:  # what another host's append holds until it is committed
            writing.execute(f"update {schema}.logs set head = head + 1 where ref = 'log-00001'".encode())
            await anyio.to_thread.run_sync(keep_rows, finds, [row_of(1), row_of(2)])
            assert [row.ref for row in finds.find(RowQuery())] == ["log-00002", "log-00001"]
            assert [each.ref for each in finds.outdated()] == ["log-00001"]
        keep_rows(finds, [row_of(1)])
        assert finds.outdated() == []


async def test_a_row_kept_while_its_log_is_removed_goes_with_it(server: LocalServer, schema: str, url: str) -> None:
    async with opened(url) as (store, finds):
        await write_logs(store, ["log-00001", "log-00002"])
        async with anyio.create_task_group() as tasks:
            with psycopg.connect(server.url()) as removing:
                removing.execute(f"delete from {schema}.logs where ref = 'log-00001'".encode())
                tasks.start_soon(anyio.to_thread.run_sync, keep_rows, finds, [row_of(1), row_of(2)])
                await anyio.to_thread.run_sync(until_somebody_waits, server.url())
        assert [row.ref for row in finds.find(RowQuery())] == ["log-00002"]
        assert finds.outdated() == []


def until_somebody_waits(url: str) -> None:
    """Wait until a statement waits for a lock."""
    with psycopg.connect(url, autocommit=True) as connection:
        while not connection.execute("select from pg_stat_activity where wait_event_type = 'Lock'").fetchall():
            pass


async def test_an_earlier_row_does_not_take_the_place_of_a_current_one(url: str) -> None:
    async with opened(url) as (store, finds), opened(url) as (_, theirs):
        await write_logs(store, ["log-00001"])
        [early] = finds.outdated()
        [lease] = await store.acquire(["log-00001"], "a host")
        assert isinstance(lease, Lease)
        await store.append([Append(lease, lease.head, (b'{"type":"custom"}\n',), False)])
        keep_rows(theirs, [replace(row_of(1), title="now")])
        finds.keep([KeptRow(early.ref, early.stamp, msgspec.json.encode(replace(row_of(1), title="early")))], ())
        assert ([row.ref for row in finds.find(RowQuery(title="now"))], finds.outdated()) == (["log-00001"], [])
        finds.keep((), ["log-00001"])  # by a host that believes it to be gone
        assert [each.ref for each in finds.outdated()] == ["log-00001"]
