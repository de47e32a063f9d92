"""A log is owned on the event loop where nothing has to be repaired and the disk is known; else a thread does it."""

import errno
import os
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import pytest

from treering.events.errors import NotASession, ReadOnly, SessionLocked, TreeringError
from treering.events.stores.files import FileStore
from treering.events.stores.files.log.table import INLINE_MAX
from treering.testing.disks import FaultyDisk, MemoryDisk, WrappedDisk
from treering.testing.stores.case import bare, line, lines, read_all

from .logs import HEADER, own, put_file

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

pytestmark = pytest.mark.anyio


class Threads:
    """An offload that counts what it is asked to do, and does it on the spot."""

    def __init__(self) -> None:
        self.used = 0

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.used += 1
        return fn(*args)


async def known(disk: MemoryDisk | FaultyDisk, threads: Threads, **options: str) -> FileStore:
    """Return a store that has owned a log in its folder before."""
    store = FileStore("/sessions", disk=disk, offload=threads, **options)  # type: ignore[arg-type]  # literals
    [lease] = await store.acquire(["first.jsonl"], "me")
    assert not isinstance(lease, SessionLocked)
    await store.release([lease])
    assert threads.used == 1
    return store


async def test_the_first_log_in_a_folder_is_owned_in_a_thread_and_others_on_the_loop() -> None:
    disk, threads = MemoryDisk(), Threads()
    store = await known(disk, threads)
    put_file(disk, "/sessions/small.jsonl", HEADER + line(1))
    for ref in ("new.jsonl", "small.jsonl"):
        writer = await own(store, ref)
        await writer.append(line(2))
        await store.release([writer.lease])
        await store.release([(await own(store, ref)).lease])
    assert threads.used == 1
    assert await read_all(store, "small.jsonl") == bare(lines(1, 2))
    await own(store, "inner/new.jsonl")
    assert threads.used == 2
    await own(store, "inner/other.jsonl")
    assert threads.used == 2
    await store.aclose()


async def test_so_many_folders_are_known_to_be_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.events.stores.files.ownership._FOLDERS_MAX", 2)
    threads = Threads()
    store = await known(MemoryDisk(), threads)
    used: list[int] = []
    for ref in ("one/a.jsonl", "one/b.jsonl", "b.jsonl", "two/a.jsonl", "two/b.jsonl", "one/c.jsonl"):
        await own(store, ref)
        used.append(threads.used)
    assert used == [2, 2, 2, 3, 3, 4]
    await store.aclose()


class ReadOnlyFiles(WrappedDisk):
    """A disk whose logs may not be opened for writing, and some not at all."""

    def open(self, path: str, flags: int) -> int:
        if path.endswith(".jsonl") and (flags & os.O_RDWR or "secret" in path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return super().open(path, flags)


async def test_a_log_that_may_be_read_but_not_written_is_told_apart_from_one_that_may_not_be_read() -> None:
    memory = MemoryDisk()
    for name in ("shown", "secret"):
        put_file(memory, f"/sessions/{name}.jsonl", HEADER + line(1))
    store = FileStore("/sessions", disk=ReadOnlyFiles(memory))
    with pytest.raises(ReadOnly, match="load it with `read_only=True`"):
        await own(store, "shown.jsonl")
    with pytest.raises(PermissionError) as caught:
        await own(store, "secret.jsonl")
    assert not isinstance(caught.value, TreeringError)
    await store.aclose()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", HEADER + line(1) + b'{"type":"me'),
        ("a.jsonl", HEADER[: len(HEADER) // 2]),
        ("a.jsonl", HEADER + line(1) * (INLINE_MAX // len(line(1)) + 1)),
        (".treering/journal/1-1.journal", b""),
    ],
    ids=["torn tail", "torn header", "large", "journal"],
)
async def test_what_takes_long_or_has_to_be_repaired_takes_a_thread(name: str, content: bytes) -> None:
    disk, threads = MemoryDisk(), Threads()
    store = await known(disk, threads)
    put_file(disk, f"/sessions/{name}", content)
    writer = await own(store)
    assert threads.used == 2
    assert isinstance((await FileStore("/sessions", disk=disk).acquire(["a.jsonl"], "other"))[0], SessionLocked)
    await writer.append(line(2))
    await store.aclose()
    assert bare([line(2)])[0] in await read_all(FileStore("/sessions", disk=disk), "a.jsonl")


@pytest.mark.parametrize("more", [0, 1])
async def test_what_is_small_is_owned_and_read_on_the_loop(more: int) -> None:
    disk, threads = MemoryDisk(), Threads()
    store = await known(disk, threads)
    content = line(1, "x" * (INLINE_MAX - len(HEADER + line(1)) + more))
    put_file(disk, "/sessions/a.jsonl", HEADER + content)
    await own(store)
    assert threads.used == 1 + more
    text = "x" * (INLINE_MAX - len(line(1)) + more)
    writer = await own(store, "b.jsonl")
    await writer.append(line(1, text))
    used = threads.used
    assert await read_all(store, "b.jsonl") == bare([line(1, text)])
    assert threads.used == used + more
    await store.aclose()


async def test_a_log_in_the_place_of_a_deleted_one_whose_snapshot_was_left_is_owned_in_a_thread() -> None:
    disk, threads = MemoryDisk(), Threads()
    store = await known(disk, threads)
    writer = await own(store)
    await writer.append(line(1))
    await store.save(writer.lease, "index", writer.head, b"index")
    await store.release([writer.lease])
    disk.unlink("/sessions/a.jsonl")
    before, used = writer.head, threads.used
    again = await own(store)
    assert threads.used == used + 1
    await again.append(line(1))
    assert again.head.generation.rpartition(".")[2] != before.generation.rpartition(".")[2]
    await store.aclose()


@pytest.mark.parametrize("options", [{"writes": "thread"}, {"durability": "file"}, {"durability": "group"}])
async def test_a_store_that_writes_in_threads_owns_in_threads(options: dict[str, str]) -> None:
    threads = Threads()
    store = await known(MemoryDisk(), threads, **options)
    await own(store)
    assert threads.used == 2
    await store.aclose()


async def test_a_log_that_another_store_owns_is_refused_at_once() -> None:
    disk, threads = MemoryDisk(), Threads()
    store, other = await known(disk, threads), FileStore("/sessions", disk=disk)
    await own(other)
    [refusal] = await store.acquire(["a.jsonl"], "me")
    assert isinstance(refusal, SessionLocked)
    assert threads.used == 1


@pytest.mark.parametrize("call", ["stat", "open", "pread", "fstat", "close"])
async def test_after_an_error_the_log_is_not_locked(call: str) -> None:
    memory, threads = MemoryDisk(), Threads()
    disk = FaultyDisk(memory)
    store = await known(disk, threads)
    put_file(memory, "/sessions/a.jsonl", HEADER + line(1))
    disk.fail(call, errno.EIO, path="/sessions/a.jsonl")
    with pytest.raises(OSError, match="Input/output error"):
        await own(store)
    assert threads.used == 1
    assert (await own(store)).head.seq == 1
    await store.aclose()


async def test_a_file_that_is_no_session_is_refused_at_once_and_left_unlocked() -> None:
    disk, threads = MemoryDisk(), Threads()
    store = await known(disk, threads)
    put_file(disk, "/sessions/a.jsonl", b"not a session\n")
    with pytest.raises(NotASession):
        await own(store)
    assert threads.used == 1
    disk.unlink("/sessions/a.jsonl")
    await own(store)
    await store.aclose()
