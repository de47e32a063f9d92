"""When the index is written: a while after a change, and at most once per interval; appends never wait for it."""

import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from errno import EACCES, ENOSPC
from itertools import pairwise
from typing import Any, Literal, TypeVar, TypeVarTuple

import anyio
import anyio.lowlevel
import pytest
import trio.testing
from structlog.testing import capture_logs

from treering import SessionHost, Settings
from treering.actors.catalog.listing import Remembered, SessionListing
from treering.actors.catalog.writing import IndexWriter
from treering.testing.clocks import ManualClock
from treering.testing.disks import FaultyDisk, MemoryDisk
from treering.testing.disks.image import Operation

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

INDEX = "/sessions/.treering/index.jsonl"
LOG = "/sessions/s.jsonl"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A loop whose clock jumps to the next deadline when all tasks wait."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


async def run_inline(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Run blocking work on the spot: an offload that uses no threads."""
    return fn(*args)


class WatchedDisk(MemoryDisk):
    """Records when the index was written and a session read, in seconds since the start, and counts its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.started = anyio.current_time()
        self.index: list[float] = []
        self.read: list[float] = []
        self.entries = 0
        self.listeners.append(self._record)

    def now(self) -> float:
        return round(anyio.current_time() - self.started, 3)

    def open(self, path: str, flags: int) -> int:
        if path.endswith("s.jsonl") and flags & os.O_ACCMODE == os.O_RDONLY:
            self.read.append(self.now())
        return super().open(path, flags)

    def _record(self, operation: Operation) -> None:
        appended = operation.kind == "write" and operation.path == INDEX
        if appended or (operation.kind == "rename" and operation.target == INDEX):
            self.index.append(self.now())
        elif operation.kind == "write" and operation.path.endswith("s.jsonl"):
            self.entries += 1

    def text(self, path: str) -> str:
        fd = self.open(path, os.O_RDWR)
        try:
            return self.pread(fd, 10_000_000, 0).decode()
        finally:
            self.close(fd)

    def counts(self) -> dict[str, int]:
        """Return how many messages each session has by the index."""
        lines = [json.loads(line) for line in self.text(INDEX).splitlines()[1:]]
        return {line["ref"].removesuffix(".jsonl"): line["session"]["message_count"] for line in lines}


def new_host(disk: FaultyDisk | MemoryDisk, **settings: object) -> SessionHost:
    return SessionHost("/sessions", disk=disk, offload=run_inline, settings=Settings.load(settings))


@pytest.mark.feature("N-125", "N-126", "N-133")
async def test_a_thousand_appends_write_each_entry_at_once_and_the_index_once_per_interval() -> None:
    disk = WatchedDisk()
    async with new_host(disk) as host:
        session = await host.create("s")
        for number in range(1000):
            await session.append_message("user", f"message {number}")
            assert disk.entries == number + 1
            assert f"message {number}" in disk.text(LOG)
            await anyio.sleep(0.02)
        await anyio.sleep(3600)
        assert disk.now() == 3620
        assert disk.index == [1, 6, 11, 16, 21]  # without a change, the index is not written
        assert disk.counts() == {"s": 1000}
    assert len(disk.index) == 5


@pytest.mark.feature("N-123", "N-124", "N-125", "N-133")
@pytest.mark.parametrize(
    ("settings", "passivated", "expected"),
    [
        ({}, False, [1, 61, 121, 181]),
        ({"debounce_ms": 4000}, False, [4, 64, 124, 184]),
        ({"debounce_ms": 0, "update_metadata_interval_ms": 0}, False, [0, 60, 120, 180]),
        ({"update_metadata_interval_ms": 90_000}, False, [1, 91, 181]),
        ({"save_after_assistant_message": False}, False, [1, 121, 181]),
        ({"save_after_tool_execution": False}, False, [1, 61, 181]),
        ({"save_after_assistant_message": False, "save_after_tool_execution": False}, False, [1, 181]),
        ({"save_after_assistant_message": False, "save_after_tool_execution": False}, True, [1, 61, 121, 181]),
    ],
    ids=str,
)
async def test_an_entry_is_written_at_once_and_the_index_when_the_settings_say(
    settings: dict[str, object], passivated: bool, expected: list[float]
) -> None:
    disk = WatchedDisk()
    async with new_host(disk, **settings) as host:
        session = await host.create("s")
        await session.append_message("user", "Read it")
        # The result for the model is a message, which causes an index write whatever the settings are.
        await session.append_tool_execution("c", "read", {}, "text")
        (entry,) = await session.tool_executions()
        assert (disk.index, disk.entries) == ([], 2)
        appends: list[Callable[[], Awaitable[str]]] = [
            lambda: session.append_message("assistant", "It says so."),
            lambda: session.append(entry.tool_execution),
            lambda: session.append_message("user", "and now?"),
        ]
        for append in appends:
            if passivated:
                assert await session.passivate()
            await anyio.sleep(60)
            assert await append() in disk.text(LOG)
        if passivated:
            await session.passivate()
        await anyio.sleep(60)
        assert disk.index == expected
        assert disk.counts() == {"s": 4}
    assert disk.index == expected


@pytest.mark.feature("N-126")
async def test_a_delayed_index_is_written_by_flush_and_when_the_host_closes() -> None:
    disk = WatchedDisk()
    async with new_host(disk, debounce_ms=3_600_000, update_metadata_interval_ms=3_600_000) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        await anyio.sleep(60)
        assert disk.index == []
        await host.flush()
        await host.flush()
        assert disk.index == [60]
        await session.append_message("user", "again")
        await session.passivate()
    assert disk.index == [60, 60]
    assert disk.counts() == {"s": 2}


async def test_a_flush_that_has_nothing_to_write_does_not_put_off_the_next_write() -> None:
    disk = WatchedDisk()
    synced: list[str] = []
    disk.listeners.append(lambda done: synced.append(done.path) if "sync" in done.kind else None)
    async with new_host(disk) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        await anyio.sleep(60)
        await host.flush()
        await session.append_message("user", "again")
        await anyio.sleep(10)
        assert disk.index == [1, 61]
        await host.delete(await host.create("other"))
        await host.flush()
    assert [path for path in synced if "index" in path] == []  # it can be made anew


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (("user", "assistant"), [1]),
        (("assistant",), []),
        (("assistant", "assistant"), []),
        (("assistant", "user"), [1]),
    ],
)
async def test_a_new_session_is_in_the_index_once_it_has_an_entry_for_which_it_is_saved(
    roles: list[Literal["user", "assistant"]], expected: list[float]
) -> None:
    disk = WatchedDisk()
    async with new_host(disk, save_after_assistant_message=False) as host:
        session = await host.create("s")
        for role in roles:
            await session.append_message(role, "Hello")
        await anyio.sleep(60)
        assert disk.index == expected
    assert disk.counts() == {"s": len(roles)}


