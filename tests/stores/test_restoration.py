"""What a replay makes of a session file and of journals: a table of the states that a power cut may leave."""

import errno
import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from itertools import count
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from structlog.testing import capture_logs

from treering.events.disk import Disk
from treering.events.errors import AppendFailed, Conflict, LogError
from treering.events.stores.base import Lease
from treering.events.stores.files import FileStore
from treering.events.stores.files.durability.journal import Record, Segment
from treering.events.stores.files.locks import Held, PrivateLocks
from treering.testing.disks import FaultyDisk, MemoryDisk, RecordingDisk
from treering.testing.disks.faulty import UnwellDisk
from treering.testing.disks.image import Operation
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import NATIVE, header_of, line

from ..sampling import some_of
from .logs import PI_HEADER, DyingDisk, Killed, append_to, journals_of, logs_of, own, put_file

ROOT = "/s"
PATH = f"{ROOT}/a.jsonl"
JOURNALS = f"{ROOT}/.treering/journal/"
HEADER = NATIVE.encode_header(header_of("a"))
ONE, TWO, THREE, OTHER = line(1), line(2), line(3), line(9, "x" * 300)
LONG = line(4, "y" * 1_500_000)  # more than is read of a journal, or compared, at a time
AT_ONE, AT_TWO = len(HEADER), len(HEADER + ONE)
AT_THREE = len(HEADER + ONE + TWO)
AFTER_OTHER = len(HEADER + ONE + OTHER)
WHOLE = HEADER + ONE + TWO + THREE


def record(offset: int, *lines: bytes, block: bytes = b"", epoch: int = 1, name: bytes = b"a.jsonl") -> Record:
    return Record(name, offset, block, lines, 1, epoch, "g")


CREATED = [record(0, ONE, block=HEADER), record(AT_TWO, TWO), record(AT_THREE, THREE)]
APPENDED = [record(AT_TWO, TWO, block=HEADER), record(AT_THREE, THREE)]
WITHOUT_BLOCK = [record(AT_TWO, TWO)]


class Case(NamedTuple):
    """What is left of a file, the records of one journal or of several, what becomes of it, and what is logged."""

    left: bytes | None
    records: list[Record]
    restored: bytes | None
    by_id: int | None = None  # how many lines are appended with a new generation
    lost: bool = False
    later: tuple[Record, ...] = ()  # in a second journal


