"""Schemas of every earlier version become the newest, under load, also if several hosts start at once."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import psycopg
import pytest
from psycopg import sql

from treering import MessageEntry, SessionHost
from treering.events.errors import StoreUnavailable
from treering.stores.postgres import PostgresStore
from treering.stores.postgres import schema as schemas
from treering.stores.postgres.address import parse_address
from treering.stores.postgres.administration import Administration
from treering.stores.postgres.local_server import LocalServer
from treering.stores.postgres.schema import Cursor

HOSTS = 2

_BEGIN = """
with host as (insert into {s}.hosts (id, name, until) values ('old', 'old:1', now() + interval '1 hour'))
insert into {s}.logs (ref, owner, epoch, history, header, size)
values ('old', 'old', nextval('{s}.epochs'), nextval('{s}.histories'), %s, 0) returning epoch, history
"""
_APPEND = """
with moved as (
    update {s}.logs l set head = l.head + 1, size = l.size + %(size)s, changed = clock_timestamp(), stale = true
    where l.ref = 'old' and l.owner = 'old' and l.epoch = %(epoch)s and l.head = %(head)s
        and l.header is not null and l.history = %(history)s
    returning l.history, l.head
), added as (insert into {s}.lines (history, seq, line) select history, head, %(line)s from moved)
select head from moved
"""
"""How a host of the first version begins and writes a session; it is not that of today."""


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    """The lines of a session in a file: a header, and many messages."""

    async def write() -> None:
        async with SessionHost(tmp_path) as host:
            session = await host.create("old")
            for number in range(2000):
                await session.append_message("user", str(number))

    anyio.run(write)
    return (tmp_path / "old.jsonl").read_bytes().splitlines(keepends=True)


class OldHost:
    """A host of the first version, which appends to one session until it is stopped.

    Attributes:
        acknowledged: How many lines were.
        slowest_s: The longest time that an append took, in seconds.
    """

    def __init__(self, url: str, lines: list[bytes]) -> None:
        self._address = parse_address(url)
        self._lines = lines
        self._over = threading.Event()
        self.acknowledged = 0
        self.slowest_s = 0.0

    def run(self) -> None:
        """Append until stopped."""
        with psycopg.connect(self._address.conninfo, autocommit=True) as connection:
            self._write(connection)

    def _write(self, connection: psycopg.Connection[tuple[int, ...]]) -> None:
        begun = connection.execute(self._of(_BEGIN), [self._lines[0]]).fetchone()
        assert begun is not None
        epoch, history = begun
        append = self._of(_APPEND)
        for line in self._lines[1:]:
            if self._over.is_set():
                return
            began = time.monotonic()
            wanted = {"size": len(line), "epoch": epoch, "head": self.acknowledged, "history": history}
            assert connection.execute(append, wanted | {"line": line[:-1]}).fetchone() == (self.acknowledged + 1,)
            self.acknowledged += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            time.sleep(0.001)

    def progress(self, count: int = 5) -> None:
        """Wait until some more are acknowledged."""
        goal = self.acknowledged + count
        while self.acknowledged < goal and not self._over.is_set():
            time.sleep(0.001)

    def stop(self) -> None:
        """Stop after the append that is under way."""
        self._over.set()

    def _of(self, text: str) -> bytes:
        return text.replace("{s}", self._address.schema).encode()


@contextmanager
def old_host(url: str, lines: list[bytes]) -> Iterator[OldHost]:
    """Let an old host write as long as the block runs."""
    host = OldHost(url, lines)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(host.run)
        running.add_done_callback(lambda _: host.stop())
        try:
            host.progress()
            yield host
            host.progress()
        finally:
            host.stop()
        running.result()


def _toy(cursor: Cursor, name: str) -> None:
    """A migration as a later version may have one: a new table and a column; it fails if it runs a second time."""
    cursor.execute(sql.SQL("create table {} (a integer)").format(sql.Identifier(name, "toy")))
    cursor.execute(
        sql.SQL("alter table {} add column toy integer not null default 7").format(sql.Identifier(name, "logs"))
    )


@pytest.fixture
def at_version(url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make the schema as it was at a version; from then on, the toy is the newest."""

    def make(version: int) -> None:
        with monkeypatch.context() as context:
            context.setattr(schemas, "VERSION", version)
            if version:
                assert Administration(url).migrate().after == version
        everything = (*schemas.MIGRATIONS, _toy)
        monkeypatch.setattr(schemas, "MIGRATIONS", everything)
        monkeypatch.setattr(schemas, "VERSION", len(everything))

    return make


