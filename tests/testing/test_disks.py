"""The disks for tests behave like the real one, and a power cut leaves exactly the states that it can leave."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treering.events.disk import Disk, OsDisk
from treering.testing.disks import FaultyDisk, MemoryDisk, RecordingDisk, WrappedDisk

from ..sampling import examples

CREATE = os.O_RDWR | os.O_CREAT
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND

P = ParamSpec("P")
ALL_ARE_DISKS: list[Disk] = [OsDisk(), MemoryDisk(), RecordingDisk(), FaultyDisk(OsDisk()), WrappedDisk(OsDisk())]


# the memory disk compared with the operating system's

Step: TypeAlias = tuple[Any, ...]

PATHS = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "a/x", "d/../a", "d/", "a/", "d/./b"])
# O_DIRECTORY with O_CREAT is undefined, as is O_TRUNC when reading.
FLAGS = st.builds(
    lambda mode, extra: mode | extra,
    st.sampled_from([os.O_RDONLY, os.O_WRONLY, os.O_RDWR]),
    st.lists(st.sampled_from([os.O_CREAT, os.O_EXCL, os.O_APPEND, os.O_DIRECTORY]), max_size=2, unique=True).map(sum),
).filter(lambda flags: not (flags & os.O_DIRECTORY and flags & os.O_CREAT))
TRUNCATING = st.sampled_from([os.O_WRONLY | os.O_TRUNC, CREATE | os.O_TRUNC, APPEND | os.O_TRUNC])
OPENED = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("open"), PATHS, FLAGS | TRUNCATING | st.sampled_from([CREATE, APPEND])),
    st.tuples(st.just("write"), OPENED, st.binary(max_size=9)),
    st.tuples(st.just("pread"), OPENED, st.integers(-1, 12), st.integers(-1, 12)),
    st.tuples(st.just("truncate"), OPENED, st.integers(-1, 12)),
    st.tuples(st.sampled_from(["position", "fstat", "datasync", "close"]), OPENED),
    st.tuples(st.sampled_from(["stat", "unlink", "make_directory", "list_directory", "sync_directory"]), PATHS),
    st.tuples(st.just("rename"), PATHS, PATHS),
)


class Player:
    """Runs programs on a disk, below a folder, and records the outcome of each step."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self.disk = disk
        self.folder = folder
        self.opened: list[int] = []
        self.inodes: dict[int, int] = {}

    def play(self, step: Step) -> object:
        call, first, *rest = step
        if isinstance(first, int):
            if first >= len(self.opened):
                return "not open"
            first = self.opened[first]
        else:
            first = f"{self.folder}/{first}"
        if call == "rename":
            rest = [f"{self.folder}/{rest[0]}"]
        try:
            result = getattr(self.disk, call)(first, *rest)
        except OSError as error:
            return type(error), error.errno
        if call == "open":
            self.opened.append(result)
            return "opened"
        return self.comparable(result)

    def comparable(self, result: object) -> object:
        """Drop the fields of a `FileStat` that differ between disks."""
        if (inode := getattr(result, "inode", None)) is None:
            return result
        number = self.inodes.setdefault(inode, len(self.inodes))
        is_directory = getattr(result, "is_directory", False)
        return number, is_directory, None if is_directory else getattr(result, "size", None)

    def files(self) -> dict[str, bytes]:
        return dict(self.below(self.folder))

    def below(self, path: str) -> Iterator[tuple[str, bytes]]:
        for name in self.disk.list_directory(path):
            child = f"{path}/{name}"
            if self.disk.stat(child).is_directory:
                yield from self.below(child)
            else:
                fd = self.disk.open(child, os.O_RDONLY)
                yield child.removeprefix(self.folder), self.disk.pread(fd, 1 << 20, 0)
                self.disk.close(fd)


