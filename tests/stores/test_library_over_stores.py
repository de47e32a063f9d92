"""The library behaves the same over files, in memory, and over a store that is not ours.

Its own tests run over each store, too, as far as `over_stores` lets them take part.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.stores.sqlite_example import SqliteStore
from tests.stores.suites import SUITES_S, run_suites

from treering import FileStore, KeyedSessions, MemoryStore, Message, Session, SessionHost, SessionNotFound, Usage
from treering.entries import message, plain_text
from treering.errors import SessionExists
from treering.events.stores.base import Store
from treering.events.stores.shelf import Shelf

PASSED_MIN = 25


@pytest.mark.feature("X-29")
@pytest.mark.timeout(SUITES_S)
@pytest.mark.parametrize(
    ("kind", "rooms", "part"),
    [
        ("memory", ["sessions", "following", "exporting"], "0/3"),
        ("finding", ["catalog", "keeping", "search"], "0/2"),
        ("sqlite", ["catalog", "keyed", "search"], "1/3"),
        *(pytest.param(kind, None, "0/1", marks=pytest.mark.soak) for kind in ("memory", "finding", "sqlite")),
    ],
)
def test_the_librarys_own_tests_pass_over_other_stores(kind: str, rooms: Sequence[str] | None, part: str) -> None:
    assert run_suites(kind, rooms=rooms, part=part) > PASSED_MIN


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough: what the stores do beside it, their own suites say."""
    return "asyncio"


@pytest.fixture(params=["files", "memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Makes stores that share their logs, as the next host of a program would."""
    shelf = Shelf()
    makers: dict[str, Callable[[], Store]] = {
        "files": lambda: FileStore(tmp_path / "sessions"),
        "memory": lambda: MemoryStore(shelf),
        "sqlite": lambda: SqliteStore(tmp_path / "sessions.db"),
    }
    return makers[request.param]


async def state_of(session: Session) -> list[object]:
    return [session.tree(), session.leaf_id, session.labels(), await session.entries(), await session.context()]


@pytest.mark.feature("D-1", "D-2", "D-8")
async def test_a_host_works_on_any_store(make_store: Callable[[], Store], tmp_path: Path) -> None:
    async with SessionHost(store=make_store()) as host:
        session = await host.create("main", cwd="/work")
        first = await session.append_message("user", "Hello")
        await session.save_turn([message("assistant", "Hi"), message("user", "And a needle?")], Usage(1, 2))
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
    async with SessionHost(store=make_store()) as host:
        session = await host.load("main")
        assert await state_of(session) == live
        ids = [row.id for row in await host.list_sessions()]
        assert sorted(ids) == ["copy", "copy of the copy", "main", "telegram_1"]
        async with host.search("needle") as hits:
            assert {hit.session_id async for hit in hits} == {"copy", "copy of the copy", "main"}
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
    assert set(os.listdir(tmp_path)) <= {"sessions", "sessions.db"}
