"""After archiving or unarchiving was interrupted at any point, the session exists completely and once."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from random import Random

import pytest

from treering import SessionHost
from treering.errors import AppendError
from treering.events.disk import Disk
from treering.events.stores.files import Durability, FileStore
from treering.testing.disks import FaultyDisk, MemoryDisk, RecordingDisk
from treering.testing.disks.crashes import digest
from treering.testing.disks.faulty import UnwellDisk
from treering.testing.simulation import check_file, run
from treering.testing.simulation.determinism import AtOnce, SeededIds, VirtualClock

from ..sampling import each_with_one
from ..stores.logs import DyingDisk, Killed, killed, own

ROOT = "/data/sessions"
PATH = f"{ROOT}/a.jsonl"
_seeds = count()
DURABILITIES: list[Durability] = ["os", "file", "group"]


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.settle()
    return disk


def host_on(disk: Disk, durability: Durability) -> SessionHost:
    random, offload = Random(next(_seeds)), AtOnce()
    store = FileStore(ROOT, durability=durability, disk=disk, offload=offload)
    return SessionHost(store=store, offload=offload, clock=VirtualClock(random), new_id=SeededIds(random))


async def create_session(disk: Disk, durability: Durability) -> list[str]:
    async with host_on(disk, durability) as host:
        session = await host.create("a")
        for number in range(3):
            await session.append_message("user", f"{number} " + "x" * 300)
        await session.branch(session.path()[0])
        return [entry.id or "" for entry in await session.entries()]


async def archive_and_unarchive(disk: Disk, durability: Durability) -> None:
    async with host_on(disk, durability) as host:
        await host.archive("a")
        await host.unarchive("a")


async def open_and_append(disk: Disk, durability: Durability) -> tuple[list[str], str | None]:
    """Open what the crash left, append to it, and return the ids of its messages and its status."""
    async with host_on(disk, durability) as host:
        (row,) = await host.list_sessions(status="any")
        reader = await host.load("a", read_only=True)
        ids = [entry.id or "" for entry in await reader.entries() if entry.type == "message"]
        session = await host.load("a")
        await session.append_message("user", "after")
        after = [entry.id or "" for entry in await session.entries() if entry.type == "message"]
        assert after[:-1] == ids
        assert [each.id for each in await host.list_sessions()] == ["a"]
        return ids, row.status


async def unpack_with_lease(disk: Disk, durability: Durability) -> None:
    store = FileStore(ROOT, durability=durability, disk=disk, offload=AtOnce())
    await store.unpack((await own(store)).lease)
    await store.aclose()


def forms(disk: MemoryDisk) -> list[str]:
    return sorted(path for path in disk.files() if path.startswith(PATH) and path.endswith((".jsonl", ".zst", ".gz")))


@pytest.mark.feature("N-45")
@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_power_cut_while_archiving_or_unarchiving_leaves_the_complete_session(durability: Durability) -> None:
    memory = new_disk()
    ids = run(0, create_session, memory, durability)
    memory.settle()
    disk = RecordingDisk(memory)
    run(0, archive_and_unarchive, disk, durability)
    statuses: set[str | None] = set()
    for left in disk.crash_states():
        assert forms(left), "the session is gone"
        kept, status = run(0, open_and_append, left, durability)
        assert kept == ids
        assert forms(left) == [PATH]
        check_file(left.files()[PATH], PATH)
        statuses.add(status)
    assert statuses == {"active", "archived"}


class OpeningDisk(DyingDisk):
    """A disk whose process may also be killed before a call that opens a file."""

    changes = (*DyingDisk.changes, "open")

    def __init__(self, inner: Disk, left: int) -> None:
        super().__init__(inner, left)
        self.begun: list[str] = []

    def _begin(self, call: str, *paths: str) -> object:  # type: ignore[override]
        if call in self.changes:
            self.begun.append(call)
        return super()._begin(call, *paths)


async def pack_until_killed(disk: Disk, durability: Durability) -> bool:
    try:
        store = FileStore(ROOT, durability=durability, disk=disk, offload=AtOnce())
        await store.pack((await own(store)).lease)
        assert (await store.unpack((await own(store)).lease)).head.seq == 3
    except Killed:
        return True
    return False


def sample(calls: list[str], durability: Durability) -> list[int]:
    """Return the place of one call of each kind, another for each durability, and the end."""
    chance = Random(durability)
    places = [[place for place, call in enumerate(calls) if call == kind] for kind in sorted({*calls})]
    return [*map(chance.choice, places), len(calls)]


@pytest.mark.parametrize(
    ("durability", "whole"),
    [("file", False), ("group", False), *(pytest.param(each, True, marks=pytest.mark.soak) for each in DURABILITIES)],
)
def test_a_kill_at_any_disk_call_and_a_power_cut_during_recovery_leave_the_complete_session(
    durability: Durability, whole: bool
) -> None:
    initial = new_disk()
    ids = run(0, create_session, initial, durability)
    initial.settle()
    counting = OpeningDisk(MemoryDisk(initial.image.copy()), sys.maxsize)
    assert not run(0, pack_until_killed, counting, durability)
    calls = counting.begun
    assert {*calls} == {*OpeningDisk.changes} - {"truncate", "make_directory"}
    seen: set[bytes] = set()
    for changes in range(len(calls) + 1) if whole else sample(calls, durability):
        memory = MemoryDisk(initial.image.copy())
        was_killed = run(0, pack_until_killed, OpeningDisk(memory, changes), durability)
        assert was_killed is (changes < len(calls))
        disk = RecordingDisk(killed(memory))
        run(0, unpack_with_lease, disk, durability)
        states = {digest(left.image): left for left in (*disk.crash_states(), memory.crash(keep_unsynced=True))}
        for left in [states[key] for key in states.keys() - seen]:
            assert run(0, open_and_append, left, durability)[0] == ids
            assert forms(left) == [PATH]
        seen |= states.keys()


@pytest.mark.parametrize("call", ["open", "write", "datasync", "rename", "unlink", "sync_directory"])
@pytest.mark.parametrize("which", ["archive", "unarchive"])
def test_after_a_disk_error_the_session_is_complete_and_can_be_archived_again(call: str, which: str) -> None:
    failed: list[str] = []

    async def fail_once(memory: MemoryDisk, nth: int) -> None:
        ids = await create_session(memory, "os")
        disk = FaultyDisk(memory)
        async with host_on(disk, "os") as host:
            if which == "unarchive":
                await host.archive("a")
            action = host.archive if which == "archive" else host.unarchive
            fault = disk.fail(call, errno.ENOSPC, path=f"{PATH}*" if call != "sync_directory" else ROOT, nth=nth)
            try:
                await action("a")
            except (OSError, AppendError):
                assert forms(memory)
            disk.heal()
            if fault.hits:
                failed.append(call)
            reader = await host.load("a", read_only=True)
            assert [entry.id for entry in await reader.entries() if entry.type == "message"] == ids
            await host.archive("a")
            await host.unarchive("a")
        assert (await open_and_append(memory, "os"))[0] == ids
        assert forms(memory) == [PATH]

    for nth in (1, 2, 3):
        run(0, fail_once, new_disk(), nth)
    assert failed


async def pack(host: SessionHost) -> None:
    await host.archive("a")


async def copy(host: SessionHost) -> None:
    await (await host.load("a")).fork("copy")


async def replace_archived(host: SessionHost) -> None:
    async with SessionHost() as elsewhere:
        another = await elsewhere.create("a")
        await another.append_message("user", "new")
        await host.put(another, replace=True)


PACKED, COPY = f"{PATH}.*tmp-*", f"{ROOT}/copy.jsonl"
REFUSALS: list[tuple[Callable[[SessionHost], Awaitable[None]], str, str, int, str]] = [
    *((pack, PACKED, call, errno.ENOSPC, "free some space, then archive") for call in ("open", "write", "datasync")),
    *((pack, PACKED, call, errno.EDQUOT, "free some space, then archive") for call in ("open", "write", "datasync")),
    *((pack, PACKED, call, errno.EIO, "fix that, then archive") for call in ("open", "write", "datasync")),
    (pack, PATH, "datasync", errno.EIO, "fix that, then archive"),
    *((copy, f"{COPY}*", call, errno.ENOSPC, "free some space, then write") for call in ("write", "datasync")),
    (replace_archived, f"{PATH}*", "write", errno.ENOSPC, ""),
]


@pytest.mark.parametrize(("act", "path", "call", "number", "advice"), REFUSALS)
def test_the_error_of_a_session_that_cannot_be_written_names_its_file_and_says_what_to_do(
    act: Callable[[SessionHost], Awaitable[None]], path: str, call: str, number: int, advice: str
) -> None:
    async def fail_once(memory: MemoryDisk) -> None:
        await create_session(memory, "os")
        disk = FaultyDisk(memory)
        async with host_on(disk, "os") as host:
            if act is replace_archived:
                await host.archive("a")
            disk.fail(call, number, path=path)
            wanted = f"{advice} the session again" if advice else os.strerror(number)
            with pytest.raises(OSError, match=wanted) as caught:
                await act(host)
            assert (caught.value.errno, caught.value.filename) == (number, COPY if act is copy else PATH)
            await act(host)

    run(0, fail_once, new_disk())


CALLS = ("open", "stat", "fstat", "pread", "write", "datasync", "rename", "unlink", "sync_directory", "close")


@pytest.mark.parametrize(("call", "durability"), each_with_one(CALLS, DURABILITIES))
def test_after_a_disk_error_an_append_to_an_archived_session_can_be_repeated(call: str, durability: Durability) -> None:
    async def append_after_error(memory: MemoryDisk, nth: int) -> bool:
        await create_session(memory, durability)
        disk = FaultyDisk(memory)
        async with host_on(disk, durability) as host:
            session = await host.load("a")
            await host.archive(session)
            before = [entry.id for entry in await session.entries()]
            fault = disk.fail(call, errno.EIO, path=f"{PATH}*" if call != "sync_directory" else ROOT, nth=nth)
            with suppress(AppendError):
                await session.append_message("user", "first")
            disk.heal()
            last = await session.append_message("user", "second")
            after = [entry.id for entry in await session.entries()]
            assert after[: len(before)] == before
            assert after[-1] == last
        assert forms(memory) == [PATH]
        return fault.hits > 0

    hits = 0
    while run(0, append_after_error, new_disk(), hits + 1):
        hits += 1
    assert hits


def test_bytes_that_archiving_could_not_flush_are_written_again() -> None:
    async def fail_to_archive(memory: MemoryDisk) -> None:
        disk = UnwellDisk(memory, Random(0), lambda _: None)
        async with host_on(disk, "os") as host:
            session = await host.create("a")
            await session.append_message("user", "one")
            disk.chances = {"datasync": 1.0}
            with pytest.raises(OSError, match="archive the session again"):
                await host.archive(session)
            disk.heal()
            await session.append_message("user", "two")

    memory = new_disk()
    run(0, fail_to_archive, memory)
    content = memory.files()[PATH]
    memory.settle()
    for state in memory.crash_states():
        assert state.files()[PATH] == content
