"""A session of 100,000 entries: the bytes read from its file are counted."""

import os
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from treering import Header, MessageEntry, Session, SessionHost, message
from treering.entries import Compaction, CompactionEntry
from treering.events.dialects.native import NativeDialect
from treering.events.disk import OsDisk
from treering.events.entries import NATIVE_VERSION, KnownEntry
from treering.testing.disks import FaultyDisk

ENTRIES = 100_000
FIRST_KEPT = 99_700
COMPACTION = 99_900
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
NATIVE = NativeDialect()


class ReadingDisk(FaultyDisk):
    """A disk that counts the bytes read from logs."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.of_logs = 0

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        data = super().pread(fd, length, offset)
        if self.path_of(fd).endswith(".jsonl"):
            self.of_logs += len(data)
        return data


def entry(seq: int) -> KnownEntry:
    """Make the entry with this seq, in a chain of messages that is compacted near its end."""
    entry_id, parent_id = f"e{seq}", f"e{seq - 1}" if seq > 1 else None
    time = BEGINNING + timedelta(seconds=seq)
    if seq == COMPACTION:
        compaction = Compaction("what was before", f"e{FIRST_KEPT}", 1000)
        return CompactionEntry(id=entry_id, parent_id=parent_id, timestamp=time, seq=seq, compaction=compaction)
    content = message("user" if seq % 2 else "assistant", f"message {seq} " + "x" * (seq % 50))
    return MessageEntry(id=entry_id, parent_id=parent_id, timestamp=time, seq=seq, message=content)


def write_log(folder: Path, entries: int) -> Path:
    """Write a log, as another process may have done."""
    header = Header(id="big", version=NATIVE_VERSION, timestamp=BEGINNING)
    path = folder / "big.jsonl"
    with path.open("wb") as file:
        file.write(NATIVE.encode_header(header))
        file.writelines(NATIVE.encode(entry(seq)) for seq in range(1, entries + 1))
    return path


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("original"), ENTRIES)


@pytest.fixture
async def root(original: Path, tmp_path: Path) -> Path:
    """A folder with the large session and its snapshot."""
    shutil.copy(original, tmp_path / "big.jsonl")
    await snapshot(tmp_path)
    return tmp_path


async def snapshot(root: Path) -> None:
    """Open and close the session, so that its snapshot is written."""
    async with SessionHost(root) as host:
        await host.load("big")


async def state(session: Session) -> object:
    """The whole state of the session's index."""
    return (await session.log()).index, session.path(), session.labels()


@pytest.mark.feature("X-24")
async def test_opening_with_a_snapshot_reads_less_than_a_hundredth(root: Path) -> None:
    size = (root / "big.jsonl").stat().st_size
    disk = ReadingDisk()
    async with SessionHost(root, disk=disk) as host:
        session = await host.load("big")
        assert session.cursor.seq == ENTRIES
        assert session.leaf_id == f"e{ENTRIES}"
        assert disk.of_logs < size / 100
        assert disk.of_logs < 64 * 1024
        await session.append_message("user", "the tail")
    disk.of_logs = 0
    async with SessionHost(root, disk=disk) as host:
        session = await host.load("big")
        assert session.cursor.seq == ENTRIES + 1
        assert len(session.path()) == ENTRIES + 1
        assert disk.of_logs < 64 * 1024


async def test_the_row_with_the_state_of_a_session_reads_its_end(root: Path) -> None:
    disk = ReadingDisk()
    async with SessionHost(root, disk=disk) as host:
        await (await host.load("big", read_only=True)).refresh()
        disk.of_logs = 0
        (row,) = await host.list_sessions()
        assert row.state is not None
        assert row.state.state == "idle"
        assert row.state.line.startswith(f"message {ENTRIES}")
        assert 0 < disk.of_logs < 64 * 1024


