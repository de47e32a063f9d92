"""Idle sessions are passivated: they hold no task and no file, and come back unchanged."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple
from weakref import ref

import anyio
import pytest
import trio.testing
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from treering import Limits, Session, SessionHost, SessionLocked
from treering.entries import CustomEntry
from treering.events.stores.base import Lease
from treering.events.stores.memory import MemoryStore
from treering.testing.disks import FaultyDisk, MemoryDisk

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MANY = [1_000, pytest.param(10_000, marks=pytest.mark.soak)]
"""So many that any task or file that is kept for a session is noticed; ten thousand take seconds."""
PATIENCE_S = 600
ON_TRIO_IN_VIRTUAL_TIME = pytest.param(
    ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}), id="trio-virtual"
)


async def run_inline(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Run blocking work on the spot: an offload that uses no threads."""
    return fn(*args)


async def state_of(session: Session) -> tuple[bytes, str | None, list[str]]:
    return (await session.log()).index.dump(), session.leaf_id, session.path()


async def create_session(host: SessionHost, number: int) -> Session:
    """Create a session; in one of ten, the leaf is moved after the last append."""
    session = await host.create()
    first = await session.append_custom_entry("note", number)
    if number % 10 == 0:
        await session.set_label(first, "first")
        await session.branch(first)
    return session


@pytest.mark.feature("X-3")
@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("many", MANY)
@pytest.mark.parametrize("anyio_backend", [ON_TRIO_IN_VIRTUAL_TIME])
async def test_thousands_of_idle_sessions_hold_no_task_and_no_file(
    anyio_backend: tuple[str, dict[str, Any]], many: int
) -> None:
    disk = MemoryDisk()
    limits = Limits(live_max=2 * many, idle_after_s=60)
    async with SessionHost("/sessions", disk=disk, limits=limits, offload=run_inline) as host:
        tasks = len(anyio.get_running_tasks())
        sessions = [await create_session(host, number) for number in range(many)]
        before = [await state_of(session) for session in sessions]
        assert host.statistics().live == many
        assert disk.open_files > 0

        await anyio.sleep(2 * limits.idle_after_s + 1)
        assert host.statistics().live == 0
        assert host.statistics().passivated == many
        assert len(anyio.get_running_tasks()) == tasks
        assert disk.open_files == 0

        for session, expected in zip(sessions, before, strict=True):
            assert await state_of(session) == expected
        assert host.statistics().live == 0, "a read locks nothing"
        assert len(anyio.get_running_tasks()) == tasks

        for session in sessions[:100]:
            await session.append_custom_entry("note", "awake again")
        assert host.statistics().live == 100


@pytest.mark.feature("X-3")
async def test_an_idle_session_holds_no_task_and_no_file_on_any_loop() -> None:
    disk = MemoryDisk()
    async with SessionHost("/sessions", disk=disk, offload=run_inline) as host:
        tasks = len(anyio.get_running_tasks())
        sessions = [await create_session(host, number) for number in range(100)]
        async with anyio.create_task_group() as group:  # concurrent appends go through the mailbox
            for session in sessions:
                group.start_soon(session.append_custom_entry, "note", 1)
                group.start_soon(session.append_custom_entry, "note", 2)
        before = [await state_of(session) for session in sessions]
        await host.flush()
        assert await host.passivate_idle() == 100
        await anyio.wait_all_tasks_blocked()
        assert len(anyio.get_running_tasks()) == tasks
        assert disk.open_files == 0
        assert [session.path() for session in sessions] == [path for _, _, path in before]
        assert host.statistics().live == 0
        assert [await state_of(session) for session in sessions] == before


async def test_the_least_recently_used_sessions_are_passivated_beyond_the_bound() -> None:
    async with SessionHost(limits=Limits(live_max=3)) as host:
        sessions = [await create_session(host, number) for number in range(6)]
        assert host.statistics().live == 3
        assert {each.session_id for each in host.statistics().sessions} == {each.id for each in sessions[3:]}
        assert [session.message_count for session in sessions] == [0] * 6
        assert [len(session.path()) for session in sessions] == [1] * 6


