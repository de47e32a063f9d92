"""Everything that replaces, truncates or moves a session's file keeps a copy; only an explicit delete does not."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest

from treering import Session, SessionHost
from treering.events.stores.files import FileStore
from treering.testing.disks import MemoryDisk, RecordingDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import NATIVE, line

from .logs import HEADER, own, put_file

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
    assert files(root) == {"main.jsonl": files(root)["main.jsonl"], "main.jsonl.bak": first, "main.jsonl.bak-2": second}


@pytest.mark.feature("N-7")
async def test_replacing_an_archived_session_keeps_the_old_file(root: Path) -> None:
    async with SessionHost(root) as host:
        session = await create_session(host, ["first"])
        await host.archive(session)
        (packed,) = [root / name for name in files(root)]
        async with SessionHost() as elsewhere:
            await host.put(await create_session(elsewhere, ["second"]), replace=True)
    assert not packed.exists()
    kept = files(root)
    assert kept.keys() == {"main.jsonl", "main.jsonl.bak"}
    assert b"first" in kept["main.jsonl.bak"]
    assert b"first" not in kept["main.jsonl"]


@pytest.mark.parametrize("archived", [False, True])
async def test_a_delete_removes_backups_and_moved_fragments(host: SessionHost, root: Path, archived: bool) -> None:
    secret = b'{"type":"message","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"secret"}}\n'
    (root / "old.jsonl").write_bytes(OLD_PI + secret)
    (root / "torn.jsonl").write_bytes(HEADER + FRAGMENT)
    await (await host.load("old")).close()  # migrates it
    await (await host.load(root / "torn.jsonl")).append_message("user", "secret")
    assert {"old.jsonl.bak", f"torn.jsonl.torn-{len(HEADER)}-{crc32(FRAGMENT):08x}"} <= files(root).keys()
    for each in ("old", "torn"):
        path = root / f"{each}.jsonl"
        if archived:
            await host.archive(path)
            assert path.name not in files(root)
        await host.delete(path)
    assert files(root) == {}
    assert not list(root.glob("*.jsonl*"))


async def test_a_crash_during_a_replacement_leaves_either_session_and_always_the_old_one() -> None:
    memory = MemoryDisk()
    old, new = HEADER + line(1), HEADER + line(2)
    put_file(memory, "/s/a.jsonl", old)
    memory.settle()
    disk = RecordingDisk(memory)
    store = FileStore("/s", disk=disk, offload=AtOnce())
    await store.put((await own(store)).lease, NATIVE, HEADER, [line(2)])
    seen: set[bytes] = set()
    for left in disk.crash_states():
        found = left.files()
        seen.add(found["/s/a.jsonl"])
        assert old in (found["/s/a.jsonl"], found.get("/s/a.jsonl.bak"))
    assert seen == {old, new}