CASES: dict[str, Case] = {
    "missing": Case(None, CREATED, WHOLE),
    "whole": Case(WHOLE, CREATED, WHOLE),
    "longer": Case(WHOLE + OTHER, CREATED, WHOLE + OTHER),
    "long": Case(
        None,
        [record(0, ONE, LONG, TWO, block=HEADER), record(0, THREE, block=HEADER, name=b"b")],
        HEADER + ONE + LONG + TWO,
    ),
    "long and torn": Case(
        (HEADER + ONE + LONG)[:-7], [record(0, ONE, block=HEADER), record(AT_TWO, LONG)], HEADER + ONE + LONG
    ),
    "long and zeroed": Case(
        HEADER + ONE + LONG[:9] + bytes(len(LONG) - 9),
        [record(0, ONE, block=HEADER), record(AT_TWO, LONG)],
        HEADER + ONE + LONG,
    ),
    "long and other": Case(
        HEADER + ONE + LONG[:-3] + b"z}\n", [record(AT_TWO, LONG)], HEADER + ONE + LONG[:-3] + b"z}\n" + LONG, by_id=1
    ),
    "hole before other lines": Case(HEADER + bytes(len(ONE + TWO)) + THREE + OTHER, CREATED, WHOLE + OTHER),
    "hole before a line of ours": Case(HEADER + ONE + bytes(len(TWO)) + THREE, CREATED, WHOLE),
    "two holes": Case(
        HEADER + bytes(len(ONE)) + OTHER + bytes(len(TWO + THREE)) + line(5),
        [record(0, ONE, block=HEADER), record(AFTER_OTHER, TWO), record(AFTER_OTHER + len(TWO), THREE)],
        HEADER + ONE + OTHER + TWO + THREE + line(5),
    ),
    "other lines and a hole": Case(
        HEADER + OTHER + bytes(len(TWO)) + THREE,
        [record(AT_ONE, ONE), record(len(HEADER + OTHER), TWO)],
        HEADER + OTHER + TWO + THREE + ONE,
        by_id=1,
    ),
    "appended by an earlier replay": Case(
        HEADER + TWO, [record(AT_TWO, TWO), record(AT_TWO + 500, THREE)], HEADER + TWO + THREE, by_id=1
    ),
    "one other byte": Case(HEADER + b"x" + ONE[1:], [record(AT_ONE, ONE)], HEADER + b"x" + ONE[1:] + ONE, by_id=1),
    "zeros beyond": Case(HEADER + bytes(10_000), CREATED, WHOLE),
    "other lines instead": Case(HEADER + ONE + OTHER, CREATED, HEADER + ONE + OTHER + TWO + THREE, by_id=2),
    "some of them": Case(HEADER + ONE + OTHER + THREE, CREATED, HEADER + ONE + OTHER + THREE + TWO, by_id=1),
    "all of them": Case(HEADER + OTHER + WHOLE[AT_ONE:], CREATED, HEADER + OTHER + WHOLE[AT_ONE:], by_id=0),
    "garbage instead": Case(
        HEADER + ONE + b"[1]\n" + b"\xff" * 400 + b"\n",
        [record(AT_TWO, b"[1]\n", b"{\n", b"\n", b" {\n", TWO)],
        HEADER + ONE + b"[1]\n" + b"\xff" * 400 + b"\n" + b"{\n" + TWO,
        by_id=2,
    ),
    "bytes before are missing": Case(HEADER, WITHOUT_BLOCK, HEADER + TWO, by_id=1),
    "bytes before two runs are missing": Case(
        HEADER, [*WITHOUT_BLOCK, record(AT_TWO + 500, THREE)], HEADER + TWO + THREE, by_id=2
    ),
    "gap between records": Case(
        HEADER + ONE, [record(0, ONE, block=HEADER), record(AT_THREE, THREE)], HEADER + ONE + THREE, by_id=1
    ),
    "gap that is filled": Case(WHOLE[:-5], [record(0, ONE, block=HEADER), record(AT_THREE, THREE)], WHOLE),
    "header missing": Case(None, APPENDED, HEADER + TWO + THREE),
    "header empty": Case(b"", APPENDED, HEADER + TWO + THREE),
    "header torn": Case(HEADER[:9], APPENDED, HEADER + TWO + THREE),
    "header zeroed as far as it went": Case(bytes(len(HEADER)), APPENDED, HEADER + TWO + THREE),
    "header alone": Case(HEADER, APPENDED, HEADER + TWO + THREE, by_id=2),
    "header and torn": Case(HEADER + ONE + TWO[:9], APPENDED, WHOLE),
    "header nowhere": Case(None, WITHOUT_BLOCK, None, lost=True),
    "shortened meanwhile": Case(HEADER + ONE, [*CREATED, record(AT_TWO, OTHER, epoch=2)], HEADER + ONE + OTHER),
    "shortened, by an earlier name": Case(
        HEADER + ONE, [record(AT_TWO, OTHER, epoch=2)], HEADER + ONE + OTHER, later=tuple(CREATED)
    ),
    "begun anew": Case(None, [*CREATED, record(0, OTHER, block=HEADER, epoch=2)], HEADER + OTHER),
    "two journals": Case(None, CREATED[:1], WHOLE, later=tuple(CREATED[1:])),
    "pi": Case(PI_HEADER + ONE[:5], [record(len(PI_HEADER), ONE)], PI_HEADER + ONE),
    "pi, and its own line": Case(PI_HEADER + OTHER, [record(len(PI_HEADER), ONE)], PI_HEADER + OTHER + ONE, by_id=1),
    **{f"torn at {kept}": Case(WHOLE[:kept], CREATED, WHOLE) for kept in range(0, len(WHOLE), 23)},
    **{f"zero from {kept}": Case(WHOLE[:kept].ljust(len(WHOLE), b"\0"), CREATED, WHOLE) for kept in range(0, 500, 23)},
}


def put_journal(disk: Disk, records: list[Record], number: int = 1) -> str:
    """Write a journal of a host that has ended."""
    disk.make_directory(JOURNALS)
    segment = Segment.begin(disk, f"{JOURNALS}9-{number}.journal", str(number), [JOURNALS])
    segment.write(records)
    segment.close()
    return segment.path