async def test_a_busy_session_is_not_passivated() -> None:
    disk = FaultyDisk(MemoryDisk())
    async with SessionHost("/sessions", disk=disk, writes="thread") as host:
        session = await host.create()
        await session.append_custom_entry("note", 1)
        stall = disk.stall("write", path="*.jsonl")
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.append_custom_entry, "note", 2)
                assert await anyio.to_thread.run_sync(stall.wait)
                assert not await session.passivate()
                assert host.statistics().live == 1
                stall.lift()
        finally:
            stall.lift()
        assert await session.passivate()
        assert len(session.path()) == 2


async def test_a_session_whose_passivation_fails_does_not_keep_others_live() -> None:
    class FailingRelease(MemoryStore):
        async def release(self, leases: Sequence[Lease]) -> None:
            await super().release(leases)
            if "first" in leases[0].ref:
                raise ValueError("a bug in a store")

    with capture_logs() as logs:
        async with SessionHost(store=FailingRelease()) as host:
            for name in ("first", "second", "third"):
                await (await host.create(name)).append_custom_entry("note", 1)
            assert await host.passivate_idle() == 2
            assert host.statistics().live == 0
            assert (await host.load("first")).message_count == 0
    assert [(each["event"], each["session_id"]) for each in logs] == [("passivation_failed", "first")] * 2


class WatchedText(str):
    """A text to which there may be a weak reference."""

    __slots__ = ("__weakref__",)


async def test_a_passivated_session_keeps_no_text_that_is_over() -> None:
    async with SessionHost() as host:
        session = await host.create()
        piece = WatchedText("done")
        session.emit_text("answer", piece, message="m")
        kept = ref(piece)
        del piece
        await session.append_message("assistant", "done")
        assert await session.passivate()
        gc.collect()
        assert kept() is None


async def test_another_host_can_use_a_passivated_session() -> None:
    disk = MemoryDisk()
    async with (
        SessionHost("/sessions", disk=disk, offload=run_inline) as host,
        SessionHost("/sessions", disk=disk, offload=run_inline) as other,
    ):
        session = await host.create("shared")
        await session.append_custom_entry("note", 1)
        with pytest.raises(SessionLocked):
            await other.load("shared")
        await session.passivate()
        elsewhere = await other.load("shared")
        await elsewhere.append_custom_entry("note", 2)
        with pytest.raises(SessionLocked):
            await session.append_custom_entry("note", 3)
        await elsewhere.passivate()
        assert len(session.path()) == 2
        await session.append_custom_entry("note", 3)
        assert len(session.path()) == 3


async def test_a_command_waits_for_a_session_that_another_process_has_locked() -> None:
    disk = MemoryDisk()
    patient, hasty = Limits(locked_wait_s=3600), Limits(locked_wait_s=0.01)
    async with (
        SessionHost("/sessions", disk=disk, offload=run_inline) as host,
        SessionHost("/sessions", disk=disk, offload=run_inline, limits=patient) as other,
        SessionHost("/sessions", disk=disk, offload=run_inline, limits=hasty) as third,
        anyio.create_task_group() as tasks,
    ):
        session = await host.get_or_create("shared")
        await session.append_custom_entry("note", 1)
        waiting, refused = await other.find_by_key("shared"), await third.find_by_key("shared")  # at once
        assert waiting is not None
        assert refused is not None
        with pytest.raises(SessionLocked):
            await refused.append_custom_entry("note", 2)
        tasks.start_soon(waiting.append_custom_entry, "note", 2)
        await anyio.wait_all_tasks_blocked()
        await session.append_custom_entry("note", 3)
        await session.passivate()
        await waiting.append_custom_entry("note", 4)
        assert [each.custom.data for each in await waiting.entries() if isinstance(each, CustomEntry)] == [1, 3, 2, 4]


# -- the leaf


RESTART = """
import anyio, sys
from treering import SessionHost

async def main():
    root, command = sys.argv[1:3]
    async with SessionHost(root) as host:
        session = await host.open("s")
        if command == "make":
            first = await session.append_message("user", "one")
            await session.append_message("assistant", "two")
            await session.append_message("user", "aside", below=first, aside=True)
            await session.branch(first)
        print(session.leaf_id)
        if command == "reset":
            await session.reset_leaf()

anyio.run(main)
"""


