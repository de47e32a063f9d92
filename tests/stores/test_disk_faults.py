"""Disk errors: acknowledged lines stay, no line is stored partly, and the store works again when the disk does."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from treering.events.disk import OsDisk
from treering.events.errors import AppendFailed, AppendInDoubt, NotASession
from treering.events.stores.base import Committed, Failed, InDoubt
from treering.events.stores.files import Durability, FileStore
from treering.testing.disks import FaultyDisk, MemoryDisk, WrappedDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.simulation.unwell import UnwellDisk
from treering.testing.stores.case import NATIVE, Writer, bare, line, lines, read_all

from .logs import PI_HEADER, attempt, header_for, killed, own, put_file

HEADER = header_for()


class FailingDisk(WrappedDisk):
    """The real disk, with planned faults in the calls on logs.

    `room_bytes` is the number of bytes that logs may still take. `fail` is, per call, how many calls succeed first and
    how many then raise EIO. `first` has functions to run before the next call of a name."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.room_bytes: int | None = None
        self.write_max = 1 << 30
        self.fail: dict[str, tuple[int, int]] = {}
        self.first: dict[str, Callable[[], None]] = {}
        self._paths: dict[int, str] = {}

    def _called(self, name: str, path: str) -> None:
        if not path.endswith(".jsonl"):
            return
        if (hook := self.first.pop(name, None)) is not None:
            hook()
        after, times = self.fail.get(name, (0, 0))
        if after:
            self.fail[name] = (after - 1, times)
        elif times:
            self.fail[name] = (0, times - 1)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def open(self, path: str, flags: int) -> int:
        self._called("open", path)
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, data: bytes) -> int:
        path = self._paths[fd]
        self._called("write", path)
        if not path.endswith(".jsonl"):
            return super().write(fd, data)
        data = data[: self.write_max]
        if self.room_bytes is not None:
            if not self.room_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[: self.room_bytes]
            self.room_bytes -= len(data)
        return super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        self._called("truncate", self._paths[fd])
        super().truncate(fd, size)

    def datasync(self, fd: int) -> None:
        self._called("datasync", self._paths[fd])
        super().datasync(fd)


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture(params=["inline", "thread", "file"])
async def store(request: pytest.FixtureRequest, root: Path, disk: FailingDisk) -> AsyncIterator[FileStore]:
    options: dict[str, Any] = {"durability": "file"} if request.param == "file" else {"writes": request.param}
    store = FileStore(root, disk=disk, **options)
    yield store
    await store.aclose()


@pytest.mark.parametrize("room_bytes", [1, 10, len(HEADER) - 2, len(HEADER) - 1, len(HEADER), len(HEADER) + 5])
async def test_a_torn_first_write_that_cannot_be_undone_is_removed_when_the_disk_works_again(
    store: FileStore, disk: FailingDisk, room_bytes: int
) -> None:
    writer = await own(store)
    disk.room_bytes = room_bytes
    disk.fail["truncate"] = (0, 2)
    assert isinstance(await attempt(writer, line(1)), InDoubt)
    if room_bytes not in (len(HEADER) - 1, len(HEADER)):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            await store.resolve(writer.lease)
    disk.room_bytes = None
    head = await store.resolve(writer.lease)
    assert head.seq == 0
    assert bool(head.generation) == (room_bytes >= len(HEADER) - 1), "a whole header stays"
    writer.head, writer._exists = head, bool(head.generation)
    await writer.append(line(1))
    assert await read_all(store, "a.jsonl") == bare([line(1)])


async def test_a_torn_first_write_is_left_if_another_program_wrote_after_it(
    store: FileStore, root: Path, disk: FailingDisk
) -> None:
    writer = await own(store)
    disk.room_bytes = 10
    disk.fail["truncate"] = (0, 1)
    assert isinstance(await attempt(writer, line(1)), InDoubt)
    with (root / "a.jsonl").open("ab") as file:
        file.write(b"theirs")
    with pytest.raises(NotASession):
        await store.resolve(writer.lease)
    assert (root / "a.jsonl").read_bytes() == HEADER[:10] + b"theirs"