def put_journals(disk: Disk, case: Case) -> None:
    put_journal(disk, case.records)
    if case.later:
        put_journal(disk, list(case.later), 2)


def left_by(case: Case) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(ROOT)
    if case.left is not None:
        put_file(disk, PATH, case.left)
    put_journals(disk, case)
    disk.settle()
    return disk


async def recover(disk: Disk, name: str = "a.jsonl") -> list[dict[str, Any]]:
    """Acquire a session as the next host does, and return what is logged."""
    store = FileStore(ROOT, disk=disk, offload=AtOnce())
    with capture_logs() as logs:
        try:
            await own(store, name)
        finally:
            await store.aclose()
    return [dict(each) for each in logs]


def replayed(journals: int, sessions: int) -> dict[str, object]:
    return {"event": "journals_replayed", "journals": journals, "sessions": sessions, "log_level": "info"}


def waits(why: str, **more: object) -> dict[str, object]:
    level = "info" if more else "warning"
    return {"event": "replay_waits", "ref": PATH, "why": why, **more, "log_level": level}


@pytest.mark.parametrize("name", CASES)
async def test_a_file_is_restored(name: str) -> None:
    case = CASES[name]
    disk = left_by(case)
    expected = {} if case.restored is None else {PATH: case.restored}
    logs = [replayed(1 + bool(case.later), len({each.name for each in (*case.records, *case.later)}))]
    if case.by_id is not None:
        logs.insert(0, {"event": "replayed_by_id", "ref": PATH, "lines": case.by_id, "log_level": "info"})
    if case.lost:
        logs.insert(0, {"event": "replay_without_header", "ref": PATH, "log_level": "warning"})
    assert await recover(disk) == logs
    for _ in range(2):
        assert {path: data for path, data in logs_of(disk).items() if path == PATH} == expected
        assert logs_of(disk.crash()) == logs_of(disk)
        assert (journals_of(disk), disk.open_files) == ([], 0)
        put_journals(disk, case)  # as if they could not be dropped
        await recover(disk)


