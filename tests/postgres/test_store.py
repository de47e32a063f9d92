"""The published suite over a real server.

Its tests share a schema, which is emptied after each: making and dropping one takes five times as long as a test.
"""

from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest

from treering.stores import Store
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.local_server import LocalServer
from treering.testing.stores import StoreSuite

SCHEMA = "of_the_suite"
TABLES = """
select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'meta'
"""


class Shared(NamedTuple):
    """The address of the stores, and a connection to their database."""

    url: str
    connection: psycopg.Connection

    def empty(self) -> None:
        """Delete all that a test has written."""
        tables = self.connection.execute(TABLES, (SCHEMA,)).fetchall()
        if tables:  # until a test opens a store there are none
            assert {"logs", "lines", "beside", "rows"} <= {name for (name,) in tables}
            self.connection.execute("; ".join(f"DELETE FROM {SCHEMA}.{name}" for (name,) in tables).encode())


@pytest.fixture(scope="module")
def shared(running_server: LocalServer) -> Iterator[Shared]:
    with psycopg.connect(running_server.url(), autocommit=True) as connection:
        connection.execute("SET lock_timeout = '20s'")  # longer waits are for a connection that a test has left open
        yield Shared(running_server.url(schema=SCHEMA), connection)
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())


@pytest.mark.feature("C-1")
class TestPostgresStore(StoreSuite):
    """A store in PostgreSQL, with another one as a second host."""

    @pytest.fixture(autouse=True)
    def _address(self, shared: Shared) -> Iterator[None]:
        self.url = shared.url
        yield
        shared.empty()

    async def make_store(self) -> Store:
        return PostgresStore(self.url)

    async def another_host(self, store: Store) -> Store | None:
        return PostgresStore(self.url)
