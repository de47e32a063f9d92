"""A deleted session stays deleted: no handle from before brings it back."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from treering import NotASession, Session, SessionHost, SessionNotFound
from treering.errors import UnsupportedVersion
from treering.stores import Durability
from treering.subscriptions import SessionChanged

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
async def test_reading_a_deleted_session_says_that_it_is_no_longer_there(
    tmp_path: Path, in_memory: bool, read_only: bool
) -> None:
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


HEADER = b'{"type":"session","id":"bad","version":1,"timestamp":"2026-01-01T10:00:00Z"}\n'
GARBAGE = {
    "text": b"needle\n",
    "bytes": bytes(range(256)) * 40,
    "other JSON": b'{"type":"message"}\n',
    "torn": b"needle",
}


@pytest.mark.parametrize("durability", ["os", "group"])
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_what_is_listed_as_corrupted_can_be_deleted_and_its_name_be_used_again(
    tmp_path: Path, garbage: bytes, durability: Durability
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(HEADER)
    async with SessionHost(tmp_path, durability=durability) as host:
        reading = await host.load("bad", read_only=True)
        bad.write_bytes(garbage)
        bad.with_name("bad.jsonl.bak").write_bytes(garbage)
        [row] = await host.list_sessions(status="any")
        assert (row.id, row.status) == ("bad", "corrupted")
        search = host.search("needle")
        assert [hit async for hit in search] == []
        assert [each.code for each in search.findings] == ["not_searched"]
        async with host.subscribe_sessions() as changes:
            assert await anext(changes) == [row]
            await host.delete("bad")
            changed = await anext(changes)
            assert isinstance(changed, SessionChanged)
            assert (changed.ref, changed.summary) == ("bad.jsonl", None)
        await host.delete("bad")
        assert list(tmp_path.glob("bad*")) == []
        assert await host.list_sessions(status="any") == []
        search = host.search("needle")
        assert ([hit async for hit in search], search.findings) == ([], [])
        with pytest.raises(SessionNotFound):
            await reading.refresh()
        await (await host.create("bad")).append_message("user", "Hello")
        assert (await host.resolve("bad")).message_count == 1


async def test_a_handle_from_before_does_not_bring_back_a_corrupted_session_that_was_deleted(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("bad")
        (tmp_path / "bad.jsonl").write_bytes(b"garbage\n")
        await host.delete("bad")
        with pytest.raises(SessionNotFound, match="deleted"):
            await session.append_message("user", "Hello")
    assert list(tmp_path.glob("bad*")) == []


async def test_an_archived_session_that_is_damaged_can_be_deleted(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        await (await host.create("bad")).append_message("user", "Hello")
        await host.archive("bad")
    [packed] = (path for path in tmp_path.glob("bad.jsonl.*") if path.suffix in (".gz", ".zst"))
    packed.write_bytes(packed.read_bytes()[:20] + b"garbage")
    async with SessionHost(tmp_path) as host:
        await host.delete("bad")
        assert list(tmp_path.glob("bad*")) == []
        assert await host.get_session("bad") is None


async def test_what_is_not_listed_or_of_a_newer_program_is_not_deleted(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.jsonl"
    (root / "folder.jsonl").mkdir(parents=True)
    outside.write_bytes(b"garbage\n")
    (root / "link.jsonl").symlink_to(outside)
    (root / "notes.txt").write_bytes(b"garbage\n")
    (root / "newer.jsonl").write_bytes(HEADER.replace(b'"version":1', b'"version":99'))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    async with SessionHost(root) as host:
        for session in (outside, root / "notes.txt", root / "folder.jsonl", "link"):
            with pytest.raises(NotASession):
                await host.delete(session)
        with pytest.raises(UnsupportedVersion):
            await host.delete("newer")
    assert {path: path.read_bytes() for path in before} == before
    assert (root / "folder.jsonl").is_dir()