async def test_partial_writes_are_continued(store: FileStore, disk: FailingDisk) -> None:
    disk.write_max = 7
    writer = await own(store)
    await writer.append(*lines(1, 3))
    await writer.append(*lines(4, 5))
    assert await read_all(store, "a.jsonl") == bare(lines(1, 5))


async def test_a_partial_write_to_a_pi_file_is_isolated_by_a_newline(root: Path, disk: FailingDisk) -> None:
    (root / "a.jsonl").write_bytes(PI_HEADER + line(1))
    store = FileStore(root, disk=disk)
    writer = await own(store)
    half = len(line(2)) + 10
    disk.room_bytes = half + 1
    outcome = await attempt(writer, *lines(2, 4), atomic=True)
    assert isinstance(outcome, Failed)
    assert outcome.head.seq == 2
    assert (root / "a.jsonl").read_bytes() == PI_HEADER + line(1) + line(2) + line(3)[:11]
    disk.room_bytes = None
    writer.head = await store.resolve(writer.lease)
    assert writer.head.seq == 3, "the fragment is now a line of its own"
    await writer.append(line(4))
    assert (root / "a.jsonl").read_bytes() == PI_HEADER + line(1) + line(2) + line(3)[:11] + b"\n" + line(4)
    await store.aclose()


# -- flushes


@pytest.mark.feature("X-28")
@pytest.mark.parametrize("nth", [0, 1, 3])
async def test_after_a_failed_flush_the_data_is_in_doubt_and_written_again(
    root: Path, disk: FailingDisk, nth: int
) -> None:
    store = FileStore(root, disk=disk, durability="file")
    writer = await own(store)
    disk.fail["datasync"] = (nth, 1)
    for number in range(1, nth + 1):
        await writer.append(line(number))
    outcome = await attempt(writer, line(nth + 1))
    assert isinstance(outcome, InDoubt)
    assert isinstance(outcome.error.__cause__, OSError)
    assert isinstance(await attempt(writer, line(nth + 1)), InDoubt)
    rewritten: list[bytes] = []
    disk.first["write"] = lambda: rewritten.append((root / "a.jsonl").read_bytes())
    head = await store.resolve(writer.lease)
    assert head.seq == nth + 1
    whole = HEADER + b"".join(lines(1, nth + 1))
    assert rewritten == [whole], "a later flush may succeed without the bytes, so they are written again in place"
    writer.head, writer._exists = head, True
    await writer.append(line(nth + 2))
    assert (root / "a.jsonl").read_bytes() == HEADER + b"".join(lines(1, nth + 2))
    await store.aclose()


async def test_a_repeatedly_failing_flush_stays_in_doubt_until_it_succeeds(root: Path, disk: FailingDisk) -> None:
    store = FileStore(root, disk=disk, durability="file")
    writer = await own(store)
    await writer.append(line(1))
    disk.fail["datasync"] = (0, 3)
    assert isinstance(await attempt(writer, line(2)), InDoubt)
    for _ in range(2):
        with pytest.raises(AppendInDoubt):
            await store.resolve(writer.lease)
        assert isinstance(await attempt(writer, line(2)), InDoubt)
    writer.head = await store.resolve(writer.lease)
    assert writer.head.seq == 2
    await writer.append(line(3))
    assert (root / "a.jsonl").read_bytes() == HEADER + b"".join(lines(1, 3))
    await store.aclose()


async def test_readers_do_not_see_lines_in_doubt(root: Path, disk: FailingDisk) -> None:
    store = FileStore(root, disk=disk, durability="file")
    writer = await own(store)
    head = await writer.append(line(1))
    disk.fail["datasync"] = (0, 1)
    assert isinstance(await attempt(writer, line(2)), InDoubt)
    assert (await store.open("a.jsonl")).head == head
    assert await read_all(store, "a.jsonl") == bare([line(1)])
    await store.resolve(writer.lease)
    assert await read_all(store, "a.jsonl") == bare(lines(1, 2))
    await store.aclose()