WRITTEN = ("datasync", 0, b"")
CHANGES: dict[str, list[tuple[str, int, bytes]]] = {
    "whole": [("write", 0, WHOLE), WRITTEN],  # a flush that failed may have left it in the memory of the system alone
    "torn at 115": [("write", 115, WHOLE[115:]), ("write", 0, WHOLE[:115]), WRITTEN],
    "zero from 115": [("truncate", 115, b""), ("write", 115, WHOLE[115:]), ("write", 0, WHOLE[:115]), WRITTEN],
    "two journals": [("write", 0, WHOLE), WRITTEN],
    "pi": [("write", len(PI_HEADER) + 5, ONE[5:]), WRITTEN],  # pi may be writing
    "header missing": [],  # replaced as a whole
    "header nowhere": [],
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_file_is_written_as_little_as_possible_and_flushed(name: str) -> None:
    disk = RecordingDisk(left_by(CASES[name]))
    await recover(disk)
    changes = [each for each in disk.operations if each.path == PATH and each.kind not in ("open", "rename")]
    assert [(each.kind, each.offset, each.data) for each in changes] == CHANGES[name]
    kinds = [
        each.kind for each in disk.operations if each.path == JOURNALS.rstrip("/") or each.path.startswith(JOURNALS)
    ]
    assert kinds[-2:] == ["unlink", "sync_directory"]


async def test_no_power_cut_after_lines_were_appended_by_their_ids_brings_the_old_generation_back() -> None:
    disk = left_by(CASES["other lines instead"])
    before = (await FileStore(ROOT, disk=disk, offload=AtOnce()).open("a.jsonl")).head
    recording = RecordingDisk(disk)
    await recover(recording)
    grown = 0
    for left in recording.crash_states():
        head = (await FileStore(ROOT, disk=left, offload=AtOnce()).open("a.jsonl")).head
        grown += head.seq > before.seq
        assert head.seq == before.seq or head.generation != before.generation, left.cut_after
    assert grown > 1


# -- a recovery that is interrupted

LARGE = ("torn at", "zero from", "long")
# Journals are deleted in the order of their names; a shortening is remembered by the later one.
INTERRUPTED = [name for name in CASES if not name.startswith(LARGE) and name != "shortened, by an earlier name"]
# Bytes that a failed flush lost are not written again where pi may be writing, nor is a cut repeated.
LOST = {"zeros beyond", "pi", "pi, and its own line"}


class LosingDisk(UnwellDisk):
    """A disk on which one flush of a file fails and loses what it should have saved."""

    def __init__(self, inner: MemoryDisk, nth: int) -> None:
        super().__init__(inner, Random(0), lambda what: None)
        self.memory = inner
        self.left = nth

    def datasync(self, fd: int) -> None:
        self.left -= 1
        self.chances = {} if self.left else {"datasync": 1.0}
        super().datasync(fd)


@pytest.mark.feature("X-27")
@pytest.mark.parametrize("name", some_of(INTERRUPTED, 2))
async def test_a_recovery_that_was_killed_or_failed_at_any_step_gives_the_same_bytes_when_repeated(name: str) -> None:
    case = CASES[name]
    initial = left_by(case)
    expected = {} if case.restored is None else {PATH: case.restored}
    for steps in count():
        disk = MemoryDisk(initial.image.copy())
        dying = DyingDisk(disk, steps)
        with suppress(Killed):
            await recover(dying)
        survivors = [MemoryDisk(disk.image.copy()), disk.crash(), disk.crash(keep_unsynced=True)]
        losing = LosingDisk(MemoryDisk(initial.image.copy()), steps + 1)
        with suppress(OSError, AppendFailed):
            await recover(losing)
        if name not in LOST:
            survivors.append(MemoryDisk(losing.memory.image.copy()))
        for survivor in survivors:
            for _ in range(2):
                await recover(survivor)
                assert logs_of(survivor) == logs_of(survivor.crash()) == expected
            assert journals_of(survivor) == []
        if dying.left > 0:
            break
    assert steps > 3


FAILURES = {"open": 5, "write": 2, "datasync": 1, "sync_directory": 1, "pread": 9, "fstat": 5, "unlink": 1}
"""How many calls of each kind a replay makes at least, each of which fails once."""


@pytest.mark.feature("X-27")
@pytest.mark.parametrize("call", FAILURES)
async def test_a_recovery_that_failed_at_any_call_is_repeated(call: str) -> None:
    initial = left_by(CASES["torn at 115"])
    refused = 0
    for nth in count(1):
        memory = MemoryDisk(initial.image.copy())
        disk = FaultyDisk(memory)
        fault = disk.fail(call, errno.EIO, nth=nth)
        store = FileStore(ROOT, disk=disk, offload=AtOnce())
        try:
            await store.acquire(["a.jsonl"], "me")
        except OSError:
            refused += 1
            assert (await own(store)).head.seq == 3
        await store.aclose()
        await recover(memory)
        assert (logs_of(memory), journals_of(memory), memory.open_files) == ({PATH: WHOLE}, [], 0)
        if not fault.hits:
            break
    assert refused >= FAILURES[call]


# -- sessions that have to wait

OTHERS = [record(0, ONE, block=HEADER, name=b"b%20%FF.jsonl")]
B = f"{ROOT}/" + os.fsdecode(b"b \xff.jsonl")


async def test_a_session_that_cannot_be_restored_keeps_its_journal_until_it_is_needed() -> None:
    disk = MemoryDisk()
    put_file(disk, PATH, b"no session\n")
    put_journal(disk, [*CREATED, *OTHERS])
    why = f"{PATH}:1:0: this is not a session header; the file was left as it is"
    store = FileStore(ROOT, disk=disk, offload=AtOnce())
    with capture_logs() as logs:
        for _ in range(2):  # the second time, the journal is known to be needed by the other session alone
            lease = (await own(store, os.path.basename(B))).lease
            await store.release([lease])
            assert logs == [waits(why), replayed(1, 2)]
        assert logs_of(disk) == {PATH: b"no session\n", B: HEADER + ONE}
        with pytest.raises(LogError, match="this is not a session header"):
            await store.acquire(["a.jsonl"], "me")
        disk.unlink(f"{JOURNALS}9-1.journal")
        put_journal(disk, [record(0, TWO, block=HEADER, name=b"c.jsonl")])  # another one under the same name
        disk.unlink(PATH)
        logs.clear()
        await store.acquire(["c.jsonl"], "me")
        assert logs == [replayed(1, 1)]
    assert logs_of(disk) == {B: HEADER + ONE, f"{ROOT}/c.jsonl": HEADER + TWO}


async def test_the_records_of_an_owned_session_are_kept_until_it_is_released() -> None:
    disk = left_by(Case(None, [*CREATED, *OTHERS], WHOLE))
    locks = PrivateLocks(disk, ROOT)
    held = locks.take(PATH)  # as if taken earlier
    assert isinstance(held, Held)
    assert await recover(disk, "c.jsonl") == [waits("the session is owned", holder=os.getpid()), replayed(1, 2)]
    assert (logs_of(disk), len(journals_of(disk))) == ({B: HEADER + ONE}, 1)
    locks.give_back(held)
    assert await recover(disk) == [replayed(1, 2)]
    assert (logs_of(disk), journals_of(disk)) == ({PATH: WHOLE, B: HEADER + ONE}, [])


class FakeTime:
    """The time for those who wait by sleeping."""

    def __init__(self, after: int = 0, act: Callable[[], None] = lambda: None) -> None:
        self.slept = 0
        self._after = after
        self._act = act

    def monotonic(self) -> float:
        return self.slept / 1000

    def sleep(self, seconds: float) -> None:
        assert seconds == 0.001
        self.slept += 1
        if self.slept == self._after:
            self._act()


async def test_a_replay_waits_a_minute_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = left_by(CASES["missing"])
    locks = PrivateLocks(disk, ROOT)
    held = locks.take(f"{JOURNALS}replay")
    assert isinstance(held, Held)
    time = FakeTime()
    monkeypatch.setattr("treering.events.stores.files.durability.journal_replay.time", time)
    with pytest.raises(Conflict, match=f"^{JOURNALS.rstrip('/')} is being replayed by another host: try again later$"):
        await recover(disk)
    assert time.slept == 60_001
    monkeypatch.setattr(
        "treering.events.stores.files.durability.journal_replay.time", FakeTime(9, lambda: locks.give_back(held))
    )
    await recover(disk)
    assert logs_of(disk) == {PATH: WHOLE}


# -- journals

TAILS: dict[str, bytes] = {
    "no newline": b"7c1e6f0a 12 half a rec",
    "few fields": b"7c1e6f0a 12 0 5\nhello",
    "no numbers": b"7c1e6f0a a b c d e f g h\nhello",
    "no checksum": b"no_crc 0 0 5 1 1 1 g a.jsonl\nhello",
    "wrong checksum": b"7c1e6f0a 0 0 6 1 1 1 g a.jsonl\nhello\n",
    "too short": b"7c1e6f0a 0 0 500 1 1 1 g a.jsonl\nhello\n",
    "negative sizes": b"7c1e6f0a 0 -9 15 1 1 1 g a.jsonl\nhello\n",
    "zeros": bytes(5000),
    "zeros and a line": bytes(70_000) + b"\n",
}


@pytest.mark.parametrize("tail", TAILS)
async def test_what_follows_the_last_whole_record_is_ignored(tail: str) -> None:
    disk = left_by(CASES["missing"])
    append_to(disk, f"{JOURNALS}9-1.journal", TAILS[tail])
    put_journal(disk, OTHERS, 2)
    assert await recover(disk) == [replayed(2, 2)]
    assert (logs_of(disk), journals_of(disk)) == ({PATH: WHOLE, B: HEADER + ONE}, [])


async def test_each_cut_of_a_journal_keeps_the_records_before_it() -> None:
    initial = left_by(CASES["missing"])
    [path] = journals_of(initial)
    data = initial.files()[path]
    ends = [data.index(each) + len(each) for each in (ONE, TWO, THREE)]
    for cut in range(data.index(b"\n") + 1, len(data) + 1, 7):
        disk = MemoryDisk(initial.image.copy())
        put_file(disk, path, data[:cut])
        await recover(disk)
        kept = [HEADER, ONE, TWO, THREE][: 1 + sum(end <= cut for end in ends)]
        assert logs_of(disk) == ({PATH: b"".join(kept)} if kept[1:] else {})


HEADERS: dict[str, tuple[bytes, bool]] = {
    "empty": (b"", False),
    "zeros": (bytes(90), False),
    "torn": (b'{"format":"treering-jour', False),
    "torn and zeros": (b'{"format"' + bytes(90), False),
    "newer": (b'{"format":"treering-journal","version":2,"nonce":"x"}\nwhatever\n', True),
    "of another program": (b'{"format":"another","version":1,"nonce":"x"}\nwhatever\n', True),
    "no JSON": (b"whatever\n", True),
    "no line": (b"whatever", True),
}


@pytest.mark.parametrize("name", HEADERS)
async def test_a_journal_without_a_header_is_deleted_and_an_unknown_one_is_kept(name: str) -> None:
    data, kept = HEADERS[name]
    disk = MemoryDisk()
    path = f"{JOURNALS}x.journal"
    put_file(disk, path, data)
    unknown = {"event": "journal_unknown", "journal": path, "log_level": "warning"}
    assert await recover(disk) == [unknown, replayed(1, 0)][not kept :]
    assert {path: disk.files()[path] for path in journals_of(disk)} == ({path: data} if kept else {})


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EIO])
async def test_a_journal_that_another_host_has_just_dropped_is_skipped(number: int) -> None:
    memory = left_by(CASES["missing"])
    put_journal(memory, OTHERS, 2)
    disk = FaultyDisk(memory)
    store = FileStore(ROOT, disk=disk, offload=AtOnce())
    fault = disk.fail("open", number, path="*-1.journal")
    with pytest.raises(OSError, match=os.strerror(number)) if number == errno.EIO else nullcontext():
        await store.acquire(["c.jsonl"], "me")
    assert fault.hits == 1
    assert logs_of(memory) == ({} if number == errno.EIO else {B: HEADER + ONE})
    [lease] = await store.acquire(["a.jsonl"], "me")  # the lock of the journal was given back
    assert isinstance(lease, Lease)
    path = put_journal(memory, OTHERS, 3)
    disk.fail("open", errno.ENOENT, path="*.journal")
    await store.remove(lease)
    assert (logs_of(memory), journals_of(memory), memory.open_files) == ({B: HEADER + ONE}, [path], 0)


