"""Appends of many sessions in one statement and one commit, and a failure that stays with its session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import psycopg
import pytest

from treering import Limits, Session, SessionHost, Settings
from treering.errors import AppendFailed, LeaseLost, NotASession, SessionLocked, TreeringError
from treering.events.stores.base import Lease
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.local_server import LocalServer

from .counting import counted

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
