"""Packed files, read piece by piece, and the disk that shows them as logs."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from treering.events.disk import Disk
from treering.events.disk.packed import PackedDisk, PackedFile, Piece, codec_of, reading_disk
from treering.events.errors import Conflict, LogDamaged, Where
from treering.events.stores.files import FileStore
from treering.testing.disks import FaultyDisk, MemoryDisk, RecordingDisk, WrappedDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import NATIVE, header_of, lines

from ..stores.logs import own, put_file

PATH = "/s/a.jsonl"
PARTS = [
    b"first\n",
    Random(0).randbytes(150_000),
    b"x",
    b"last\n",
]  # the second one is longer than what is read at once
CONTENT = b"".join(PARTS)
SUFFIXES = [".zst", ".gz"]
LOG = NATIVE.encode_header(header_of("id-of-a.jsonl")) + b"".join(lines(1, 3))


def packed(suffix: str, *parts: bytes) -> bytes:
    return b"".join(codec_of(suffix).pack(part) for part in parts)


def opened_file(disk: Disk, suffix: str, data: bytes) -> PackedFile:
    put_file(disk, PATH + suffix, data)
    return PackedFile(disk, disk.open(PATH + suffix, os.O_RDONLY), PATH + suffix)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_part_of_a_packed_file_is_read_by_unpacking_the_pieces_that_hold_it(suffix: str) -> None:
    disk = FaultyDisk(MemoryDisk())
    file = opened_file(disk, suffix, packed(suffix, *PARTS))
    sizes = [len(packed(suffix, part)) for part in PARTS]
    places = [sum(sizes[:number]) for number in range(len(PARTS))]
    assert list(file.pieces) == [Piece(*each) for each in zip(places, sizes, map(len, PARTS), strict=True)]
    assert file.size == len(CONTENT)
    edges = [0, 1, 5, 6, 7, 150_005, 150_006, 150_007, 150_008, len(CONTENT) - 1, len(CONTENT)]
    for offset in edges:
        for end in [*edges, len(CONTENT) + 9]:
            assert file.read(end - offset, offset) == CONTENT[offset : max(offset, end)]
    known = PackedFile(disk, disk.open(PATH + suffix, os.O_RDONLY), PATH + suffix, file.pieces)
    reads = []
    for number in (0, 2, 0, 3, 0, 2, 2, 3):  # the two that were read last are kept
        disk.reset_counts()
        assert known.read(1, [0, 6, 150_006, 150_007][number]) == PARTS[number][:1]
        reads.append(disk.counts["pread"])
    assert reads == [1, 1, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damage_is_found_where_it_is(suffix: str) -> None:
    one, two = packed(suffix, PARTS[0]), packed(suffix, PARTS[1])
    other = bytearray(two)
    other[-2] ^= 1
    for data, at, before, reason in (
        (b"", 0, 0, "it is empty, which an archived session never is"),
        (one[:-1], 0, 0, "it ends in the middle of a piece"),
        (one + two[:-1], len(one), len(PARTS[0]), "it ends in the middle of a piece"),
        (one + other, len(one), len(PARTS[0]), None),
        (one + two + b"garbage", len(one + two), len(PARTS[0] + PARTS[1]), None),
    ):
        with pytest.raises(LogDamaged) as caught:
            opened_file(MemoryDisk(), suffix, bytes(data))
        assert str(caught.value.where) == str(Where(PATH + suffix, None, at))
        assert str(caught.value).endswith(f"The part before the damage holds {before} bytes of the session")
        is_torn = "in the middle of a piece" in str(caught.value)
        assert (not is_torn) if reason is None else f"from here on ({reason});" in str(caught.value)
    disk = MemoryDisk()
    file = opened_file(disk, suffix, one + two)
    for data, reason in (
        (one + other, None),
        (one + packed(suffix, b"another one"), "it was changed while it was read"),
    ):
        put_file(disk, PATH + suffix, bytes(data))
        with pytest.raises(LogDamaged, match=f"holds {len(PARTS[0])} bytes of the session") as caught:
            file.read(9, len(PARTS[0]))
        assert str(caught.value.where) == str(Where(PATH + suffix, None, len(one)))
        assert reason is None or f"from here on ({reason});" in str(caught.value)


def test_a_packed_log_is_read_under_its_own_name() -> None:
    memory = MemoryDisk()
    form = PATH + ".gz"
    put_file(memory, "/s/b.jsonl", b"plain")
    put_file(memory, "/s/b.jsonl.gz", packed(".gz", b"not looked at"))
    assert reading_disk(memory, PATH) is None
    assert reading_disk(memory, "/s/b.jsonl") is None
    put_file(memory, form, packed(".gz", *PARTS))
    counted = FaultyDisk(memory)
    disk = reading_disk(counted, PATH)
    assert disk is not None
    assert not disk.unchanged()
    seen = replace(memory.stat(form), size=len(CONTENT))
    for path in (PATH, form):
        assert disk.stat(path) == seen
        assert disk.is_still(path, seen.device, seen.inode, seen.size)
        assert not disk.is_still(path, seen.device, seen.inode, seen.size + 1)
        fd = disk.open(path, os.O_RDONLY)
        assert (disk.fstat(fd), disk.pread(fd, 7, 3)) == (seen, CONTENT[3:10])
        disk.close(fd)
    counted.reset_counts()
    disk.close(disk.open(PATH, os.O_RDONLY))
    assert counted.counts["pread"] == 0, "the pieces of a file that is the same are known"
    assert disk.unchanged()
    assert disk.stat("/s/b.jsonl") == memory.stat("/s/b.jsonl")
    fd = disk.open("/s/b.jsonl", os.O_RDONLY)
    assert (disk.fstat(fd), disk.pread(fd, 3, 1)) == (memory.stat("/s/b.jsonl"), b"lai")
    disk.close(fd)
    assert (disk.list_directory("/s"), disk.real_path(PATH)) == (memory.list_directory("/s"), PATH)
    for missing in (disk.stat, lambda path: disk.open(path, os.O_RDONLY)):
        with pytest.raises(FileNotFoundError):
            missing("/s/c.jsonl")
    put_file(memory, form, packed(".gz", b"other"))
    assert not disk.unchanged()
    assert disk.stat(PATH).size == 5
    put_file(memory, form, b"damaged")
    with pytest.raises(LogDamaged):
        disk.open(PATH, os.O_RDONLY)
    assert memory.open_files == 0


WRITES: dict[str, Callable[[PackedDisk], object]] = {
    PATH: lambda disk: disk.open(PATH, os.O_WRONLY),
    "/rw": lambda disk: disk.open("/rw", os.O_RDWR | os.O_CREAT),
    "3": lambda disk: disk.write(3, b"x"),
    "4": lambda disk: disk.position(4),
    "5": lambda disk: disk.seek(5, 0),
    "6": lambda disk: disk.truncate(6, 0),
    "7": lambda disk: disk.datasync(7),
    "/synced": lambda disk: disk.sync_directory("/synced"),
    "/source": lambda disk: disk.rename("/source", "/target"),
    "/gone": lambda disk: disk.unlink("/gone"),
    "/made": lambda disk: disk.make_directory("/made"),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_packed_log_is_read_only(what: str) -> None:
    with pytest.raises(PermissionError, match="a packed log is read-only") as caught:
        WRITES[what](PackedDisk(MemoryDisk()))
    assert (caught.value.errno, caught.value.filename) == (errno.EROFS, what)


# -- packing and unpacking


async def packed_log(disk: Disk) -> FileStore:
    """Create a log of three lines and pack it."""
    store = FileStore("/s", disk=disk, offload=AtOnce())
    writer = await own(store)
    await writer.append(*lines(1, 3))
    await store.pack(writer.lease)
    return store


async def test_both_forms_exist_until_the_new_one_is_durable() -> None:
    disk = RecordingDisk()
    store = FileStore("/s", disk=disk, offload=AtOnce())
    writer = await own(store)
    await writer.append(*lines(1, 3))
    await store.save(writer.lease, "view-words", writer.head, b"derived")
    disk.operations.clear()
    await store.pack(writer.lease)

    def done() -> list[str]:
        told = [
            f"{each.kind} {each.target or each.path}".replace(f".tmp-{os.getpid()}-1", "*") for each in disk.operations
        ]
        disk.operations.clear()
        told = [each for each in told if ".treering" not in each and ".index" not in each]  # what is derived
        return [each for each in told if not each.startswith("open") or "*" in each]

    assert done() == [
        f"datasync {PATH}",
        "sync_directory /s",
        "sync_directory /",
        f"open {PATH}.zst*",
        f"write {PATH}.zst*",
        f"datasync {PATH}.zst*",
        f"open {PATH}.zst*",
        "sync_directory /s",  # where the log is, for followers
        f"rename {PATH}.zst",
        "sync_directory /s",
        f"unlink {PATH}",
        f"unlink {PATH}.view-words",
        "sync_directory /s",
    ]
    await store.unpack((await own(store)).lease)
    assert done() == [
        f"open {PATH}*",
        f"write {PATH}*",
        f"datasync {PATH}*",
        f"open {PATH}*",
        "sync_directory /s",  # where the log is, for followers
        f"rename {PATH}",
        "sync_directory /s",
        f"unlink {PATH}.zst",
        "sync_directory /s",
    ]
    await store.aclose()
    assert disk.memory.open_files == 0


class LyingDisk(WrappedDisk):
    """A disk that keeps other bytes in temporary files than those that are written."""

    def __init__(self, inner: Disk, kept: bytes) -> None:
        super().__init__(inner)
        self._kept = kept
        self._temporary: set[int] = set()

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        self._temporary.discard(fd)
        if ".tmp-" in path:
            self._temporary.add(fd)
        return fd

    def write(self, fd: int, data: bytes) -> int:
        super().write(fd, self._kept if fd in self._temporary else data)
        return len(data)


@pytest.mark.parametrize("kept", [LOG[:-1], LOG[:-2] + b"x\n"])
@pytest.mark.parametrize("is_packed", [False, True])
async def test_a_form_that_reads_back_otherwise_replaces_nothing(kept: bytes, is_packed: bool) -> None:
    memory = MemoryDisk()
    store = await packed_log(memory)
    path = PATH
    if not is_packed:
        await store.unpack((await own(store)).lease)
        path, kept = PATH + ".zst", packed(".zst", kept)
    await store.aclose()
    before = memory.files()
    store = FileStore("/s", disk=LyingDisk(memory, kept), offload=AtOnce())
    with pytest.raises(OSError, match="differs from what was written") as caught:
        await (store.unpack if is_packed else store.pack)((await own(store)).lease)
    assert (caught.value.errno, memory.files(), memory.open_files) == (errno.EIO, before, 0)
    assert PATH in str(caught.value.filename), path
    await store.aclose()


@pytest.mark.parametrize(
    ("form", "is_leftover"),
    [
        (b"", True),
        (packed(".gz", LOG), True),
        (packed(".gz", LOG[:9], LOG[9:99]), True),
        (packed(".gz", b"x" + LOG[1:]), False),
        (packed(".gz", LOG + b"x"), False),
        (packed(".gz", LOG)[:-1], False),
        (b"garbage", False),
    ],
)
async def test_a_packed_form_beside_its_log_is_removed_if_the_log_has_all_of_it(form: bytes, is_leftover: bool) -> None:
    memory = MemoryDisk()
    memory.make_directory("/s")
    memory.settle()
    put_file(memory, PATH, LOG)
    put_file(memory, PATH + ".gz", form)
    disk = RecordingDisk(memory)
    store = FileStore("/s", disk=disk, offload=AtOnce())
    with capture_logs() as logs:
        lease = (await own(store)).lease
    why = "the unpacked session beside it has other content"
    left = {"event": "archive_left", "path": PATH + ".gz", "why": why, "log_level": "warning"}
    assert logs == ([] if is_leftover else [left])
    kept = {} if is_leftover else {PATH + ".gz": form}
    assert {path: data for path, data in memory.files().items() if ".gz" in path} == kept
    assert memory.crash().files()[PATH] == LOG, "it is flushed before"
    if not is_leftover:
        with pytest.raises(Conflict, match="move the packed form away"):
            await store.pack(lease)
        assert {path: data for path, data in memory.files().items() if ".gz" in path} == kept
        assert memory.files()[PATH] == LOG
    await store.aclose()
    assert memory.open_files == 0
