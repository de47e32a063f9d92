"""Concurrent readers of another program's log wait for the one that has begun to index it."""

import threading
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering.events.disk import OsDisk
from treering.events.errors import LogReplaced
from treering.events.stores.base import Cursor
from treering.events.stores.files import FileStore
from treering.events.stores.files.log.table import CHUNK, INLINE_MAX
from treering.testing.disks import WrappedDisk
from treering.testing.stores.case import bare, line, read_all

from .logs import HEADER, HoldingOffload, InterruptedDisk, own

PATIENCE_S = 30
LINE = 10_000


class SlowThreads(WrappedDisk):
    """A disk on which worker threads wait before reads from an offset on."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.start: int | None = None
        self.reached = threading.Event()
        self.go = threading.Event()

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        if (
            self.start is not None
            and offset >= self.start
            and threading.current_thread() is not threading.main_thread()
        ):
            self.reached.set()
            assert self.go.wait(PATIENCE_S)
        return super().pread(fd, length, offset)


OLD = [line(number, "old") for number in range(1, 4)]
NEW = [OLD[0], *(line(number, "new") for number in range(2, 6))]


async def check_noticed(store: FileStore, before: Cursor) -> None:
    """Check that a reader of the old lines is not given the new ones as their continuation."""
    with pytest.raises(LogReplaced):
        await store.read("a.jsonl", before.generation, before.seq)
    assert (await store.open("a.jsonl")).head.generation != before.generation
    assert await read_all(store, "a.jsonl") == bare(NEW)


async def test_a_slow_reader_does_not_hide_a_change_that_another_one_would_notice(tmp_path: Path) -> None:
    path, offload = tmp_path / "a.jsonl", HoldingOffload()
    path.write_bytes(HEADER + b"".join(OLD))
    store = FileStore(tmp_path, offload=offload)
    async with anyio.create_task_group() as group:
        offload.holds = True
        group.start_soon(store.open, "a.jsonl")
        await offload.held.wait()
        offload.holds = False
        before = (await store.open("a.jsonl")).head
        path.write_bytes(HEADER + b"".join(NEW))  # with the same inode, header and first line
        offload.release()
    await check_noticed(store, before)
    await store.aclose()


async def test_owning_a_log_does_not_hide_from_its_readers_that_it_was_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(HEADER + b"".join(OLD))
    store = FileStore(tmp_path)
    before = (await store.open("a.jsonl")).head
    path.write_bytes(HEADER + b"".join(NEW))
    lease = (await own(store)).lease
    assert lease.head.seq == len(NEW)
    await check_noticed(store, before)
    await store.aclose()
    store = FileStore(tmp_path)
    assert (await store.open("a.jsonl")).head == lease.head
    await store.aclose()


async def test_owning_a_log_that_grew_keeps_its_generation(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(HEADER + b"".join(OLD[:2]) + OLD[2].rstrip())  # a reader counts the last line
    store = FileStore(tmp_path)
    before = (await store.open("a.jsonl")).head
    assert before.seq == len(OLD)
    path.write_bytes(HEADER + b"".join([*OLD, line(4)]))
    assert (await own(store)).lease.head == Cursor(before.generation, 4)
    await store.aclose()


async def test_a_log_that_vanished_while_it_was_read_can_be_owned(tmp_path: Path) -> None:
    path, disk = tmp_path / "a.jsonl", InterruptedDisk()
    path.write_bytes(HEADER + line(1, "x" * 2 * INLINE_MAX))
    store = FileStore(tmp_path, disk=disk)
    before = (await store.open("a.jsonl")).head
    disk.before("open", act=path.unlink)
    with pytest.raises(LogReplaced):
        await store.read("a.jsonl", before.generation, 0)
    assert (await own(store)).lease.header is None
    await store.aclose()


async def test_lines_that_a_thread_is_indexing_are_not_indexed_twice(tmp_path: Path) -> None:
    path, disk = tmp_path / "a.jsonl", SlowThreads()
    path.write_bytes(HEADER + line(1))
    store = FileStore(tmp_path, disk=disk)
    before = (await store.open("a.jsonl")).head
    count = (CHUNK + INLINE_MAX // 2) // LINE
    more = [line(number, "x" * LINE) for number in range(2, 2 + count)]
    with path.open("ab") as file:
        file.writelines(more)
    disk.start = len(HEADER) + CHUNK  # from here on, what is left is small enough to be read on the event loop
    heads: list[int] = []

    async def read() -> None:
        opening = await store.open("a.jsonl")
        assert opening.head.generation == before.generation
        heads.append(opening.head.seq)

    async with anyio.create_task_group() as group:
        try:
            group.start_soon(read)
            while not disk.reached.is_set():
                await checkpoint()
            for _ in range(3):
                group.start_soon(read)
            for _ in range(10):
                await checkpoint()
        finally:
            disk.go.set()
    assert heads == [count + 1] * 4
    assert await read_all(store, "a.jsonl") == bare([line(1), *more])
    with path.open("ab") as file:
        file.write(line(count + 2))
    await read()
    assert heads[-1] == count + 2
    await store.aclose()
