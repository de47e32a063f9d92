"""How long hosts, sessions and their open files live, and what closing them does."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest

from treering import HostClosed, InvalidInput, SessionClosed, SessionHost
from treering.actors.catalog.catalog import Catalog
from treering.errors import Closed, WrongThread
from treering.events.disk import OsDisk
from treering.testing.disks import FaultyDisk


class CountingDisk(FaultyDisk):
    """Records which files are opened for appending."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.opened: list[str] = []

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        if flags & os.O_APPEND:
            self.opened.append(path)
        return fd


@pytest.mark.feature("G-77")
async def test_ten_thousand_appends_open_the_file_once(tmp_path: Path) -> None:
    disk = CountingDisk()
    async with SessionHost(tmp_path, disk=disk, writes="inline") as host:
        session = await host.create("s")
        for number in range(10_000):
            await session.append_custom_entry("note", number)
        assert disk.opened == [str(tmp_path / "s.jsonl")]
        assert session.cursor.seq == 10_000


@pytest.mark.feature("G-102")
async def test_close_flushes_and_a_later_append_is_refused(tmp_path: Path) -> None:
    disk = FaultyDisk(OsDisk())
    log = tmp_path / "s.jsonl"
    async with SessionHost(tmp_path, disk=disk, durability="file") as host:
        session = await host.create("s")
        await session.append_message("user", "one")
        other_handle = await host.load("s")
        stall = disk.stall("datasync", path="*.jsonl")
        closed = anyio.Event()

        async def close() -> None:
            await session.close()
            closed.set()

        try:
            async with anyio.create_task_group() as tasks:
                for number in range(10):
                    tasks.start_soon(session.append_message, "user", str(number))
                assert await anyio.to_thread.run_sync(stall.wait)
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(close)
                await anyio.wait_all_tasks_blocked()
                assert not closed.is_set()
                stall.lift()
                await closed.wait()
                assert len(log.read_bytes().splitlines()) == 12
        finally:
            stall.lift()

        lines = log.read_bytes()
        with pytest.raises(SessionClosed):
            await session.append_message("user", "late")
        with pytest.raises(Closed):
            await session.branch(other_handle.path()[0])
        with pytest.raises(Closed):
            await session.context()
        with pytest.raises(Closed):
            session.path()
        with pytest.raises(Closed):
            _ = session.leaf_id
        await session.close()
        assert log.read_bytes() == lines
        await other_handle.append_message("user", "the other handle goes on")
        assert other_handle.message_count == 12
    with pytest.raises(HostClosed):
        await other_handle.append_message("user", "late")
    with pytest.raises(HostClosed):
        await host.create()
    assert len(log.read_bytes().splitlines()) == 13


# -- entering a host


async def test_a_host_cannot_be_entered_twice(tmp_path: Path) -> None:
    host = SessionHost(tmp_path)
    async with host:
        session = await host.create("s")
        with pytest.raises(HostClosed, match="used only once"):
            await host.__aenter__()
        await session.append_message("user", "the open host still works")
    with pytest.raises(HostClosed, match="a host can be used only once: create another one"):
        await host.__aenter__()


async def test_a_host_can_be_entered_once_its_root_is_no_longer_a_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.write_text("a file")
    host = SessionHost(root)
    with pytest.raises(InvalidInput, match="is not a directory"):
        await host.__aenter__()
    root.unlink()
    async with host:
        await (await host.create("s")).append_message("user", "Hello")


async def test_a_host_that_fails_to_open_leaves_no_cancel_scope_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Catalog, "__init__", fail)
    with anyio.CancelScope() as scope:  # leaving it raises if a task group inside it is still entered
        with pytest.raises(ZeroDivisionError):
            await SessionHost().__aenter__()
        scope.cancel()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_host_with_signals_is_refused_outside_the_main_thread(backend: str) -> None:
    async def enter() -> None:
        async with SessionHost(signals=True):
            pytest.fail("the host was entered")

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(lambda: anyio.run(enter, backend=backend))
        with pytest.raises(WrongThread, match="signals reach only the main thread"):
            done.result(60)
