"""The published suite over a real server."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from treering.stores import Store
from treering.stores.postgres import PostgresStore
from treering.testing.stores import StoreSuite


@pytest.mark.feature("C-1")
class TestPostgresStore(StoreSuite):
    """A store in PostgreSQL, with another one as a second host."""

    @pytest.fixture(autouse=True)
    def _address(self, url: str) -> None:
        self.url = f"{url}&archive=memory://suite" if find_spec("fsspec") else url

    async def make_store(self) -> Store:
        return PostgresStore(self.url)

    async def another_host(self, store: Store) -> Store | None:
        return PostgresStore(self.url)
