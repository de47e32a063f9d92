"""Bytes after a log's last newline: repaired by an owner, unchanged by readers, and never lost."""

from __future__ import annotations

import errno
from pathlib import Path
from zlib import crc32

import pytest

from treering import NotASession, SessionHost, SessionLocked, SessionNotFound
from treering.events.dialects.base import Dialect
from treering.events.dialects.native import NativeDialect
from treering.events.dialects.omp import OmpDialect
from treering.events.dialects.pi import PiDialect
from treering.events.dialects.torn_header import is_torn_header
from treering.events.entries import Header
from treering.events.stores.base import TornTail
from treering.events.stores.files import FileStore
from treering.testing.disks import FaultyDisk, MemoryDisk, RecordingDisk, WrappedDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import bare, header_of, line, lines, read_all

from .logs import HEADER, PI_HEADER, append_to, own, put_file

LOG = "/s/a.jsonl"
WHOLE = HEADER + b"".join(lines(1, 3))


def torn_files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.glob("*.torn-*")}


def name_of(fragment: bytes, offset: int) -> str:
    return f"a.jsonl.torn-{offset}-{crc32(fragment):08x}"


@pytest.mark.feature("U-1")
@pytest.mark.parametrize("fragment", [line(4)[:-20], b"{", b'{"a":1', b"\x00" * 5000, b'"text"', b"[1]", b"\xff"])
async def test_a_fragment_is_moved_to_a_file_beside_the_log(store: FileStore, root: Path, fragment: bytes) -> None:
    (root / "a.jsonl").write_bytes(WHOLE + fragment)
    writer = await own(store)
    assert writer.head.seq == 3
    assert (root / "a.jsonl").read_bytes() == WHOLE
    await writer.append(line(4))
    await store.release([writer.lease])
    assert (await own(store)).head.seq == 4
    assert await read_all(store, "a.jsonl") == bare(lines(1, 4))
    assert torn_files(root) == {name_of(fragment, len(WHOLE)): fragment}


@pytest.mark.feature("U-3")
async def test_a_fragment_of_fifty_megabytes_is_moved(store: FileStore, root: Path) -> None:
    fragment = b'{"type":"custom","text":"' + b"x" * 50_000_000
    (root / "a.jsonl").write_bytes(WHOLE + fragment)
    assert (await store.open("a.jsonl")).head.seq == 3
    await (await own(store)).append(line(4))
    assert await read_all(store, "a.jsonl") == bare(lines(1, 4))
    assert torn_files(root) == {name_of(fragment, len(WHOLE)): fragment}


@pytest.mark.feature("U-4")
async def test_a_complete_line_without_a_newline_survives_the_next_append(store: FileStore, root: Path) -> None:
    (root / "a.jsonl").write_bytes(WHOLE[:-1])
    writer = await own(store)
    assert writer.head.seq == 3
    await writer.append(line(4))
    assert (root / "a.jsonl").read_bytes() == WHOLE + line(4)
    assert torn_files(root) == {}


async def test_a_long_complete_line_without_a_newline_gets_one(store: FileStore, root: Path) -> None:
    long = line(4, "x" * 5_000_000)
    (root / "a.jsonl").write_bytes(WHOLE + long[:-1])
    assert (await store.open("a.jsonl")).head.seq == 4
    writer = await own(store)
    assert writer.head.seq == 4
    assert (root / "a.jsonl").read_bytes() == WHOLE + long


async def test_a_header_without_a_newline_gets_one(store: FileStore, root: Path) -> None:
    (root / "a.jsonl").write_bytes(HEADER[:-1])
    assert (await store.open("a.jsonl")).head.seq == 0
    assert (root / "a.jsonl").read_bytes() == HEADER[:-1]
    writer = await own(store)
    await writer.append(line(1))
    assert (root / "a.jsonl").read_bytes() == HEADER + line(1)
    assert await read_all(store, "a.jsonl") == bare([line(1)])


async def test_whitespace_at_the_end_is_not_a_fragment(store: FileStore, root: Path) -> None:
    (root / "a.jsonl").write_bytes(WHOLE + b"\n  \t")
    await (await own(store)).append(line(4))
    assert await read_all(store, "a.jsonl") == bare(lines(1, 4))
    assert torn_files(root) == {}


async def test_a_fragment_in_a_pi_file_is_isolated_by_a_newline(store: FileStore, root: Path) -> None:
    entry = (
        b'{"type":"custom","id":"00000001","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","customType":"t"}\n'
    )
    (root / "a.jsonl").write_bytes(PI_HEADER + entry + b'{"type":"cus')
    assert (await store.open("a.jsonl")).head.seq == 1
    writer = await own(store)
    assert writer.lease.dialect is not None
    assert writer.lease.dialect.name == "pi"
    assert writer.head.seq == 2
    await writer.append(entry)
    assert (root / "a.jsonl").read_bytes() == PI_HEADER + entry + b'{"type":"cus\n' + entry
    assert torn_files(root) == {}


async def test_moving_a_fragment_again_after_a_crash_gives_the_same_file(store: FileStore, root: Path) -> None:
    fragment = b'{"half":'
    torn = root / name_of(fragment, len(WHOLE))
    torn.write_bytes(fragment[:3])  # as after a crash while it was moved
    (root / "a.jsonl").write_bytes(WHOLE + fragment)
    await own(store)
    assert torn_files(root) == {torn.name: fragment}
    assert (root / "a.jsonl").read_bytes() == WHOLE


@pytest.mark.parametrize(
    ("left", "repaired", "tail", "is_moved", "count"),
    [
        (WHOLE, WHOLE, None, False, 3),
        (WHOLE + b'{"half', WHOLE, (len(WHOLE), 6), True, 3),
        (WHOLE[:-1], WHOLE, (len(WHOLE) - len(line(3)), len(line(3)) - 1), False, 3),
        (WHOLE + b"\n \t", WHOLE + b"\n \t\n", (len(WHOLE) + 1, 2), False, 3),
        (HEADER[:-1], HEADER, (0, len(HEADER) - 1), False, 0),
        (HEADER[:30], b"", (0, 30), True, 0),
        (b"", b"", None, False, 0),
        (PI_HEADER[:-1], PI_HEADER, (0, len(PI_HEADER) - 1), False, 0),
        (PI_HEADER + b'{"half', PI_HEADER + b'{"half\n', (len(PI_HEADER), 6), False, 1),
    ],
)
async def test_an_owner_is_told_what_the_tail_was(
    store: FileStore, root: Path, left: bytes, repaired: bytes, tail: tuple[int, int] | None, is_moved: bool, count: int
) -> None:
    path = root / "a.jsonl"
    path.write_bytes(left)
    lease = (await own(store)).lease
    moved = left[len(repaired) :] if is_moved else b""
    kept_in = f"{root}/{name_of(moved, len(repaired))}" if is_moved else None
    assert lease.torn == (tail and TornTail(*tail, kept_in))
    assert lease.head.seq == count
    assert path.read_bytes() == repaired
    assert torn_files(root) == ({name_of(moved, len(repaired)): moved} if is_moved else {})


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
async def test_a_session_whose_first_write_was_cut_short_is_new_and_the_fragment_is_kept(
    root: Path, left: bytes
) -> None:
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


async def test_the_beginning_of_a_header_is_left_while_its_lock_is_held_and_if_it_grows(
    store: FileStore, root: Path
) -> None:
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


# -- power cuts and other programs during the repair


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
    await store.aclose()


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
    await store.aclose()


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
    await store.aclose()
