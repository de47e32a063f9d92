"""Everything that replaces, truncates or moves a session's file keeps a copy; only an explicit delete does not."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import pytest

from treering import Session, SessionHost
from treering.events.errors import Conflict
from treering.events.stores.files import FileStore
from treering.testing.disks import MemoryDisk, RecordingDisk

from .logs import own

OLD_PI = (
    b'{"type":"session","id":"old","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w","provider":"p","modelId":"m"}\n'
)
FRAGMENT = b'{"type":"message","id":"torn'


def files(root: Path) -> dict[str, bytes]:
    """Return the files of the sessions, without derived ones."""
    return {
        each.name: each.read_bytes() for each in root.glob("*.jsonl*") if not each.name.endswith((".index", ".leaf"))
    }


async def create_session(host: SessionHost, texts: Sequence[str], session_id: str = "main") -> Session:
    session = await host.create(session_id)
    for each in texts:
        await session.append_message("user", each)
    return session


@pytest.mark.feature("N-7")
async def test_replacing_a_session_keeps_the_old_file(root: Path) -> None:
    """A put keeps the existing file, each time under another name."""
    async with SessionHost(root) as host:
        await create_session(host, ["first"])
        first = files(root)["main.jsonl"]
        second = b""
        for text in ("second", "third"):
            second = files(root)["main.jsonl"]
            async with SessionHost() as elsewhere:
                await host.put(await create_session(elsewhere, [text]), replace=True)
    assert b"second" in second
    assert b"third" in files(root)["main.jsonl"]
    assert files(root) == {
        "main.jsonl": files(root)["main.jsonl"],
        "main.jsonl.bak": first,
        "main.jsonl.bak-2": second,
    }


@pytest.mark.feature("N-7")
async def test_replacing_an_archived_session_keeps_the_old_file(root: Path) -> None:
    async with SessionHost(root) as host:
        session = await create_session(host, ["first"])
        await host.archive(session)
        (packed,) = root.glob("main.jsonl.*")
        async with SessionHost() as elsewhere:
            await host.put(await create_session(elsewhere, ["second"]), replace=True)
    assert not packed.exists()
    kept = files(root)
    assert kept.keys() == {"main.jsonl", "main.jsonl.bak"}
    assert b"first" in kept["main.jsonl.bak"]
    assert b"first" not in kept["main.jsonl"]


@pytest.mark.feature("N-7")
async def test_an_archived_session_is_kept_compressed(host: SessionHost, root: Path) -> None:
    session = await create_session(host, ["first"])
    before = files(root)["main.jsonl"]
    await host.archive(session)
    (packed,) = root.glob("main.jsonl.*")
    found = packed.read_bytes()
    if packed.suffix == ".gz":
        lines = gzip.decompress(found)
    else:
        lines = pytest.importorskip("zstandard").ZstdDecompressor().stream_reader(found, read_across_frames=True).read()
    assert lines.startswith(before)  # followed by the entry that records the archiving
    assert not (root / "main.jsonl").exists()


@pytest.mark.feature("N-7")
async def test_only_a_delete_removes_a_session(root: Path) -> None:
    """All other operations only append to its file."""
    async with SessionHost(root) as host:
        session = await create_session(host, ["first", "second"])
        entry_id = session.leaf_id
        assert entry_id is not None
        before = files(root)["main.jsonl"]
        await session.truncate_history(1)
        await session.set_history([])
        await session.set_summary("short")
        await session.set_title("Title")
        await session.branch(entry_id)
        await session.append_message("user", "third")
        await host.fork_from(session, session_id="child")
        await session.close()
        assert files(root).keys() == {"main.jsonl", "child.jsonl"}
        assert files(root)["main.jsonl"].startswith(before)
        await host.delete("child")
        await host.delete("main")
    assert files(root) == {}


@pytest.mark.parametrize("archived", [False, True])
async def test_a_delete_removes_backups_and_moved_fragments(root: Path, archived: bool) -> None:
    secret = b'{"type":"message","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"secret"}}\n'
    (root / "old.jsonl").write_bytes(OLD_PI + secret)
    async with SessionHost(root) as host:
        session = await host.load("old")  # migrates it
        await session.close()
        (root / "torn.jsonl").write_bytes(
            b'{"type":"session","version":1,"id":"torn","timestamp":"2026-01-01T00:00:00Z"}\n' + FRAGMENT
        )
        await (await host.load("torn")).append_message("user", "secret")
        assert {"old.jsonl.bak", f"torn.jsonl.torn-78-{crc32(FRAGMENT):08x}"} <= files(root).keys()
        for each in ("old", "torn"):
            if archived:
                await host.archive(each)
                assert f"{each}.jsonl" not in files(root)
            await host.delete(each)
    assert files(root) == {}
    assert not list(root.glob("*.jsonl*"))


async def test_a_crash_during_a_replacement_leaves_either_session_and_always_the_old_one() -> None:
    before = MemoryDisk()
    before.make_directory("/root")
    header = b'{"type":"session","version":1,"id":"a","timestamp":"2026-01-01T00:00:00Z"}\n'
    entry = b'{"type":"custom","id":"%d","parent_id":null,"timestamp":"2026-01-01T00:00:00Z","custom":{}}\n'
    fd = before.open("/root/a.jsonl", os.O_CREAT | os.O_WRONLY)
    before.write(fd, header + entry % 1)
    before.close(fd)
    before.settle()
    disk = RecordingDisk(before)
    store = FileStore("/root", disk=disk)
    lease = (await own(store)).lease
    assert lease.dialect is not None
    await store.put(lease, lease.dialect, header, [entry % 2])
    await store.aclose()
    seen: set[bytes] = set()
    for left in disk.crash_states():
        found = left.files()
        seen.add(found["/root/a.jsonl"])
        assert found["/root/a.jsonl"] in (header + entry % 1, header + entry % 2)
        if found["/root/a.jsonl"] != header + entry % 1:
            assert found["/root/a.jsonl.bak"] == header + entry % 1
    assert len(seen) == 2


async def test_a_refused_put_leaves_no_backup(root: Path) -> None:
    """Another program appended while the new session was written, so its line is kept."""
    async with SessionHost(root) as host:
        await create_session(host, ["first"])
    path = root / "main.jsonl"
    store = FileStore(root)
    lease = (await own(store, "main.jsonl")).lease
    assert lease.dialect is not None
    header, line = path.read_bytes().splitlines(keepends=True)

    class Appending(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            path.write_bytes(header + line + line)
            return super().__iter__()

    with pytest.raises(Conflict):
        await store.put(lease, lease.dialect, header, Appending([line]))
    await store.aclose()
    assert files(root) == {"main.jsonl": header + line + line}
