"""The library behaves the same over files, in memory, and over a store that is not ours.

Its own tests run over each store, too, as far as `over_stores` lets them take part.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest
from tests.stores.sqlite_example import SqliteStore
from tests.stores.suites import SUITES_S, run_suites

from treering import FileStore, KeyedSessions, MemoryStore, SessionHost, SessionNotFound, plain_text
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


async def test_a_conversation_is_the_same_when_it_is_reopened(make_store: Callable[[], Store]) -> None:
    async with SessionHost(store=make_store()) as host:
        session = await host.create("main")
        first = await session.append_message("user", "Hello")
        await session.append_message("assistant", "Hi")
        await session.branch(first)
        await session.append_message("assistant", "Good day")
        await session.branch(first)
        live = [session.tree(), session.leaf_id, await session.entries(), await session.context()]
    async with SessionHost(store=make_store()) as host:
        session = await host.load("main")
        assert [session.tree(), session.leaf_id, await session.entries(), await session.context()] == live


async def test_a_subscriber_is_told_of_an_append(make_store: Callable[[], Store]) -> None:
    async with SessionHost(store=make_store()) as host:
        session = await host.create("main")
        async with session.subscribe() as entries:
            appended = await session.append_message("user", "Hello")
            with anyio.fail_after(5):
                async for entry in entries:
                    if getattr(entry, "id", None) == appended:
                        break


async def test_sessions_are_listed_found_forked_and_deleted(make_store: Callable[[], Store]) -> None:
    async with SessionHost(store=make_store()) as host:
        await (await host.create("main")).append_message("user", "A needle in the hay")
        await host.fork_from("main", session_id="copy")
        with pytest.raises(SessionExists):
            await host.fork_from("main", session_id="copy")
        await KeyedSessions(host).add_message("telegram:1", "user", "Hey")
    async with SessionHost(store=make_store()) as host:
        assert sorted(row.id for row in await host.list_sessions()) == ["copy", "main", "telegram_1"]
        async with host.search("needle") as hits:
            assert {hit.session_id async for hit in hits} == {"copy", "main"}
        assert [plain_text(each.content) for each in (await KeyedSessions(host).history("telegram:1"))] == ["Hey"]
        await host.delete("main")
        with pytest.raises(SessionNotFound):
            await host.load("main")
