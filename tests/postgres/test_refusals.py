"""What is said when a database refuses: the place, what happened and what to do, and never a password."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from treering import InvalidInput, ReadOnly, SessionHost, UnsupportedVersion
from treering.errors import TreeringError
from treering.events.errors import StoreUnavailable
from treering.stores.postgres import PostgresStore, connections
from treering.stores.postgres.local_server import LocalServer

SECRET = "pa55w0rd"


@pytest.fixture
def role(server: LocalServer) -> Iterator[str]:
    """A role without any rights but to connect by its password."""
    name = "someone"
    pg_hba = server.data / "pg_hba.conf"
    before = pg_hba.read_text()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create role {name} login password '{SECRET}'".encode())
        pg_hba.write_text(f"local all {name} scram-sha-256\n{before}")
        connection.execute("select pg_reload_conf()")
        yield name
        pg_hba.write_text(before)
        connection.execute("select pg_reload_conf()")
        connection.execute(f"drop owned by {name}".encode())
        connection.execute(f"drop role {name}".encode())


def address(
    server: LocalServer, schema: str, *, user: str = "postgres", database: str = "postgres", **more: str
) -> str:
    """The address of the server for a role."""
    return server.url(database=database, schema=schema, **more).replace("postgres@", f"{user}@")


async def refused(url: str, kind: type[TreeringError]) -> str:
    """Ask something of a store that refuses, and return what it says."""
    store = PostgresStore(url)
    try:
        with pytest.raises(kind) as caught:
            await store.page()
    finally:
        await store.aclose()
    assert SECRET not in str(caught.value)
    return str(caught.value)


async def test_an_address_that_leads_nowhere_is_said_so_with_its_place(server: LocalServer, schema: str) -> None:
    nowhere = f"postgresql://anna:{SECRET}@localhost:1/shop"
    said = await refused(nowhere, StoreUnavailable)
    assert said.startswith("localhost:1/shop: the database cannot be reached (")
    assert said.endswith(": check the address, and that the server runs")
    said = await refused(f"postgresql://anna:{SECRET}@no.such.invalid/shop", StoreUnavailable)
    assert said.startswith("no.such.invalid/shop: ")
    assert said.endswith(": correct the host in the address")
    said = await refused(address(server, schema, database="shop"), StoreUnavailable)
    assert said.startswith(f"{server.folder}:5432/shop: ")
    assert said.endswith('database "shop" does not exist): create it, or correct its name in the address')
    said = await refused(address(server, schema, user="nobody"), StoreUnavailable)
    assert said.endswith('role "nobody" does not exist): check role and password (.pgpass, PGPASSWORD)')


@pytest.mark.parametrize("url", [f"postgresql://anna:{SECRET}@[db/shop", f"postgresql://anna:{SECRET}@db/shop?prot=1"])
def test_an_address_that_cannot_be_read_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidInput, match="address of the database cannot be read") as caught:
        SessionHost(url)
    assert SECRET not in str(caught.value)


async def test_passwords_come_from_the_password_file_or_the_environment(
    server: LocalServer, schema: str, url: str, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create schema {schema} authorization {role}".encode())
    asks = address(server, schema, user=role)
    said = await refused(asks, StoreUnavailable)
    assert "no password supplied" in said
    said = await refused(asks.replace(role, f"{role}:{quote(SECRET + '!')}"), StoreUnavailable)
    assert said.endswith(f'authentication failed for user "{role}"): check role and password (.pgpass, PGPASSWORD)')
    with monkeypatch.context() as context:
        context.setenv("PGPASSWORD", SECRET)
        async with SessionHost(asks) as host:
            await (await host.create("by-environment")).append_message("user", "Hello")
    passwords = tmp_path / "passwords"
    passwords.write_text(f"{server.folder}:*:*:{role}:{SECRET}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    async with SessionHost(asks) as host:
        assert [row.id for row in await host.list_sessions()] == ["by-environment"]
    assert url


async def test_a_role_that_may_not_is_told_the_statement_and_the_command_that_grants(
    server: LocalServer, schema: str, url: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)
    asks = address(server, schema, user=role)
    said = await refused(asks, ReadOnly)
    assert said.startswith(f"{server.folder}:5432/postgres: schema {schema!r} has version 0, this program needs ")
    assert said.endswith("): run 'treering postgres migrate' as the role that owns it")
    async with SessionHost(url) as host:
        await (await host.create("one")).append_message("user", "Hello")
    said = await refused(asks, ReadOnly)
    assert said == (
        f"{server.folder}:5432/postgres: the role may not do this (permission denied for schema {schema}): use another "
        f"one, or run what 'treering postgres grants' prints as the role that owns the tables"
    )
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"grant usage on schema {schema} to {role}".encode())
        connection.execute(f"grant select on {schema}.meta to {role}".encode())
    said = await refused(asks, ReadOnly)
    assert said.startswith(
        f"{server.folder}:5432/postgres, statement page: the role may not do this (permission denied"
    )


async def test_an_old_server_another_encoding_and_a_newer_schema_are_refused_by_name(
    server: LocalServer, schema: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("create database latin encoding 'LATIN1' template template0 lc_collate 'C' lc_ctype 'C'")
    try:
        said = await refused(address(server, schema, database="latin"), InvalidInput)
        assert said.endswith("/latin: the database has the encoding LATIN1: create one with encoding UTF8")
    finally:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("drop database latin")
    async with SessionHost(url) as host:
        await (await host.create("one")).append_message("user", "Hello")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"update {schema}.meta set version = 99".encode())
    said = await refused(url, UnsupportedVersion)
    assert said.startswith(f"{server.folder}:5432/postgres: schema {schema!r} has version 99, and this program knows ")
    assert said.endswith(": use the program of that version, or a newer one")
    monkeypatch.setattr(connections, "SERVER_VERSION_MIN", 99)
    said = await refused(url, UnsupportedVersion)
    assert "the server is PostgreSQL " in said
    assert said.endswith(", and 99 is the oldest that serves: use that or a newer one")


async def test_a_standby_is_read_and_refuses_writes_by_name(server: LocalServer, schema: str, url: str) -> None:
    async with SessionHost(url) as host:
        await (await host.create("one")).append_message("user", "Hello")
    with server.standby() as standby:
        async with SessionHost(standby.url(schema=schema)) as host:
            assert len(await (await host.load("one", read_only=True)).entries()) == 1
            assert [row.id for row in await host.list_sessions()] == ["one"]
            with pytest.raises(ReadOnly, match=r"statement .*: the server takes no writes .*: connect to the primary"):
                await host.load("one")
        said = await refused(standby.url(schema="another"), ReadOnly)
        assert "schema 'another' has version 0" in said


async def test_the_encoding_of_a_program_does_not_matter(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    async with SessionHost(url) as host:
        await (await host.create("Übung-漢字")).append_message("user", "漢字")
    async with SessionHost(url) as host:
        assert [row.id for row in await host.list_sessions()] == ["Übung-漢字"]
