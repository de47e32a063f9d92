"""The journal of durability "group": it restores what a power cut takes away, and changes nothing else."""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import nullcontext
from random import Random
from typing import TypeVar, TypeVarTuple

import anyio
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from treering.events.disk import Disk, OsDisk
from treering.events.errors import AppendFailed, AppendInDoubt, InvalidInput
from treering.events.stores.base import Committed, Fenced, InDoubt
from treering.events.stores.capabilities import Watches
from treering.events.stores.files import FileStore
from treering.events.stores.files.durability.journal import Segment
from treering.events.stores.files.locks import Held, PrivateLocks
from treering.testing.disks import FaultyDisk, MemoryDisk, RecordingDisk, WrappedDisk
from treering.testing.disks.faulty import UnwellDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import NATIVE, Writer, bare, header_of, line, lines, read_all

from ..sampling import some_of
from .logs import attempt, header_for, journals_of, killed, logs_of, own, put_file

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ROOT = "/s"
HEADER = header_for()
JOURNALS = f"{ROOT}/.treering/journal/"


def open_store(disk: Disk, *, journal_max_bytes: int = 1 << 20) -> FileStore:
    return FileStore(ROOT, durability="group", disk=disk, offload=AtOnce(), journal_max_bytes=journal_max_bytes)


async def resolve_writer(writer: Writer) -> Writer:
    """Resolve the log, and return a writer that continues from there."""
    head = await writer.store.resolve(writer.lease)
    lease = replace(writer.lease, head=head, header=header_of("a"))
    return Writer(writer.store, lease)


async def recover(disk: Disk, *names: str) -> None:
    """Acquire and release sessions, as the next host does."""
    store = open_store(disk)
    try:
        for name in names or ("a.jsonl",):
            await own(store, name)
    finally:
        await store.aclose()


# -- acknowledged lines


@pytest.mark.parametrize("script", some_of(["a", "ab", "aab", "abba", "aaaa", "abab"], 2, start=1))
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


@pytest.mark.parametrize("by", ["its own host", "another host"])
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("what", ["removed", "replaced"])
async def test_recovery_restores_nothing_of_a_removed_or_replaced_log(by: str, settled: bool, what: str) -> None:
    disk = MemoryDisk()
    one, two = open_store(disk), open_store(disk)
    writer = await own(one)
    await writer.append(*lines(1, 4))
    await one.release([writer.lease])
    changer = one if by == "its own host" else two
    again = await own(changer)
    if what == "removed":
        await changer.remove(again.lease)
        expected = {}
    else:
        again.head = await changer.put(again.lease, NATIVE, HEADER, [line(7)])
        await again.append(line(8))
        expected = {f"{ROOT}/a.jsonl": HEADER + line(7) + line(8)}
    left = disk.crash(keep_unsynced=settled)
    assert journals_of(left)
    await recover(left)
    assert logs_of(left) == expected
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
        watches = store.capability(Watches)
        assert watches is not None
        changes = watches.watch(["a.jsonl"])
        assert (await store.open("a.jsonl")).head.seq == 1
        stall.lift()
        assert await anext(changes) == {"a.jsonl"}
        assert (await store.open("a.jsonl")).head.seq == 2
    assert isinstance(changes, AsyncGenerator)
    await changes.aclose()
    await store.aclose()


async def test_recovery_after_a_kill_or_a_power_cut_makes_new_folders_and_flushes_their_names() -> None:
    disk = MemoryDisk()
    disk.make_directory(ROOT)
    disk.settle()
    store = open_store(disk)
    await (await own(store, "project/deep/a.jsonl")).append(line(1))
    left = {"killed": killed(disk), "power cut": disk.crash()}  # no lock is held any more
    await store.aclose()
    assert logs_of(left["power cut"]) == {}
    for how, memory in left.items():
        await recover(memory, "b.jsonl")
        assert journals_of(memory) == [], how
        assert logs_of(memory.crash()) == {
            f"{ROOT}/project/deep/a.jsonl": header_for("project/deep/a.jsonl") + line(1)
        }, how


async def test_after_a_checkpoint_the_log_survives_without_the_journal() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    writer = await own(store)
    await writer.append(line(1))
    assert not any(logs_of(disk.crash()).values())
    await store.checkpoint(writer.lease)
    assert logs_of(disk.crash()) == {f"{ROOT}/a.jsonl": HEADER + line(1)}


# -- disk errors


