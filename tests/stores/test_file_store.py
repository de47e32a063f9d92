"""The file store: names, files, permissions, open files, listing, and that readers change nothing."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

import os
import resource
import stat
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import pytest
from msgspec.structs import replace

from treering.events.dialects.base import Block
from treering.events.disk import OsDisk
from treering.events.errors import Conflict, HostClosed, InvalidInput, InvalidSessionId, NotASession, UnsupportedVersion
from treering.events.stores.base import Append, Cursor, Lease
from treering.events.stores.capabilities import NamesFiles
from treering.events.stores.files import Durability, FileStore
from treering.events.stores.files.log import log as log_module
from treering.testing.disks import MemoryDisk, RecordingDisk, WrappedDisk
from treering.testing.simulation.determinism import AtOnce
from treering.testing.stores.case import NATIVE, bare, header_of, line, lines, read_all

from .logs import HEADER, header_for, own, put_file

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


# -- names


def files_of(store: FileStore) -> NamesFiles:
    files = store.capability(NamesFiles)
    assert files is not None
    return files


@pytest.mark.parametrize(
    "ref", ["", "..", "../a.jsonl", "a/../../b.jsonl", "./a", "a//b", "a/", "/", "/a/../b", "a\0b"]
)
async def test_refs_that_lead_out_of_the_root_are_refused(store: FileStore, ref: str) -> None:
    with pytest.raises(InvalidSessionId):
        files_of(store).path_of(ref)
    with pytest.raises(InvalidSessionId):
        await store.acquire([ref], "me")
    with pytest.raises(InvalidSessionId):
        await store.open(ref)


async def test_a_file_has_one_ref_through_all_symlinks(store: FileStore, root: Path, tmp_path: Path) -> None:
    await (await own(store, "work/a.jsonl")).append(line(1))
    (tmp_path / "link").symlink_to(root / "work")
    files = files_of(store)
    assert files.ref_of(tmp_path / "link" / "a.jsonl") == "work/a.jsonl"
    assert files.ref_of(tmp_path / "b.jsonl") == str((tmp_path / "b.jsonl").resolve())
    assert files.path_of("work/a.jsonl") == str(root.resolve() / "work" / "a.jsonl")


async def test_a_log_can_be_outside_of_the_root(store: FileStore, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    ref = str(folder / "a.jsonl")
    writer = await own(store, ref)
    await writer.append(*lines(1, 2))
    assert await read_all(store, ref) == bare(lines(1, 2))
    assert await store.page() == []
    (folder / "a.jsonl.bak").touch()
    await store.remove(writer.lease)
    assert {path.name for path in folder.iterdir()} <= {".treering"}  # unless a folder above has one


async def test_a_log_can_have_the_longest_name_that_a_file_can_have(store: FileStore, root: Path) -> None:
    ref = "x" * 249 + ".jsonl"
    assert not await store.exists(ref)
    writer = await own(store, ref)
    head = await writer.append(*lines(1, 2))
    await store.save(writer.lease, "index", head, b"index")
    for kind in ("index", "leaf", "view-words"):
        assert await store.load(ref, kind) is None
    await store.release([writer.lease])
    assert await store.exists(ref)
    assert store.peek(ref).opening.head == (await store.open(ref)).head == head
    writer = await own(store, ref)
    await writer.append(line(3))
    assert await read_all(store, ref) == bare(lines(1, 3))
    await store.remove(writer.lease)
    assert list(root.glob("x*")) == []


# -- files


@pytest.mark.feature("U-22")
async def test_files_and_folders_are_accessible_only_to_their_owner(root: Path) -> None:
    root.rmdir()
    store = FileStore(root)
    writer = await own(store, "work/a.jsonl")
    head = await writer.append(line(1))
    await store.save(writer.lease, "index", head, b"index")
    await store.save(writer.lease, "leaf", head, b"{}")
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (root, *root.rglob("*"))}
    assert modes == {(False, 0o600), (True, 0o700)}
    await store.aclose()


@pytest.mark.parametrize("bad", [b"", b"\n", b" \t\r\n", b'{"a":1}', b'{"a":1}\n{"b":2}\n', b'\n{"a":1}'])
async def test_appends_that_are_not_complete_lines_are_refused(store: FileStore, root: Path, bad: bytes) -> None:
    writer = await own(store)
    await writer.append(line(1))
    before = (root / "a.jsonl").read_bytes()
    with pytest.raises(InvalidInput):
        store.try_append(writer.request(line(2), bad))
    with pytest.raises(InvalidInput):
        await store.append([writer.request(line(2), bad)])
    assert (root / "a.jsonl").read_bytes() == before


NEWER = b'{"type":"session","version":99,"id":"s","timestamp":"2026-01-01T00:00:00Z"}\n{"half'
NOT_SESSIONS = (b"hello\n", b"{}\n", b'{"type":"message"}\n', b"\x00" * 100, b"[1]\n")


@pytest.mark.parametrize("content", [*NOT_SESSIONS, NEWER])
async def test_a_file_that_is_not_a_session_or_is_newer_is_refused_and_unchanged(
    store: FileStore, root: Path, log: Path, content: bytes
) -> None:
    log.write_bytes(content)
    await (await own(store, "b.jsonl")).append(line(1))
    error = UnsupportedVersion if content is NEWER else NotASession
    with pytest.raises(error):
        await store.acquire(["b.jsonl", "c.jsonl", "a.jsonl"], "me")  # the first one is owned
    with pytest.raises(error):
        await store.open("a.jsonl")
    assert log.read_bytes() == content
    assert {path.name for path in root.iterdir()} == {"a.jsonl", "b.jsonl", ".treering"}
    assert isinstance((await store.acquire(["c.jsonl"], "me"))[0], Lease), "the locks of the other logs were released"


ODD = [b"{broken\n", HEADER, b"\xff\xfe\n"]


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        (b"\xef\xbb\xbf" + HEADER + line(1) + line(2), lines(1, 2)),
        ((HEADER + line(1) + line(2)).replace(b"\n", b"\r\n"), lines(1, 2)),
        (b"\n  \n" + HEADER + b"\n\t\n" + line(1) + b"\n" * 5 + line(2) + b" \n\n", lines(1, 2)),
        (HEADER + b" \r\n" + line(1).replace(b"\n", b"\r\n") + b"\r\n" + line(2), lines(1, 2)),
        (HEADER + line(1) + line(2)[:-1], lines(1, 2)),
        (HEADER + b"".join(ODD), ODD),
    ],
    ids=["bom", "crlf", "blank", "mixed", "open end", "damaged lines and a second header"],
)
async def test_odd_files_are_read_and_extended(store: FileStore, log: Path, content: bytes, whole: list[bytes]) -> None:
    log.write_bytes(content)
    assert await read_all(store, "a.jsonl") == bare(whole)
    assert log.read_bytes() == content
    writer = await own(store)
    assert writer.head.seq == len(whole)
    await writer.append(line(9))
    whole = bare([*whole, line(9)])
    assert await read_all(store, "a.jsonl") == whole
    for seqs in ([1], [2], [len(whole)], [3, 1, 2]):
        assert await store.bodies("a.jsonl", writer.head.generation, seqs) == [whole[seq - 1] for seq in seqs]


async def test_open_files_are_bounded_and_closing_them_loses_nothing(root: Path) -> None:
    store = FileStore(root, open_files_max=16, readers_max=4)
    writers = [await own(store, f"{number:03}.jsonl") for number in range(500)]
    before = len(os.listdir("/dev/fd"))
    for turn in range(1, 5):
        for writer in writers:
            await writer.append(line(turn))
        assert store.open_files == 16
    assert len(os.listdir("/dev/fd")) <= before + 16
    for _ in range(2):
        for writer in writers:
            assert await read_all(store, writer.lease.ref) == bare(lines(1, 4))
        assert store.open_files <= 16
        await store.release([writer.lease for writer in writers])
    await store.aclose()
    assert store.open_files == 0


@pytest.mark.parametrize(("limit", "kept"), [(64, 8), (4, 1), (1_000_000, 20), (resource.RLIM_INFINITY, 20)])
async def test_the_number_of_open_files_follows_the_limit_of_the_process(
    root: Path, monkeypatch: pytest.MonkeyPatch, limit: int, kept: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, resource.RLIM_INFINITY))
    store = FileStore(root)
    writers = [await own(store, f"{number}.jsonl") for number in range(20)]
    for turn in range(1, 3):
        for writer in writers:
            await writer.append(line(turn))
    assert store.open_files == kept
    await store.release([writer.lease for writer in writers])
    await store.aclose()


@pytest.mark.parametrize("options", [{"writes": "thread"}, {"writes": "inline"}, {"durability": "file"}], ids=str)
async def test_a_file_is_its_header_and_lines_with_every_way_of_writing(root: Path, options: dict[str, Any]) -> None:
    store = FileStore(root, **options)
    writers = [await own(store, f"{number}.jsonl") for number in range(40)]
    for turn in (1, 4):
        requests = [writer.request(*lines(turn, turn + 2)) for writer in writers]
        for writer, outcome in zip(writers, await store.append(requests), strict=True):
            writer.commit(outcome, 3)
    for writer in writers:
        ref = writer.lease.ref
        assert await read_all(store, ref) == bare(lines(1, 6))
        assert (root / ref).read_bytes() == header_for(ref) + b"".join(lines(1, 6))
    await store.aclose()


async def test_after_a_slow_write_the_next_ones_need_a_thread_for_a_while(root: Path) -> None:
    disk = SlowWrites()
    disk.check_takes_s = 5.0  # no write: as if the garbage collector or another thread ran at that moment
    store = FileStore(root, disk=disk, timer=lambda: disk.now, slow_write_s=0.5, slow_for_s=3.5)
    writer = await own(store)
    for number in (1, 2, 3):
        writer.commit(store.try_append(writer.request(line(number))), 1)
    disk.check_takes_s = 0.0
    disk.takes_s = 0.6
    writer.commit(store.try_append(writer.request(line(4))), 1)
    disk.takes_s = 0.0
    assert store.try_append(writer.request(line(5))) is None
    await writer.append(line(5))
    disk.now += 3.4
    assert store.try_append(writer.request(line(6))) is None
    disk.now += 0.2
    writer.commit(store.try_append(writer.request(line(6))), 1)
    await store.aclose()


@pytest.mark.parametrize("newline", [b"\n", b""])
@pytest.mark.parametrize("size", [100, 4095, 4096, 4097, 16_384, 16_385, 65_536, 300_000])
async def test_a_header_of_any_length_is_read(size: int, newline: bytes) -> None:
    header = header_of("session")
    header = replace(header, title="x" * (size - len(NATIVE.encode_header(replace(header, title="")))))
    block = NATIVE.encode_header(header)
    assert len(block) == size
    data = block[:-1] + newline + (line(1) if newline else b"")
    disk = MemoryDisk()
    disk.make_directory("/s")
    put_file(disk, "/s/a.jsonl", data)
    for store in (FileStore("/s", disk=disk, offload=AtOnce()), FileStore("/s", disk=disk, offload=AtOnce())):
        opening = await store.open("a.jsonl")
        assert (opening.header, opening.head.seq) == (header, len(newline))
        writer = await own(store)
        assert (writer.lease.header, writer.head.seq) == (header, len(newline))
        assert disk.files()["/s/a.jsonl"] == block + (line(1) if newline else b"")
        await store.aclose()


class CountingOffload(AtOnce):
    """Counts the calls that would run in a thread."""

    count = 0

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.count += 1
        return await super().__call__(fn, *args)

    def taken(self) -> int:
        count, self.count = self.count, 0
        return count


@pytest.mark.parametrize("is_slow", [True, False])
async def test_the_event_loop_reads_and_writes_only_files_of_local_disks(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    monkeypatch.setattr(log_module, "is_slow_device", lambda _: is_slow)
    offload = CountingOffload()
    store = FileStore(root, offload=offload)
    writer = await own(store)
    writer.commit(store.try_append(writer.request(line(1))), 1)  # the folder was known to be on a local disk
    assert (store.try_append(writer.request()) is None) == is_slow
    await store.release([writer.lease])
    await store.open("a.jsonl")
    for number in range(2, 4):
        with (root / "a.jsonl").open("ab") as other:
            other.write(line(number))
        offload.taken()
        assert (await store.open("a.jsonl")).head.seq == number
        assert offload.taken() == is_slow
        page = await store.read("a.jsonl", writer.head.generation, number - 1)
        assert list(page.lines) == [line(number)[:-1]]
        assert isinstance(page.lines, Block)
        assert offload.taken() == is_slow
    await store.aclose()


class SlowWrites(WrappedDisk):
    """A disk with a clock of its own, which only its calls advance."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.now = 0.0
        self.takes_s = 0.0
        self.check_takes_s = 0.0

    def write(self, fd: int, data: bytes) -> int:
        self.now += self.takes_s
        return super().write(fd, data)

    def is_still(self, path: str, device: int, inode: int, size: int) -> bool:
        self.now += self.check_takes_s
        return super().is_still(path, device, inode, size)


