"""Concurrent readers of another program's log wait for the one that has begun to index it."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint

from treering.events.disk import OsDisk
from treering.events.stores.files import FileStore
from treering.events.stores.files.logs import INLINE_MAX
from treering.events.stores.files.table import CHUNK
from treering.testing.disks import WrappedDisk
from treering.testing.stores.case import NATIVE, bare, header_of, line, read_all

PATIENCE_S = 30
HEADER = NATIVE.encode_header(header_of("session"))
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

    with anyio.fail_after(PATIENCE_S):
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