def _truncate(root: Path) -> None:
    os.truncate(root / "big.jsonl.index", os.stat(root / "big.jsonl.index").st_size // 2)


def _flip_a_bit(root: Path) -> None:
    path = root / "big.jsonl.index"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _write_another_session(root: Path) -> None:
    (root / "other").mkdir()
    lines = write_log(root / "other", 1500).read_bytes().splitlines(keepends=True)
    (root / "other.jsonl").write_bytes(lines[0].replace(b"big", b"other") + b"".join(lines[1:]))
    shutil.rmtree(root / "other")


def _shorten_the_log(root: Path) -> None:
    path = root / "big.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    path.write_bytes(b"".join(lines[:1201]))


@pytest.mark.feature("X-24")
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(_truncate, id="torn"),
        pytest.param(_flip_a_bit, id="damaged"),
        pytest.param(_write_another_session, id="foreign"),
        pytest.param(_shorten_the_log, id="stale"),
    ],
)
async def test_an_invalid_snapshot_is_ignored_and_rebuilt(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    write_log(tmp_path, 3000)
    await snapshot(tmp_path)
    damage(tmp_path)
    if damage is _write_another_session:
        async with SessionHost(tmp_path) as host:
            await host.load("other")
        shutil.copy(tmp_path / "other.jsonl.index", tmp_path / "big.jsonl.index")
    disk = ReadingDisk()
    async with SessionHost(tmp_path, disk=disk) as host:
        session = await host.load("big")
        found = await state(session)
        size = os.stat(tmp_path / "big.jsonl").st_size
        assert disk.of_logs >= size
        assert session.cursor.seq == (1200 if damage is _shorten_the_log else 3000)
    disk.of_logs = 0
    async with SessionHost(tmp_path, disk=disk) as host:
        session = await host.load("big")
        assert await state(session) == found
        assert disk.of_logs < 64 * 1024 < size
    os.unlink(tmp_path / "big.jsonl.index")
    async with SessionHost(tmp_path) as host:
        assert await state(await host.load("big")) == found


@pytest.mark.feature("X-25")
async def test_a_context_reads_only_the_kept_range(root: Path) -> None:
    lines = (root / "big.jsonl").read_bytes().splitlines(keepends=True)  # read before counting begins
    disk = ReadingDisk()
    async with SessionHost(root, disk=disk) as host:
        session = await host.load("big")
        disk.of_logs = 0
        context = await session.context()
        assert disk.of_logs <= sum(map(len, lines[FIRST_KEPT:]))
        kept = [f"e{seq}" for seq in range(FIRST_KEPT, ENTRIES + 1) if seq != COMPACTION]
        assert [each.entry_id for each in context.messages] == [f"e{COMPACTION}", *kept]
        disk.of_logs = 0
        assert await session.context() == context
        assert disk.of_logs == 0


@pytest.mark.feature("G-75")
async def test_looking_up_an_entry_by_id_reads_no_other(root: Path) -> None:
    lines = (root / "big.jsonl").read_bytes().splitlines(keepends=True)  # read before counting begins
    disk = ReadingDisk()
    async with SessionHost(root, disk=disk) as host:
        session = await host.load("big")
        for seq in 1, 50_000, COMPACTION, ENTRIES:
            disk.of_logs = 0
            assert await session.entry(f"e{seq}") == entry(seq)
            assert disk.of_logs <= len(lines[seq])
        disk.of_logs = 0
        assert await session.entry("nowhere") is None
        assert session.children("e7") == ["e8"]
        assert disk.of_logs == 0


@pytest.mark.feature("D-3")
async def test_an_append_costs_the_same_disk_calls_in_a_session_of_any_length(root: Path) -> None:
    disk = FaultyDisk(OsDisk())

    async def work(session: Session) -> tuple[Counter[str], int, int]:
        await session.append_message("user", "first, which opens the file")
        disk.reset_counts()
        await session.append_message("user", "then")
        return Counter(disk.counts), disk.bytes_read, disk.bytes_written

    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    async with SessionHost(root, disk=disk, writes="inline", clock=lambda: noon) as host:  # its lines are as long
        calls, read, size = await work(await host.create("small"))
        large_calls, large_read, large_size = await work(await host.load("big"))
        assert (large_calls, large_read) == (calls, read)
        assert large_size <= size + 5  # the seq has five more digits