@pytest.mark.skipif(sys.platform != "linux", reason="error numbers differ between systems")
@settings(max_examples=examples(100), deadline=None)
@given(st.lists(STEPS, max_size=25))
@example([("make_directory", "d/e"), ("rename", "d", "d/e/a"), ("rename", "d/e", "d"), ("rename", "d", "d")])
@example([("open", "a", CREATE), ("write", 0, b"12345"), ("truncate", 0, 2), ("write", 0, b"x"), ("pread", 0, 12, 0)])
@example([("open", "a", APPEND), ("open", "a", CREATE), ("write", 1, b"12"), ("write", 0, b"3"), ("position", 0)])
@example([("open", "a", CREATE), ("unlink", "a"), ("write", 0, b"1"), ("pread", 0, 5, 0), ("stat", "a")])
def test_a_disk_in_memory_behaves_like_the_real_one(program: list[Step]) -> None:
    memory = MemoryDisk()
    with TemporaryDirectory() as folder:
        memory.make_directory(folder)
        players = [Player(OsDisk(), folder), Player(memory, folder)]
        try:
            for step in program:
                real, ours = [player.play(step) for player in players]
                assert ours == real, step
                if step[0] == "close" and real is None:  # the order in which disks reuse descriptors may differ
                    for player in players:
                        del player.opened[step[1]]
            assert players[1].files() == players[0].files()
        finally:
            for fd in players[0].opened:
                os.close(fd)


def test_a_disk_in_memory_refuses_relative_paths() -> None:
    with pytest.raises(ValueError, match="absolute"):
        MemoryDisk().open("a", CREATE)
    with pytest.raises(ValueError, match="null"):
        MemoryDisk().stat("/a\0b")
    with pytest.raises(OSError, match="too long"):
        MemoryDisk().open("/" + "ü" * 128, CREATE)
    assert MemoryDisk().real_path("/a/./b/../c") == "/a/c"


def test_descriptors_are_counted_and_invalid_once_closed() -> None:
    disk = MemoryDisk()
    fds = [disk.open(f"/{name}", CREATE) for name in "abc"]
    assert disk.open_files == 3
    disk.close(fds[1])
    assert disk.open("/d", CREATE) == fds[1]
    for fd in fds:
        disk.close(fd)
    assert disk.open_files == 0
    with pytest.raises(OSError, match="descriptor") as caught:
        disk.write(fds[0], b"x")
    assert caught.value.errno == errno.EBADF


def test_times_come_from_the_clock() -> None:
    times = iter([10, 20, 30])
    disk = MemoryDisk(clock=lambda: next(times))
    fd = disk.open("/a", CREATE)
    assert disk.fstat(fd).modified_ns == 10
    disk.write(fd, b"1")
    assert disk.stat("/a").modified_ns == 20
    assert disk.stat("/").modified_ns == 10
    own = MemoryDisk()
    fd = own.open("/a", CREATE)
    before = own.fstat(fd).modified_ns
    own.write(fd, b"1")
    assert own.fstat(fd).modified_ns > before


