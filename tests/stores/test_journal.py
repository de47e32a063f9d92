"""The journal of durability "group": it restores what a power cut takes away, and changes nothing else."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from random import Random

import anyio
import msgspec
import pytest

from treering.events.disk import Disk, OsDisk
from treering.events.errors import AppendFailed, AppendInDoubt, InvalidInput
from treering.events.stores.base import Fenced, InDoubt, Lease
from treering.events.stores.files import FileStore
from treering.events.stores.files.locks import Held
from treering.events.stores.files.private_locks import PrivateLocks
from treering.testing.disks import FaultyDisk, MemoryDisk, RecordingDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.simulation.unwell import UnwellDisk
from treering.testing.stores.case import NATIVE, Writer, bare, header_of, line, lines, read_all

ROOT = "/s"
HEADER = NATIVE.encode_header(header_of("id-of-a.jsonl"))
PI_HEADER = b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}\n'
JOURNALS = f"{ROOT}/.treering/journal/"


def open_store(disk: Disk, *, journal_max_bytes: int = 1 << 20) -> FileStore:
    return FileStore(ROOT, durability="group", disk=disk, offload=AtOnce(), journal_max_bytes=journal_max_bytes)


async def begin_on_unwell_disk() -> tuple[MemoryDisk, UnwellDisk, FileStore, Writer]:
    """Own a log with one line, on a disk that works until its fault chances are set; the first disk is below it."""
    memory = MemoryDisk()
    disk = UnwellDisk(memory, Random(0), lambda what: None)
    store = open_store(disk)
    writer = await own(store)
    await writer.append(line(1))
    return memory, disk, store, writer


async def own(store: FileStore, name: str = "a.jsonl") -> Writer:
    [lease] = await store.acquire([name], "me")
    assert isinstance(lease, Lease)
    return Writer(store, lease)


async def resolve_writer(writer: Writer) -> Writer:
    """Resolve the log, and return a writer that continues from there."""
    head = await writer.store.resolve(writer.lease)
    lease = msgspec.structs.replace(writer.lease, head=head, header=header_of("a"))
    return Writer(writer.store, lease)


async def attempt(writer: Writer, *written: bytes) -> object:
    [outcome] = await writer.store.append([writer.request(*written)])
    return outcome


def logs_of(disk: MemoryDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.files().items() if path.endswith(".jsonl")}


def journals_of(disk: MemoryDisk) -> list[str]:
    return [path for path in disk.files() if path.startswith(JOURNALS)]


async def recover(disk: Disk, *names: str) -> None:
    """Acquire and release sessions, as the next host does."""
    store = open_store(disk)
    try:
        for name in names or ("a.jsonl",):
            await own(store, name)
    finally:
        await store.aclose()


def put_file(disk: MemoryDisk, path: str, data: bytes) -> None:
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    disk.write(fd, data)
    disk.close(fd)


@asynccontextmanager
async def after_power_cut(count: int = 3) -> AsyncGenerator[tuple[MemoryDisk, bytes]]:
    """Yield what a power cut leaves of a session if only flushed data survives, and the complete file."""
    disk = MemoryDisk()
    store = open_store(disk)
    writer = await own(store)
    for number in range(1, count + 1):
        await writer.append(line(number))
    yield disk.crash(), HEADER + b"".join(lines(1, count))
    await store.aclose()


# -- acknowledged lines


@pytest.mark.parametrize("script", ["a", "ab", "aab", "abab", "aaaa", "abba"])
async def test_no_power_cut_loses_an_acknowledged_line(script: str) -> None:
    disk = RecordingDisk()
    store = open_store(disk)
    writers: dict[str, Writer] = {}
    acknowledged: list[tuple[int, str, bytes]] = []
    for number, name in enumerate(script, 1):
        if name not in writers:
            writers[name] = await own(store, f"{name}.jsonl")
        await writers[name].append(line(number))
        acknowledged.append((len(disk.operations), f"{ROOT}/{name}.jsonl", line(number)))
    for writer in writers.values():
        await store.release([writer.lease])
    await store.aclose()
    states = 0
    for left in disk.crash_states():
        states += 1
        names = [f"{name}.jsonl" for name in set(script)]
        await recover(left, *names)
        found = logs_of(left)
        for moment, path, written in acknowledged:
            if moment <= left.cut_after:
                assert found[path].count(written) == 1
        for path, data in found.items():
            mine = [written for _, owner, written in acknowledged if owner == path]
            name = os.path.basename(path)
            assert (NATIVE.encode_header(header_of(f"id-of-{name}")) + b"".join(mine)).startswith(data)
        await recover(left, *names)
        assert logs_of(left) == found
        assert journals_of(left) == []
    assert states > len(script)


async def test_recovery_creates_a_missing_file() -> None:
    async with after_power_cut() as (disk, whole):
        disk.unlink(f"{ROOT}/a.jsonl")
        await recover(disk)
        assert logs_of(disk) == {f"{ROOT}/a.jsonl": whole}
        assert logs_of(disk.crash()) == logs_of(disk), "everything is flushed before the journal is deleted"


@pytest.mark.parametrize("kept", [0, 1, 50, len(HEADER), len(HEADER) + 1, len(HEADER) + 200, -1])
async def test_recovery_completes_a_torn_end(kept: int) -> None:
    async with after_power_cut() as (disk, whole):
        put_file(disk, f"{ROOT}/a.jsonl", whole[:kept])
        await recover(disk)
        assert logs_of(disk) == {f"{ROOT}/a.jsonl": whole}


@pytest.mark.parametrize("start", [0, len(HEADER), len(HEADER) + 150])
@pytest.mark.parametrize("more", [0, 512])
async def test_recovery_overwrites_zeros(start: int, more: int) -> None:
    async with after_power_cut() as (disk, whole):
        put_file(disk, f"{ROOT}/a.jsonl", whole[:start] + bytes(len(whole) - start + more))
        await recover(disk)
        assert logs_of(disk) == {f"{ROOT}/a.jsonl": whole}


async def test_recovery_fills_a_hole_before_lines_of_another_program() -> None:
    async with after_power_cut() as (disk, whole):
        put_file(disk, f"{ROOT}/a.jsonl", whole[:200] + bytes(len(whole) - 200) + line(9))
        await recover(disk)
        assert logs_of(disk) == {f"{ROOT}/a.jsonl": whole + line(9)}


async def test_recovery_appends_missing_lines_after_those_of_another_program_with_a_new_generation() -> None:
    async with after_power_cut() as (disk, whole):
        foreign = HEADER + line(1) + line(9, "x" * 300)
        put_file(disk, f"{ROOT}/a.jsonl", foreign)
        store = FileStore("/elsewhere", disk=disk, offload=AtOnce())
        before = (await store.open(f"{ROOT}/a.jsonl")).head
        await store.aclose()
        await recover(disk)
        assert whole != foreign
        assert logs_of(disk) == {f"{ROOT}/a.jsonl": foreign + line(2) + line(3)}
        store = open_store(disk)
        writer = await own(store)
        assert writer.head.generation != before.generation
        await writer.append(line(10))
        assert await read_all(store, "a.jsonl") == bare([line(1), line(9, "x" * 300), line(2), line(3), line(10)])
        await store.aclose()


async def test_unflushed_lines_of_an_earlier_process_survive_once_a_later_append_is_acknowledged() -> None:
    disk = MemoryDisk()
    store = FileStore(ROOT, disk=disk, offload=AtOnce())
    writer = await own(store)
    await writer.append(*lines(1, 2))
    await store.aclose()
    store = open_store(disk)
    writer = await own(store)
    await writer.append(line(3))
    left = disk.crash()
    await recover(left)
    assert logs_of(left) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, 3))}
    await store.aclose()


@pytest.mark.parametrize("cut", [1, 100, 250])
async def test_a_torn_end_of_the_journal_is_ignored(cut: int) -> None:
    async with after_power_cut() as (disk, _):
        [path] = journals_of(disk)
        data = disk.files()[path]
        put_file(disk, path, data[:-cut] + bytes(7))
        await recover(disk)
        whole = 2 - (cut > len(line(3)) + 80)
        assert logs_of(disk) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, whole))}
        assert journals_of(disk) == []


async def test_a_journal_of_a_newer_version_is_unchanged() -> None:
    disk = MemoryDisk()
    disk.make_directory(JOURNALS)
    path = f"{JOURNALS}x.journal"
    put_file(disk, path, b'{"format":"treering-journal","version":2,"nonce":"x"}\nwhatever\n')
    await recover(disk)
    assert journals_of(disk) == [path]


# -- recovery itself


class Killed(BaseException):
    """Ends the process."""


class DyingDisk(FaultyDisk):
    """A disk whose process is killed before its n-th change."""

    def __init__(self, inner: Disk, changes: int) -> None:
        super().__init__(inner)
        self._left = changes

    def _begin(self, call: str, *paths: str) -> object:  # type: ignore[override]
        if call in {"write", "truncate", "datasync", "sync_directory", "rename", "unlink", "make_directory"}:
            self._left -= 1
            if self._left < 0:
                raise Killed
        return super()._begin(call, *paths)


DAMAGE = {
    "missing": None,
    "torn": (HEADER + b"".join(lines(1, 3)))[:300],
    "zeroed": HEADER + line(1) + bytes(len(line(2)) + len(line(3))),
    "hole": HEADER + line(1) + bytes(len(line(2)) + len(line(3))) + line(9),
    "foreign": HEADER + line(1) + line(9, "x" * 300),
}


@pytest.mark.feature("X-27")
@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_recovery_that_was_killed_at_any_step_gives_the_same_bytes_when_repeated(damage: str) -> None:
    async with after_power_cut() as (disk, _):
        left = DAMAGE[damage]
        if left is not None:
            put_file(disk, f"{ROOT}/a.jsonl", left)
        disk.settle()
        uninterrupted = MemoryDisk(disk.image.copy())
        for _ in range(5):
            await recover(uninterrupted)
            assert journals_of(uninterrupted) == []
        expected = logs_of(uninterrupted)
        steps = 0
        for steps in range(1000):
            again = MemoryDisk(disk.image.copy())
            if not await dies_after(steps, again):
                break
            for survivor in (MemoryDisk(again.image.copy()), again.crash(), again.crash(keep_unsynced=True)):
                for _ in range(5):
                    await recover(survivor)
                    assert logs_of(survivor) == expected
                assert journals_of(survivor) == []
        assert steps > 3


async def dies_after(steps: int, disk: MemoryDisk) -> bool:
    """Recover, and be killed before a change; return False if there are fewer changes."""
    store = open_store(DyingDisk(disk, steps))
    try:
        await own(store)
    except Killed:
        return True
    return False


@pytest.mark.feature("X-27")
async def test_a_recovery_that_failed_at_any_call_is_repeated() -> None:
    async with after_power_cut() as (disk, whole):
        put_file(disk, f"{ROOT}/a.jsonl", whole[:300])
        for call in ("write", "datasync", "sync_directory", "unlink"):
            again = MemoryDisk(disk.image.copy())
            faulty = FaultyDisk(again)
            faulty.fail(call, errno.EIO)
            store = open_store(faulty)
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                await own(store)
            writer = await own(store)
            assert writer.head.seq == 3
            await store.aclose()
            assert logs_of(again)[f"{ROOT}/a.jsonl"] == whole


class LosingDisk(UnwellDisk):
    """A disk on which one flush of a file fails and loses what it should have saved."""

    def __init__(self, inner: MemoryDisk, nth: int) -> None:
        super().__init__(inner, Random(0), lambda what: None)
        self.left = nth

    def datasync(self, fd: int) -> None:
        self.left -= 1
        self.chances = {} if self.left else {"datasync": 1.0}
        super().datasync(fd)


@pytest.mark.feature("X-27")
@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_recovery_that_a_failed_flush_interrupted_is_durable_once_repeated(damage: str) -> None:
    async with after_power_cut() as (disk, _):
        left = DAMAGE[damage]
        if left is not None:
            put_file(disk, f"{ROOT}/a.jsonl", left)
        disk.settle()
        for nth in range(1, 1000):
            again = MemoryDisk(disk.image.copy())
            losing = LosingDisk(again, nth)
            store = open_store(losing)
            with suppress(OSError, AppendFailed):
                await own(store)
            await store.aclose()
            if losing.left > 0:
                break
            await recover(again)
            assert logs_of(again.crash()) == logs_of(again)
        assert nth > 1


# -- other hosts


async def test_the_journal_of_a_running_host_is_not_touched() -> None:
    disk = MemoryDisk()
    one, two = open_store(disk), open_store(disk)
    first = await own(one, "a.jsonl")
    await first.append(line(1))
    [path] = journals_of(disk)
    before = disk.files()[path]
    second = await own(two, "b.jsonl")
    await second.append(line(1))
    await two.aclose()
    assert disk.files()[path] == before
    assert journals_of(disk) == [path]
    await first.append(line(2))
    await one.aclose()
    assert journals_of(disk) == []


async def test_a_session_written_by_several_hosts_is_recovered_from_all_of_their_journals() -> None:
    disk = MemoryDisk()
    one, two = open_store(disk), open_store(disk)
    for number, store in enumerate((one, two, one, two), 1):
        writer = await own(store)
        await writer.append(line(number))
        await store.release([writer.lease])
    left = disk.crash()
    await recover(left)
    assert logs_of(left) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, 4))}
    await one.aclose()
    await two.aclose()


@pytest.mark.parametrize("by", ["its own host", "another host"])
@pytest.mark.parametrize("settled", [False, True])
async def test_recovery_does_not_restore_a_removed_log(by: str, settled: bool) -> None:
    disk = MemoryDisk()
    one, two = open_store(disk), open_store(disk)
    writer = await own(one)
    await writer.append(line(1))
    await one.release([writer.lease])
    remover = one if by == "its own host" else two
    again = await own(remover)
    await remover.remove(again.lease)
    left = disk.crash(keep_unsynced=settled)
    assert journals_of(left)
    await recover(left)
    assert logs_of(left) == {}
    await one.aclose()
    await two.aclose()
    assert journals_of(disk) == []


async def test_no_power_cut_as_a_journal_is_dropped_restores_a_removed_log() -> None:
    disk = RecordingDisk()
    store = open_store(disk)
    writer = await own(store)
    await writer.append(line(1))
    await store.remove(writer.lease)
    removed = len(disk.operations)
    await store.aclose()
    for left in disk.crash_states(since=removed):
        await recover(left)
        assert logs_of(left) == {}


async def test_what_voided_a_journal_voids_no_later_one_of_its_name_and_nonce() -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)

    async def open_and_own() -> tuple[FileStore, Writer]:
        store = FileStore(ROOT, durability="group", disk=disk, offload=AtOnce(), new_id=lambda: "restored with the VM")
        return store, await own(store)

    store, writer = await open_and_own()
    await writer.append(*lines(1, 3))
    await store.remove(writer.lease)
    disk.fail("unlink", errno.EIO, path="*.void")
    await store.aclose()
    assert [path for path in memory.files() if path.startswith(JOURNALS)], "the void file could not be deleted"
    store, writer = await open_and_own()
    await writer.append(line(1))
    left = memory.crash()
    await recover(left)
    assert logs_of(left) == {f"{ROOT}/a.jsonl": HEADER + line(1)}
    await store.aclose()


@pytest.mark.parametrize("by", ["its own host", "another host"])
async def test_recovery_keeps_a_put_and_the_lines_after_it(by: str) -> None:
    disk = MemoryDisk()
    one, two = open_store(disk), open_store(disk)
    writer = await own(one)
    await writer.append(*lines(1, 4))
    await one.release([writer.lease])
    rewriter = one if by == "its own host" else two
    again = await own(rewriter)
    again.head = await rewriter.put(again.lease, NATIVE, HEADER, [line(7)])
    await again.append(line(8))
    left = disk.crash()
    await recover(left)
    assert logs_of(left) == {f"{ROOT}/a.jsonl": HEADER + line(7) + line(8)}
    await one.aclose()
    await two.aclose()


async def test_the_records_of_an_owned_session_are_kept_until_it_is_released() -> None:
    async with after_power_cut() as (disk, whole):
        locks = PrivateLocks(disk, ROOT)
        held = locks.take(f"{ROOT}/a.jsonl")  # as if taken earlier
        assert isinstance(held, Held)
        store = open_store(disk)
        await own(store, "b.jsonl")
        assert len(journals_of(disk)) == 1
        assert not disk.files()[f"{ROOT}/a.jsonl"]
        locks.give_back(held)
        writer = await own(store, "a.jsonl")
        assert writer.head.seq == 3
        assert journals_of(disk) == []
        assert logs_of(disk)[f"{ROOT}/a.jsonl"] == whole
        await store.aclose()


# -- bounds


async def test_a_full_journal_is_replaced_once_all_files_are_flushed() -> None:
    disk = RecordingDisk()
    store = open_store(disk, journal_max_bytes=2000)
    writers = [await own(store, f"{name}.jsonl") for name in "abc"]
    for number in range(1, 11):
        for writer in writers:
            await writer.append(line(number))
            assert len(journals_of(disk.memory)) == 1
            assert all(len(disk.memory.files()[path]) < 3000 for path in journals_of(disk.memory))
    left = disk.memory.crash()
    await recover(left, "a.jsonl", "b.jsonl", "c.jsonl")
    assert all(data.count(b"\n") == 11 for data in logs_of(left).values())
    await store.aclose()
    assert journals_of(disk.memory) == []
    assert len(logs_of(disk.memory.crash())) == 3, "a closed store needs no journal"


async def test_appends_wait_while_the_journal_is_full(tmp_path: os.PathLike[str]) -> None:
    disk = FaultyDisk(OsDisk())
    store = FileStore(tmp_path, durability="group", disk=disk, journal_max_bytes=1)
    writers = [await own(store, f"{name}.jsonl") for name in "ab"]
    await writers[0].append(line(1))
    stall = disk.stall("datasync", path="*.jsonl")
    done: list[int] = []

    async def append(number: int) -> None:
        await writers[number].append(line(writers[number].head.seq + 1))
        done.append(number)

    async with anyio.create_task_group() as group:
        group.start_soon(append, 0)
        group.start_soon(append, 1)
        assert await anyio.to_thread.run_sync(stall.reached.wait, 30)
        assert done == []
        stall.lift()
    assert sorted(done) == [0, 1]
    await store.aclose()


async def test_an_append_that_is_being_committed_when_a_watch_begins_is_reported(tmp_path: os.PathLike[str]) -> None:
    disk = FaultyDisk(OsDisk())
    store = FileStore(tmp_path, durability="group", disk=disk)
    writer = await own(store)
    await writer.append(line(1))
    stall = disk.stall("datasync", path="*.journal")
    async with anyio.create_task_group() as group:
        group.start_soon(writer.append, line(2))
        assert await anyio.to_thread.run_sync(stall.wait)
        changes = store.watch(["a.jsonl"])
        assert (await store.open("a.jsonl")).head.seq == 1
        stall.lift()
        with anyio.fail_after(10):
            assert await anext(changes) == {"a.jsonl"}
        assert (await store.open("a.jsonl")).head.seq == 2
    assert isinstance(changes, AsyncGenerator)
    await changes.aclose()
    await store.aclose()


async def test_recovery_after_a_kill_flushes_the_names_of_new_folders() -> None:
    disk = MemoryDisk()
    disk.make_directory(ROOT)
    disk.settle()
    store = open_store(disk)
    await (await own(store, "project/deep/a.jsonl")).append(line(1))
    killed = MemoryDisk(disk.image.copy())  # nothing is lost yet, and no lock is held
    await store.aclose()
    await recover(killed, "b.jsonl")
    assert journals_of(killed) == []
    assert logs_of(killed.crash()) == {
        f"{ROOT}/project/deep/a.jsonl": NATIVE.encode_header(header_of("id-of-project/deep/a.jsonl")) + line(1)
    }


async def test_after_a_checkpoint_the_log_survives_without_the_journal() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    writer = await own(store)
    await writer.append(line(1))
    assert not any(logs_of(disk.crash()).values())
    await store.checkpoint(writer.lease)
    assert logs_of(disk.crash()) == {f"{ROOT}/a.jsonl": HEADER + line(1)}
    await store.aclose()


# -- disk errors


@pytest.mark.feature("X-28")
@pytest.mark.parametrize("call", ["write", "datasync"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
async def test_a_failing_journal_is_replaced_and_nothing_is_lost(call: str, number: int, nth: int) -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = open_store(disk)
    disk.fail(call, number, path="*.journal", nth=nth)
    writer = await own(store)
    acknowledged: list[bytes] = []
    doubts = 0
    for each in range(1, 7):
        outcome = await attempt(writer, line(each))
        if isinstance(outcome, InDoubt):
            doubts += 1
            assert isinstance(outcome.error, AppendInDoubt)
            assert isinstance(outcome.error.__cause__, OSError)
            readable = [] if not acknowledged else await read_all(store, "a.jsonl")
            assert readable == bare(acknowledged), "lines in doubt must not be readable"
            assert isinstance(await attempt(writer, line(each)), InDoubt), "it has to be resolved first"
            writer = await resolve_writer(writer)
            assert writer.head.seq == each, "the line is in the file"
        else:
            writer.commit(outcome, 1)
        acknowledged.append(line(each))
        left = memory.crash()
        await recover(left)
        assert logs_of(left) == {f"{ROOT}/a.jsonl": HEADER + b"".join(acknowledged)}
    assert doubts == 1
    await store.aclose()
    assert journals_of(memory) == []


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("kept", [False, True], ids=["released", "kept"])
async def test_a_line_in_doubt_that_was_written_is_flushed_before_it_counts(before: int, kept: bool) -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = open_store(disk)
    writer = await own(store)
    for each in range(1, before + 1):
        await writer.append(line(each))
    disk.fail("position", errno.EIO, path="*.jsonl")
    assert isinstance(await attempt(writer, line(before + 1)), InDoubt)
    if kept:
        writer = await resolve_writer(writer)
    else:
        await store.release([writer.lease])
        writer = await own(store)
    assert writer.head.seq == before + 1, "a retry must find it, and write nothing"
    left = memory.crash()
    await recover(left)
    assert logs_of(left) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, before + 1))}
    await store.aclose()


@pytest.mark.feature("X-28")
async def test_a_failed_checkpoint_keeps_the_journal_until_the_file_was_rewritten() -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = open_store(disk, journal_max_bytes=1)
    writer = await own(store)
    await writer.append(line(1))
    disk.fail("datasync", errno.EIO, path="*.jsonl")
    await writer.append(line(2))
    assert len(journals_of(memory)) == 2
    assert isinstance(await attempt(writer, line(3)), Fenced), "nothing of it must have been written"
    writer.head = await store.resolve(writer.lease)
    assert writer.head.seq == 2
    assert len(journals_of(memory)) == 1
    await writer.append(line(3))
    left = memory.crash()
    await recover(left)
    assert logs_of(left) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, 3))}
    await store.aclose()
    assert journals_of(memory) == []


@pytest.mark.feature("X-28")
async def test_lines_lost_by_a_failed_flush_on_closing_are_restored_from_the_journal() -> None:
    memory, disk, store, writer = await begin_on_unwell_disk()
    await writer.append(line(2))
    disk.chances = {"datasync": 1.0}
    await store.aclose()
    assert journals_of(memory) != []
    assert logs_of(memory.crash()) != logs_of(memory), "a power cut would lose it"
    await recover(memory)
    assert journals_of(memory) == []
    assert logs_of(memory.crash()) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, 2))}


@pytest.mark.feature("X-28")
async def test_lines_lost_by_a_failed_flush_on_acquiring_are_written_again() -> None:
    memory, disk, store, writer = await begin_on_unwell_disk()
    disk.chances = {"position": 1.0}
    assert isinstance(await attempt(writer, line(2)), InDoubt)
    await store.release([writer.lease])
    disk.chances = {"datasync": 1.0}
    for error in ((OSError, AppendFailed), AppendInDoubt):
        with pytest.raises(error, match=r"a\.jsonl"):
            await own(store)
    disk.chances = {}
    writer = await own(store)
    assert writer.head.seq == 2
    await store.aclose()
    assert journals_of(memory) == []
    assert logs_of(memory.crash()) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, 2))}


@pytest.mark.feature("X-28")
async def test_lines_lost_by_a_failed_checkpoint_are_written_again() -> None:
    memory, disk, store, writer = await begin_on_unwell_disk()
    disk.chances = {"datasync": 1.0}
    with pytest.raises(OSError, match=r"a\.jsonl"):
        await store.checkpoint(writer.lease)
    disk.chances = {}
    assert isinstance(await attempt(writer, line(2)), Fenced), "nothing of it must have been written"
    writer = await resolve_writer(writer)
    await writer.append(line(2))
    await store.aclose()
    assert journals_of(memory) == []
    assert logs_of(memory.crash()) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, 2))}


async def test_appends_are_in_doubt_while_no_journal_can_be_created() -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = open_store(disk)
    writer = await own(store)
    fault = disk.fail("open", errno.ENOSPC, path="*.journal", times=None)
    for number in (1, 2):
        assert isinstance(await attempt(writer, line(number)), InDoubt)
        writer = await resolve_writer(writer)
        assert logs_of(memory.crash()) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, number))}
    fault.lift()
    await writer.append(line(3))
    await store.aclose()


# -- shared flushes


async def test_appends_of_many_sessions_share_one_flush() -> None:
    disk = FaultyDisk(MemoryDisk())
    store = open_store(disk)
    writers = [await own(store, f"{number}.jsonl") for number in range(50)]
    for writer in writers:
        await writer.append(line(1))
    disk.reset_counts()
    async with anyio.create_task_group() as group:
        for writer in writers:
            group.start_soon(writer.append, line(2))
    assert disk.counts["datasync"] <= 2
    disk.reset_counts()
    await store.append([writer.request(line(3)) for writer in writers])
    assert disk.counts["datasync"] == 1
    await store.aclose()


async def test_a_pi_file_is_recovered_after_lines_of_another_program() -> None:
    disk = MemoryDisk()
    disk.make_directory(ROOT)
    put_file(disk, f"{ROOT}/a.jsonl", PI_HEADER + line(1))
    disk.settle()
    store = open_store(disk)
    writer = await own(store)
    await writer.append(line(2))
    left = disk.crash()
    fd = left.open(f"{ROOT}/a.jsonl", os.O_WRONLY | os.O_APPEND)
    left.write(fd, line(9))  # pi appended before the recovery
    left.close(fd)
    await recover(left)
    assert logs_of(left) == {f"{ROOT}/a.jsonl": PI_HEADER + line(1) + line(9) + line(2)}
    await store.aclose()


async def test_a_log_outside_of_the_root_is_flushed_itself() -> None:
    disk = MemoryDisk()
    disk.make_directory("/other")
    disk.settle()
    store = open_store(disk)
    writer = await own(store, "/other/a.jsonl")
    await writer.append(line(1))
    assert journals_of(disk) == []
    assert list(logs_of(disk.crash())) == ["/other/a.jsonl"]
    await store.aclose()


async def test_network_file_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.events.stores.files.mounts.is_slow_device", bool)
    with pytest.raises(InvalidInput, match="network"):
        open_store(MemoryDisk())


async def test_a_listing_includes_a_log_that_is_only_in_a_journal() -> None:
    async with after_power_cut() as (disk, whole):
        disk.unlink(f"{ROOT}/a.jsonl")
        store = FileStore(ROOT, disk=disk, offload=AtOnce())
        assert [(row.ref, row.size) for row in await store.page()] == [("a.jsonl", len(whole))]
        await store.aclose()
