"""What is listed as corrupted can be deleted, though no host can open it, and nothing else can be in its name."""

# ruff: noqa: ASYNC240  # the files are small
from __future__ import annotations

from pathlib import Path

import pytest

from treering import NotASession, SessionHost, SessionNotFound
from treering.errors import UnsupportedVersion
from treering.stores import Durability
from treering.subscriptions import SessionChanged

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
