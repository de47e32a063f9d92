"""Bytes after a log's last newline: repaired by an owner, unchanged by readers, and never lost."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

import errno
from pathlib import Path
from zlib import crc32

import pytest

from treering import NotASession, SessionHost, SessionLocked, SessionNotFound
from treering.events.dialects.base import Dialect
from treering.events.dialects.detect import is_torn_header
from treering.events.dialects.native import NativeDialect
from treering.events.dialects.omp import OmpDialect
from treering.events.dialects.pi.dialect import PiDialect
from treering.events.entries import Header
from treering.events.stores.base import TornTail
from treering.events.stores.files import Durability, FileStore
from treering.testing.disks import FaultyDisk, MemoryDisk, RecordingDisk, WrappedDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import bare, header_of, line, lines, read_all

from .logs import HEADER, PI_HEADER, append_to, header_for, own, put_file

LOG = "/s/a.jsonl"
WHOLE = HEADER + b"".join(lines(1, 3))


def torn_files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.glob("*.torn-*")}


def name_of(fragment: bytes, offset: int) -> str:
    return f"a.jsonl.torn-{offset}-{crc32(fragment):08x}"


@pytest.mark.feature("U-3")
async def test_a_fragment_of_fifty_megabytes_is_moved(store: FileStore, root: Path, log: Path) -> None:
    fragment = b'{"type":"custom","text":"' + b"x" * 50_000_000
    torn = root / name_of(fragment, len(WHOLE))
    torn.write_bytes(fragment[:3])  # as after a crash while it was moved
    log.write_bytes(WHOLE + fragment)
    assert (await store.open("a.jsonl")).head.seq == 3
    await (await own(store)).append(line(4))
    assert await read_all(store, "a.jsonl") == bare(lines(1, 4))
    assert torn_files(root) == {torn.name: fragment}


FRAGMENTS = [line(4)[:-20], b"{", b'{"half', b'{"a":1', bytes(5000), b'"text"', b"[1]", b"\xff"]
LONG = line(4, "x" * 5_000_000)


@pytest.mark.feature("U-1", "U-4", "N-7")
@pytest.mark.parametrize(
    ("left", "repaired", "tail", "is_moved", "count"),
    [
        (WHOLE, WHOLE, None, False, 3),
        *((WHOLE + each, WHOLE, (len(WHOLE), len(each)), True, 3) for each in FRAGMENTS),
        (WHOLE[:-1], WHOLE, (len(WHOLE) - len(line(3)), len(line(3)) - 1), False, 3),
        (WHOLE + LONG[:-1], WHOLE + LONG, (len(WHOLE), len(LONG) - 1), False, 4),
        (WHOLE + b"\n \t", WHOLE + b"\n \t\n", (len(WHOLE) + 1, 2), False, 3),
        (HEADER[:-1], HEADER, (0, len(HEADER) - 1), False, 0),
        (HEADER[:30], b"", (0, 30), True, 0),
        (b"", b"", None, False, 0),
        (PI_HEADER[:-1], PI_HEADER, (0, len(PI_HEADER) - 1), False, 0),
        (PI_HEADER + b'{"half', PI_HEADER + b'{"half\n', (len(PI_HEADER), 6), False, 1),
    ],
)
async def test_an_owner_repairs_the_tail_is_told_what_it_was_and_appends_after_it(
    store: FileStore, left: bytes, repaired: bytes, tail: tuple[int, int] | None, is_moved: bool, count: int
) -> None:
    root = Path(store.root)
    log = root / "a.jsonl"
    log.write_bytes(left)
    if repaired:
        opened = (await store.open("a.jsonl")).head.seq
        assert opened == count - (repaired.startswith(PI_HEADER) and count), "readers count no fragment"
        assert log.read_bytes() == left
    else:
        with pytest.raises(SessionNotFound):
            await store.open("a.jsonl")
    writer = await own(store)
    moved = {name_of(left[len(repaired) :], len(repaired)): left[len(repaired) :]} if is_moved else {}
    assert writer.lease.torn == (tail and TornTail(*tail, f"{root}/{next(iter(moved))}" if moved else None))
    assert writer.head.seq == count
    assert log.read_bytes() == repaired
    await writer.append(line(5))
    await store.release([writer.lease])
    assert (await own(store)).head.seq == count + 1
    assert log.read_bytes() == (repaired or header_for()) + line(5)
    assert torn_files(root) == moved


OMP_HEADER = OmpDialect().encode_header(header_of("session"))
KEYED = Header(id="é", version=1, timestamp=header_of("s").timestamp, cwd='/"w\\', key="k", title="\\")


@pytest.mark.parametrize("dialect", [NativeDialect(), PiDialect(), OmpDialect()])
def test_every_beginning_of_every_header_is_known_and_nothing_else(dialect: Dialect) -> None:
    for header in (KEYED, header_of("session")):
        block = dialect.encode_header(header)
        for size in range(1, len(block) - 2):
            assert is_torn_header(block[:size])
            assert is_torn_header(block[:size] + bytes(7))
        for other in (block, block[:-1], block[:-1] + b"x", block[:12] + b"x", b"theirs" + block[:20], b"", bytes(9)):
            assert not is_torn_header(other)


@pytest.mark.parametrize("left", [HEADER[:1], HEADER[:40], HEADER[:-2] + bytes(600), PI_HEADER[:50], OMP_HEADER[:300]])
async def test_a_session_whose_first_write_was_cut_is_new_and_the_fragment_kept(root: Path, left: bytes) -> None:
    path = root / "a.jsonl"
    path.write_bytes(left)
    async with SessionHost(root) as host:
        for name in ("a", str(path)):
            with pytest.raises(SessionNotFound):
                await host.load(name, read_only=True)
        assert await host.list_sessions() == []
        assert path.read_bytes() == left, "readers change nothing"
        session = await host.create("a")
        await session.append_message("user", "first")
    kept = name_of(left, 0)
    assert torn_files(root) == {kept: left}
    async with SessionHost(root) as host:
        path.write_bytes(left)
        session = await host.open("a")
        await session.append_message("user", "first")
        assert [message.role for message in await session.messages()] == ["user"]
        await host.delete("a")
    assert torn_files(root) == {}


async def test_a_headers_beginning_is_left_while_it_is_locked_and_if_it_grows(store: FileStore, root: Path) -> None:
    writer = await own(store)
    path = root / "a.jsonl"
    path.write_bytes(HEADER[:30])
    other = FileStore(root)
    assert isinstance((await other.acquire(["a.jsonl"], "other"))[0], SessionLocked)
    await other.aclose()
    assert path.read_bytes() == HEADER[:30]
    path.write_bytes(HEADER[:10] + b"theirs")
    await store.release([writer.lease])
    with pytest.raises(NotASession):
        await own(store)
    assert path.read_bytes() == HEADER[:10] + b"theirs"
    assert torn_files(root) == {}


@pytest.mark.parametrize("whole", [WHOLE, b""], ids=["a tail", "a header"])
async def test_no_power_cut_during_the_repair_loses_a_torn_tail(whole: bytes) -> None:
    fragment = HEADER[:60]
    memory = MemoryDisk()
    put_file(memory, LOG, whole + fragment)
    memory.settle()
    disk = RecordingDisk(memory)
    store = FileStore("/s", disk=disk, offload=AtOnce())
    await own(store)
    await store.aclose()
    for left in disk.crash_states():
        files = left.files()
        kept = files.get(f"/s/{name_of(fragment, len(whole))}") == fragment
        assert files[LOG] in ([whole, whole + fragment] if kept else [whole + fragment])


@pytest.mark.parametrize("durability", ["file", "group"])
@pytest.mark.parametrize("whole", [WHOLE, b""], ids=["a tail", "a header"])
async def test_no_power_cut_after_the_repair_loses_what_was_acknowledged(whole: bytes, durability: Durability) -> None:
    memory = MemoryDisk()
    put_file(memory, LOG, whole + HEADER[:60])
    memory.settle()
    disk = RecordingDisk(memory)
    writer = await own(FileStore("/s", durability=durability, disk=disk, offload=AtOnce()))
    await writer.append(line(4))
    for left in disk.crash_states(since=len(disk.operations)):
        store = FileStore("/s", durability=durability, disk=left, offload=AtOnce())
        await own(store)
        assert left.files()[LOG] == (whole or header_for()) + line(4)
        await store.aclose()


class BusyDisk(WrappedDisk):
    """A disk on which another program appends as soon as a torn tail was copied for the first time."""

    busy = True
    theirs = b" theirs\n" + line(5) + b'{"more'

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        if ".torn-" in target and self.busy:
            self.busy = False
            append_to(self.inner, LOG, self.theirs)


async def test_a_tail_that_grows_while_it_is_copied_is_not_cut() -> None:
    disk = MemoryDisk()
    put_file(disk, LOG, WHOLE + b'{"half":')
    store = FileStore("/s", disk=BusyDisk(disk), offload=AtOnce())
    writer = await own(store)
    assert writer.head.seq == 5, "what they finished stays, as a damaged line and another one"
    await writer.append(line(6))
    assert disk.files()[LOG] == WHOLE + b'{"half": theirs\n' + line(5) + line(6)
    assert b'{"more' in disk.files().values()


@pytest.mark.parametrize("kept", [10, 60])
async def test_a_header_that_another_program_completes_while_it_is_copied_is_a_session(kept: int) -> None:
    disk = MemoryDisk()
    put_file(disk, LOG, HEADER[:kept])
    busy = BusyDisk(disk)
    busy.theirs = HEADER[kept:] + line(1) + b'{"half'
    store = FileStore("/s", disk=busy, offload=AtOnce())
    writer = await own(store)
    assert (writer.lease.header, writer.head.seq) == (header_of("session"), 1)
    await writer.append(line(2))
    assert disk.files()[LOG] == HEADER + line(1) + line(2)


@pytest.mark.parametrize(
    ("left", "exists"),
    [
        (b"", False),
        (HEADER[:1], False),
        (HEADER[:40] + bytes(64 * 1024 - 41), False),
        (HEADER[:40] + bytes(64 * 1024 - 40), True),
        (HEADER[:-1], True),
        (HEADER, True),
        (b"theirs", True),
    ],
)
async def test_a_file_exists_unless_it_holds_only_the_beginning_of_a_header(left: bytes, exists: bool) -> None:
    disk = FaultyDisk(MemoryDisk())
    put_file(disk, LOG, left)
    store = FileStore("/s", disk=disk, offload=AtOnce())
    assert await store.exists("a.jsonl") == exists
    assert not await store.exists("b.jsonl")
    if left:
        disk.fail("pread", errno.EIO)
        assert await store.exists("a.jsonl") or len(left) >= 64 * 1024, "whoever opens it is told"