def test_threads_share_a_disk() -> None:
    disk = RecordingDisk()

    def append(mark: bytes) -> None:
        fd = disk.open("/a", APPEND)
        for _ in range(200):
            disk.write(fd, mark * 10)
        disk.close(fd)

    threads = [threading.Thread(target=append, args=(mark,)) for mark in (b"a", b"b", b"c", b"d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = disk.memory.files()["/a"]
    assert len(content) == 4 * 200 * 10
    assert {content[at : at + 10] for at in range(0, len(content), 10)} == {
        mark * 10 for mark in (b"a", b"b", b"c", b"d")
    }
    assert [each.data for each in disk.operations if each.kind == "write"] == [
        content[at : at + 10] for at in range(0, len(content), 10)
    ]


# power cuts


def append_to(disk: Disk, path: str, *writes: bytes, sync: bool = False) -> int:
    """Append to a file, and create it if necessary."""
    fd = disk.open(path, APPEND)
    for data in writes:
        disk.write(fd, data)
    if sync:
        disk.datasync(fd)
    return fd


def files_after_power_cuts(disk: MemoryDisk | RecordingDisk) -> list[dict[str, bytes]]:
    """The files of each state, once, and those of the least content first."""
    states = {tuple(sorted(state.files().items())) for state in disk.crash_states()}
    return [dict(state) for state in sorted(states, key=lambda state: (sum(len(data) for _, data in state), state))]


def test_a_power_cut_loses_or_keeps_all_unsynced_data() -> None:
    disk = MemoryDisk()
    append_to(disk, "/a", b"synced", sync=True)
    disk.sync_directory("/")
    append_to(disk, "/a", b" lost")
    append_to(disk, "/b", b"no name", sync=True)
    assert disk.crash().files() == {"/a": b"synced"}
    assert disk.crash(keep_unsynced=True).files() == {"/a": b"synced lost", "/b": b"no name"}
    assert disk.crash().open_files == 0
    disk.settle()
    assert disk.crash().files() == {"/a": b"synced lost", "/b": b"no name"}


A, B, OLD = {"/a": b"1"}, {"/e/b": b"1"}, {"/d/a": b"1"}
NEW = {"/d/a": b"2", "/e/b": b"1"}
POWER_CUTS: dict[str, list[tuple[Step, list[dict[str, bytes]] | None]]] = {
    "unsynced writes are dropped from the end and torn": [
        (("append", "/a", b"one"), None),
        (("sync names", "/"), None),
        (("sync", "/a"), [{"/a": b"one"}]),
        (("append", "/a", b"two!"), None),
        (("append", "/a", b"3"), [{"/a": b"onetwo!3"[:length]} for length in (3, 4, 6, 7, 8)]),
    ],
    "a truncated file may be restored": [
        (("synced", "/a", b"whole"), None),
        (("sync names", "/"), None),
        (("truncate", "/a", 2), [{"/a": b"wh"}, {"/a": b"whole"}]),
    ],
    "a name may be lost until its directory is synced": [
        (("synced", "/a", b"1"), [{}, A]),
        (("sync names", "/"), [A]),
        (("unlink", "/a"), [{}, A]),
        (("sync names", "/"), [{}]),
    ],
    "a lost directory loses its content": [
        (("make", "/d/e"), None),
        (("synced", "/d/e/a", b"1"), None),
        (("sync names", "/d/e"), [{}, {"/d/e/a": b"1"}]),
        (("sync names", "/d"), None),
        (("sync names", "/"), [{"/d/e/a": b"1"}]),
    ],
    "a replaced file may be lost if the bytes were not synced first": [
        (("synced", "/a", b"old"), None),
        (("sync names", "/"), None),
        (("append", "/b", b"n"), None),
        (("rename", "/b", "/a"), None),
        (("sync names", "/"), [{"/a": b""}, {"/a": b"n"}]),
    ],
    "a replaced file is kept if they were": [
        (("synced", "/a", b"old"), None),
        (("sync names", "/"), None),
        (("synced", "/b", b"n"), None),
        (("rename", "/b", "/a"), None),
        (("sync names", "/"), [{"/a": b"n"}]),
    ],
    "a rename across directories is atomic": [
        (("make", "/d"), None),
        (("make", "/e"), None),
        (("synced", "/d/a", b"1"), None),
        (("settle",), None),
        (("rename", "/d/a", "/e/b"), None),
        (("synced", "/d/a", b"2"), [OLD, B, NEW]),
        (("sync names", "/e"), [B, NEW]),
        (("sync names", "/d"), [NEW]),
    ],
    "syncing a name also keeps the changes that it depends on": [
        (("make", "/d"), None),
        (("make", "/e"), None),
        (("synced", "/d/a", b"1"), None),
        (("settle",), None),
        (("rename", "/d/a", "/e/b"), None),
        (("synced", "/d/a", b"2"), None),
        (("sync names", "/d"), [NEW]),
    ],
    "independent changes of names survive independently": [
        (("synced", "/a", b"1"), [{}, A]),
        (("synced", "/b", b"2"), [{}, A, {"/b": b"2"}, A | {"/b": b"2"}]),
    ],
}


@pytest.mark.parametrize("name", POWER_CUTS)
def test_a_power_cut_leaves_what_it_can_leave(name: str) -> None:
    disk = MemoryDisk()
    for step, left in POWER_CUTS[name]:
        run_step(disk, step)
        assert left is None or files_after_power_cuts(disk) == left, step


def test_writes_are_torn_at_sector_boundaries() -> None:
    disk = MemoryDisk()
    fd = append_to(disk, "/a", b"x" * 500, sync=True)
    disk.sync_directory("/")
    disk.write(fd, b"y" * 1100)
    assert sorted(len(state.files()["/a"]) for state in disk.crash_states()) == [500, 501, 512, 1024, 1536, 1599, 1600]


def test_there_are_crash_states_after_every_operation_of_a_program() -> None:
    disk = RecordingDisk()
    fd = disk.open("/a", APPEND)
    disk.sync_directory("/")
    disk.write(fd, b"12")
    disk.datasync(fd)
    disk.write(fd, b"34")
    cuts: dict[int, set[bytes]] = {}
    for state in disk.crash_states():
        cuts.setdefault(state.cut_after, set()).add(state.files().get("/a", b"missing"))
    assert [each.kind for each in disk.operations] == ["open", "sync_directory", "write", "datasync", "write"]
    assert cuts == {5: {b"12", b"123", b"1234"}, 3: {b"", b"1"}, 1: {b"missing"}}
    assert {state.files()["/a"] for state in disk.crash_states(since=4)} == {b"12", b"123", b"1234"}
    assert {state.files()["/a"] for state in disk.crash_states(since=2, until=3)} == {b"", b"1", b"12"}


def test_the_earlier_content_of_the_disk_is_included() -> None:
    memory = MemoryDisk()
    fd = append_to(memory, "/old", b"kept", sync=True)
    memory.sync_directory("/")
    memory.write(fd, b"?")
    disk = RecordingDisk(FaultyDisk(memory))
    disk.unlink("/old")
    assert files_after_power_cuts(disk) == [{}, {"/old": b"kept"}, {"/old": b"kept?"}]
    with pytest.raises(TypeError, match="MemoryDisk"):
        RecordingDisk(OsDisk())


def test_only_operations_that_reached_the_disk_are_recorded() -> None:
    faulty = FaultyDisk(MemoryDisk())
    disk = RecordingDisk(faulty)
    faulty.shorten(2, then=errno.ENOSPC)
    faulty.fail("datasync", errno.EIO)
    fd = disk.open("/a", APPEND)
    assert disk.write(fd, b"12345") == 2
    with pytest.raises(OSError, match="space"):
        disk.write(fd, b"345")
    with pytest.raises(OSError, match=r"[Ii]nput"):
        disk.datasync(fd)
    assert [(each.kind, each.data) for each in disk.operations] == [("open", b""), ("write", b"12")]


def test_a_disk_left_by_a_power_cut_can_be_used_and_lose_power_again() -> None:
    disk = RecordingDisk()
    append_to(disk, "/a", b"12", sync=True)
    for state in disk.crash_states():
        again = RecordingDisk(state)
        append_to(again, "/b", b"3", sync=True)
        again.sync_directory("/")
        before = state.files().get("/a")
        for twice in again.crash_states(since=len(again.operations)):
            assert twice.files() == ({"/b": b"3"} if before is None else {"/a": before, "/b": b"3"})


SMALL_FILES = st.sampled_from(["/a", "/b"])
SMALL = st.lists(
    st.one_of(
        st.tuples(st.just("append"), SMALL_FILES, st.binary(min_size=1, max_size=4)),
        st.tuples(st.just("sync"), SMALL_FILES),
        st.tuples(st.just("rename"), SMALL_FILES, SMALL_FILES),
        st.tuples(st.just("unlink"), SMALL_FILES),
        st.tuples(st.just("sync names"), st.just("/")),
    ),
    max_size=7,
)


@settings(max_examples=examples(40), deadline=None)
@given(SMALL)
def test_synced_bytes_always_survive_and_other_bytes_were_written_at_some_point(program: list[Step]) -> None:
    disk = RecordingDisk()
    written: set[bytes] = set()
    for step in program:
        run_step(disk, step)
        written |= set(disk.memory.files().values())
    prefixes = {content[:length] for content in written for length in range(len(content) + 1)} | {b""}
    for state in disk.crash_states():
        assert set(state.files().values()) <= prefixes
    synced = len(disk.operations)
    append_to(disk, "/safe", b"acknowledged", sync=True)
    disk.sync_directory("/")
    synced = len(disk.operations)
    for step in program:
        run_step(disk, step)
    for state in disk.crash_states(since=synced):
        assert state.files()["/safe"] == b"acknowledged"


def run_step(disk: Disk, step: Step) -> None:
    """Carry out a step of a program; one about a file that does not exist does nothing."""
    match step:
        case ("append" | "synced" as how, str(path), bytes(data)):
            disk.close(append_to(disk, path, data, sync=how == "synced"))
        case ("make", str(path)):
            disk.make_directory(path)
        case ("sync names", str(path)):
            disk.sync_directory(path)
        case ("settle",) if isinstance(disk, MemoryDisk):
            disk.settle()
        case (_, str(path), *_) if os.path.basename(path) not in disk.list_directory(os.path.dirname(path)):
            pass
        case ("sync", str(path)):
            disk.close(append_to(disk, path, sync=True))
        case ("truncate", str(path), int(size)):
            fd = append_to(disk, path)
            disk.truncate(fd, size)
            disk.close(fd)
        case ("rename", str(path), str(target)):
            disk.rename(path, target)
        case ("unlink", str(path)):
            disk.unlink(path)


def test_a_program_without_syncs_leaves_a_bounded_number_of_disks() -> None:
    disk = RecordingDisk()
    for number in range(12):
        append_to(disk, f"/{number}", b"x" * 3000)
    assert 0 < sum(1 for _ in disk.crash_states(since=24)) < 1000


# faults


def failing(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> int | None:
    """Return the number of the error that a call raises."""
    try:
        call(*args, **kwargs)
    except OSError as error:
        return error.errno
    return None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EMFILE, errno.EACCES])
def test_the_nth_call_fails_and_does_nothing(number: int) -> None:
    disk = FaultyDisk(MemoryDisk())
    fd = disk.open("/a", APPEND)
    fault = disk.fail("write", number, nth=3)
    assert [failing(disk.write, fd, b"x") for _ in range(5)] == [None, None, number, None, None]
    assert (fault.hits, fault.done) == (1, True)
    assert disk.fstat(fd).size == 4
    assert disk.counts["write"] == 5


def test_faults_apply_to_matching_paths() -> None:
    disk = FaultyDisk(MemoryDisk())
    disk.make_directory("/d")
    disk.fail("open", errno.EACCES, path="*.jsonl", times=2)
    disk.fail("rename", errno.EROFS, path="/d/b")
    outcomes = [failing(disk.open, path, CREATE) for path in ("/a", "/d/a.jsonl", "/b.jsonl", "/b.jsonl")]
    assert outcomes == [None, errno.EACCES, errno.EACCES, None]
    assert failing(disk.rename, "/a", "/d/b") == errno.EROFS
    assert failing(disk.rename, "/a", "/d/b") is None


def test_a_fault_may_last_until_it_is_lifted() -> None:
    disk = FaultyDisk(MemoryDisk())
    fd = disk.open("/a", APPEND)
    full = disk.fail("write", errno.ENOSPC, times=None)
    assert [failing(disk.write, fd, b"x") for _ in range(3)] == [errno.ENOSPC] * 3
    full.lift()
    assert disk.write(fd, b"x") == 1
    disk.fail("datasync", errno.EIO, times=None)
    disk.heal()
    disk.datasync(fd)


def test_calls_and_bytes_are_counted() -> None:
    disk = FaultyDisk(MemoryDisk())
    fd = disk.open("/a", CREATE)
    disk.write(fd, b"12345")
    disk.pread(fd, 3, 0)
    disk.pread(fd, 9, 3)
    disk.position(fd)
    disk.truncate(fd, 1)
    disk.fstat(fd)
    disk.stat("/a")
    disk.datasync(fd)
    disk.sync_directory("/")
    disk.close(fd)
    disk.rename("/a", "/b")
    disk.unlink("/b")
    disk.make_directory("/d")
    disk.list_directory("/")
    disk.real_path("/d")
    assert disk.counts.pop("pread") == 2
    assert set(disk.counts.values()) == {1}
    assert len(disk.counts) == 14
    assert (disk.bytes_written, disk.bytes_read) == (5, 5)
    disk.reset_counts()
    assert (disk.counts, disk.bytes_written, disk.bytes_read) == ({}, 0, 0)


@pytest.mark.parametrize("by_healing", [False, True])
def test_a_stalled_call_waits_in_its_thread(by_healing: bool) -> None:
    disk = FaultyDisk(MemoryDisk())
    fd = disk.open("/a", APPEND)
    stall = disk.stall("datasync")
    thread = threading.Thread(target=disk.datasync, args=(fd,))
    thread.start()
    assert stall.wait()
    disk.write(fd, b"another call")
    assert thread.is_alive()
    if by_healing:
        disk.heal()
    else:
        stall.lift()
    thread.join(10)
    assert not thread.is_alive()
    disk.datasync(fd)


@pytest.mark.parametrize("real", [False, True])
def test_a_short_write_is_followed_by_enospc(tmp_path: Path, real: bool) -> None:
    disk = FaultyDisk(OsDisk() if real else MemoryDisk())
    path = str(tmp_path / "a") if real else "/a"
    fd = disk.open(path, APPEND)
    disk.shorten(2, nth=2)
    assert disk.write(fd, b"one") == 3
    assert disk.write(fd, b"two") == 2
    assert failing(disk.write, fd, b"o") == errno.ENOSPC
    assert disk.write(fd, b"!") == 1
    disk.close(fd)
    reader = disk.open(path, os.O_RDONLY)
    assert disk.pread(reader, 99, 0) == b"onetw!"
    disk.close(reader)
    assert (disk.bytes_written, disk.bytes_read) == (6, 6)
