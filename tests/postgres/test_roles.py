"""Three roles suffice: one owns the tables, hosts run without owning them, and a reader cannot write."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors as refusals
from tests.cli.conftest import Cli

from treering import ReadOnly, SessionHost
from treering.stores.postgres import PostgresStore
from treering.stores.postgres import schema as schemas
from treering.stores.postgres.administration import Administration
from treering.stores.postgres.catalog.row_statements import RowStatements
from treering.stores.postgres.catalog.text_statements import TextStatements
from treering.stores.postgres.local_server import LocalServer
from treering.stores.postgres.statements import Statements

OWNER, RUNNER, READER = "the owner", "run%ner", 'rea"der'
_WRITES = re.compile(rb"\b(insert|update|delete)\b")


class Roles:
    """The addresses of one schema for three roles, whose rights are those that `grants` prints."""

    def __init__(self, server: LocalServer, schema: str) -> None:
        self.owner, self.runner, self.reader = (
            server.url(schema=schema, user=each) for each in (OWNER, RUNNER, READER)
        )


@pytest.fixture
def roles(server: LocalServer, schema: str, url: str) -> Iterator[Roles]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        text = Administration(url).grants(owner=OWNER, runner=RUNNER, reader=READER)
        once = re.findall(r"^--      (create .*;)$", text, re.MULTILINE)  # what a superuser runs, as it says
        assert len(once) == 4
        for each in once:
            connection.execute(each.encode())
        made = Roles(server, schema)
        Administration(made.owner).migrate()
        with psycopg.connect(PostgresStore(made.owner).address.conninfo, autocommit=True) as by_owner:
            by_owner.execute(text.encode())
        yield made
        for name in (OWNER, RUNNER, READER):
            quoted = psycopg.sql.Identifier(name)
            connection.execute(psycopg.sql.SQL("drop owned by {} cascade").format(quoted))
            connection.execute(psycopg.sql.SQL("drop role {}").format(quoted))


@pytest.mark.feature("C-17")
def test_each_statement_runs_without_ownership_and_the_reader_may_run_those_that_only_read(
    roles: Roles, schema: str
) -> None:
    statements = Statements(schema)
    RowStatements(schema, statements.names)  # adds its own, and so do these
    TextStatements(schema, statements.names)
    assert {"append", "acquire", "put", "save_leaf", "read", "page", "keep_rows"} <= set(statements.names.values())
    for text, name in statements.names.items():
        for url in (roles.runner, roles.reader):
            writes = _WRITES.search(re.sub(rb"'[^']*'", b"", text))
            may = url == roles.runner or not (writes or name in ("copy", "new_history"))
            with psycopg.connect(PostgresStore(url).address.conninfo, autocommit=True) as connection:
                try:
                    run(connection, name, text)
                except refusals.InsufficientPrivilege:
                    assert not may, name
                else:
                    assert may, name


def run(connection: psycopg.Connection[tuple[object, ...]], name: str, text: bytes) -> None:
    """Let the server check the rights for a statement, without anything in it."""
    if name == "copy":
        with connection.cursor() as cursor, cursor.copy(text):
            return
    if name == "new_history":
        connection.execute(text)
        return
    if text.rstrip().endswith(b"where"):  # the conditions of a query follow
        text += b" true" + b" group by r.word" * (b"count(" in text)
    nothing = dict.fromkeys(re.findall(r"%\((\w+)\)", text.decode()))
    connection.execute(b"explain " + text, nothing)


@pytest.mark.feature("C-17")
async def test_a_host_runs_without_owning_the_tables(roles: Roles, tmp_path: Path) -> None:
    async with SessionHost(roles.runner) as host:
        session = await host.create("one")
        question = await session.append_message("user", "Where is the cart?")
        await session.append_message("assistant", "In the shop.")
        await session.branch(question)  # keeps a leaf record
        await session.append_message("assistant", "In the yard.")
        await session.set_label(question, "cart")
        await host.fork_from(session, session_id="fork")
        other = await host.create("two")
        await other.append_message("user", "Goodbye")
        assert {hit.session_id async for hit in host.search("cart")} == {"one", "fork"}
        await host.archive("two")
        await host.unarchive("two")
        await host.delete("two")
        assert "one" in {row.id for row in await host.list_sessions(status="any")}
        assert "two" not in {row.id for row in await host.list_sessions(status="any")}
    async with SessionHost(roles.runner) as host:  # and again, with what was kept
        assert len(await (await host.load("one")).entries()) == 4


@pytest.mark.feature("C-17")
async def test_a_reader_reads_by_hosts_and_by_sql_and_writes_nothing(roles: Roles, schema: str) -> None:
    async with SessionHost(roles.runner) as host:
        session = await host.create("one")
        leaf = await session.append_message("user", "Where is the cart?")
        async with SessionHost(roles.reader) as reading:
            assert [row.id for row in await reading.list_sessions()] == ["one"]
            await (await host.create("two")).append_message("user", "Where is the bike?")
            await (await host.create("three")).append_message("user", "Where is the bus?")
            assert [row.id for row in await reading.list_sessions()] == ["three", "two", "one"]
            assert [row.id for row in await reading.list_sessions(limit=1, offset=1)] == ["two"]
            await host.list_sessions()  # keeps the rows
            await session.append_message("user", "And the bell?")
            assert [row.id for row in await reading.list_sessions(limit=2)] == ["one", "three"]
            await host.delete("three")
            await host.delete("two")
            rows = await reading.list_sessions()
            assert [(row.id, row.message_count) for row in rows] == [("one", 2)]
            assert [hit.session_id async for hit in reading.search("cart")] == ["one"]
            assert len(await (await reading.load("one", read_only=True)).entries()) == 2
            with pytest.raises(ReadOnly, match=r"statement .*: the role may not do this"):
                await reading.load("one")
            with pytest.raises(ReadOnly, match="the role may not do this"):
                await (await reading.create("two")).append_message("user", "No")
    with psycopg.connect(PostgresStore(roles.reader).address.conninfo, autocommit=True) as connection:
        assert connection.execute(f"select id, entries from {schema}.sessions".encode()).fetchall() == [("one", 2)]
        path = f"select p.id from {schema}.sessions s, {schema}.path(s.session, %s) p".encode()
        assert connection.execute(path, [leaf]).fetchall() == [(leaf,)]
        tables = connection.execute(
            "select relname from pg_class where relnamespace = %s::regnamespace and relkind in ('r', 'p')", [schema]
        ).fetchall()
        assert len(tables) > 5
        for (table,) in tables:
            for deed in ("delete from {}", "insert into {} default values", "truncate {}"):
                with pytest.raises(refusals.InsufficientPrivilege):
                    connection.execute(deed.format(f"{schema}.{table}").encode())
        with pytest.raises(refusals.InsufficientPrivilege):
            connection.execute(f"create table {schema}.more ()".encode())


@pytest.mark.feature("C-16", "C-17")
async def test_a_runner_does_not_migrate_and_names_the_command_which_the_owner_runs(
    roles: Roles, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def more(cursor: schemas.Cursor, name: str) -> None:
        cursor.execute(f"create table {name}.more (a integer)".encode())

    monkeypatch.setattr(schemas, "MIGRATIONS", (*schemas.MIGRATIONS, more))
    monkeypatch.setattr(schemas, "VERSION", len(schemas.MIGRATIONS))
    store = PostgresStore(roles.runner)
    with pytest.raises(ReadOnly, match=r"this program needs .* run 'treering postgres migrate' as the role that owns"):
        await store.page()
    await store.aclose()
    Administration(roles.owner).migrate()
    store = PostgresStore(roles.runner)
    assert await store.page() == []
    await store.aclose()
    for url, deeds in ((roles.runner, ("select * from {}", "delete from {}")), (roles.reader, ("select * from {}",))):
        with psycopg.connect(PostgresStore(url).address.conninfo, autocommit=True) as connection:
            for deed in deeds:  # the rights on tables of later versions come with them
                connection.execute(deed.format(f"{schema}.more").encode())


def test_the_command_prints_rights_and_refuses_names_that_no_role_has(
    roles: Roles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = Cli(tmp_path)
    monkeypatch.setenv("TREERING_ROOT", roles.owner)
    printed = cli("postgres", "grants", "--runner", "agents").stdout
    assert 'to "agents";' in printed
    assert 'to "treering_reader";' in printed
    assert cli.json("postgres", "grants", "--runner", "agents") == {"sql": printed}
    assert "are the same role: give three" in cli.error("postgres", "grants", "--runner", "treering_reader")
    assert "is no name of a role (owner)" in cli.error("postgres", "grants", "--owner", "")
