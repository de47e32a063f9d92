"""The example of a store, in SQLite, passes the published suite, and has a URL."""

import os
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from tests.stores.sqlite_example import SqliteStore

from treering import SessionHost
from treering.events.stores import opening
from treering.events.stores.base import Store
from treering.testing.stores import StoreSuite


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough: the store never waits."""
    return "asyncio"


@pytest.mark.feature("D-1")
class TestSqliteStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.file = tmp_path / "sessions.db"

    async def make_store(self) -> Store:
        return SqliteStore(self.file)

    async def another_host(self, store: Store) -> Store:
        return SqliteStore(self.file)


async def test_an_installed_store_has_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints([EntryPoint("sqlite", f"{__name__}:SqliteStore", opening.GROUP)])
    monkeypatch.setattr("importlib.metadata.entry_points", points.select)
    async with SessionHost(f"sqlite:{tmp_path}/sessions.db") as host:
        await (await host.create("s")).append_message("user", "Hello")
        assert [row.id for row in await host.list_sessions()] == ["s"]
    assert os.listdir(tmp_path) == ["sessions.db"]
