"""Files beside a log are used if they belong to it, and ignored without an error if torn, foreign or stale."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from treering.events.disk import OsDisk
from treering.events.errors import AppendFailed, LeafMoved
from treering.events.stores.base import Blob, Cursor
from treering.events.stores.files import Durability, FileStore
from treering.testing.disks import FaultyDisk, MemoryDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import bare, line, lines, read_all

from .logs import HEADER, append_to, header_for, own, put_file

COUNT = 2000


@pytest.fixture
def log(log: Path) -> Path:
    log.write_bytes(HEADER + b"".join(lines(1, COUNT, "x" * 500)))
    return log


async def save_snapshot(root: Path) -> Cursor:
    """Own the log, save its snapshot and leaf record, and release it."""
    store = FileStore(root)
    writer = await own(store)
    await store.save(writer.lease, "index", writer.head, b"the index")
    await store.save(writer.lease, "leaf", writer.head, b"the leaf")
    await store.aclose()
    return writer.head


async def test_opening_with_a_snapshot_reads_little_of_the_log(root: Path, log: Path) -> None:
    head = await save_snapshot(root)
    disk = FaultyDisk(OsDisk())
    store = FileStore(root, disk=disk)
    assert (await store.open("a.jsonl")).head == head
    assert await store.load("a.jsonl", "index") == Blob(head, b"the index")
    assert disk.bytes_read < 64 * 1024
    assert await store.bodies("a.jsonl", head.generation, [COUNT, 1]) == bare(
        [line(COUNT, "x" * 500), line(1, "x" * 500)]
    )
    assert (await own(store)).head == head
    assert disk.bytes_read < 128 * 1024
    await store.aclose()


async def test_opening_with_an_older_snapshot_reads_only_the_new_lines(root: Path, log: Path) -> None:
    head = await save_snapshot(root)
    with log.open("ab") as other:
        other.write(b"\n" + b"".join(lines(COUNT + 1, COUNT + 3)) + b'{"torn')
    disk = FaultyDisk(OsDisk())
    store = FileStore(root, disk=disk)
    assert (await store.open("a.jsonl")).head == Cursor(head.generation, COUNT + 3)
    assert await store.load("a.jsonl", "index") == Blob(head, b"the index")
    assert await store.load("a.jsonl", "leaf") == Blob(head, b"the leaf")
    assert disk.bytes_read < 64 * 1024
    assert await read_all(store, "a.jsonl", COUNT) == bare(lines(COUNT + 1, COUNT + 3))
    await store.aclose()


def index_of(log: Path) -> Path:
    return log.with_name("a.jsonl.index")


def damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def put_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def edit(log: Path, start: int, stop: int | None) -> None:
    """Change some of the text of a log, and append a line."""
    data = log.read_bytes()
    log.write_bytes(data[:start] + data[start:stop].replace(b"x", b"y") + (data[stop:] if stop else b"") + line(9))


def change_the_header(log: Path) -> None:
    begin, end = log.read_bytes().split(b'"session"', 1)
    log.write_bytes(begin + b'"session"' + end.replace(b'"session"', b'"sessiom"') + line(9))


def copy_the_log(log: Path) -> None:
    shutil.copy(log, log.with_name("copy"))
    log.with_name("copy").replace(log)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda log: os.truncate(index_of(log), 100),
    "torn": lambda log: os.truncate(index_of(log), index_of(log).stat().st_size - 1),
    "damaged": lambda log: damage(index_of(log), -1),
    "emptied": lambda log: index_of(log).write_bytes(b""),
    "overwritten": lambda log: index_of(log).write_bytes(b"something else entirely" * 100),
    "a folder": lambda log: put_a_folder(index_of(log)),
}
CHANGES: dict[str, Callable[[Path], object]] = {
    "copied": copy_the_log,
    "edited": lambda log: log.write_bytes(log.read_bytes().replace(b"xxxx", b"yyyy")),
    "edited at the end": lambda log: edit(log, -100, None),
    "edited at the start": lambda log: edit(log, 1000, 1400),
    "another header": change_the_header,
    "shortened": lambda log: log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1])),
}


@pytest.mark.parametrize("change", [*DAMAGES, *CHANGES])
async def test_a_damaged_or_stale_snapshot_is_ignored(root: Path, log: Path, change: str) -> None:
    await save_snapshot(root)
    (DAMAGES | CHANGES)[change](log)
    expected = log.read_bytes().split(b"\n")[1:-1]
    store = FileStore(root)
    assert await store.load("a.jsonl", "index") is None
    assert await read_all(store, "a.jsonl") == expected
    writer = await own(store)
    assert writer.head.seq == len(expected)
    assert await store.load("a.jsonl", "index") is None
    await writer.append(line(1))
    assert await read_all(store, "a.jsonl") == [*expected, line(1)[:-1]]
    if change != "a folder":
        await store.save(writer.lease, "index", writer.head, b"anew")
        assert await store.load("a.jsonl", "index") == Blob(writer.head, b"anew")
    await store.aclose()


async def test_a_snapshot_with_a_damaged_table_serves_readers_and_is_rebuilt_by_owners(root: Path, log: Path) -> None:
    head = await save_snapshot(root)
    damage(index_of(log), 500)
    disk = FaultyDisk(OsDisk())
    store = FileStore(root, disk=disk)
    assert await store.load("a.jsonl", "index") == Blob(head, b"the index")
    assert disk.bytes_read > log.stat().st_size  # the line ends were searched for
    writer = await own(store)
    assert writer.head == head
    assert await store.load("a.jsonl", "index") is None
    await store.save(writer.lease, "index", writer.head, b"anew")
    assert await store.load("a.jsonl", "index") == Blob(head, b"anew")
    await store.aclose()
    disk.reset_counts()
    store = FileStore(root, disk=disk)
    assert (await store.open("a.jsonl")).head == head
    assert disk.bytes_read < 64 * 1024
    await store.aclose()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_log_that_was_changed_while_closed_has_a_new_generation(root: Path, log: Path, change: str) -> None:
    before = await save_snapshot(root)
    CHANGES[change](log)
    store = FileStore(root)
    reader = (await store.open("a.jsonl")).head
    if change != "edited":  # a change in the middle at the same size does not show at the ends
        assert reader.generation != before.generation
    assert (await own(store)).head == reader
    await store.aclose()
    again = FileStore(root)
    assert (await again.open("a.jsonl")).head == reader
    await again.aclose()


@pytest.mark.parametrize("damages", [False, True])
@pytest.mark.parametrize(("durability", "saved"), [("file", 4), ("file", 0), ("file", None), ("os", 4)])
async def test_an_owner_writes_again_what_no_snapshot_says_was_flushed(
    durability: Durability, saved: int | None, damages: bool
) -> None:
    disk = FaultyDisk(MemoryDisk())
    store = FileStore("/s", disk=disk, offload=AtOnce(), durability=durability)
    writer = await own(store)
    await writer.append(*lines(1, 4))
    if saved is not None:
        await store.save(writer.lease, "index", Cursor(writer.head.generation, saved), b"the index")
    await store.aclose()
    append_to(disk, "/s/a.jsonl", line(5))
    if damages and saved is not None:
        fd = disk.open("/s/a.jsonl.index", os.O_WRONLY)
        disk.seek(fd, 100)
        disk.write(fd, b"?")
        disk.close(fd)
    ends = [len(header_for() + b"".join(lines(1, seq))) for seq in range(6)]
    disk.reset_counts()
    store = FileStore("/s", disk=disk, offload=AtOnce(), durability="file")
    disk.fail("rename", errno.ENOSPC, times=None)
    disk.fail("write", errno.ENOSPC, path="*.index.*", times=None)
    assert (await own(store)).head.seq == 5
    start = ends[saved] if saved is not None and durability == "file" and not damages else 0
    assert disk.bytes_written == ends[5] - start


LONG = line(1, "x" * 20_000)
EDGES = [(0, True), (4095, True), (4096, False), (len(LONG) - 4097, False), (len(LONG) - 4096, True)]


@pytest.mark.parametrize(("at", "is_noticed"), [*EDGES, (len(LONG) - 2, True)])
@pytest.mark.parametrize(("added", "modified"), [(b"", 1), (b"", 2), (line(2), 2)])
async def test_a_changed_byte_is_noticed_in_the_first_and_the_last_four_kilobytes(
    root: Path, added: bytes, modified: int, at: int, is_noticed: bool
) -> None:
    path = root / "a.jsonl"
    path.write_bytes(HEADER + LONG)
    os.utime(path, ns=(1, 1))
    head = await save_snapshot(root)
    changed = bytearray(HEADER + LONG + added)
    changed[len(HEADER) + at] ^= 1
    path.write_bytes(changed)
    os.utime(path, ns=(modified, modified))
    store = FileStore(root)
    opened = (await store.open("a.jsonl")).head
    assert opened.seq == 1 + bool(added)
    is_stale = is_noticed or (modified > 1 and not added)
    assert await store.load("a.jsonl", "index") == (None if is_stale else Blob(head, b"the index"))
    assert (opened.generation != head.generation) == is_noticed
    await store.aclose()


@pytest.mark.parametrize("call", ["open", "pread"])
async def test_a_snapshot_that_cannot_be_read_or_goes_away_is_as_good_as_none(call: str) -> None:
    """A reader needs three reads of it: its beginning, its table and, for the index, both again."""
    disk = FaultyDisk(MemoryDisk())
    store = FileStore("/s", disk=disk, offload=AtOnce())
    writer = await own(store)
    await writer.append(*lines(1, 9))
    await store.save(writer.lease, "index", writer.head, b"the index")
    await store.aclose()
    loaded: list[bool] = []
    for nth in range(1, 6):
        store = FileStore("/s", disk=disk, offload=AtOnce())
        fault = disk.fail(call, errno.ENOENT, path="*.index", nth=nth)
        assert (await store.open("a.jsonl")).head == writer.head
        blob = await store.load("a.jsonl", "index")
        assert blob in (None, Blob(writer.head, b"the index"))
        assert await read_all(store, "a.jsonl") == bare(lines(1, 9))
        loaded.append(blob is not None)
        assert fault.hits == (nth < 5)
        fault.lift()
        await store.aclose()
    assert loaded == [True, True, False, False, True]


@pytest.mark.parametrize("damage", [slice(0, 1), slice(16, 17), slice(96, 100), slice(100, 108), slice(-8, None)])
async def test_the_counter_of_a_damaged_snapshot_is_saved_at_once_or_it_is_said_why_not(damage: slice) -> None:
    disk = FaultyDisk(MemoryDisk())
    store = FileStore("/s", disk=disk, offload=AtOnce())
    writer = await own(store)
    await writer.append(*lines(1, 3))
    await store.save(writer.lease, "index", writer.head, b"the index")
    await store.aclose()
    memory = disk.inner
    assert isinstance(memory, MemoryDisk)

    def rewrite(path: str, data: bytes) -> None:
        put_file(disk, path, data)

    whole = header_for() + b"".join(lines(1, 3))
    rewrite("/s/a.jsonl", whole.replace(b"entry-1", b"other-1"))  # another generation, so its counter is saved
    store = FileStore("/s", disk=disk, offload=AtOnce())
    second = await own(store)
    assert second.head.generation != writer.head.generation
    await store.aclose()
    saved = bytearray(memory.files()["/s/a.jsonl.index"])
    assert len(saved) == 100 + 4 * 8
    damaged = saved[:]
    damaged[damage] = bytes(each ^ 1 for each in damaged[damage])
    rewrite("/s/a.jsonl.index", bytes(damaged))
    is_table = (damage.start or 0) >= 100 or damage.start < 0
    for fails in (True, False):
        store = FileStore("/s", disk=disk, offload=AtOnce())
        if fails:
            disk.fail("rename", errno.ENOSPC, path="*.index")
        with capture_logs() as logs:
            third = await own(store)
        disk.heal()
        expected = {
            "event": "snapshot_not_saved", "log_level": "debug", "session_id": "id-of-a.jsonl", "ref": "a.jsonl",
        }  # fmt: skip
        assert [{key: each[key] for key in expected} for each in logs] == [expected] * (fails and is_table)
        assert all("No space left" in each["error"] for each in logs)
        assert (third.head == second.head) == is_table, "the counter is kept if only the table is damaged"
        await store.aclose()
    assert (memory.files()["/s/a.jsonl.index"] == saved) == is_table


async def test_a_leaf_record_is_readable_and_survives_a_copy(root: Path, log: Path, tmp_path: Path) -> None:
    head = await save_snapshot(root)
    record = (root / "a.jsonl.leaf").read_bytes()
    assert record.startswith(b'{"seq":%d,' % COUNT)
    assert record.endswith(b"}\nthe leaf")
    shutil.copytree(root, tmp_path / "copy")
    store = FileStore(tmp_path / "copy")
    blob = await store.load("a.jsonl", "leaf")
    assert blob is not None
    assert (blob.head.seq, blob.data) == (head.seq, b"the leaf")
    await store.aclose()


@pytest.mark.parametrize("content", [b"", b"{}", b"{}\n", b'{"seq":2000}\nx', b"\xff\n", b"[]\n1"])
async def test_a_damaged_leaf_record_is_ignored(root: Path, log: Path, content: bytes) -> None:
    await save_snapshot(root)
    (root / "a.jsonl.leaf").write_bytes(content)
    store = FileStore(root)
    assert await store.load("a.jsonl", "leaf") is None
    await store.aclose()


async def test_a_leaf_record_of_another_head_is_refused(root: Path, log: Path) -> None:
    store = FileStore(root)
    writer = await own(store)
    before = writer.head
    await writer.append(line(1))
    for head in (before, Cursor("another", writer.head.seq), Cursor(before.generation, writer.head.seq + 1)):
        with pytest.raises(LeafMoved):
            await store.save(writer.lease, "leaf", head, b"{}")
    assert not (root / "a.jsonl.leaf").exists()
    await store.aclose()


@pytest.mark.parametrize("taken", [0, 1, 999, 1000])
async def test_temporary_files_that_were_left_are_not_touched(taken: int) -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = FileStore("/s", disk=disk, offload=AtOnce())
    writer = await own(store)
    await writer.append(line(1))
    names = [f"/s/a.jsonl.leaf.tmp-{os.getpid()}-{number}" for number in range(1, taken + 1)]
    for name in names:
        disk.close(disk.open(name, os.O_CREAT))
    if taken < 1000:
        await store.save(writer.lease, "leaf", writer.head, b"leaf")
        await store.save(writer.lease, "index", writer.head, b"index")
        names += ["/s/a.jsonl.leaf", "/s/a.jsonl.index"]
    else:
        with pytest.raises(AppendFailed, match="names for temporary files"):
            await store.save(writer.lease, "leaf", writer.head, b"leaf")
    assert {path for path in memory.files() if ".treering" not in path} == {"/s/a.jsonl", *names}
    assert disk.counts["datasync"] == disk.counts["sync_directory"] == 0, "the system may write them when it likes"
