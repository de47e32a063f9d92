"""Sessions over three databases behind one list of addresses."""

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import anyio
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from treering import InvalidInput, MessageEntry, SessionHost
from treering.entries import plain_text
from treering.errors import AppendFailed, AppendInDoubt, SessionLocked
from treering.events.errors import StoreUnavailable
from treering.events.stores.hosts import Hosts, Inbox, Letter, Whereabouts
from treering.stores import Among, FindsRows, FindsTexts, Health, RowQuery, Store
from treering.stores.postgres import PostgresStore, mailing, store_at, watching
from treering.stores.postgres.address import parse_address
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
async def test_sessions_are_spread_over_databases_and_found_in_one_list(addresses: list[str], tmp_path: Path) -> None:
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


@pytest.mark.feature("C-18")
async def test_a_list_and_a_search_are_answered_by_each_database_for_its_sessions_and_merged(
    addresses: list[str], server: LocalServer
) -> None:
    ids = [each for number in range(COUNT) for each in names_for(number)]
    mixed = sorted(ids, key=lambda each: each[::-1])
    async with SessionHost(",".join(addresses)) as host:
        for each in mixed:
            await (await host.create(each, cwd="/work")).append_message("user", f"a needle of {each}")
        await host.set_current_session("/work", mixed[0])
    store = store_at(",".join(addresses))
    rows, texts = store.capability(FindsRows), store.capability(FindsTexts)
    assert rows is not None
    assert texts is not None
    async with SessionHost(store=store) as other:
        latest = [row.id for row in await other.list_sessions()]
        assert latest == mixed[::-1]
        pages = [await other.list_sessions(limit=5, offset=at) for at in range(0, len(ids) + 5, 5)]
        assert [row.id for page in pages for row in page] == latest
        [*_, last] = pages[0]
        assert await other.list_sessions(limit=5, after=last) == pages[1]
        assert {hit.session_id async for hit in other.search("needle", index=True)} == set(ids)
        assert [hit.session_id async for hit in other.search(f"needle of {ids[-1]}", index=True)] == [ids[-1]]
        assert await anyio.to_thread.run_sync(texts.unindexed) == []
        current = await other.current_session("/work")
        assert current is not None
        assert current.id == mixed[0]
        await other.set_current_session("/work", mixed[-1])  # of another database
        assert [*(await anyio.to_thread.run_sync(rows.currents)).values()] == [f"{mixed[-1]}.jsonl"]
        await anyio.to_thread.run_sync(allow, server, addresses[0], False)
        some = RowQuery(among=(Among(refs=[f"{each}.jsonl" for each in names_for(1)]),))
        assert len(await anyio.to_thread.run_sync(rows.find, some)) == len(names_for(1))
        await other.delete(names_for(1)[0])  # what concerns one database needs no other
        with pytest.raises(StoreUnavailable, match=re.escape(parse_address(addresses[0]).place)):
            await other.list_sessions(limit=1)
        await anyio.to_thread.run_sync(allow, server, addresses[0], True)
        assert len(await other.list_sessions()) == len(ids) - 1


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


async def create_in_all(host: SessionHost, ids: Sequence[str]) -> None:
    """Create sessions with a message each."""
    for each in ids:
        await (await host.create(each)).append_message("user", "first")


@pytest.mark.feature("C-18")
@pytest.mark.feature("C-10")
async def test_hosts_send_each_other_commands_through_the_database_of_the_session_and_are_listed_once(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOK_S", 0.1)
    monkeypatch.setattr(mailing, "LOOK_S", 0.1)
    ids = [each for number in range(COUNT) for each in names_for(number, 2)]
    stores = [store_at(",".join(addresses)) for _ in range(2)]
    async with (
        SessionHost(store=stores[0], placement="inbox") as owner,
        SessionHost(store=stores[1], placement="inbox") as other,
    ):
        await create_in_all(owner, ids)
        for each in ids:
            await (await other.load(each)).append_message("user", "second", command_id=f"say {each}")
            assert len(await (await owner.load(each)).entries()) == 2
        hosts = stores[1].capability(Hosts)
        assert hosts is not None
        assert sum(row.sessions for row in await anyio.to_thread.run_sync(hosts.hosts)) == len(ids)
    assert (await stored_counts(addresses)) == [4] * COUNT


def allow(server: LocalServer, address: str, whether: bool) -> None:
    """Let nobody connect to a database any more, and end the connections to it; or let them connect again."""
    name = parse_address(address).conninfo.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"alter database {name} allow_connections {whether}".encode())
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])


async def stored_counts(addresses: Sequence[str]) -> list[int]:
    """Return how many entries each database holds."""
    counts: list[int] = []
    for each in addresses:
        store = PostgresStore(each)
        heads = [(await store.open(info.ref)).head.seq for info in await store.page()]
        counts.append(sum(heads))
        await store.aclose()
    return counts


