"""Damaged inputs for every reader, each decided by a seed, and what must hold whatever they are.

The readers: sessions of each dialect, the files beside them (leaf records, snapshots, the index, packed logs), journals
and their voids, lock files, files of settings, and the sessions of other programs. A reader either reads an input or
refuses it with an error of the library; it changes nothing that it reads, and loses no line that is whole.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import anyio

from treering import InvalidInput, Limits, Message, NotASession, Session, SessionHost, Settings, TreeringError, text
from treering.errors import LogDamaged, UnsupportedVersion
from treering.events.dialects.detect import is_torn_header
from treering.events.errors import ForeignFormatError
from treering.events.stores.files import Durability, FileStore
from treering.formats.base import ForeignSession
from treering.formats.walk import Walk
from treering.testing.disks import MemoryDisk
from treering.testing.disks.crashes import digest
from treering.testing.simulation import check_session, run
from treering.testing.simulation.determinism import AtOnce, SeededIds, VirtualClock

from ..formats.test_opencode import database

ROOT = "/sessions"
FILE = f"{ROOT}/a.jsonl"
DATA = Path(__file__).parents[1] / "data"
TIME = b'"timestamp":"2026-01-01T00:00:00.000Z"'

NATIVE = b'{"type":"session","id":"a","version":1,' + TIME + b"}\n"
HEADERS = [
    NATIVE,
    b'{"type":"session","id":"a",' + TIME + b',"cwd":"/w"}\n',
    b'{"type":"session","version":2,"id":"a",' + TIME + b',"cwd":"/w"}\n',
    b'{"type":"session","version":3,"id":"a",' + TIME + b',"cwd":"/w"}\n',
    b'{"type":"session","version":3,"id":"a",' + TIME + b',"cwd":"/w","titleSource":"user"}\n',
    (DATA / "omp_v3.jsonl").read_bytes().partition(b'{"type":"message"')[0].rpartition(b"\n")[0] + b"\n",
    b"\xef\xbb\xbf\r\n" + NATIVE.replace(b"\n", b"\r\n"),
]
SAMPLES = [
    line
    for name in ("pi_v1", "pi_v2", "pi_v3", "omp_v3")
    for line in (DATA / f"{name}.jsonl").read_bytes().splitlines()[1:]
] + [
    b'{"type":"message","id":"1","parent_id":null,' + TIME + b',"seq":1,"message":{"role":"user","content":"Hi"}}',
    b'{"type":"label","id":"2","parent_id":"1",' + TIME + b',"label":{"target_id":"1","label":"x"}}',
    b'{"type":"compaction","id":"3","parent_id":"3",' + TIME + b',"compaction":{"summary":"s","tokens_before":1}}',
    b'{"type":"custom","id":"4","parent_id":"9",' + TIME + b',"custom":{"custom_type":"c","data":{"a":[1,null]}},'
    b'"batch":{"session":"a","id":"b","i":0,"n":2}}',
    b'{"type":"session","id":"a","version":1}',
    b"null",
    b"{}",
    b"[" * 5000,
    b'{"type":"message","id":"5","parentId":null,"message":{"role":"user","content":"\\ud800"}}',
]
WORST = [b"", b"\n", NATIVE[:-1], NATIVE + b"\0" * 600, NATIVE + b'{"\x80ype":"message"}']
"""Files that are checked whatever the seeds."""

FOREIGN = {
    "pi": ("pi_v1.jsonl", "pi_v2.jsonl", "pi_v3.jsonl"),
    "omp": ("omp_v3.jsonl",),
    **{
        folder.name.replace("_", "-"): tuple(f"{folder.name}/{each.name}" for each in files)
        for folder in sorted(DATA.iterdir())
        if folder.is_dir() and (files := sorted({*folder.glob("*.json*")} - {*folder.glob("*.meta.json")}))
    },
}
"""The sample files of each program, by the name of its format."""

PIECES = [b"\0", b"{", b"}", b"[", b"]", b'"', b",", b":", b"\n", b"\r", b"\\", b"\xff", b"\xef\xbb\xbf", b"\\ud800"]
ODD = [b"null", b"0", b"-1", b'""', b'"x"', b"[]", b"[7]", b"{}", b"true", b"1e400", b"[[]]", b"18446744073709551616"]


def damaged(random: Random, data: bytes) -> bytes:
    """Return data with one to three damages: cut off, doubled, left out, overwritten, or a value of another type."""
    for _ in range(random.choice((1, 1, 2, 3))):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.choice((1, 1, 4, 30, 300)))
        match random.randrange(8):
            case 0:
                data = data[:start]
            case 1:
                data = data[:end] + data[start:]
            case 2:
                data = data[:start] + data[end:]
            case 3:
                data = data[:start] + random.choice(PIECES) + data[start + 1 :]
            case 4:
                data = data[:start] + random.randbytes(random.randrange(1, 9)) + data[end:]
            case 5 if (colon := data.find(b":", start)) >= 0:
                stop = min((at for mark in b',}\n"' if (at := data.find(mark, colon + 2)) >= 0), default=len(data))
                data = data[: colon + 1] + random.choice(ODD) + data[stop:]
            case 6 if start < len(data):
                data = data[:start] + bytes([data[start] ^ 1 << random.randrange(8)]) + data[start + 1 :]
            case _:
                lines = data.splitlines(keepends=True)
                random.shuffle(lines)
                data = b"".join(lines)
    return data


# -- sessions


def session_file(random: Random) -> bytes:
    """Return a file that begins like a session of some dialect and continues arbitrarily."""

    def line(unharmed: float) -> bytes:
        sample = random.choice(SAMPLES)
        return (sample if random.random() < unharmed else damaged(random, sample)).replace(b"\n", b" ")

    header = random.choice(HEADERS)
    if random.random() < 0.2:
        header = damaged(random, header)
    newline = random.choice([b"\n", b"\r\n", b"\n\n"])
    body = b"".join(line(0.5) + newline for _ in range(random.randrange(9)))
    return header + body + random.choice((b"", line(0), random.randbytes(random.randrange(41))))


def disk_with(data: bytes) -> MemoryDisk:
    """Return a disk with one session file."""
    disk = MemoryDisk()
    disk.make_directory(ROOT)
    overwrite(disk, FILE, data)
    return disk


def overwrite(disk: MemoryDisk, path: str, data: bytes) -> None:
    """Give a file another content, once and for all."""
    fd = disk.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    disk.write(fd, data)
    disk.close(fd)
    disk.settle()


def host_on(disk: MemoryDisk, durability: Durability = "os", limits: Limits | None = None) -> SessionHost:
    """Return a host on a disk in memory, without threads."""
    offload, random = AtOnce(), Random(digest(disk.image))
    new_id = SeededIds(random)
    store = FileStore(ROOT, disk=disk, offload=offload, durability=durability, new_id=new_id)
    return SessionHost(store=store, offload=offload, clock=VirtualClock(random), new_id=new_id, limits=limits)


async def read(disk: MemoryDisk) -> None:
    """Read everything from a session that is opened read-only."""
    async with host_on(disk) as host:
        session = await host.load(FILE, read_only=True)
        entries = await session.entries()
        for leaf in [None, *(entry.id for entry in entries[-3:])]:
            try:
                await session.context(leaf)
                session.path(leaf)
            except TreeringError:
                pass
        session.tree()
        session.labels()
        await host.list_sessions()


async def append(disk: MemoryDisk) -> None:
    """Append to a session, and find the same entries when it is opened again."""
    async with host_on(disk) as host:
        session = await host.load(FILE)
        entry_id = await session.append_message("user", "appended")
        assert session.leaf_id == entry_id
        again = [entry.id for entry in await session.entries()]
        assert again[-1] == entry_id
    async with host_on(disk) as host:
        session = await host.load(FILE)
        assert [entry.id for entry in await session.entries()] == again


def lost_lines(before: bytes, disk: MemoryDisk) -> Sequence[bytes]:
    """Return the complete lines of a file that are, in order, neither in it afterwards nor in its backup."""
    kept = disk.files()
    if kept.get(f"{FILE}.bak") == before:
        return []
    after = iter(kept[FILE].split(b"\n"))
    return [line for line in before.split(b"\n")[:-1] if line.strip() and not any(line == each for each in after)]


def _is_new(data: bytes) -> bool:
    """Tell whether a file is no session yet: it is empty, or its first write was cut short."""
    return not data.strip() or is_torn_header(data)


def check_session_file(data: bytes) -> int:
    """Open a file for reading and for writing, and return the number of lost lines."""
    disk = disk_with(data)
    refusal: TreeringError | None = None
    try:
        run(0, read, disk)
    except (NotASession, UnsupportedVersion) as error:
        refusal = error
    except TreeringError:
        assert _is_new(data)
    assert disk.files() == {FILE: data}, "reading changed something"
    try:
        run(0, append, disk)
    except (NotASession, UnsupportedVersion):
        assert disk.files()[FILE] == data, "a refused file was changed"
        assert refusal is not None
        return 0
    except TreeringError:
        assert _is_new(data)
        assert data in disk.files().values(), "the beginning of a header was not kept"
        return 0
    fragment = data.rpartition(b"\n")[2]
    if fragment.strip():
        assert any(fragment.rstrip(b"\r") in content for content in disk.files().values()), "the fragment is gone"
    return len(lost_lines(data, disk))


# -- what lies beside sessions


@cache
def whole_root(durability: Durability, *, killed: bool) -> MemoryDisk:
    """Return a root with sessions and every kind of file beside them, as a host leaves it, or as its kill does."""
    disk, left = MemoryDisk(), list[MemoryDisk]()

    async def fill() -> None:
        async with host_on(disk, durability, Limits(snapshot_after_lines=2)) as host:
            session = await host.create("a", cwd="/w")
            first = await session.append_message("user", "one")
            for number in range(4):
                await session.append_message("assistant", f"{number}")
            other = await host.create("b")
            await other.append_many([Message("user", (text("x"),))] * 3)
            packed, gone = await host.create("c"), await host.create("d")
            for each in (packed, gone):
                await each.append_message("user", "q")
            await host.archive(packed)
            await host.delete(gone)
            await session.passivate()
            await other.passivate()
            await session.branch(first)
            left.append(MemoryDisk(disk.image.copy()))

    run(0, fill)
    return left[0] if killed else disk


def logs_of(disk: MemoryDisk) -> dict[str, bytes]:
    """Return the logs of a root that are not packed."""
    return {path: data for path, data in disk.files().items() if path in (FILE, f"{ROOT}/b.jsonl")}


async def use(disk: MemoryDisk, durability: Durability, whole: dict[str, bytes]) -> None:
    """Use all sessions of a root: each has what it had, takes an append, and still has it when opened again."""
    appended: dict[str, list[str | None]] = {}
    for again in (False, True):
        async with host_on(disk, durability) as host:
            held = {path for path, data in logs_of(disk).items() if b"\n" in data}
            assert len(await host.list_sessions()) >= len(held)
            for path in appended if again else held:  # the first host may restore some from the journal
                session = await host.load(path)
                data = disk.files()[path]
                singly = [await session.entry(each) for each in session.path()]
                entries = await check_session(session, data, path)
                assert singly == [entry for entry in entries if entry in singly], "an entry is another on its own"
                ids = [entry.id for entry in entries]
                if again:
                    assert ids == appended[path], "opening it again gives another content"
                else:
                    assert whole[path].startswith(data), "it has what was never written"
                    assert session.leaf_id in {ids[0], ids[-1]}, "no leaf that it ever had"
                    appended[path] = [*ids, await session.append_message("user", "appended")]
                assert session.leaf_id == appended[path][-1]


def beside(random: Random, pick: str, durability: Durability, *, killed: bool) -> int:
    """Damage a file beside the logs, use the root, and return the number of lost lines."""
    whole = whole_root(durability, killed=killed)
    disk = whole.crash(keep_unsynced=random.random() < 0.5) if pick.startswith(".j") else MemoryDisk(whole.image.copy())
    path = random.choice([path for path in disk.files() if pick in path])
    overwrite(disk, path, damaged(random, disk.files()[path]) if random.random() < 0.9 else random.randbytes(200))
    before = logs_of(disk)
    run(0, use, disk, durability, logs_of(whole))
    after = logs_of(disk)
    return sum(not after[path].startswith(data[: data.rfind(b"\n") + 1]) for path, data in before.items())


def packed(random: Random) -> int:
    """Damage a packed log: it is read or refused, and stays as it is."""
    disk = MemoryDisk(whole_root("os", killed=False).image.copy())
    path = f"{ROOT}/c.jsonl.zst"
    data = damaged(random, disk.files()[path])
    overwrite(disk, path, data)

    async def look() -> None:
        async with host_on(disk) as host:
            await host.list_sessions(status="any")
            await (await host.load("c", read_only=True)).entries()

    with suppress(LogDamaged, NotASession, UnsupportedVersion):
        run(0, look)
    return int(disk.files()[path] != data)


def locks(random: Random) -> int:
    """Damage the lock files of a root on the real disk: its session takes appends all the same."""

    async def append_to(root: str, count: int) -> Session:
        async with SessionHost(root) as host:
            session = await host.open("a")
            await session.append_message("user", "x")
            assert len(await session.entries()) == count
            return session

    with TemporaryDirectory() as root:
        anyio.run(append_to, root, 1)
        for file in Path(root, ".treering", "locks").iterdir():
            data = file.read_bytes()
            file.write_bytes(
                damaged(random, data) if random.random() < 0.5 else random.randbytes(random.randrange(2000))
            )
        anyio.run(append_to, root, 2)
    return 0


# -- other files


def settings(random: Random) -> int:
    """Damage a file of settings: it is read, or refused with its path."""
    values: dict[str, object] = {"auto_persist": True, "debounce_ms": 5, "max_sessions_per_project": 7}
    is_toml = random.random() < 0.5
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in values.items()]
    data = damaged(random, ("".join(lines) if is_toml else json.dumps(values)).encode())
    with TemporaryDirectory() as folder:
        file = Path(folder, "config.toml" if is_toml else "config.json")
        file.write_bytes(data)
        try:
            Settings.load(file)
        except InvalidInput as error:
            if str(file) not in str(error):
                raise
        return int(file.read_bytes() != data)


def foreign(random: Random, name: str) -> int:
    """Damage a session of another program, import it twice, and return how many entries were lost in between."""
    sample = DATA / random.choice(FOREIGN[name])
    with TemporaryDirectory() as folder:
        path = Path(folder, sample.name)
        path.write_bytes(damaged(random, sample.read_bytes()))
        return import_damaged(path, name if random.random() < 0.5 else None)


def opencode(random: Random) -> int:
    """Damage a file of an opencode storage, or its database."""
    storage = DATA / "opencode" / "storage"
    with TemporaryDirectory() as folder:
        if random.random() < 0.5:
            path = Path(folder, "storage")
            shutil.copytree(storage, path)
            victim = random.choice(sorted(path.rglob("*.json")))
        else:
            path = victim = Path(folder, "opencode.db")
            path.write_bytes(whole_database())
        victim.write_bytes(damaged(random, victim.read_bytes()))
        return import_damaged(path, "opencode")


@cache
def whole_database() -> bytes:
    """Return the opencode storage as a database."""
    with TemporaryDirectory() as folder:
        return database(DATA / "opencode" / "storage", Path(folder, "opencode.db")).read_bytes()


def export(random: Random) -> int:
    """Damage an exported session."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "export.json")
        path.write_bytes(damaged(random, whole_export()))
        return import_damaged(path, None)


