"""When the index is out of date: replaced files, unusual names and times, deletions, and concurrent writes."""

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread
import pytest

from treering import HostClosed, SessionHost
from treering.events.disk import OsDisk
from treering.events.offload import ThreadOffload
from treering.events.stores.base import Ref
from treering.events.stores.search import Portion
from treering.events.stores.search_index import SearchIndex
from treering.testing.clocks import ManualClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BOTH = pytest.mark.parametrize("index", [False, True], ids=["scan", "index"])
FOREIGN = (
    b'{"type":"session","id":"s","version":1,"timestamp":"2026-01-01T10:00:00Z"}\n'
    b'{"type":"message","id":"e1","parent_id":null,"timestamp":"2026-01-01T10:00:00Z",'
    b'"message":{"role":"user","content":"needle"}}\n'
)


async def found(host: SessionHost, query: str, *, index: bool) -> list[str]:
    return [hit.session_id async for hit in host.search(query, index=index, limit=1000)]


async def create_sessions(host: SessionHost, *names: str, messages: int = 1) -> None:
    for name in names:
        session = await host.create(name)
        for number in range(messages):
            await session.append_message("user", f"needle {number}")


def texts_in(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        (count,) = db.execute("SELECT count(*) FROM entries").fetchone()
    return int(count)


def files_with(root: Path, content: bytes) -> list[str]:
    return [path.name for path in root.rglob("*") if path.is_file() and content in path.read_bytes()]


@BOTH
async def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read_again(root: Path, index: bool) -> None:
    async with SessionHost(root) as host:
        await create_sessions(host, "a")
        assert await found(host, "needle", index=index) == ["a"]
    path = root / "a.jsonl"
    before = path.stat()
    other = root / "other"
    other.write_bytes(path.read_bytes().replace(b"needle", b"pebble"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(path)
    async with SessionHost(root) as host:
        assert await found(host, "needle", index=index) == []
        assert await found(host, "pebble", index=index) == ["a"]


async def test_a_session_that_is_indexed_again_during_a_search_is_found(root: Path) -> None:
    async with SessionHost(root) as host:
        await create_sessions(host, "a", "b", "c")
        hits = host.search("needle", index=True)
        ids = [(await anext(hits)).session_id]
        path = root / "a.jsonl"
        other = root / "other"
        other.write_bytes(path.read_bytes().replace(b"needle", b"needles"))
        other.rename(path)
        assert await found(host, "needles", index=True) == ["a"]
        assert sorted([*ids, *[hit.session_id async for hit in hits]]) == ["a", "b", "c"]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems have no such names")
@BOTH
async def test_a_file_whose_name_is_not_unicode_can_be_listed_searched_and_deleted(root: Path, index: bool) -> None:
    path = root / os.fsdecode(b"odd\xff.jsonl")
    async with SessionHost(root) as host:
        await create_sessions(host, "plain")
    for _ in range(2):
        path.write_bytes(FOREIGN)
        async with SessionHost(root) as host:
            assert {row.id for row in await host.list_sessions()} == {"plain", "s"}
            await host.flush()
            for _ in range(2):
                assert sorted(await found(host, "needle", index=index)) == ["plain", "s"]
            await host.delete("s")
            assert not path.exists()
            assert await found(host, "needle", index=index) == ["plain"]


@pytest.mark.parametrize("seconds", [13_570_000_000, -1_000_000_000], ids=["2400", "1938"])
async def test_a_file_with_any_modification_time_is_indexed(root: Path, seconds: int) -> None:
    async with SessionHost(root) as host:
        await create_sessions(host, "a")
    path = root / "a.jsonl"
    os.utime(path, (seconds, seconds))
    if int(path.stat().st_mtime) != seconds:
        pytest.skip("this file system has no such times")
    async with SessionHost(root) as host:
        for _ in range(2):
            assert await found(host, "needle", index=True) == ["a"]
        assert [row.id for row in await host.list_sessions()] == ["a"]


async def test_a_session_deleted_during_indexing_is_not_indexed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, go_on = threading.Event(), threading.Event()
    update = SearchIndex.update

    def pausing(self: SearchIndex, portions: Sequence[Portion], gone: Sequence[Ref] = ()) -> None:
        if portions:
            read.set()
            assert go_on.wait(30)
        update(self, portions, gone)
        if not portions:
            go_on.set()

    async with SessionHost(root) as host:
        await create_sessions(host, "a", "b")
        monkeypatch.setattr(SearchIndex, "update", pausing)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: found(host, "needle", index=True))
            await anyio.to_thread.run_sync(read.wait)
            group.start_soon(host.delete, "a")
            while (root / "a.jsonl").exists() or not (go_on.is_set() or another_task_waits(host)):
                await anyio.wait_all_tasks_blocked()
            go_on.set()
        assert texts_in(root / "search.db") == 1
        assert await found(host, "needle", index=True) == ["b"]


def another_task_waits(host: SessionHost) -> bool:
    return host._searching is not None and host._searching._turn.statistics().tasks_waiting > 0


async def test_a_search_after_the_host_closed_opens_no_connection(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connections: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def counted(*args: object, **options: object) -> sqlite3.Connection:
        connections.append(connect(*args, **options))  # type: ignore[call-overload]  # passed on unchanged
        return connections[-1]

    async with SessionHost(root) as host:
        await create_sessions(host, "a", "b", messages=100)
        await found(host, "needle", index=True)
        monkeypatch.setattr(sqlite3, "connect", counted)
        search, late = host.search("needle", index=True, limit=1000), host.search("needle", index=True)
        await anext(search)
    for each in (search, late):
        with pytest.raises(HostClosed):
            assert [hit async for hit in each]
    assert connections == []


class PausedFlushes(OsDisk):
    """A disk whose flushes wait, once paused, until they may continue."""

    def __init__(self) -> None:
        self.paused = False
        self.go_on = threading.Event()
        self.waiting = threading.Event()

    def datasync(self, fd: int) -> None:
        if self.paused:
            self.waiting.set()
            assert self.go_on.wait(30)
        super().datasync(fd)


@pytest.mark.parametrize("durability", ["file", "group"])
async def test_entries_flushed_during_indexing_are_found_then(root: Path, durability: Literal["file", "group"]) -> None:
    disk = PausedFlushes()
    async with SessionHost(root, disk=disk, durability=durability) as host:
        await create_sessions(host, "a")
        session = await host.load("a")
        disk.paused = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.append_message, "user", "pebble")
            await anyio.to_thread.run_sync(disk.waiting.wait, 30)
            assert await found(host, "needle", index=True) == ["a"]
            disk.paused = False
            disk.go_on.set()
        assert await found(host, "pebble", index=True) == ["a"]
    async with SessionHost(root) as host:
        assert await found(host, "pebble", index=True) == ["a"]


async def test_a_line_without_a_newline_from_another_program_is_found_after_reopening(root: Path) -> None:
    async with SessionHost(root) as host:
        await create_sessions(host, "a")
        session = await host.load("a")
        line = (root / "a.jsonl").read_bytes().splitlines()[-1]
        with (root / "a.jsonl").open("ab") as file:
            file.write(line.replace(b"needle", b"pebble").replace(session.path()[-1].encode(), b"foreign"))
        assert await found(host, "needle", index=True) == ["a"]
    async with SessionHost(root) as host:
        assert await found(host, "pebble", index=True) == ["a"]


@BOTH
async def test_hits_are_in_the_order_of_the_listing(root: Path, index: bool) -> None:
    async with SessionHost(root, clock=ManualClock(step=timedelta(seconds=1))) as host:
        await create_sessions(host, "a", "b")
        assert await found(host, "needle", index=index) == ["b", "a"]
        await host.load("a")
        assert await found(host, "needle", index=index) == ["a", "b"]
        assert [row.id for row in await host.list_sessions()] == ["a", "b"]


async def test_a_deleted_session_is_removed_from_every_index_at_once(root: Path) -> None:
    async with SessionHost(root / "work") as host:
        await create_sessions(host, "a", "b")
        assert await found(host, "needle", index=True) == ["b", "a"]
    async with SessionHost(root) as host:
        session = await host.create("c")
        await session.append_message("user", "the only pebble")
        assert await found(host, "pebble", index=True) == ["c"]
        await host.delete("c")
        await host.delete(root / "work" / "a.jsonl")
        await host.flush()
        assert files_with(root, b"pebble") == []
        assert files_with(root, b'"a.jsonl"') == []
        assert texts_in(root / "work" / "search.db") == 1
        assert await found(host, "needle", index=True) == ["b"]


class CancellingOffload(ThreadOffload):
    """Runs work in threads, and cancels a scope as soon as a file is gone."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.scope: anyio.CancelScope | None = None

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        result = await super().__call__(fn, *args)
        if self.scope is not None and not self.path.exists():
            self.scope.cancel()
        return result


async def test_a_deletion_that_is_cancelled_after_the_file_is_gone_is_completed(root: Path) -> None:
    offload = CancellingOffload(root / "c.jsonl")
    async with SessionHost(root, offload=offload) as host:
        session = await host.create("c", cwd="/work")
        await session.append_message("user", "the only pebble")
        await host.set_current_session("/work", session)
        assert await found(host, "pebble", index=True) == ["c"]
        with anyio.CancelScope() as offload.scope:
            await host.delete("c")
        assert offload.scope.cancel_called
        await host.flush()
        assert files_with(root, b"pebble") == []
        assert not any((root / ".treering" / "current").iterdir())
