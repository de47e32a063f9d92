"""When the index is written: a while after a change, and at most once per interval; appends never wait for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import ENOSPC
from itertools import pairwise
from typing import Any, TypeVar, TypeVarTuple

import anyio
import pytest
import trio.testing
from structlog.testing import capture_logs

from treering import SessionHost, Settings
from treering.actors.catalog.file_listing import FileListing
from treering.actors.catalog.index_writer import IndexWriter
from treering.testing.disks import FaultyDisk, MemoryDisk
from treering.testing.disks.changes import Operation

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

INDEX = "/sessions/.treering/index.jsonl"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A loop whose clock jumps to the next deadline when all tasks wait."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


async def run_inline(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Run blocking work on the spot: an offload that uses no threads."""
    return fn(*args)


class WatchedDisk(MemoryDisk):
    """Records when the index was written, and counts writes to the session."""

    def __init__(self) -> None:
        super().__init__()
        self.index: list[float] = []
        self.entries = 0
        self.listeners.append(self._record)

    def _record(self, operation: Operation) -> None:
        target = operation.target or operation.path
        appended = operation.kind == "write" and operation.path == INDEX
        if appended or (operation.kind == "rename" and target == INDEX):
            self.index.append(anyio.current_time())
        elif operation.kind == "write" and operation.path.endswith("s.jsonl"):
            self.entries += 1

    def text(self, path: str) -> str:
        fd = self.open(path, 0)
        try:
            return self.pread(fd, 10_000_000, 0).decode()
        finally:
            self.close(fd)


@pytest.mark.feature("N-125", "N-126", "N-133")
async def test_a_thousand_appends_write_each_entry_at_once_and_the_index_once_per_interval() -> None:
    disk = WatchedDisk()
    async with SessionHost("/sessions", disk=disk, offload=run_inline) as host:
        session = await host.create("s")
        started = anyio.current_time()
        for number in range(1000):
            await session.append_message("user", f"message {number}")
            assert disk.entries == number + 1
            assert f"message {number}" in disk.text("/sessions/s.jsonl")
            await anyio.sleep(0.02)
        lasted = anyio.current_time() - started
        assert lasted == pytest.approx(20)
        await anyio.sleep(30)
        assert 4 <= len(disk.index) <= 6
        assert disk.index[0] - started == pytest.approx(1.0)
        gaps = [later - earlier for earlier, later in zip(disk.index, disk.index[1:], strict=False)]
        assert min(gaps) >= 5.0
        written = len(disk.index)
        await anyio.sleep(3600)
        assert len(disk.index) == written  # without a change, the index is not written
        assert '"message_count":1000' in disk.text(INDEX)
    assert len(disk.index) == written


@pytest.mark.feature("N-125", "N-133")
@pytest.mark.parametrize("debounce_ms", [0, 250, 4000])
async def test_after_a_turn_the_index_is_written_once_after_the_debounce_time(debounce_ms: int) -> None:
    disk = WatchedDisk()
    settings = Settings(debounce_ms=debounce_ms, update_metadata_interval_ms=0)
    async with SessionHost("/sessions", disk=disk, offload=run_inline, settings=settings) as host:
        session = await host.create("s")
        started = anyio.current_time()
        await session.append_message("user", "Read it")
        await session.append_message("assistant", "It says so.")
        await session.append_tool_execution("c", "read", {}, "text")
        assert disk.index == []
        assert disk.entries == 3
        await anyio.sleep(60)
        assert [at - started for at in disk.index] == [pytest.approx(debounce_ms / 1000)]


@pytest.mark.feature("N-126")
async def test_a_delayed_index_is_written_by_flush_and_when_the_host_closes() -> None:
    disk = WatchedDisk()
    settings = Settings(debounce_ms=3_600_000, update_metadata_interval_ms=3_600_000)
    async with SessionHost("/sessions", disk=disk, offload=run_inline, settings=settings) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        await anyio.sleep(60)
        assert disk.index == []
        await host.flush()
        assert len(disk.index) == 1
        await session.append_message("user", "again")
        await session.passivate()
    assert len(disk.index) == 2
    assert disk.text(INDEX).splitlines()[-1].count('"message_count":2') == 1


async def test_the_index_writer_does_not_read_a_session_that_keeps_growing() -> None:
    disk, read, growing = WatchedDisk(), list[str](), False
    opened = disk.open

    def record(path: str, flags: int) -> int:
        if path.endswith("s.jsonl") and flags & os.O_ACCMODE == os.O_RDONLY:
            read.append(path)
        return opened(path, flags)

    async def offload(fn: Callable[[*Ts], T], *args: *Ts) -> T:
        if growing:
            await session.append_message("user", "meanwhile")
        return fn(*args)

    disk.open = record  # type: ignore[method-assign]
    async with SessionHost("/sessions", disk=disk, offload=offload) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        read.clear()
        growing = True
        await anyio.sleep(50)
        assert disk.entries > 5
        assert (disk.index, read) == ([], [])
        await host.flush()  # a flush always writes the index
        assert len(disk.index) == 1
        read.clear()
        growing = False
        await session.append_message("user", "the last one")
        await anyio.sleep(10)
        assert read == []
        assert f'"message_count":{disk.entries}' in disk.text(INDEX)