async def test_unknown_options_are_refused(root: Path) -> None:
    for options in ({"durability": "raid"}, {"journal_max_bytes": 0}, {"writes": "x"}, {"open_files_max": 0}):
        with pytest.raises(InvalidInput):
            FileStore(root, **options)


# -- reading


async def test_a_reader_changes_no_file(store: FileStore, root: Path) -> None:
    (root / "a.jsonl").write_bytes(HEADER + line(1) + line(2) + b'{"torn":')
    old = b'{"type":"session","id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}\n'
    (root / "old.jsonl").write_bytes(old + b'{"type":"message","timestamp":"2026-01-01T00:00:00.000Z","message":{}}')
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.iterdir()}
    for ref, count in (("a.jsonl", 2), ("old.jsonl", 1)):
        opening = await store.open(ref)
        assert opening.head.seq == count
        assert len(await read_all(store, ref)) == count
        assert len(await store.bodies(ref, opening.head.generation, [count])) == 1
        assert await store.load(ref, "index") is None
        assert await store.load(ref, "leaf") is None
    assert (await store.open("old.jsonl")).dialect.old
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.iterdir()} == before


@pytest.mark.feature("X-22")
async def test_a_reader_never_sees_a_torn_line(store: FileStore, root: Path) -> None:
    whole = line(2)
    log = root / "a.jsonl"
    log.write_bytes(HEADER + line(1))
    opening = await store.open("a.jsonl")
    seen: set[int] = set()
    with log.open("ab", buffering=0) as other:
        for at in range(len(whole)):
            other.write(whole[at : at + 1])
            page = await store.read("a.jsonl", opening.head.generation, 1)
            assert page.lines in ([], [whole[:-1]])
            seen.add(len(page.lines))
    assert seen == {0, 1}
    assert (await store.open("a.jsonl")).head == Cursor(opening.head.generation, 2)