def in_another_process(root: Path, command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RESTART, str(root), command], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.feature("X-4")
async def test_the_leaf_survives_passivation(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("s")
        first = await session.append_message("user", "one")
        last = await session.append_message("assistant", "two")
        await session.append_message("user", "aside", below=first, aside=True)
        log = tmp_path / "s.jsonl"
        written = log.read_bytes()

        await session.branch(first)
        await session.append_message("user", "aside", below=last, aside=True)
        written = log.read_bytes()
        assert session.leaf_id == first
        assert await session.passivate()
        assert session.leaf_id == first  # read from the leaf record
        await session.refresh()
        assert session.leaf_id == first  # the session is live again
        await session.reset_leaf()
        assert await session.passivate()
        assert session.leaf_id is None
        await session.refresh()
        assert session.leaf_id is None
        assert log.read_bytes() == written

        assert await session.passivate()
        (tmp_path / "s.jsonl.leaf").unlink()
        assert session.leaf_id == last
        await session.refresh()
        assert session.leaf_id == last
        assert log.read_bytes() == written


@pytest.mark.feature("X-4")
def test_the_leaf_survives_a_restart(tmp_path: Path) -> None:
    first = in_another_process(tmp_path, "make")
    written = (tmp_path / "s.jsonl").read_bytes()
    lines = written.splitlines()
    assert len(lines) == 4
    assert f'"id":"{first}"'.encode() in lines[1]

    assert in_another_process(tmp_path, "reset") == first
    assert in_another_process(tmp_path, "look") == "None"
    (tmp_path / "s.jsonl.leaf").unlink()
    assert f'"id":"{in_another_process(tmp_path, "look")}"'.encode() in lines[2]
    assert (tmp_path / "s.jsonl").read_bytes() == written


# -- file handles


ROUND_ROBIN = """
import os, resource, sys, anyio
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
most = 256 if hard == resource.RLIM_INFINITY else min(256, hard)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
from treering import Limits, SessionHost

async def run_inline(fn, *args):
    return fn(*args)

async def main():
    root, count = sys.argv[1], int(sys.argv[2])
    async with SessionHost(root, limits=Limits(live_max=2 * count), offload=run_inline) as host:
        first = await host.create("first")
        await first.append_custom_entry("turn", 0)
        await host.passivate_idle()
        files, tasks = os.listdir("/dev/fd"), len(anyio.get_running_tasks())
        sessions = [await host.create(f"s{number}") for number in range(count)]
        for turn in range(2):
            for session in sessions:
                await session.append_custom_entry("turn", turn)
        print(host.statistics().live, await host.passivate_idle())
        print(os.listdir("/dev/fd") == files, len(anyio.get_running_tasks()) == tasks)

anyio.run(main)
"""


@pytest.mark.feature("X-5")
@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("many", MANY)
def test_thousands_of_sessions_work_with_256_file_descriptors(tmp_path: Path, many: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ROUND_ROBIN, str(tmp_path), str(many)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout.split()) == (0, [str(many), str(many), "True", "True"]), done.stderr
    (tmp_path / "first.jsonl").unlink()
    logs = list(tmp_path.glob("*.jsonl"))
    assert len(logs) == many
    for log in logs:
        _, first, second = log.read_bytes().splitlines()
        assert first.endswith(b'"data":0}}')
        assert second.endswith(b'"data":1}}')


async def test_a_session_can_be_read_after_its_file_was_replaced_while_others_passivate_it(tmp_path: Path) -> None:
    async with SessionHost(tmp_path, dialect="pi") as host:
        session = await host.create("main")
        for number in range(3):
            await session.append_message("user", str(number))
        path = tmp_path / session.ref
        lines = path.read_bytes().splitlines(keepends=True)

        async def passivate_repeatedly() -> None:
            for _ in range(20):
                await host.passivate_idle()
                await checkpoint()

        for count in (2, 3, 1):
            other = path.with_suffix(".tmp")
            other.write_bytes(b"".join(lines[: count + 1]))
            other.replace(path)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(passivate_repeatedly)
                assert len(await session.entries()) == count
