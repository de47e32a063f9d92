"""Disk errors: acknowledged lines stay, no line is stored partly, and the store works again when the disk does."""

import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from random import Random
from typing import Any

import pytest

from treering.events.errors import AppendFailed, AppendInDoubt, NotASession
from treering.events.stores.base import Blob, InDoubt
from treering.events.stores.files import Durability, FileStore
from treering.testing.disks import FaultyDisk, MemoryDisk, RecordingDisk, WrappedDisk
from treering.testing.disks.faulty import UnwellDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import bare, line, lines, read_all

from .logs import append_to, attempt, header_for, killed, own, put_file

HEADER = header_for()


LOG = "/sessions/a.jsonl"


class NarrowDisk(WrappedDisk):
    """A disk that takes seven bytes at a time."""

    def write(self, fd: int, data: bytes) -> int:
        return super().write(fd, data[:7])


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(MemoryDisk())


@pytest.fixture(params=["inline", "thread", "file"])
async def store(request: pytest.FixtureRequest, disk: FaultyDisk) -> AsyncIterator[FileStore]:
    options: dict[str, Any] = {"durability": "file"} if request.param == "file" else {"writes": request.param}
    store = FileStore("/sessions", disk=disk, offload=AtOnce(), **options)
    yield store
    await store.aclose()


@pytest.mark.parametrize("room_bytes", [1, 10, len(HEADER) - 2, len(HEADER) - 1, len(HEADER), len(HEADER) + 5])
async def test_a_torn_first_write_that_cannot_be_undone_is_removed_when_the_disk_works_again(
    store: FileStore, disk: FaultyDisk, room_bytes: int
) -> None:
    writer = await own(store)
    full = disk.fail("write", errno.ENOSPC, path=LOG, nth=2, times=None)
    disk.shorten(room_bytes, path=LOG)
    disk.fail("truncate", errno.EIO, path=LOG, times=2)
    assert isinstance(await attempt(writer, line(1)), InDoubt)
    if room_bytes not in (len(HEADER) - 1, len(HEADER)):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            await store.resolve(writer.lease)
    full.lift()
    head = await store.resolve(writer.lease)
    assert head.seq == 0
    assert bool(head.generation) == (room_bytes >= len(HEADER) - 1), "a whole header stays"
    writer.head, writer._exists = head, bool(head.generation)
    await writer.append(line(1))
    assert await read_all(store, "a.jsonl") == bare([line(1)])


async def test_a_torn_first_write_is_left_if_another_program_wrote_after_it(store: FileStore, disk: FaultyDisk) -> None:
    writer = await own(store)
    disk.shorten(10, path=LOG)
    disk.fail("truncate", errno.EIO, path=LOG)
    assert isinstance(await attempt(writer, line(1)), InDoubt)
    append_to(disk.inner, LOG, b"theirs")
    with pytest.raises(NotASession):
        await store.resolve(writer.lease)
    assert await store.exists("a.jsonl")
    fd = disk.open(LOG, os.O_RDONLY)
    assert disk.pread(fd, 999, 0) == HEADER[:10] + b"theirs"
    disk.close(fd)


async def test_partial_writes_are_continued() -> None:
    store = FileStore("/sessions", disk=NarrowDisk(MemoryDisk()), durability="group", offload=AtOnce())
    writer = await own(store)
    await writer.append(*lines(1, 3))
    await writer.append(*lines(4, 5))
    assert await read_all(store, "a.jsonl") == bare(lines(1, 5))


@pytest.mark.feature("X-28")
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("nth", [1, 2, 4])
async def test_after_failed_flushes_the_data_is_in_doubt_not_read_and_written_again(nth: int, times: int) -> None:
    faulty = FaultyDisk(MemoryDisk())
    disk = RecordingDisk(faulty)
    store = FileStore("/sessions", disk=disk, durability="file", offload=AtOnce())
    writer = await own(store)
    faulty.fail("datasync", errno.EIO, path=LOG, nth=nth, times=times)
    for number in range(1, nth):
        await writer.append(line(number))
    outcome = await attempt(writer, line(nth))
    assert isinstance(outcome, InDoubt)
    assert isinstance(outcome.error.__cause__, OSError)
    for left in range(times, 0, -1):
        assert isinstance(await attempt(writer, line(nth)), InDoubt)
        assert nth == 1 or await read_all(store, "a.jsonl") == bare(lines(1, nth - 1))
        begun = len(disk.operations)
        if left > 1:
            with pytest.raises(AppendInDoubt):
                await store.resolve(writer.lease)
    writer.head, writer._exists = await store.resolve(writer.lease), True
    assert writer.head.seq == nth
    whole = HEADER + b"".join(lines(1, nth))
    written = [each.data for each in disk.operations[begun:] if (each.kind, each.path) == ("write", LOG)]
    assert b"".join(written) == whole, "a later flush may succeed without the bytes, so they are written again in place"
    assert "truncate" not in {each.kind for each in disk.operations[begun:]}
    assert await read_all(store, "a.jsonl") == bare(lines(1, nth))
    await writer.append(line(nth + 1))
    assert disk.memory.files()[LOG] == whole + line(nth + 1)


async def test_new_files_and_their_folders_are_flushed() -> None:
    disk = RecordingDisk()
    store = FileStore("/sessions", disk=disk, durability="file", offload=AtOnce())
    await (await own(store, "x/y/a.jsonl")).append(line(1))
    flushed = [each.path for each in disk.operations if each.kind in ("datasync", "sync_directory")]
    assert flushed == ["/sessions/x/y/a.jsonl", "/sessions/x/y", "/sessions/x", "/sessions", "/"]


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
    assert memory.crash().files()[LOG] == HEADER + b"".join(lines(1, 3))


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
    assert disk.left.crash().files()[LOG] == HEADER + b"".join(lines(1, 2))
    await next_writer.append(line(3))
    await next_store.aclose()
    assert disk.left.crash().files()[LOG] == HEADER + b"".join(lines(1, 3))


async def test_a_failure_to_write_a_snapshot_is_ignored_and_of_a_leaf_record_is_raised(disk: FaultyDisk) -> None:
    store = FileStore("/sessions", disk=disk, offload=AtOnce())
    writer = await own(store)
    head = await writer.append(line(1))
    await store.save(writer.lease, "leaf", head, b"old")
    disk.fail("write", errno.ENOSPC, path=f"{LOG}.*", times=None)
    await store.save(writer.lease, "index", head, b"index")
    with pytest.raises(AppendFailed):
        await store.save(writer.lease, "leaf", head, b"new")
    assert await store.load("a.jsonl", "index") is None
    assert await store.load("a.jsonl", "leaf") == Blob(head, b"old")
    assert set(disk.list_directory("/sessions")) == {"a.jsonl", "a.jsonl.leaf"}


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
async def test_a_replaced_log_that_cannot_be_read_for_a_while_is_not_forgotten(owned: bool, lines_max: int) -> None:
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
        memory.rename("/sessions/new", LOG)
        assert await failing_reads(disk, lambda: read_all(store, "a.jsonl"))
        assert await read_all(store, "a.jsonl") == replacement