async def test_a_line_of_a_hundred_megabytes_can_be_written_and_read(store: FileStore) -> None:
    writer = await own(store)
    long = line(2, "x" * 100_000_000)
    head = await writer.append(line(1), long, line(3))
    assert (await store.read("a.jsonl", head.generation, 1)).lines == [long[:-1]]
    await store.release([writer.lease])
    assert (await own(store)).head == head
    assert await store.bodies("a.jsonl", head.generation, [3, 2]) == bare([line(3), long])
    for missing in ([0], [4], [1, -1]):
        with pytest.raises(InvalidInput):
            await store.bodies("a.jsonl", head.generation, missing)


# -- listing


async def test_the_listing_covers_folders_in_the_order_of_refs(store: FileStore, root: Path) -> None:
    refs = ["a.jsonl", "a/b.jsonl", "a-b.jsonl", "a/b/c.jsonl", "b/a.jsonl", "--work--/x.jsonl", "z.jsonl"]
    for ref in refs:
        await (await own(store, ref)).append(line(1))
    (root / "notes.txt").write_text("no log")
    (root / "a" / "loop").symlink_to(root)
    (root / "a" / "nowhere.jsonl").symlink_to(root / "gone")
    assert [info.ref for info in await store.page() if "loop" not in info.ref] == sorted(refs)
    for prefix in ("a", "a/", "a/b/", "b", "c"):
        listed = [info.ref for info in await store.page(prefix) if "loop" not in info.ref]
        assert listed == sorted(ref for ref in refs if ref.startswith(prefix))
    paged: list[str] = []
    while page := await store.page("a", after=paged[-1] if paged else "", limit=1):
        paged.append(page[0].ref)
    assert [ref for ref in paged if "loop" not in ref] == sorted(ref for ref in refs if ref.startswith("a"))