@pytest.mark.parametrize("left", [b"", HEADER + OTHER])
async def test_a_file_that_is_empty_or_grows_meanwhile_is_left_unchanged(left: bytes) -> None:
    """Nobody knows the header of the one, and another program appends to the other while a hole in it is filled."""
    disk = left_by(Case(left, WITHOUT_BLOCK, None) if not left else CASES["hole before other lines"])

    def append(operation: Operation) -> None:
        if left and operation.kind == "datasync" and ".tmp-" in operation.path:
            disk.listeners.clear()
            append_to(disk, PATH, THREE)

    disk.listeners.append(append)
    before = logs_of(disk)[PATH]
    error, message = (Conflict, f"another program appended to {PATH}") if left else (LogError, f"{PATH} is empty")
    with pytest.raises(error, match=f"^{message}"):
        await recover(disk)
    assert logs_of(disk) == {PATH: before + THREE if left else b""}
    assert [path for path in disk.files() if ".tmp-" in path] == []
    assert len(journals_of(disk)) == 1


# -- voids


async def test_voids_hold_for_one_session_of_one_journal_up_to_their_size() -> None:
    for name, how, restored in (
        (b"a.jsonl", "", {PATH: HEADER, B: HEADER + ONE}),
        (b"b%20%FF.jsonl", "", {PATH: WHOLE}),
        (b"c.jsonl", "", {PATH: WHOLE, B: HEADER + ONE}),
        (b"a.jsonl", "another journal", {PATH: WHOLE, B: HEADER + ONE}),
        (b"a.jsonl", "wrong checksum", {PATH: WHOLE, B: HEADER + ONE}),
        (b"a.jsonl", "up to two lines", {PATH: HEADER + THREE, B: HEADER + ONE}),
    ):
        disk = left_by(Case(HEADER, [*CREATED, *OTHERS], WHOLE))
        [path] = journals_of(disk)
        data = disk.files()[path]
        header = b"x" if how == "another journal" else data[: data.index(b"\n") + 1]
        until = data.index(THREE) - 50 if how == "up to two lines" else len(data)
        fields = b" %08x %d %s\n" % (crc32(header), until, name)
        valid = b"%08x%s" % (crc32(fields) ^ (how == "wrong checksum"), fields)
        earlier = b" %08x %d %s\n" % (crc32(header), data.index(b"\n"), name)
        text = valid + b"\nno_crc x\n1 2\n" + b"%08x%s" % (crc32(earlier), earlier)
        put_file(disk, path.replace(".journal", ".void"), text)
        await recover(disk)
        assert (logs_of(disk), journals_of(disk)) == (restored, []), (name, how)