@pytest.mark.feature("X-28")
@pytest.mark.parametrize("call", ["write", "half a write", "datasync"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
async def test_a_failing_journal_is_replaced_and_nothing_is_lost(call: str, number: int, nth: int) -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = open_store(disk)
    if call == "half a write":
        disk.shorten(20, path="*.journal", nth=nth, then=number)
    else:
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
    assert (journals_of(memory), memory.open_files) == ([], 0)


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


async def test_a_released_file_that_a_checkpoint_could_not_flush_is_rewritten_by_its_next_owner() -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = open_store(disk, journal_max_bytes=1)
    writer, other = await own(store), await own(store, "b.jsonl")
    await writer.append(line(1))
    await store.release([writer.lease])
    disk.fail("datasync", errno.EIO, path="*/a.jsonl")
    await other.append(line(1))
    assert len(journals_of(memory)) == 2
    await own(store)
    assert len(journals_of(memory)) == 1


@pytest.mark.feature("X-28")
@pytest.mark.parametrize("when", ["closing", "acquiring", "a checkpoint"])
async def test_lines_lost_by_a_failed_flush_are_written_again(when: str) -> None:
    memory = MemoryDisk()
    disk = UnwellDisk(memory, Random(0), lambda what: None)
    store = open_store(disk)
    writer = await own(store)
    await writer.append(line(1))
    if when == "closing":
        await writer.append(line(2))
        disk.chances = {"datasync": 1.0}
        await store.aclose()
        assert journals_of(memory) != []
        assert logs_of(memory.crash()) != logs_of(memory), "a power cut would lose it"
        await recover(memory)
    elif when == "acquiring":
        disk.chances = {"position": 1.0}
        assert isinstance(await attempt(writer, line(2)), InDoubt)
        await store.release([writer.lease])
        disk.chances = {"datasync": 1.0}
        for error in ((OSError, AppendFailed), AppendInDoubt):
            with pytest.raises(error, match=r"a\.jsonl"):
                await own(store)
        disk.chances = {}
        assert (await own(store)).head.seq == 2
    else:
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


async def test_network_file_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.events.disk.disk.is_slow_device", bool)
    with pytest.raises(InvalidInput, match="network"):
        open_store(MemoryDisk())


async def test_a_listing_includes_a_log_that_is_only_in_a_journal() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    await (await own(store)).append(line(1))
    left = disk.crash()
    lister = FileStore(ROOT, disk=left, offload=AtOnce())
    assert [(row.ref, row.size) for row in await lister.page()] == [("a.jsonl", len(HEADER + line(1)))]


# -- names and locks of journals


async def test_a_journal_is_named_by_the_process_and_the_first_number_that_is_free() -> None:
    disk = MemoryDisk()
    first, second, third = (f"{JOURNALS}{os.getpid()}-{number}.journal" for number in (1, 2, 3))
    disk.make_directory(JOURNALS)
    put_file(disk, first, b'{"format":"treering-journal","version":2,"nonce":"x"}\n')
    one, two = open_store(disk, journal_max_bytes=1), open_store(disk)
    writers = [await own(one, "a.jsonl"), await own(two, "b.jsonl")]
    locks = PrivateLocks(disk, ROOT)
    for number in range(1, 4):  # the second time, the journal of the first store is full
        for writer in writers:
            await writer.append(line(number))
        assert journals_of(disk) == [first, second, third]
        taken = [locks.take(path) for path in (first, second, third)]
        assert [isinstance(each, Held) for each in taken] == [True, False, False]
        locks.close()
    await one.aclose()
    await two.aclose()
    assert journals_of(disk) == [first]
    assert all(isinstance(locks.take(path), Held) for path in (second, third))
    disk.unlink(first)
    await (await own(open_store(disk), "c.jsonl")).append(line(1))
    assert journals_of(disk) == [first]


@pytest.mark.parametrize(
    ("call", "path", "event"),
    [
        ("sync_directory", f"{ROOT}/work", "checkpoint_failed"),
        ("datasync", "*/a.jsonl", "checkpoint_failed"),
        ("unlink", "*.journal", "journal_not_dropped"),
    ],
)
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOENT, errno.EACCES])
async def test_a_journal_is_kept_until_all_it_covers_is_flushed(call: str, path: str, event: str, number: int) -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = open_store(disk)
    await (await own(store, "work/a.jsonl")).append(line(1))
    [journal] = journals_of(memory)
    fault = disk.fail(call, number, path=path, times=None)
    with capture_logs() as logs:
        await store.aclose()
    # What is gone, or of another user, needs no flush, and a journal that is gone is dropped.
    goes = number == errno.ENOENT or (call, number) == ("sync_directory", errno.EACCES)
    error = f"[Errno {number}] {os.strerror(number)}"
    where = {"sync_directory": {"folder": path}, "datasync": {"ref": "work/a.jsonl"}, "unlink": {"journal": journal}}
    expected = {"event": event, **where[call], "error": error, "log_level": "warning"}
    assert logs == ([] if goes else [expected])
    assert journals_of(memory) == ([] if goes and call != "unlink" else [journal])
    fault.lift()
    await recover(disk, "b.jsonl")
    assert journals_of(memory) == []
    assert isinstance(PrivateLocks(memory, ROOT).take(journal), Held)