@cache
def whole_export() -> bytes:
    """Return a session as `export` writes it."""
    disk = MemoryDisk(whole_root("os", killed=False).image.copy())

    async def write() -> bytes:
        async with host_on(disk) as host:
            return await (await host.load("a")).export("json")

    return run(0, write)


def import_damaged(path: Path, name: str | None) -> int:
    """Read and import a damaged file: both find the same entries, and importing it again adds none."""
    before = {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()}
    found: dict[str, int] = {}
    try:
        for _, _, session in Walk(path, name).sessions():
            if isinstance(session, ForeignSession):
                entries = list(session.entries)
                seen: set[str | None] = {None}
                for entry in entries:
                    assert entry.parent_id in seen, "a parent comes before its children"
                    assert entry.id not in seen, "ids are unique"
                    seen.add(entry.id)
                found[session.header.id] = len(entries)
    except (ForeignFormatError, UnsupportedVersion, NotASession):
        found = {}
    lost = run(0, import_twice, path, name, found)
    assert {file: file.read_bytes() for file in before} == before, "reading changed a file"
    return lost


async def import_twice(path: Path, name: str | None, found: dict[str, int]) -> int:
    """Import a file twice, and return how many entries that were read are missing."""
    async with SessionHost(offload=AtOnce()) as host:
        try:
            first = await host.import_sessions(path, format=name)
        except TreeringError:
            assert not found, "it can be read, but not imported"
            return 0
        held = 0
        for report in first:
            held += len(await (await host.load(report.id)).entries())
        again = await host.import_sessions(path, format=name)
        assert not sum(report.added for report in again), "importing it again added something"
        return max(0, sum(found.values()) - held)