@pytest.mark.feature("N-123", "N-124")
@pytest.mark.parametrize(
    ("setting", "is_written"),
    [({}, True), ({"save_after_assistant_message": False}, False), ({"save_after_tool_execution": False}, True)],
    ids=str,
)
async def test_an_answer_is_written_at_once_and_causes_an_index_write_if_the_setting_is_on(
    setting: dict[str, bool], is_written: bool
) -> None:
    disk = WatchedDisk()
    async with SessionHost("/sessions", disk=disk, offload=run_inline, settings=Settings.load(setting)) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        await anyio.sleep(60)
        before = len(disk.index)
        answer_id = await session.append_message("assistant", "Good day")
        assert answer_id in disk.text("/sessions/s.jsonl")
        await anyio.sleep(60)
        assert len(disk.index) - before == is_written
        await session.append_message("user", "and now?")
        await anyio.sleep(60)
        assert len(disk.index) - before == 1 + is_written
    assert '"message_count":3' in disk.text(INDEX)


@pytest.mark.feature("N-124")
@pytest.mark.parametrize(("setting", "is_written"), [(True, True), (False, False)])
async def test_a_tool_execution_is_written_at_once_and_causes_an_index_write_if_the_setting_is_on(
    setting: bool, is_written: bool
) -> None:
    disk = WatchedDisk()
    settings = Settings(save_after_tool_execution=setting)
    async with SessionHost("/sessions", disk=disk, offload=run_inline, settings=settings) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        await anyio.sleep(60)
        before = len(disk.index)
        record = (await session.append_tool_execution("c", "read", {"path": "a"}, "text"))[1]
        assert record in disk.text("/sessions/s.jsonl")
        await anyio.sleep(60)
        # The result for the model is a message, which causes an index write whatever the setting is.
        assert len(disk.index) - before == 1
        (entry,) = await session.tool_executions()
        await session.append(entry.tool_execution)
        await anyio.sleep(60)
        assert len(disk.index) - before == 1 + is_written
    assert '"message_count":2' in disk.text(INDEX)


@pytest.mark.feature("N-125")
async def test_after_a_failed_index_write_the_next_attempt_waits_for_a_change() -> None:
    inner = WatchedDisk()
    disk = FaultyDisk(inner)
    async with SessionHost("/sessions", disk=disk, offload=run_inline) as host:
        session = await host.create("s")
        await session.append_message("user", "first")
        refused = disk.fail("open", ENOSPC, path=f"{INDEX}*", times=None)
        await anyio.sleep(3600)
        assert refused.hits <= 2
        refused.lift()
        await session.append_message("user", "second")
        await anyio.sleep(10)
        assert '"message_count":2' in inner.text(INDEX)


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
    assert '"message_count":1' in disk.text(INDEX)


# -- failures of the background task


async def test_after_an_unexpected_error_the_index_writer_retries_with_growing_delays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[float] = []

    def buggy(*_: object) -> None:
        calls.append(anyio.current_time())
        raise ValueError("a bug")

    disk = WatchedDisk()
    settings = Settings(debounce_ms=0, update_metadata_interval_ms=0)
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(FileListing, "remembered", buggy)
        async with SessionHost("/sessions", disk=disk, offload=run_inline, settings=settings) as host:
            session = await host.create("s")
            await session.append_message("user", "Hello")
            await anyio.sleep(3600)
            waits = [later - earlier for earlier, later in pairwise(calls)]
            assert waits[:7] == pytest.approx([1, 2, 4, 8, 16, 32, 60])
            assert max(waits) == pytest.approx(60)
            patch.undo()
            await anyio.sleep(60)
            assert '"id":"s"' in disk.text(INDEX)
            patch.setattr(FileListing, "remembered", buggy)
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
    settings = Settings(save_after_assistant_message=False)
    async with SessionHost("/sessions", disk=MemoryDisk(), offload=run_inline, settings=settings) as host:
        sessions = [await host.create(f"s{number}") for number in range(20)]
        for session in sessions:
            await session.append_message("user", "Hello")
            await host.flush()
            await session.passivate()
        await sessions[0].append_message("user", "again")
        await host.flush()
        (writer,) = writers
        assert len(writer._heads) == 1  # pyright: ignore[reportPrivateUsage]  # there is no public way to see it
