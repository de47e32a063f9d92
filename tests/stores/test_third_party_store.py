"""The example of a store, in SQLite, passes the published suite, works behind a host, and has a URL."""

import os
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from tests.stores.sqlite_example import SqliteStore

from treering import KeyedSessions, Message, Session, SessionHost, SessionNotFound, Usage, message, plain_text
from treering.errors import SessionExists
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


async def state_of(session: Session) -> list[object]:
    return [session.tree(), session.leaf_id, session.labels(), await session.entries(), await session.context()]


@pytest.mark.feature("D-1", "D-2", "D-8")
async def test_a_host_works_on_a_third_party_store(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    async with SessionHost(store=SqliteStore(file)) as host:
        session = await host.create("main", cwd="/work")
        first = await session.append_message("user", "Hello")
        await session.save_turn([message("assistant", "Hi"), message("user", "And?")], Usage(1, 2))
        await session.branch(first)
        other = await session.append_message("user", "Or rather:")
        await session.set_label(first, "start")
        await session.append_compaction("They greeted.", other, 10)
        await KeyedSessions(host).add_message("telegram:1", "user", "Hey")
        fork = await host.fork_from("main", session_id="copy")
        await host.put(await fork.fork("copy of the copy"))
        with pytest.raises(SessionExists):
            await host.fork_from("main", session_id="copy")
        await session.branch(first)
        live = await state_of(session)
    async with SessionHost(store=SqliteStore(file)) as host:
        session = await host.load("main")
        assert await state_of(session) == live
        ids = [row.id for row in await host.list_sessions()]
        assert sorted(ids) == ["copy", "copy of the copy", "main", "telegram_1"]
        messages: list[Message] = await KeyedSessions(host).history("telegram:1")
        assert [plain_text(each.content) for each in messages] == ["Hey"]
        async with session.subscribe() as entries:
            appended = await session.append_message("user", "live")
            async for entry in entries:
                if entry.id == appended:  # type: ignore[union-attr]
                    break
        await host.delete("main")
        with pytest.raises(SessionNotFound):
            await host.load("main")
    assert os.listdir(tmp_path) == ["sessions.db"]


async def test_an_installed_store_has_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints([EntryPoint("sqlite", f"{__name__}:SqliteStore", opening.GROUP)])
    monkeypatch.setattr("importlib.metadata.entry_points", points.select)
    async with SessionHost(f"sqlite:{tmp_path}/sessions.db") as host:
        await (await host.create("s")).append_message("user", "Hello")
        assert [row.id for row in await host.list_sessions()] == ["s"]
    assert os.listdir(tmp_path) == ["sessions.db"]