async def test_the_listing_reads_only_the_folders_that_it_needs(root: Path) -> None:
    disk = ListingDisk()
    store = FileStore(root, disk=disk)
    for number in range(10):
        await (await own(store, f"{number}/a.jsonl")).append(line(1))
    disk.listed.clear()
    assert [info.ref for info in await store.page("3/")] == ["3/a.jsonl"]
    assert [Path(folder).name for folder in disk.listed if ".treering" not in folder] == ["sessions", "3"]
    disk.listed.clear()
    assert [info.ref for info in await store.page(after="5/a.jsonl", limit=2)] == ["6/a.jsonl", "7/a.jsonl"]
    assert [Path(folder).name for folder in disk.listed if ".treering" not in folder] == ["sessions", "5", "6", "7"]
    await store.aclose()


class ListingDisk(WrappedDisk):
    """A disk that records which folders are listed."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.listed: list[str] = []

    def list_directory(self, path: str) -> Sequence[str]:
        self.listed.append(path)
        return super().list_directory(path)


# -- whole logs


COPIES = (
    "a.jsonl.torn-1-00000000",
    "a.jsonl.torn-1-00000000.tmp-7-1",
    "a.jsonl.bak",
    "a.jsonl.bak-2",
    "a.jsonl.tmp-7-1",
    "a.jsonl.zst.tmp-7-1",
    "a.jsonl.view-words",
)


@pytest.mark.parametrize(
    ("folder", "aside_folder"),
    [
        ("", ".treering/aside"),
        ("work", ".treering/aside/work"),
        ("work", "work/.treering/aside"),
        ("work/deep", "work/.treering/aside/deep"),
    ],
)
async def test_a_log_goes_with_its_copies_alone(store: FileStore, root: Path, folder: str, aside_folder: str) -> None:
    writer = await own(store, f"{folder}/a.jsonl".lstrip("/"))
    await writer.append(line(1))
    await store.save(writer.lease, "leaf", writer.head, b"{}")
    aside = root / aside_folder
    aside.mkdir(parents=True)
    for name in (*COPIES, "a.jsonl.tmp-7-1-2"):
        (root / folder / name if name in COPIES else aside / name).touch()
    others = {"a.jsonl.note", "aa.jsonl.bak", "a.jsonl.bak.jsonl", "a.jsonl.bakery"}
    for name in others:
        (root / folder / name).touch()
        (aside / name).touch()
    await store.remove(writer.lease)
    assert {path.name for path in (root / folder).iterdir()} - {".treering"} == others
    assert {path.name for path in aside.iterdir()} == others
    with pytest.raises(Conflict):
        await store.remove(writer.lease)


@pytest.mark.parametrize("durability", ["os", "file", "group"])
@pytest.mark.parametrize("packed", [False, True])
async def test_a_power_cut_at_a_removal_leaves_no_copies_without_the_log(durability: Durability, packed: bool) -> None:
    memory = MemoryDisk()
    memory.make_directory("/data/sessions")
    store = FileStore("/data/sessions", durability=durability, disk=memory)
    writer = await own(store)
    await writer.append(line(1))
    for name in COPIES[:4]:
        memory.close(memory.open(f"/data/sessions/{name}", os.O_WRONLY | os.O_CREAT))
    if packed:
        await store.pack(writer.lease)
    await store.aclose()
    memory.settle()
    disk = RecordingDisk(memory)
    store = FileStore("/data/sessions", durability=durability, disk=disk)
    lease = (await own(store)).lease
    await store.remove(lease)
    done = len(disk.operations)
    await store.aclose()

    def files_of_the_log(left: MemoryDisk) -> set[str]:
        return {path for path in left.files() if path.startswith("/data/sessions/a.jsonl")}

    for left in disk.crash_states():
        found = files_of_the_log(left)
        copies = {path for path in found if ".bak" in path or ".torn-" in path}
        assert not copies or found & {
            "/data/sessions/a.jsonl",
            "/data/sessions/a.jsonl.zst",
            "/data/sessions/a.jsonl.gz",
        }
    assert all(not files_of_the_log(left) for left in disk.crash_states(since=done))


async def test_each_put_starts_a_generation_and_spares_others_lines(store: FileStore, root: Path, log: Path) -> None:
    writer = await own(store)
    generations = {(await writer.append(line(1))).generation}
    for _ in range(5):
        generations.add((await store.put(writer.lease, NATIVE, HEADER, [line(1)])).generation)
    assert len(generations) == 6
    await store.release([writer.lease])
    writer = await own(store)
    assert writer.head.generation in generations
    before = {path.name for path in root.iterdir()}

    class Appending(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            """Be read while another program appends."""
            log.write_bytes(HEADER + line(1) + line(2))
            return super().__iter__()

    for written in (Appending([line(1)]), [line(1)]):  # the second time, the line was there before
        with pytest.raises(Conflict):
            await store.put(writer.lease, NATIVE, HEADER, written)
        assert log.read_bytes() == HEADER + line(1) + line(2)
        assert {path.name for path in root.iterdir()} == before


# -- closing


async def test_every_call_on_a_closed_store_raises_host_closed(store: FileStore) -> None:
    writer = await own(store)
    head = await writer.append(line(1))
    await store.aclose()
    await store.aclose()
    request = Append(writer.lease, head, (line(2),))
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.append([request]),
        lambda: store.acquire(["a.jsonl"], "me"),
        lambda: store.read("a.jsonl", head.generation, 0),
        lambda: store.load("a.jsonl", "index"),
        lambda: store.resolve(writer.lease),
        lambda: store.open("a.jsonl"),
    ]
    for call in calls:
        with pytest.raises(HostClosed):
            await call()
    with pytest.raises(HostClosed):
        store.try_append(request)


# -- flushing what others wrote


def flushes(disk: RecordingDisk) -> list[str]:
    return [each.path for each in disk.operations if each.kind == "datasync"]


@pytest.mark.parametrize("durability", ["file", "group"])
async def test_acquiring_a_log_flushes_it_only_if_it_changed_since_its_release(durability: Durability) -> None:
    disk = RecordingDisk()
    store = FileStore("/sessions", disk=disk, durability=durability)
    other = FileStore("/sessions", disk=disk)
    mine = await own(store)
    await mine.append(line(1))
    before = len(flushes(disk))
    await store.release([mine.lease])
    mine = await own(store)
    await store.release([mine.lease])
    assert len(flushes(disk)) == before
    theirs = await own(other)
    await theirs.append(line(2))
    await other.release([theirs.lease])
    assert len(flushes(disk)) == before
    await own(store)
    assert len(flushes(disk)) == before + 1


async def test_what_is_kept_about_released_logs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.events.stores.files.durability.flushing.FLUSHED_MAX", 2)
    disk = RecordingDisk()
    store = FileStore("/sessions", disk=disk, durability="file")
    for ref in ("a.jsonl", "b.jsonl", "deleted.jsonl", "c.jsonl"):
        mine = await own(store, ref)
        await mine.append(line(1))
        await (store.remove(mine.lease) if ref == "deleted.jsonl" else store.release([mine.lease]))
    before = len(flushes(disk))
    for ref in ("c.jsonl", "b.jsonl", "a.jsonl"):
        await own(store, ref)
    assert flushes(disk)[before:] == ["/sessions/a.jsonl"]  # it was released longest ago, so it is flushed once more


async def test_a_folder_that_another_store_created_survives_a_power_cut_after_an_append() -> None:
    disk = MemoryDisk()
    store, other = FileStore("/sessions", disk=disk, durability="file"), FileStore("/sessions", disk=disk)
    await (await own(store)).append(line(1))
    theirs = await own(other, "project/b.jsonl")
    await theirs.append(line(1))
    await other.aclose()
    mine = await own(store, "project/b.jsonl")
    await mine.append(line(2))
    left = disk.crash()
    await store.aclose()
    assert await read_all(FileStore("/sessions", disk=left), "project/b.jsonl") == bare(lines(1, 2))