# -- cancelled appends, and threads that cannot start

STALLS = [
    ("datasync", "*.journal", 1),
    ("datasync", "*.journal", 2),
    ("datasync", "*.jsonl", 1),
    ("unlink", "*.journal", 1),
]


@pytest.mark.parametrize(("call", "path", "nth"), STALLS)
@pytest.mark.parametrize("how", ["task", "scope"])
@pytest.mark.parametrize("who", ["a", "b", "c", "d", "abcd"])
async def test_a_cancelled_append_lands_and_stalls_no_other(call: str, path: str, nth: int, how: str, who: str) -> None:
    """Of each round, one leads and one follows; those of the second round wait for the first."""
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    store = FileStore(ROOT, durability="group", disk=disk, journal_max_bytes=1)
    writers = {name: await own(store, f"{name}.jsonl") for name in "abcd"}
    for writer in writers.values():
        await writer.append(line(1))
    stall = disk.stall(call, path=path, nth=nth)
    scopes = {name: anyio.CancelScope() for name in writers}
    outcomes: dict[str, object] = {}

    async def append(name: str) -> None:
        with scopes[name]:
            [outcomes[name]] = await store.append([writers[name].request(line(2))])

    async def run(name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(append(name))
        for _ in range(5):
            await asyncio.sleep(0)
        return task

    tasks = {name: await run(name) for name in "ab"}
    assert await anyio.to_thread.run_sync(stall.wait)
    tasks |= {name: await run(name) for name in "cd"}
    for name in who:
        for _ in range(2):
            if how == "task":
                tasks[name].cancel()
            else:
                scopes[name].cancel()
            await asyncio.sleep(0)
    stall.lift()
    results = dict(zip(tasks, await asyncio.gather(*tasks.values(), return_exceptions=True), strict=True))
    cancelled = set(who) if how == "task" else set()
    assert {name for name, result in results.items() if isinstance(result, asyncio.CancelledError)} == cancelled
    assert {name for name, outcome in outcomes.items() if isinstance(outcome, Committed)} == set("abcd") - cancelled
    left = memory.crash()
    await recover(left, "a.jsonl")
    for name, writer in writers.items():
        header = NATIVE.encode_header(header_of(f"id-of-{name}.jsonl"))
        assert logs_of(left)[f"{ROOT}/{name}.jsonl"] == header + b"".join(lines(1, 2))
        assert (await store.open(f"{name}.jsonl")).head.seq == 2
        writer.head = replace(writer.head, seq=2)
        await writer.append(line(3))
        assert len(journals_of(memory)) == 1
    await store.aclose()
    assert journals_of(memory) == []


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), KeyboardInterrupt()], ids=["thread", "key"])
@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_appends_whose_round_no_thread_carries_out_are_in_doubt(error: BaseException, nth: int) -> None:
    """The first two calls are for the files and the journal that is full, the third one for the next journal."""
    memory = MemoryDisk()
    left = 0

    async def offload(fn: Callable[[*Ts], T], *args: *Ts) -> T:
        nonlocal left
        left -= 1
        if left == 0:
            raise error
        return fn(*args)

    store = FileStore(ROOT, durability="group", disk=memory, offload=offload, journal_max_bytes=1)
    writer = await own(store)
    await writer.append(line(1))
    left = nth
    outcome = None
    with pytest.raises(KeyboardInterrupt) if isinstance(error, KeyboardInterrupt) else nullcontext():
        outcome = await attempt(writer, line(2))
    if outcome is not None:
        assert isinstance(outcome, InDoubt)
        assert str(outcome.error) == (
            f"{ROOT}/a.jsonl: the journal could not be written (can't start new thread); "
            "check the disk, then retry with the same command id"
        )
    assert logs_of(memory) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, 2))}
    writer = await resolve_writer(writer)
    assert writer.head.seq == 2
    await writer.append(line(3))
    rest = memory.crash()
    await recover(rest)
    assert logs_of(rest) == {f"{ROOT}/a.jsonl": HEADER + b"".join(lines(1, 3))}
    await store.aclose()
    assert journals_of(memory) == []


def test_a_journal_that_is_closed_again_leaves_alone_what_has_its_descriptor_by_then() -> None:
    """A journal whose retirement failed halfway is retired once more."""
    closed: list[int] = []

    class ClosingDisk(WrappedDisk):
        def close(self, fd: int) -> None:
            closed.append(fd)
            super().close(fd)

    memory = MemoryDisk()
    memory.make_directory(ROOT)
    segment = Segment.begin(ClosingDisk(memory), f"{ROOT}/a.journal", "nonce", [])
    segment.close()
    segment.close()
    assert len(closed) == 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        segment.write([])