async def test_new_files_and_their_folders_are_flushed(root: Path) -> None:
    disk = FlushingDisk()
    store = FileStore(root, disk=disk, durability="file")
    lease = (await own(store, "x/y/a.jsonl")).lease
    await Writer(store, lease).append(line(1))
    assert [os.path.relpath(path, root) for path in disk.flushed] == ["x/y/a.jsonl", "x/y", "x", ".", ".."]
    await store.aclose()


@pytest.mark.parametrize("failing", ["a new log", "an append", "the next host", "a repeated flush"])
async def test_lines_that_a_flush_lost_survive_the_end_of_their_host(failing: str) -> None:
    memory = MemoryDisk()
    disk = UnwellDisk(memory, Random(0), lambda _: None)
    store = FileStore("/sessions", disk=disk, durability="os" if failing == "the next host" else "file")
    writer = await own(store)
    if failing != "a new log":
        await writer.append(line(1))
    if failing == "the next host":
        await writer.append(line(2))
        memory = killed(memory)
        disk = UnwellDisk(memory, Random(0), lambda _: None)
        disk.chances = {"datasync": 1.0}
        with pytest.raises((OSError, AppendFailed), match=r"/sessions/a\.jsonl"):
            await own(FileStore("/sessions", disk=disk, durability="file"))
    else:
        disk.chances = {"datasync": 1.0}
        assert isinstance(await attempt(writer, *lines(1 if failing == "a new log" else 2, 2)), InDoubt)
    if failing == "a repeated flush":
        with pytest.raises(AppendInDoubt):
            await store.resolve(writer.lease)

    memory = killed(memory)
    next_store = FileStore("/sessions", disk=memory, durability="file")
    next_writer = await own(next_store)
    assert await read_all(next_store, "a.jsonl") == bare(lines(1, 2))
    await next_writer.append(line(3))
    assert memory.crash().files()["/sessions/a.jsonl"] == HEADER + b"".join(lines(1, 3))


class DyingDisk(UnwellDisk):
    """A disk that remembers what it held when the first flush of a file failed: what a kill at that moment leaves."""

    def __init__(self, memory: MemoryDisk) -> None:
        super().__init__(memory, Random(0), lambda _: None)
        self.memory = memory
        self.left: MemoryDisk | None = None

    def datasync(self, fd: int) -> None:
        try:
            super().datasync(fd)
        except OSError:
            self.left = self.left or killed(self.memory)
            raise


@pytest.mark.parametrize("durability", ["file", "group"])
@pytest.mark.parametrize("covered", [None, "by the flushed line", "by both lines, unflushed"])
async def test_lines_whose_flush_failed_as_their_host_was_killed_are_durable_once_the_next_one_owns_them(
    durability: Durability, covered: str | None
) -> None:
    disk = DyingDisk(MemoryDisk())
    is_unflushed = covered == "by both lines, unflushed"
    store = FileStore("/sessions", disk=disk, durability="os" if is_unflushed else durability, offload=AtOnce())
    writer = await own(store)
    head = await writer.append(*lines(1, 2 if is_unflushed else 1))
    if covered is not None:
        await store.save(writer.lease, "index", head, b"index")
    if is_unflushed:
        await store.aclose()
        store = FileStore("/sessions", disk=disk, durability=durability, offload=AtOnce())
    elif durability == "group":
        disk.chances = {"position": 1.0}
        assert isinstance(await attempt(writer, line(2)), InDoubt)
    disk.chances = {"datasync": 1.0}
    if is_unflushed:
        with pytest.raises((OSError, AppendFailed)):
            await own(store)
    elif durability == "group":
        with pytest.raises(AppendInDoubt):
            await store.resolve(writer.lease)
    else:
        assert isinstance(await attempt(writer, line(2)), InDoubt)

    assert disk.left is not None
    next_store = FileStore("/sessions", disk=disk.left, durability=durability, offload=AtOnce())
    next_writer = await own(next_store)
    assert next_writer.head.seq == 2, "the line is found, so that repeating its command writes nothing"
    assert disk.left.crash().files()["/sessions/a.jsonl"] == HEADER + b"".join(lines(1, 2))
    await next_writer.append(line(3))
    await next_store.aclose()
    assert disk.left.crash().files()["/sessions/a.jsonl"] == HEADER + b"".join(lines(1, 3))


