"""Sessions over three databases behind one list of addresses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import psycopg
import pytest

from treering import InvalidInput, MessageEntry, SessionHost
from treering.entries import plain_text
from treering.errors import AppendFailed, AppendInDoubt
from treering.events.errors import StoreUnavailable
from treering.stores import Store
from treering.stores.postgres import PostgresStore, store_at
from treering.stores.postgres.local_server import LocalServer
from treering.stores.postgres.sharding import ShardedStore, addresses_of, shard_of
from treering.testing.stores import StoreSuite

from .conftest import programs

COUNT = 3


@pytest.fixture
def addresses(server: LocalServer, schema: str) -> Iterator[list[str]]:
    """Three databases of one server."""
    names = [f"{schema}_{number}" for number in range(COUNT)]
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for name in names:
            connection.execute(f"create database {name} template template0".encode())
    yield [server.url(database=name) for name in names]
    if server.pid is None:
        server.start()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for name in names:
            connection.execute(f"drop database {name} with (force)".encode())


def names_for(number: int, count: int = 4) -> list[str]:
    """Ids of sessions that are placed in one of the databases."""
    ids = (f"s{each}" for each in range(1000))
    return [each for each in ids if shard_of(f"{each}.jsonl", COUNT) == number][:count]


@pytest.mark.feature("C-18")
async def test_sessions_are_spread_over_the_databases_and_found_behind_one_list(
    addresses: list[str], tmp_path: Path
) -> None:
    ids = sorted(each for number in range(COUNT) for each in names_for(number))
    async with SessionHost(",".join(addresses)) as host, SessionHost(",".join(addresses)) as other:
        for each in ids:
            await (await host.create(each)).append_message("user", f"I am {each}")
        assert sorted(row.id for row in await other.list_sessions()) == ids
        assert {hit.session_id async for hit in other.search(ids[0])} >= {ids[0]}
        followed = await other.load(ids[0], read_only=True)
        async with followed.subscribe(after=followed.cursor) as entries:
            await (await host.load(ids[0])).append_message("user", "and more")
            with anyio.fail_after(20):
                entry = await anext(entries)
            assert isinstance(entry, MessageEntry)
            assert plain_text(entry.message.content) == "and more"
    for number, each in enumerate(addresses):
        store = PostgresStore(each)
        assert {info.ref for info in await store.page()} == {f"{name}.jsonl" for name in names_for(number)}
        await store.aclose()
    listed = tmp_path / "addresses"
    listed.write_text("# all\n" + "\n".join(addresses) + "\n")
    async with SessionHost(f"postgresql:@{listed}") as host:
        assert len(await host.list_sessions()) == len(ids)


@pytest.mark.feature("C-18")
async def test_one_database_down_concerns_its_sessions_alone_which_are_told_so_by_name(
    addresses: list[str], server: LocalServer
) -> None:
    with LocalServer(programs=programs()) as own:
        several = [addresses[0], own.url(schema="shard") + "&lease_s=600", addresses[2]]
        down, up = names_for(1), [*names_for(0), *names_for(2)]
        async with SessionHost(",".join(several)) as host:
            sessions = {each: await host.create(each) for each in (*down, *up)}
            for session in sessions.values():
                await session.append_message("user", "before")
            await anyio.to_thread.run_sync(own.stop, "kill")
            for each in down:
                with pytest.raises((AppendFailed, AppendInDoubt, StoreUnavailable), match=str(own.folder)):
                    await sessions[each].append_message("user", "while it is down", command_id=f"down {each}")
            for each in up:
                await sessions[each].append_message("user", "while it is down")
            fresh = next(each for each in names_for(0, 9) if each not in sessions)
            await (await host.create(fresh)).append_message("user", "created meanwhile")
            with pytest.raises(StoreUnavailable, match=str(own.folder)):
                await host.load(names_for(1, 9)[-1])
            with pytest.raises(StoreUnavailable, match=str(own.folder)):  # a list that lacks sessions would not say so
                await host.list_sessions()
            await anyio.to_thread.run_sync(own.start)
            for each in down:
                await sessions[each].append_message("user", "while it is down", command_id=f"down {each}")
            assert len(await host.list_sessions()) == len(sessions) + 1
            for session in sessions.values():
                assert len(await session.entries()) == 2
    assert server.pid is not None


async def create_all(host: SessionHost) -> None:
    """Create a session for each place."""
    for number in range(COUNT):
        await host.create(names_for(number, 3)[-1])


@pytest.mark.feature("C-18")
async def test_addresses_in_another_order_are_refused_before_anything_is_written(addresses: list[str]) -> None:
    async with SessionHost(",".join(addresses)) as host:
        for number in range(COUNT):
            for each in names_for(number, 2):
                await (await host.create(each)).append_message("user", "Hello")
    for wrong in ([addresses[1], addresses[0], addresses[2]], addresses[:2], addresses[1:]):
        async with SessionHost(",".join(wrong)) as host:
            with pytest.raises(InvalidInput, match=r"belongs to the address .*: give all addresses, in the order"):
                await create_all(host)


def test_lists_of_addresses_are_read_as_they_are_meant(tmp_path: Path) -> None:
    one = "postgresql://anna@a,b:5433/shop?schema=x"  # two servers of one database
    assert addresses_of(one) == [one]
    assert addresses_of(f"{one},postgres://c/d") == [one, "postgres://c/d"]
    with pytest.raises(InvalidInput, match="given twice"):
        addresses_of(f"{one},{one}")
    (tmp_path / "empty").write_text("# nothing\n")
    with pytest.raises(InvalidInput, match="holds no address"):
        addresses_of(f"postgresql:@{tmp_path / 'empty'}")


@pytest.mark.feature("C-18")
@pytest.mark.soak
class TestShardedStore(StoreSuite):
    """The published suite over two schemas as two databases."""

    @pytest.fixture(autouse=True)
    def _address(self, server: LocalServer, schema: str, url: str) -> Iterator[None]:
        self.url = f"{url},{server.url(schema=f'{schema}_b')}"
        yield
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"drop schema if exists {schema}_b cascade".encode())

    async def make_store(self) -> Store:
        store = store_at(self.url)
        assert isinstance(store, ShardedStore)
        return store

    async def another_host(self, store: Store) -> Store | None:
        return store_at(self.url)
