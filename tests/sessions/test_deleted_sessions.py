"""A deleted session stays deleted: no handle from before brings it back."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from treering import Session, SessionHost, SessionNotFound

MakeSession = Callable[[SessionHost], Awaitable[Session]]


async def loaded(host: SessionHost) -> Session:
    await (await host.create("main")).append_message("user", "before")
    return await host.load("main")


async def keyed_again(host: SessionHost) -> Session:
    await (await host.get_or_create("main")).append_message("user", "before")
    return await host.get_or_create("main")


async def forked(host: SessionHost) -> Session:
    origin = await host.create()
    await origin.append_message("user", "before")
    return await origin.fork("main")


async def put(host: SessionHost) -> Session:
    return await host.put(await host.create("main"))


NEW: dict[str, MakeSession] = {
    "created": lambda host: host.create("main"),
    "opened": lambda host: host.open("main"),
    "keyed": lambda host: host.get_or_create("main"),
}
EVERY: dict[str, MakeSession] = NEW | {"loaded": loaded, "keyed again": keyed_again, "forked": forked, "put": put}


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("passivated", [False, True], ids=["live", "passivated"])
@pytest.mark.parametrize(("in_memory", "written"), [(False, True), (False, False), (True, True)])
async def test_a_handle_does_not_bring_back_a_deleted_session(
    tmp_path: Path, make: MakeSession, passivated: bool, in_memory: bool, written: bool
) -> None:
    async with SessionHost(None if in_memory else tmp_path) as host:
        session = await make(host)
        other = await host.open("main")
        if written:
            await session.append_message("user", "Hello")
        if passivated:
            await host.passivate_idle()
        await host.delete(session)
        with pytest.raises(SessionNotFound, match=r"deleted|no longer"):
            await other.append_message("user", "still here?")
        with pytest.raises(SessionNotFound):
            await session.append_message("user", "still here?")
        with pytest.raises(SessionNotFound):
            await session.append_many([])
        with pytest.raises(SessionNotFound):
            await session.context()
        with pytest.raises(SessionNotFound):
            _ = session.leaf_id
        assert await host.get_session("main") is None
        assert not list(tmp_path.glob("main.jsonl*"))


@pytest.mark.parametrize("in_memory", [False, True], ids=["files", "memory"])
@pytest.mark.parametrize("read_only", [False, True], ids=["owned", "read-only"])
async def test_reading_a_deleted_session_says_that_it_is_gone(tmp_path: Path, in_memory: bool, read_only: bool) -> None:
    async with SessionHost(None if in_memory else tmp_path) as host:
        await (await host.create("main")).append_message("user", "Hello")
        session = await host.load("main", read_only=read_only)
        await host.delete("main")
        with pytest.raises(SessionNotFound, match=r"(no longer|was deleted).*load or create another one"):
            await session.entries()
        if not read_only:
            with pytest.raises(SessionNotFound, match=r"no longer: load or create another one"):
                _ = session.title


async def test_an_unwritten_session_is_not_taken_for_a_deleted_one(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("main")
        assert session.leaf_id is None
        assert (await session.context()).messages == ()
        await host.passivate_idle()
        await session.append_message("user", "Hello")
        await host.passivate_idle()
        await session.append_message("user", "Are you there?")
        assert session.message_count == 2


@pytest.mark.feature("D-38")
@pytest.mark.parametrize("again", NEW.values(), ids=NEW)
async def test_delete_can_be_repeated_and_the_name_be_used_again(tmp_path: Path, again: MakeSession) -> None:
    async with SessionHost(tmp_path) as host:
        for content in ("first", "second"):
            session = await again(host)
            await session.append_message("user", content)
            assert session.message_count == 1
            for _ in range(2):
                await host.delete("main")
                assert not list(tmp_path.glob("*.jsonl"))
            with pytest.raises(SessionNotFound):
                await host.load("main")


async def test_a_repeated_delete_does_not_take_a_session_whose_id_begins_alike(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        for each in ("main-1", "main-10"):
            await (await host.create(each)).append_message("user", "Hello")
        for _ in range(2):
            await host.delete("main-1")
        assert [row.id for row in await host.list_sessions()] == ["main-10"]
