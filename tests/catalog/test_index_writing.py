"""When the index is written: some time after a change, and at most once in a while; entries never wait for it."""

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
    """Let time jump to the next thing that is waited for."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


async def at_once(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """An offload without threads."""
    return fn(*args)


class Watched(MemoryDisk):
    """Notes when the index and the sessions were written to."""

    def __init__(self) -> None:
        super().__init__()
        self.index: list[float] = []
        self.entries = 0
        self.listeners.append(self._note)

    def _note(self, operation: Operation) -> None:
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
async def test_a_thousand_appends_write_the_index_once_an_interval_and_each_entry_at_once() -> None:
    disk = Watched()
    async with SessionHost("/sessions", disk=disk, offload=at_once) as host:
        session = await host.create("s")
        began = anyio.current_time()
        for number in range(1000):
            await session.append_message("user", f"message {number}")
            assert disk.entries == number + 1
            assert f"message {number}" in disk.text("/sessions/s.jsonl")
            await anyio.sleep(0.02)
        lasted = anyio.current_time() - began
        assert lasted == pytest.approx(20)
        await anyio.sleep(30)
        assert 4 <= len(disk.index) <= 6
        assert disk.index[0] - began == pytest.approx(1.0)
        gaps = [later - earlier for earlier, later in zip(disk.index, disk.index[1:], strict=False)]
        assert min(gaps) >= 5.0
        written = len(disk.index)
        await anyio.sleep(3600)
        assert len(disk.index) == written  # nothing changed, nothing is written
        assert '"message_count":1000' in disk.text(INDEX)
    assert len(disk.index) == written


@pytest.mark.feature("N-125", "N-133")
@pytest.mark.parametrize("debounce_ms", [0, 250, 4000])
async def test_after_a_turn_the_index_is_written_once_when_the_setting_says(debounce_ms: int) -> None:
    disk = Watched()
    settings = Settings(debounce_ms=debounce_ms, update_metadata_interval_ms=0)
    async with SessionHost("/sessions", disk=disk, offload=at_once, settings=settings) as host:
        session = await host.create("s")
        began = anyio.current_time()
        await session.append_message("user", "Read it")
        await session.append_message("assistant", "It says so.")
        await session.append_tool_execution("c", "read", {}, "text")
        assert disk.index == []
        assert disk.entries == 3
        await anyio.sleep(60)
        assert [at - began for at in disk.index] == [pytest.approx(debounce_ms / 1000)]


@pytest.mark.feature("N-126")
async def test_what_the_interval_holds_back_is_written_when_the_host_closes() -> None:
    disk = Watched()
    settings = Settings(debounce_ms=3_600_000, update_metadata_interval_ms=3_600_000)
    async with SessionHost("/sessions", disk=disk, offload=at_once, settings=settings) as host:
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


async def test_a_session_that_is_written_to_meanwhile_is_not_read_for_its_line() -> None:
    disk, read, growing = Watched(), list[str](), False
    opened = disk.open

    def note(path: str, flags: int) -> int:
        if path.endswith("s.jsonl") and flags & os.O_ACCMODE == os.O_RDONLY:
            read.append(path)
        return opened(path, flags)

    async def offload(fn: Callable[[*Ts], T], *args: *Ts) -> T:
        if growing:
            await session.append_message("user", "meanwhile")
        return fn(*args)

    disk.open = note  # type: ignore[method-assign]
    async with SessionHost("/sessions", disk=disk, offload=offload) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        read.clear()
        growing = True
        await anyio.sleep(50)
        assert disk.entries > 5
        assert (disk.index, read) == ([], [])
        await host.flush()  # whoever asks for it gets it, whatever it costs
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
async def test_an_answer_is_in_the_file_at_once_and_has_the_index_written_if_the_setting_says_so(
    setting: dict[str, bool], is_written: bool
) -> None:
    disk = Watched()
    async with SessionHost("/sessions", disk=disk, offload=at_once, settings=Settings.load(setting)) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        await anyio.sleep(60)
        before = len(disk.index)
        made = await session.append_message("assistant", "Good day")
        assert made in disk.text("/sessions/s.jsonl")
        await anyio.sleep(60)
        assert len(disk.index) - before == is_written
        await session.append_message("user", "and now?")
        await anyio.sleep(60)
        assert len(disk.index) - before == 1 + is_written
    assert '"message_count":3' in disk.text(INDEX)


@pytest.mark.feature("N-124")
@pytest.mark.parametrize(("setting", "is_written"), [(True, True), (False, False)])
async def test_a_tools_run_is_in_the_file_at_once_and_has_the_index_written_if_the_setting_says_so(
    setting: bool, is_written: bool
) -> None:
    disk = Watched()
    settings = Settings(save_after_tool_execution=setting)
    async with SessionHost("/sessions", disk=disk, offload=at_once, settings=settings) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        await anyio.sleep(60)
        before = len(disk.index)
        record = (await session.append_tool_execution("c", "read", {"path": "a"}, "text"))[1]
        assert record in disk.text("/sessions/s.jsonl")
        await anyio.sleep(60)
        # The result that the model sees is a message, which has the index written whatever is set.
        assert len(disk.index) - before == 1
        (entry,) = await session.tool_executions()
        await session.append(entry.tool_execution)
        await anyio.sleep(60)
        assert len(disk.index) - before == 1 + is_written
    assert '"message_count":2' in disk.text(INDEX)


@pytest.mark.feature("N-125")
async def test_a_disk_that_refuses_is_asked_again_when_something_happens_and_not_all_the_time() -> None:
    inner = Watched()
    disk = FaultyDisk(inner)
    async with SessionHost("/sessions", disk=disk, offload=at_once) as host:
        session = await host.create("s")
        await session.append_message("user", "first")
        refused = disk.fail("open", ENOSPC, path=f"{INDEX}*", times=None)
        await anyio.sleep(3600)
        assert refused.hits <= 2
        refused.lift()
        await session.append_message("user", "second")
        await anyio.sleep(10)
        assert '"message_count":2' in inner.text(INDEX)


async def test_a_save_that_is_broken_off_is_made_up_for_when_the_host_closes() -> None:
    disk = Watched()
    began = anyio.Event()

    async def slowly(fn: Callable[[*Ts], T], *args: *Ts) -> T:
        began.set()
        await anyio.sleep(1)
        return fn(*args)

    async with SessionHost("/sessions", disk=disk, offload=slowly) as host:
        session = await host.create("s")
        await session.append_message("user", "Hello")
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                began = anyio.Event()
                tasks.start_soon(host.flush)
                await began.wait()
                scope.cancel()
        assert disk.index == []
    assert '"message_count":1' in disk.text(INDEX)


# -- what goes wrong beside a program


async def test_a_bug_in_the_index_does_not_end_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def buggy(*_: object) -> None:
        asked.append(anyio.current_time())
        raise ValueError("a bug")

    disk = Watched()
    settings = Settings(debounce_ms=0, update_metadata_interval_ms=0)
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(FileListing, "remembered", buggy)
        async with SessionHost("/sessions", disk=disk, offload=at_once, settings=settings) as host:
            session = await host.create("s")
            await session.append_message("user", "Hello")
            await anyio.sleep(3600)
            waits = [later - earlier for earlier, later in pairwise(asked)]
            assert waits[:7] == pytest.approx([1, 2, 4, 8, 16, 32, 60])
            assert max(waits) == pytest.approx(60)
            patch.undo()
            await anyio.sleep(60)
            assert '"id":"s"' in disk.text(INDEX)
            patch.setattr(FileListing, "remembered", buggy)
            await session.append_message("user", "Hello again")
        assert disk.entries == 2  # it closes in order, too
    failures = [(each["work"], each["error"]) for each in logs if each["event"] == "background_failed"]
    assert failures == [("index", "ValueError")] * len(asked)


async def test_what_is_known_of_passivated_sessions_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    writers: list[IndexWriter] = []
    run = IndexWriter.run

    async def noted(writer: IndexWriter) -> None:
        writers.append(writer)
        await run(writer)

    monkeypatch.setattr(IndexWriter, "run", noted)
    settings = Settings(save_after_assistant_message=False)
    async with SessionHost("/sessions", disk=MemoryDisk(), offload=at_once, settings=settings) as host:
        sessions = [await host.create(f"s{number}") for number in range(20)]
        for session in sessions:
            await session.append_message("user", "Hello")
            await host.flush()
            await session.passivate()
        await sessions[0].append_message("user", "again")
        await host.flush()
        (writer,) = writers
        assert len(writer._heads) == 1  # pyright: ignore[reportPrivateUsage]  # nothing else tells of the memory
