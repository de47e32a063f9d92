"""Logs of old versions: rewritten by their first owner, with the old file kept, and unchanged by readers."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from treering.events.errors import SessionLocked
from treering.events.stores.files import FileStore
from treering.testing.disks import MemoryDisk

from .logs import own

TIME = "2026-01-01T00:00:00.000Z"
V1 = [
    {"type": "session", "id": "s", "timestamp": TIME, "cwd": "/w", "provider": "p", "modelId": "m"},
    {"type": "message", "timestamp": TIME, "message": {"role": "user", "content": "Hello", "timestamp": 1}},
    {"type": "message", "timestamp": TIME, "message": {"role": "user", "content": "Again", "timestamp": 2}},
]
OLD = b"".join(json.dumps(each).encode() + b"\n" for each in V1)


def decoded(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in path.read_bytes().splitlines()]


@pytest.mark.feature("N-7")
async def test_an_old_log_is_migrated_and_the_old_file_kept(root: Path) -> None:
    (root / "a.jsonl").write_bytes(OLD)
    store = FileStore(root)
    assert (await store.open("a.jsonl")).dialect.old
    lease = (await own(store)).lease
    assert lease.dialect is not None
    assert not lease.dialect.old
    assert lease.head.seq == 2
    header, first, second = decoded(root / "a.jsonl")
    assert header["version"] == 3
    assert first["parentId"] is None
    assert second["parentId"] == first["id"]
    assert (root / "a.jsonl.bak").read_bytes() == OLD
    assert not (await store.open("a.jsonl")).dialect.old
    await store.aclose()


async def test_a_migration_does_not_overwrite_earlier_backups(root: Path) -> None:
    (root / "a.jsonl.bak").write_bytes(b"first")
    (root / "a.jsonl.bak-2").write_bytes(b"second")
    (root / "a.jsonl").write_bytes(OLD)
    store = FileStore(root)
    await own(store)
    kept = {path.name: path.read_bytes() for path in root.glob("*.bak*")}
    assert kept == {"a.jsonl.bak": b"first", "a.jsonl.bak-2": b"second", "a.jsonl.bak-3": OLD}
    await store.aclose()


@pytest.mark.parametrize("tail", [b'{"type":"mess', json.dumps(V1[1]).encode()])
async def test_a_migration_keeps_the_tail_of_the_log(root: Path, tail: bytes) -> None:
    (root / "a.jsonl").write_bytes(OLD + tail)
    store = FileStore(root)
    lease = (await own(store)).lease
    assert lease.head.seq == 3
    assert (root / "a.jsonl.bak").read_bytes() == OLD + tail
    [last] = (await store.read("a.jsonl", lease.head.generation, 2)).lines
    assert last == tail or json.loads(last)["message"]["content"] == "Hello"
    await store.aclose()


async def test_a_locked_old_log_is_not_migrated(root: Path) -> None:
    store, other = FileStore(root), FileStore(root)
    await own(store)
    (root / "a.jsonl").write_bytes(OLD)
    [refused] = await other.acquire(["a.jsonl"], "you")
    assert isinstance(refused, SessionLocked)
    assert (root / "a.jsonl").read_bytes() == OLD
    await store.aclose()
    await other.aclose()


async def test_a_crash_during_a_migration_leaves_the_old_log_or_the_new_one() -> None:
    disk = MemoryDisk()
    disk.make_directory("/root")
    fd = disk.open("/root/a.jsonl", 0o102 | 0o100)
    disk.write(fd, OLD)
    disk.close(fd)
    disk.settle()
    store = FileStore("/root", disk=disk)
    await own(store)
    await store.aclose()
    new = disk.files()["/root/a.jsonl"]
    seen: set[bytes] = set()
    for left in disk.crash_states():
        files = left.files()
        seen.add(files["/root/a.jsonl"])
        assert files["/root/a.jsonl"] in (OLD, new)
        if files["/root/a.jsonl"] == new:
            assert files["/root/a.jsonl.bak"] == OLD
        again = FileStore("/root", disk=left)
        assert (await own(again)).head.seq == 2
        await again.aclose()
    assert new in seen