async def start_at_once(server: LocalServer, url: str) -> None:
    """Start hosts, so that all of them wait for the lock on the schema before one of them gets it."""

    def wait_until_all_wait(connection: psycopg.Connection[tuple[int, ...]]) -> None:
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        while connection.execute(waiting).fetchone() != (HOSTS,):
            time.sleep(0.005)

    async def start() -> None:
        store = PostgresStore(url)
        try:
            assert await store.page("nothing") == []
        finally:
            await store.aclose()

    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(%s)", [schemas.LOCK])
        async with anyio.create_task_group() as tasks:
            for _ in range(HOSTS):
                tasks.start_soon(start)
            await anyio.to_thread.run_sync(wait_until_all_wait, connection)
            connection.execute("select pg_advisory_unlock(%s)", [schemas.LOCK])


@pytest.mark.feature("C-16")
@pytest.mark.parametrize("version", range(len(schemas.MIGRATIONS) + 1))
async def test_each_earlier_schema_becomes_the_newest_under_load_once_whoever_starts(
    server: LocalServer, url: str, lines: list[bytes], at_version: Callable[[int], None], version: int
) -> None:
    await anyio.to_thread.run_sync(at_version, version)
    acknowledged = 0
    if not version:
        await start_at_once(server, url)
    else:
        with old_host(url, lines) as load:
            await start_at_once(server, url)
        acknowledged = load.acknowledged
        assert load.slowest_s < schemas.LOCK_S
    found = Administration(url).status()
    assert (found.version, found.newest) == (len(schemas.MIGRATIONS), len(schemas.MIGRATIONS))
    async with SessionHost(url) as host:
        if version:
            session = await host.load("old", read_only=True)
            entries = await session.entries()
            said = [each.message.content for each in entries if isinstance(each, MessageEntry)]
            assert len(said) == len(entries) == acknowledged
        fresh = await host.create("fresh")
        await fresh.append_message("user", "Hello")
    assert Administration(url).migrate().before == len(schemas.MIGRATIONS)


@pytest.mark.feature("C-16")
async def test_a_migration_that_waits_for_a_long_transaction_lets_appends_pass(
    server: LocalServer,
    schema: str,
    url: str,
    lines: list[bytes],
    at_version: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await anyio.to_thread.run_sync(at_version, len(schemas.MIGRATIONS))
    monkeypatch.setattr(schemas, "LOCK_S", 0.05)
    monkeypatch.setattr(schemas, "BETWEEN_TRIES_S", 0.02)
    administration = Administration(url)
    with old_host(url, lines) as load, psycopg.connect(server.url()) as reader:
        reader.execute(f"select count(*) from {schema}.logs".encode())  # and its transaction stays open
        monkeypatch.setattr(schemas, "TRIES_MAX", 3)
        before = load.acknowledged
        with pytest.raises(StoreUnavailable, match="could not be changed in 3 tries, since others hold locks"):
            await anyio.to_thread.run_sync(administration.migrate)
        assert load.acknowledged > before
        assert administration.status().version == len(schemas.MIGRATIONS) - 1
        monkeypatch.setattr(schemas, "TRIES_MAX", 100_000)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, administration.migrate)
            await anyio.to_thread.run_sync(load.progress, 50)
            reader.rollback()
        assert administration.status().version == len(schemas.MIGRATIONS)
    assert load.slowest_s < 1