async def test_the_index_writer_reads_a_session_that_keeps_growing_only_after_a_minute() -> None:
    disk, growing = WatchedDisk(), False

    async def offload(fn: Callable[[*Ts], T], *args: *Ts) -> T:
        if growing:
            await session.append_message("user", "meanwhile")
        return fn(*args)

    async with SessionHost("/sessions", disk=disk, offload=offload) as host:
        session, other = await host.create("s"), await host.create("other")
        await session.append_message("user", "Hello")
        disk.read.clear()
        growing = True
        await anyio.sleep(50)
        assert disk.entries > 5
        assert (disk.index, disk.read) == ([], [])
        await other.append_message("user", "Hello")  # this one does not wait for the other
        await anyio.sleep(8)
        assert disk.counts() == {"other": 1}
        await anyio.sleep(12)
        assert disk.read == [61]  # a minute after the first attempt
        assert disk.counts()["s"] > 5
        disk.read.clear()
        await host.flush()  # a flush always writes the index
        assert (disk.index[-1], disk.read) == (70, [70])
        growing = False
        disk.read.clear()
        await session.append_message("user", "the last one")
        await anyio.sleep(10)
        assert disk.read == []
        assert disk.counts() == {"other": 1, "s": disk.entries}


async def test_what_another_program_appends_to_a_live_session_is_in_the_index() -> None:
    disk = WatchedDisk()
    async with new_host(disk) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        line = disk.text(LOG).splitlines()[-1].replace('"seq":1', '"seq":2').replace("Hello", "Hi")
        fd = disk.open(LOG, os.O_WRONLY | os.O_APPEND)
        disk.write(fd, line.encode() + b"\n")
        disk.close(fd)
        disk.read.clear()
        await anyio.sleep(10)
        assert (disk.index, disk.read, disk.counts()) == ([1], [1], {"s": 2})


async def test_a_session_whose_file_cannot_be_looked_at_does_not_hold_up_the_others() -> None:
    inner = WatchedDisk()
    disk = FaultyDisk(inner)
    async with new_host(disk) as host:
        for name in ("gone", "s", "odd", "deleted"):
            await (await host.create(name)).append_message("user", "Hello")
        disk.fail("stat", EACCES, path="*/odd.jsonl", times=None)
        inner.unlink("/sessions/gone.jsonl")
        await host.delete("deleted")
        await anyio.sleep(10)
        assert inner.counts() == {"s": 1}


@pytest.mark.feature("N-125")
async def test_after_a_failed_index_write_the_next_attempt_waits_for_a_change() -> None:
    inner = WatchedDisk()
    disk = FaultyDisk(inner)
    async with new_host(disk) as host:
        session, other = await host.create("s"), await host.create("other")
        await session.append_message("user", "first")
        await other.append_message("user", "first")
        await anyio.sleep(60)
        refused = disk.fail("open", ENOSPC, path=f"{INDEX}*", times=None)
        await session.append_message("user", "second")
        with capture_logs() as logs:
            await anyio.sleep(3600)
        assert [each["event"] for each in logs] == ["index_not_written"]
        await host.delete(other)
        await anyio.sleep(3600)
        assert refused.hits == 3  # an append, and a rewrite that begins with reading
        refused.lift()
        await session.append_message("user", "third")
        await anyio.sleep(10)
        assert inner.counts() == {"s": 3}
        assert inner.index == [1, 7261]


