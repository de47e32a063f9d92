"""Appends of many sessions in one statement and one commit, and a failure that stays with its session."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, TypeVarTuple

import anyio
import psycopg
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

from treering import Limits, Session, SessionHost, Settings
from treering.errors import AppendFailed, LeaseLost, NotASession, SessionLocked, TreeringError
from treering.events.dialects.native import NativeDialect
from treering.events.stores.base import Append, Committed, Fenced, Lease, Outcome
from treering.stores.postgres import PostgresStore, committing
from treering.stores.postgres.local_server import LocalServer
from treering.testing.stores.case import header_of, line

from ..loops import TWO
from .counting import counted

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SESSIONS = 1000


@asynccontextmanager
async def live_sessions(url: str, count: int) -> AsyncIterator[list[Session]]:
    """Open a host with sessions that are live and have one message each."""
    unsaved = Settings(debounce_ms=600_000)  # rows of the listing are written beside appends, and would be counted
    async with SessionHost(url, limits=Limits(live_max=count), settings=unsaved) as host:
        sessions = [await host.create() for _ in range(count)]
        await append_to_all(sessions, "the first")
        yield sessions


async def append_to_all(sessions: list[Session], text: str) -> dict[str, TreeringError]:
    """Append to all sessions at the same time, and return what those were told that failed."""
    told: dict[str, TreeringError] = {}

    async def append(session: Session) -> None:
        try:
            await session.append_message("user", text)
        except TreeringError as error:
            told[session.id] = error

    async with anyio.create_task_group() as tasks:
        for session in sessions:
            tasks.start_soon(append, session)
    return told


@pytest.mark.feature("C-4")
async def test_a_thousand_pending_appends_are_one_statement_and_one_commit(
    server: LocalServer, url: str, schema: str
) -> None:
    async with live_sessions(url + "&lease_s=600", SESSIONS) as sessions:
        with counted(server.url()) as counts:
            assert await append_to_all(sessions, "pending") == {}
        assert counts.of("insert into", f'"{schema}"') == 1
        assert counts.of(schema) == 1
        assert counts.commits == 1
    with psycopg.connect(server.url()) as connection:
        found = connection.execute(f"SELECT count(*), count(DISTINCT session) FROM {schema}.entries".encode())
        assert found.fetchall() == [(2 * SESSIONS, SESSIONS)]


async def test_many_sessions_are_released_together_when_their_host_passivates_or_closes_them(
    server: LocalServer, url: str, schema: str
) -> None:
    async with SessionHost(url + "&lease_s=600") as another:
        async with SessionHost(url + "&lease_s=600") as host:
            sessions = [await host.create() for _ in range(60)]
            await append_to_all(sessions, "the first")
            with counted(server.url()) as counts:
                assert await host.passivate_idle() == 60
            assert 1 <= counts.of("owner = $", schema, "unwritten") <= 2
            await append_to_all(sessions, "the second")
            with counted(server.url()) as counts:
                await host.aclose()
            assert 1 <= counts.of("set owner", schema) <= 3
        for session in sessions:
            assert (await another.load(session.id)).cursor.seq == 2


@pytest.mark.feature("C-4")
async def test_a_session_that_fails_fails_alone(server: LocalServer, url: str, schema: str) -> None:
    async with live_sessions(url + "&lease_s=600", 20) as sessions:
        refused, taken = sessions[3], sessions[11]
        with psycopg.connect(server.url(), autocommit=True) as connection:
            of_log = f"FROM {schema}.logs WHERE ref LIKE '{refused.id}%'"
            (history,) = connection.execute(f"SELECT history {of_log}".encode()).fetchone() or (None,)
            connection.execute(f"ALTER TABLE {schema}.lines ADD CHECK (history <> {history} OR seq < 2)".encode())
            connection.execute(
                f"UPDATE {schema}.logs SET owner = 'another', epoch = nextval('{schema}.epochs') "
                f"WHERE ref LIKE '{taken.id}%'".encode()
            )
        told = await append_to_all(sessions, "the second")
        assert {name: type(error) for name, error in told.items()} == {refused.id: AppendFailed, taken.id: LeaseLost}
    with psycopg.connect(server.url()) as connection:
        rows = connection.execute(f"SELECT id, entries FROM {schema}.sessions".encode()).fetchall()
    assert dict(rows) == {session.id: 1 if session.id in told else 2 for session in sessions}


async def test_logs_that_are_acquired_together_take_one_statement_and_one_that_is_no_session_fails_alone(
    server: LocalServer, url: str, schema: str
) -> None:
    refs = [f"{n}.jsonl" for n in range(SESSIONS)]
    store = PostgresStore(url + "&lease_s=600")
    assert not await store.exists("strange")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        strange = f"INSERT INTO {schema}.logs (ref, epoch, history, header) VALUES ('strange', 0, 0, '?')"
        connection.execute(strange.encode())
    told: dict[str, object] = {}

    async def acquire(ref: str) -> None:
        try:
            (told[ref],) = await store.acquire([ref], "owner")
        except TreeringError as error:
            told[ref] = error

    async def acquire_all(refs: list[str]) -> None:
        async with anyio.create_task_group() as tasks:
            for ref in refs:
                tasks.start_soon(acquire, ref)

    with counted(server.url()) as counts:
        await acquire_all(refs)
    assert counts.of("skip locked") == 1
    assert all(isinstance(told.pop(ref), Lease) for ref in refs)
    await acquire_all(["a", "strange", "b", "b"])
    assert {ref: type(each) for ref, each in told.items()} == {"a": Lease, "strange": NotASession, "b": SessionLocked}
    await store.aclose()


def append_of(lease: Lease) -> Append:
    return Append(lease, lease.head, (line(1),), header=NativeDialect().encode_header(header_of(lease.ref)))


class Holding:
    """An offload that begins nothing as long as it is held."""

    def __init__(self) -> None:
        self.go = anyio.Event()
        self.go.set()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run a function in a thread once nothing is held."""
        await self.go.wait()
        return await to_thread.run_sync(fn, *args)


