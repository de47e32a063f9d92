"""Logs of old versions: rewritten by their first owner, with the old file kept, and unchanged by readers."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

import json
from pathlib import Path

import pytest

from treering.events.errors import SessionLocked
from treering.events.stores.files import FileStore
from treering.testing.disks import MemoryDisk, RecordingDisk
from treering.testing.simulation.determinism import AtOnce

from .logs import own, put_file

TIME = "2026-01-01T00:00:00.000Z"
V1 = [
    {"type": "session", "id": "s", "timestamp": TIME, "cwd": "/w", "provider": "p", "modelId": "m"},
    {"type": "message", "timestamp": TIME, "message": {"role": "user", "content": "Hello", "timestamp": 1}},
    {"type": "message", "timestamp": TIME, "message": {"role": "user", "content": "Again", "timestamp": 2}},
]
OLD = b"".join(json.dumps(each).encode() + b"\n" for each in V1)


BACKUPS = ["a.jsonl.bak", "a.jsonl.bak-2", "a.jsonl.bak-3"]


@pytest.mark.feature("N-7")
@pytest.mark.parametrize("tail", [b"", b'{"type":"mess', json.dumps(V1[1]).encode()])
@pytest.mark.parametrize("earlier", [0, 2])
async def test_an_old_log_is_migrated_with_its_tail_and_the_old_file_is_kept_beside_earlier_ones(
    store: FileStore, root: Path, log: Path, tail: bytes, earlier: int
) -> None:
    for name in BACKUPS[:earlier]:
        (root / name).write_text(name)
    log.write_bytes(OLD + tail)
    assert (await store.open("a.jsonl")).dialect.old
    lease = (await own(store)).lease
    assert lease.dialect is not None
    assert not lease.dialect.old
    assert not (await store.open("a.jsonl")).dialect.old
    assert lease.head.seq == 2 + bool(tail)
    header, first, second = (json.loads(each) for each in log.read_bytes().splitlines()[:3])
    assert (header["version"], first["parentId"], second["parentId"]) == (3, None, first["id"])
    if tail:
        [last] = (await store.read("a.jsonl", lease.head.generation, 2)).lines
        assert last == tail or json.loads(last)["message"]["content"] == "Hello"
    kept = {path.name: path.read_bytes() for path in root.glob("*.bak*")}
    assert kept == {name: name.encode() for name in BACKUPS[:earlier]} | {BACKUPS[earlier]: OLD + tail}


@pytest.mark.parametrize("before", [b"", b"\n", b"\xef\xbb\xbf\r\n"])
@pytest.mark.parametrize("after", [b"", b"\r"])
async def test_an_old_header_without_a_newline_is_migrated_and_is_no_line_as_well(
    store: FileStore, log: Path, before: bytes, after: bytes
) -> None:
    log.write_bytes(before + OLD.partition(b"\n")[0] + after)
    lease = (await own(store)).lease
    assert lease.head.seq == 0
    header = log.read_bytes()
    assert (json.loads(header)["version"], header.count(b"\n")) == (3, 1)


async def test_a_locked_old_log_is_not_migrated(store: FileStore, root: Path, log: Path) -> None:
    other = FileStore(root)
    await own(store)
    log.write_bytes(OLD)
    [refused] = await other.acquire(["a.jsonl"], "you")
    assert isinstance(refused, SessionLocked)
    assert log.read_bytes() == OLD
    await other.aclose()


async def test_a_crash_during_a_migration_leaves_the_old_log_or_the_new_one() -> None:
    memory = MemoryDisk()
    put_file(memory, "/s/a.jsonl", OLD)
    memory.settle()
    disk = RecordingDisk(memory)
    await own(FileStore("/s", disk=disk, offload=AtOnce()))
    new = memory.files()["/s/a.jsonl"]
    seen: set[bytes] = set()
    for left in disk.crash_states():
        files = left.files()
        seen.add(files["/s/a.jsonl"])
        assert files["/s/a.jsonl"] != new or files["/s/a.jsonl.bak"] == OLD
        assert (await own(FileStore("/s", disk=left, offload=AtOnce()))).head.seq == 2
    assert seen == {OLD, new}