class FlushingDisk(FailingDisk):
    """A disk that records what is flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed: list[str] = []

    def datasync(self, fd: int) -> None:
        self.flushed.append(self._paths[fd])
        super().datasync(fd)

    def sync_directory(self, path: str) -> None:
        self.flushed.append(path)
        super().sync_directory(path)


# -- files beside the log


async def test_a_failure_to_write_a_snapshot_is_ignored_and_of_a_leaf_record_is_raised(root: Path) -> None:
    disk = FullBesideDisk()
    store = FileStore(root, disk=disk)
    writer = await own(store)
    head = await writer.append(line(1))
    await store.save(writer.lease, "leaf", head, b"old")
    disk.full = True
    await store.save(writer.lease, "index", head, b"index")
    with pytest.raises(AppendFailed):
        await store.save(writer.lease, "leaf", head, b"new")
    assert await store.load("a.jsonl", "index") is None
    found = await store.load("a.jsonl", "leaf")
    assert found is not None
    assert found.data == b"old"
    assert {path.name for path in root.iterdir()} == {"a.jsonl", "a.jsonl.leaf", ".treering"}
    await store.aclose()


class FullBesideDisk(FailingDisk):
    """A disk that can be full for files beside logs."""

    full = False

    def write(self, fd: int, data: bytes) -> int:
        if self.full and not self._paths[fd].endswith(".jsonl"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, data)


async def test_a_failed_put_leaves_the_old_log(store: FileStore, root: Path, disk: FailingDisk) -> None:
    writer = await own(store)
    head = await writer.append(*lines(1, 3))
    before = (root / "a.jsonl").read_bytes()
    full = FullBesideDisk()
    full.full = True
    store._disk = full
    with pytest.raises(OSError, match="No space"):
        await store.put(writer.lease, NATIVE, HEADER, [line(9)])
    store._disk = disk
    assert (root / "a.jsonl").read_bytes() == before
    assert {path.name for path in root.iterdir()} == {"a.jsonl", ".treering"}
    outcome = await attempt(writer, line(4))
    assert isinstance(outcome, Committed)
    assert outcome.head.generation == head.generation


# -- reads


async def failing_reads(disk: FaultyDisk, read: Callable[[], Awaitable[object]]) -> int:
    """Repeat a call, failing its first `pread` of a log, then its second, and so on; return how often it raised that.

    It need not raise the error if it only meant to write a snapshot.
    """
    raised = 0
    for nth in count(1):
        fault = disk.fail("pread", errno.EIO, path="*.jsonl", nth=nth)
        try:
            await read()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raised += 1
        if not fault.done:
            fault.lift()
            break
    return raised


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("lines_max", [0, 4])
async def test_a_replaced_log_whose_file_cannot_be_read_for_a_while_is_not_forgotten(
    owned: bool, lines_max: int
) -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = FileStore("/sessions", disk=disk)
    writer = await own(store)
    await writer.append(*lines(1, 3))
    if not owned:
        await store.release([writer.lease])
    assert await read_all(store, "a.jsonl") == bare(lines(1, 3))
    replacement = bare(lines(5, 5 + lines_max))

    for _ in range(2):
        put_file(memory, "/sessions/new", HEADER + b"".join(each + b"\n" for each in replacement))
        memory.rename("/sessions/new", "/sessions/a.jsonl")
        assert await failing_reads(disk, lambda: read_all(store, "a.jsonl"))
        assert await read_all(store, "a.jsonl") == replacement
    await store.aclose()


async def test_a_log_that_was_put_and_cannot_be_read_is_in_doubt_and_not_forgotten() -> None:
    disk = FaultyDisk(MemoryDisk())
    store = FileStore("/sessions", disk=disk)
    writer = await own(store)
    await writer.append(*lines(1, 3))
    disk.fail("pread", errno.EIO, path="/sessions/a.jsonl", nth=2)  # the first one reads for the backup
    with pytest.raises(AppendInDoubt):
        await store.put(writer.lease, NATIVE, HEADER, lines(5, 6))
    assert await read_all(store, "a.jsonl") == bare(lines(5, 6))
    await store.aclose()