READERS: dict[str, Callable[[Random], int]] = {
    "sessions": lambda random: check_session_file(session_file(random)),
    "headers": lambda random: check_session_file(damaged(random, random.choice(HEADERS))),
    "bytes": lambda random: check_session_file(random.randbytes(random.randrange(300))),
    "leaf records": lambda random: beside(random, ".leaf", "os", killed=False),
    "snapshots": lambda random: beside(random, "jsonl.index", "os", killed=False),
    "index": lambda random: beside(random, "index.jsonl", "file", killed=False),
    "journals": lambda random: beside(random, ".journal", "group", killed=True),
    "voids": lambda random: beside(random, ".void", "group", killed=True),
    "packed logs": packed,
    "locks": locks,
    "settings": settings,
    "exports": export,
    "opencode": opencode,
    **{name: partial(foreign, name=name) for name in FOREIGN},
}
"""What is fuzzed, and the functions that check one input and return how many lines were lost."""


def prove_seed(seed: int, tally: Counter[str]) -> None:
    """Check the input of a seed, with the reader whose turn it is."""
    name = list(READERS)[seed % len(READERS)]
    missing = READERS[name](Random(seed))
    tally["inputs fuzzed"] += 1
    tally["lines lost"] += missing
    assert not missing, f"{name}: {missing} lines lost"