async def test_after_a_cancelled_flush_the_index_is_written_when_the_host_closes() -> None:
    disk = WatchedDisk()
    started = anyio.Event()

    async def slow_offload(fn: Callable[[*Ts], T], *args: *Ts) -> T:
        started.set()
        await anyio.sleep(1)
        return fn(*args)

    async with SessionHost("/sessions", disk=disk, offload=slow_offload) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                started = anyio.Event()
                tasks.start_soon(host.flush)
                await started.wait()
                scope.cancel()
        assert disk.index == []
    assert disk.counts() == {"s": 1}


async def test_a_rewritten_index_has_the_later_of_two_lines_about_a_session() -> None:
    disk, clock = WatchedDisk(), ManualClock(step=timedelta(seconds=1))
    async with SessionHost("/sessions", disk=disk, clock=clock, offload=run_inline) as one:
        for name in ("s", "mine", "gone"):
            await (await one.create(name)).append_message("user", "Hello")
        rows = {row.id: row for row in await one.list_sessions()}
        await one.flush()
        await one.passivate_idle()
        async with SessionHost("/sessions", disk=disk, clock=clock, offload=run_inline) as other:
            await other.load("s")
            theirs = await other.get_session("s")
        text = disk.text(INDEX)
        assert theirs is not None
        assert theirs.last_accessed is not None
        assert theirs.last_accessed != rows["s"].last_accessed
        fd = disk.open(INDEX, os.O_WRONLY | os.O_TRUNC)  # another program damages the line of a third
        disk.write(fd, text.replace('{"ref":"mine', '{"torn":"mine').encode())
        disk.close(fd)
        await one.delete("gone")
        await one.flush()
        lines = {line["ref"]: line for line in map(json.loads, disk.text(INDEX).splitlines()[1:])}
        assert lines.keys() == {"s.jsonl", "mine.jsonl"}
        assert lines["s.jsonl"]["session"]["last_accessed"] == theirs.last_accessed.isoformat().replace("+00:00", "Z")


# -- failures of the background task


async def test_after_unexpected_errors_the_index_writer_retries_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []

    def buggy(*_: object) -> None:
        calls.append(anyio.current_time())
        raise ValueError("a bug")

    disk = WatchedDisk()
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(SessionListing, "remembered", buggy)
        async with new_host(disk, debounce_ms=0, update_metadata_interval_ms=0) as host:
            session = await host.create("s")
            await session.append_message("user", "Hello")
            await anyio.sleep(3600)
            waits = [later - earlier for earlier, later in pairwise(calls)]
            assert waits[:7] == pytest.approx([1, 2, 4, 8, 16, 32, 60])
            assert max(waits) == pytest.approx(60)
            patch.undo()
            await anyio.sleep(60)
            assert disk.counts() == {"s": 1}
            patch.setattr(SessionListing, "remembered", buggy)
            await session.append_message("user", "Hello again")
        assert disk.entries == 2  # the host closes without an error
    failures = [(each["work"], each["error"]) for each in logs if each["event"] == "background_failed"]
    assert failures == [("index", "ValueError")] * len(calls)


async def test_the_index_writer_forgets_passivated_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    writers: list[IndexWriter] = []
    run = IndexWriter.run

    async def record(writer: IndexWriter) -> None:
        writers.append(writer)
        await run(writer)

    monkeypatch.setattr(IndexWriter, "run", record)
    async with new_host(MemoryDisk(), save_after_assistant_message=False) as host:
        sessions = [await host.create(f"s{number}") for number in range(20)]
        for session in sessions:
            await session.append_message("user", "Hello")
            await host.flush()
            await session.passivate()
        await sessions[0].append_message("user", "again")
        await host.flush()
        (writer,) = writers
        assert len(writer._heads) == 1  # pyright: ignore[reportPrivateUsage]  # there is no public way to see it


async def test_the_rows_of_many_sessions_are_made_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    served = 0
    made: list[int] = []
    remembered = SessionListing.remembered

    def noted(listing: SessionListing, ref: str) -> Remembered | None:
        made.append(served)
        return remembered(listing, ref)

    async def serve() -> None:
        nonlocal served
        while True:
            served += 1
            await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(SessionListing, "remembered", noted)
    async with new_host(WatchedDisk()) as host:
        for number in range(100):
            await (await host.create(f"{number}")).append_message("user", "Hello")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await host.flush()
            tasks.cancel_scope.cancel()
    assert len(made) >= 100
    assert max(Counter(made).values()) <= 2 * 16  # the loop may begin a round with the task that ended the last one
