"""What operators do with a database: look at it, and say that it was restored from a backup."""

import shutil
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from tests.cli.conftest import Cli

from treering import Cursor, MessageEntry, Reset, Session, SessionHost, SyncHost
from treering.entries import plain_text
from treering.errors import LeaseLost
from treering.stores.postgres.administration import Administration
from treering.stores.postgres.local_server import LocalServer

from .load import insist


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> Cli:
    """The command, for which the database is the root."""
    monkeypatch.setenv("TREERING_ROOT", url)
    return Cli(tmp_path)


def test_the_status_shows_the_server_schema_and_hosts(cli: Cli, server: LocalServer, schema: str, url: str) -> None:
    before = cli.json("postgres", "status")
    assert (before["schema"], before["version"], before["hosts"], before["bytes"]) == (schema, 0, [], 0)
    assert any(
        "there is none yet: treering postgres migrate makes it" in each for each in cli.lines("postgres", "status")
    )
    assert cli.json("postgres", "status")["version"] == 0  # to look changes nothing
    migrated = cli.json("postgres", "migrate", "-q")
    assert (migrated["before"], migrated["after"]) == (0, before["newest"])
    assert cli.json("postgres", "migrate", "-q")["before"] == before["newest"]
    with SyncHost(url) as host:
        host.create("one").append_message("user", "Hello")
        found = cli.json("postgres", "status")
        shown = "\n".join(cli.lines("postgres", "status"))
    assert found["place"] == f"{server.folder}:5432/postgres"
    assert (found["role"], found["standby"], found["encoding"], found["restored"]) == ("postgres", False, "UTF8", 0)
    assert found["bytes"] > 0
    assert [each["sessions"] for each in found["hosts"]] == [1]
    assert 0 < found["hosts"][0]["left_s"] <= 15
    assert f"version {found['newest']}, the newest" in shown
    assert f"{found['hosts'][0]['name']}: 1 session, lease " in shown
    assert cli.json("postgres", "status")["hosts"] == []  # it has left


def test_what_is_no_database_is_refused(cli: Cli, tmp_path: Path) -> None:
    for command in ("status", "migrate", "grants", "restored"):
        assert "is no database: give an address" in cli.error("postgres", command, "--root", tmp_path)
        assert "is no database: give an address" in cli.error("postgres", "--root", tmp_path, command)
    assert "there is no schema" in cli.error("postgres", "restored")


async def messages(session: Session) -> list[str]:
    """The messages of a session."""
    entries = await session.entries()
    return [plain_text(each.message.content) for each in entries if isinstance(each, MessageEntry)]


async def write(url: str, *texts: str) -> Cursor:
    """Append messages to the session, by a host of their own, and return where it ends then."""
    async with SessionHost(url) as host:
        session = await opened(host)
        for each in texts:
            await session.append_message("user", each)
        return session.cursor


async def opened(host: SessionHost) -> Session:
    """Open the session, or create it."""
    if any(row.id == "one" for row in await host.list_sessions()):
        return await host.load("one")
    return await host.create("one")


async def test_after_a_restored_backup_followers_begin_anew_anyway(cli: Cli, server: LocalServer, url: str) -> None:
    before = await write(url, "first", "second")
    backup = server.folder / "backup"
    await to_thread.run_sync(server.stop)
    shutil.copytree(server.data, backup)
    await to_thread.run_sync(server.start)
    lost = await write(url, "third", "fourth")
    await to_thread.run_sync(server.stop, "immediate")
    shutil.rmtree(server.data)
    await to_thread.run_sync(shutil.move, backup, server.data)
    shutil.chown(server.data, *_owner(server.folder))
    for path in server.data.rglob("*"):
        shutil.chown(path, *_owner(server.folder))
    await to_thread.run_sync(server.start)
    assert await to_thread.run_sync(lambda: cli.json("postgres", "restored", "-q")) == {"restored": 1}
    now = await write(url, "another third", "another fourth")
    assert now.seq == lost.seq
    assert len({before.generation, now.generation}) == 2
    async with SessionHost(url) as host:
        session = await host.load("one", read_only=True)
        assert await messages(session) == ["first", "second", "another third", "another fourth"]
        async with session.subscribe(after=lost) as entries:
            assert isinstance(await anext(entries), Reset)
            first = await anext(entries)
            assert isinstance(first, MessageEntry)
            assert plain_text(first.message.content) == "first"
    assert (await to_thread.run_sync(lambda: cli.json("postgres", "status")))["restored"] == 1


def _owner(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_uid, found.st_gid


async def test_hosts_that_run_lose_what_they_hold_and_live_followers_begin_anew(url: str) -> None:
    async with SessionHost(url) as holder, SessionHost(url) as other:
        session = await holder.create("one")
        await session.append_message("user", "first")
        following = await other.load("one", read_only=True)
        async with following.subscribe() as entries:
            assert isinstance(await anext(entries), MessageEntry)
            assert await to_thread.run_sync(Administration(url).restored) == 1
            with anyio.fail_after(20):
                assert isinstance(await anext(entries), Reset)
                assert isinstance(await anext(entries), MessageEntry)
        with pytest.raises(LeaseLost):
            await insist(session, "by a lease of before", lambda _: None)
        again = await other.load("one")
        assert await messages(again) == ["first"]
        await again.append_message("user", "second")
        assert again.cursor.generation.startswith("1.")