@asynccontextmanager
async def acquired(
    url: str, count: int, offload: Holding | None = None
) -> AsyncIterator[tuple[PostgresStore, list[Append]]]:
    """Open a store that holds logs which are not written, and yield the first append to each."""
    store = PostgresStore(url + "&lease_s=600", offload=offload)
    try:
        taken = await store.acquire([f"{n}.jsonl" for n in range(count)], "owner")
        yield store, [append_of(each) for each in taken if isinstance(each, Lease)]
    finally:
        await store.aclose()


@pytest.mark.parametrize("anyio_backend", TWO, indirect=True)
async def test_more_appends_than_a_statement_takes_go_in_several_and_are_answered_in_order(
    monkeypatch: pytest.MonkeyPatch, server: LocalServer, url: str
) -> None:
    monkeypatch.setattr(committing, "BATCH_APPENDS_MAX", 4)
    async with acquired(url, 14) as (store, appends):
        others: list[Outcome] = []

        async def append(*some: Append) -> None:
            others.extend(await store.append(some))

        with counted(server.url()) as counts:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(append, *appends[:2])  # the next ones join these, and lead what does not fit
                await checkpoint()
                outcomes = await store.append(appends[2:13])
                tasks.start_soon(append, appends[13])
        assert [type(each) for each in (*outcomes, *others)] == [Committed] * 14
        assert counts.of("insert into", "lines") in (4, 5)  # the last one may join what the first task leads
        fenced = await store.append([appends[12], *appends[:3]])
        assert [type(each) for each in fenced] == [Fenced] * 4


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_who_is_cancelled_leaves_its_append_and_those_of_the_others_carried_out(url: str) -> None:
    held = Holding()
    async with acquired(url, 6, held) as (store, appends):
        held.go = anyio.Event()
        got: dict[int, Outcome | str] = {}

        async def append(number: int) -> None:
            with anyio.CancelScope() as scope:
                scopes[number] = scope
                (got[number],) = await store.append([appends[number]])
                await checkpoint()
            if scope.cancelled_caught:
                got[-number - 1] = "told afterwards"

        scopes: dict[int, anyio.CancelScope] = {}
        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(append, number)
            await anyio.wait_all_tasks_blocked()
            for number in range(3):  # those that wait for the statement, and one that may lead it
                scopes[number].cancel()
            await anyio.wait_all_tasks_blocked()
            assert got == {}
            held.go.set()
        assert {type(got[number]) for number in range(6)} == {Committed}
        assert {number for number in got if number < 0} == {-1, -2, -3}
        assert [type(each) for each in await store.append(appends)] == [Fenced] * 6


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_tasks_that_asyncio_cancels_by_force_are_told_when_their_appends_are_there(url: str) -> None:
    held = Holding()
    async with acquired(url, 4, held) as (store, appends):
        held.go = anyio.Event()
        calls = [asyncio.ensure_future(store.append([each])) for each in appends]
        await checkpoint()
        for each in calls[:2]:
            each.cancel()
            await checkpoint()
            each.cancel()
        await checkpoint()
        assert not any(each.done() for each in calls)
        held.go.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in outcomes[:2]] == [asyncio.CancelledError] * 2
        assert [each for each in outcomes[2:] if isinstance(each, BaseException)] == []
        assert [type(each) for each in await store.append(appends)] == [Fenced] * 4