@pytest.mark.feature("C-18")
async def test_letters_through_one_database_that_is_down_do_not_stop_those_through_another(
    addresses: list[str], server: LocalServer
) -> None:
    sender, owner = store_at(",".join(addresses)), store_at(",".join(addresses))
    letters, inbox = sender.capability(Inbox), owner.capability(Inbox)
    assert letters is not None
    assert inbox is not None
    refs = [f"{names_for(number)[0]}.jsonl" for number in range(COUNT)]
    assert not any(isinstance(each, SessionLocked) for each in await owner.acquire(refs, "owner"))

    def post(ref: str) -> bool:
        return letters.post(Letter(f"to {ref}", ref, b"call"), 60)

    for each in refs:
        assert await anyio.to_thread.run_sync(post, each)
    await anyio.to_thread.run_sync(allow, server, addresses[1], False)
    taken = await anyio.to_thread.run_sync(inbox.take, 10)
    assert {each.ref for each in taken} == {refs[0], refs[2]}
    await anyio.to_thread.run_sync(inbox.answer, {each.id: b"done" for each in taken})
    asked = [f"to {each}" for each in refs]
    assert await anyio.to_thread.run_sync(letters.answers, asked) == {
        asked[0]: b"done",
        asked[1]: Whereabouts.WAITING,
        asked[2]: b"done",
    }
    await anyio.to_thread.run_sync(allow, server, addresses[1], True)
    (late,) = await anyio.to_thread.run_sync(inbox.take, 10)
    assert late.ref == refs[1]
    await anyio.to_thread.run_sync(inbox.answer, {late.id: b"late"})
    assert await anyio.to_thread.run_sync(letters.answers, asked[1:2]) == {asked[1]: b"late"}
    assert await anyio.to_thread.run_sync(letters.answers, asked[:1]) == {asked[0]: Whereabouts.LOST}
    await sender.aclose()
    await owner.aclose()


@pytest.mark.feature("C-15")
@pytest.mark.feature("C-18")
async def test_archived_sessions_of_each_database_become_objects_and_are_brought_back(
    addresses: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("fsspec", reason="objects need the package fsspec")
    url = ",".join(
        f"{each}?archive={tmp_path}" if "?" not in each else f"{each}&archive={tmp_path}" for each in addresses
    )
    ids = [names_for(number, 1)[0] for number in range(COUNT)]
    async with SessionHost(url) as host:
        await create_in_all(host, ids)
        for each in ids:
            await host.archive(each)
        assert len([each for each in tmp_path.rglob("*") if each.is_file()]) == COUNT  # noqa: ASYNC240  # a few files
        health = store_at(url).capability(Health)
        assert health is not None
        assert await anyio.to_thread.run_sync(health.examine) == []
        for each in ids:
            session = await host.load(each)
            await session.append_message("user", "second")
            assert len(await session.messages()) == 2


def test_lists_of_addresses_are_read_as_they_are_meant(tmp_path: Path) -> None:
    one = "postgresql://anna@a,b:5433/shop?schema=x"  # two servers of one database
    assert addresses_of(one) == [one]
    assert addresses_of(f"{one},postgres://c/d") == [one, "postgres://c/d"]
    with pytest.raises(InvalidInput, match="given twice"):
        addresses_of(f"{one},{one}")
    (tmp_path / "empty").write_text("# nothing\n")
    with pytest.raises(InvalidInput, match="holds no address"):
        addresses_of(f"postgresql:@{tmp_path / 'empty'}")
    (tmp_path / "binary").write_bytes(b"\x7fELF\xff\xfe")
    with pytest.raises(InvalidInput, match="cannot be read"):
        store_at(f"postgresql:@{tmp_path / 'binary'}")


def test_an_address_says_to_libpq_what_it_says_without_our_parameters() -> None:
    theirs = "postgresql://anna@shop/db?sslrootcert=/c%2B%2B/%20/a+b.crt&application_name=x%26y"
    known = conninfo_to_dict(parse_address(f"{theirs}&schema=other").conninfo)
    assert known == conninfo_to_dict(theirs)
    assert known["sslrootcert"] == "/c++/ /a+b.crt"


@pytest.mark.feature("C-18")
@pytest.mark.soak
class TestShardedStore(StoreSuite):
    """The published suite over two schemas as two databases."""

    @pytest.fixture(autouse=True)
    def _address(self, server: LocalServer, schema: str, url: str) -> Iterator[None]:
        archive = "&archive=memory://sharded" if find_spec("fsspec") else ""
        self.url = f"{url}{archive},{server.url(schema=f'{schema}_b')}{archive}"
        yield
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"drop schema if exists {schema}_b cascade".encode())

    async def make_store(self) -> Store:
        store = store_at(self.url)
        assert isinstance(store, ShardedStore)
        return store

    async def another_host(self, store: Store) -> Store | None:
        return store_at(self.url)
