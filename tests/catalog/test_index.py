"""The index: listings that open no session file, and what happens if it is missing, torn or wrong."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from errno import EACCES, ENOSPC
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from treering import SessionHost, SessionSummary
from treering.events.disk import OsDisk
from treering.events.projects import project_hash
from treering.testing.disks import FaultyDisk

from .sessions import CountingDisk, create_session, ids, without_checksums

SESSIONS = 12
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "deleted": lambda whole: None,
    "empty": lambda whole: b"",
    "garbage": lambda whole: b"\xff\xfe garbage \x00" * 100,
    "torn": lambda whole: whole[: len(whole) // 2],
    "newer": lambda whole: b'{"treering_index":99}\n{"later":"times"}\n',
    "ill-typed": lambda whole: whole.replace(b'"message_count":1', b'"message_count":"many"'),
    "reversed": lambda whole: b"".join(reversed(whole.splitlines(keepends=True))),
    "nested": lambda whole: b"[" * 100_000 + b"\n" + whole,
}
SEPARATIONS: list[tuple[Callable[[bytes], bytes], int]] = [
    (lambda whole: whole.partition(b"\n")[0], 0),
    (lambda whole: whole.partition(b"\n")[0] + b"\n\n", 0),
    (lambda whole: whole, 3),
    (lambda whole: whole.replace(b"\n", b"\n\n \t\n"), 3),
    (lambda whole: whole.replace(b"\n", b"\r\n"), 3),
    (lambda whole: whole.removesuffix(b"\n"), 3),
    (lambda whole: whole[:-9], 2),
    (lambda whole: whole.replace(b'"seq":2', b'"seq":7'), 3),
]
"""Changes of a log with three messages, and how many messages it then has."""
MANY = 10_000
FOREIGN = b'{"type":"session","id":"f","version":1,"timestamp":"2026-01-01T00:00:00Z"}\n'
MESSAGE = (
    b'{"type":"message","id":"z","parent_id":null,"timestamp":"2099-01-01T00:00:00Z",'
    b'"message":{"role":"assistant","content":[{"type":"text","text":{"content":"later"}}]}}\n'
)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def damage_file(path: Path, damage: Callable[[bytes], bytes | None]) -> None:
    after = damage(path.read_bytes())
    path.unlink()
    if after is not None:
        path.write_bytes(after)


def bytes_in(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.glob("*.jsonl")}


async def listed(root: Path, *, reading: list[str] | None = None) -> list[SessionSummary]:
    """List the sessions, and check which files that reads, if so asked."""
    disk = CountingDisk()
    async with SessionHost(root, disk=disk) as host:
        rows = await host.list_sessions(status="any")
    assert reading in (None, [Path(path).stem for path in disk.opened])
    return rows


async def create_sessions(root: Path, count: int = SESSIONS) -> None:
    async with SessionHost(root) as host:
        for number in range(count):
            await create_session(host, f"s{number:02}", f"question {number}", cwd="/work/project")


@pytest.mark.feature("N-58", "U-14", "N-140")
async def test_a_listing_with_an_index_opens_only_the_changed_session_files(root: Path, index_path: Path) -> None:
    await create_sessions(root)
    fields = {"id", "project", "project_hash", "title", "created", "last_accessed", "message_count", "status"}
    for line in lines_of(index_path):
        assert fields <= line["session"].keys()
    rows = await listed(root, reading=[])
    assert ids(rows) == [f"s{number:02}" for number in reversed(range(SESSIONS))]
    for number, row in enumerate(reversed(rows)):
        assert (row.title, row.message_count, row.status) == (f"question {number}", 1, "active")
        assert (row.project, row.project_hash) == ("/work/project", project_hash("/work/project"))
        assert row.created <= row.modified <= (row.last_accessed or row.created)
        assert row.path == str(root / f"s{number:02}.jsonl")
    with (root / "s03.jsonl").open("ab") as file:  # another program
        file.write(MESSAGE)
    rows = await listed(root, reading=["s03"])
    assert (rows[0].id, rows[0].message_count) == ("s03", 2)
    assert await listed(root, reading=[]) == rows


async def test_an_index_of_another_version_of_the_library_is_used(root: Path, index_path: Path) -> None:
    await create_sessions(root, 2)
    async with SessionHost(root) as host:
        await host.archive("s01")
    before = await listed(root)
    assert [row.archived for row in before] == [True, False]
    damage_file(index_path, lambda whole: without_checksums(whole.replace(b'"finding":null', b'"later":[1]')))
    assert await listed(root, reading=[]) == before
    # Lines from before rows had `archived` say so by their status.
    damage_file(index_path, lambda whole: whole.replace(b'"archived":true', b'"status":"archived"'))
    assert [(row.id, row.archived, row.status) for row in await listed(root, reading=[])] == [
        ("s01", True, "archived"),
        ("s00", False, "active"),
    ]
    # Rows from before they had labels are made again, once.
    damage_file(index_path, lambda whole: without_checksums(whole.replace(b'"labels":[]', b'"later":[1]', 1)))
    assert [row.labels for row in await listed(root)] == [(), ()]
    assert [row.labels for row in await listed(root, reading=[])] == [(), ()]


@pytest.mark.parametrize("place", range(0, 60, 7))
async def test_a_row_that_was_changed_is_not_believed(root: Path, index_path: Path, place: int) -> None:
    await create_sessions(root, 2)
    before = await listed(root)
    damage_file(index_path, lambda whole: whole[:-60] + bytes([whole[-60] ^ 1]) + whole[-59:])
    damage_file(index_path, lambda whole: whole[: -100 - place] + b"?" + whole[-99 - place :])
    assert await listed(root) == before
    assert await listed(root, reading=[]) == before  # the index is complete again


@pytest.mark.feature("N-12", "D-66")
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_lost_or_damaged_index_is_rebuilt_without_loss(root: Path, index_path: Path, damage: str) -> None:
    await create_sessions(root)
    before, files = await listed(root), bytes_in(root)
    damage_file(index_path, DAMAGES[damage])
    assert await listed(root) == before
    assert bytes_in(root) == files
    assert await listed(root, reading=[]) == before  # the index is complete again


@pytest.mark.feature("N-12")
async def test_a_line_after_a_torn_one_can_be_read(root: Path, index_path: Path) -> None:
    await create_sessions(root, 3)
    before = index_path.read_bytes()
    with index_path.open("ab") as file:
        file.write(b'{"ref":"s01.jsonl","size":1')
    async with SessionHost(root) as host:
        await create_session(host, "new")
    assert ids(await listed(root, reading=[])) == ["new", "s02", "s01", "s00"]
    after = index_path.read_bytes()
    assert after.startswith(before)  # it was not rewritten
    async with SessionHost(root) as host:
        await create_session(host, "newer")
    assert b"\n\n" not in index_path.read_bytes().removeprefix(after)


async def test_the_index_of_a_moved_root_can_be_used(root: Path, tmp_path: Path) -> None:
    await create_sessions(root, 3)
    assert str(root).encode() not in (root / ".treering" / "index.jsonl").read_bytes()
    moved = tmp_path / "elsewhere"
    os.rename(root, moved)
    rows = await listed(moved, reading=[])
    assert {row.path for row in rows} == {str(moved / f"s{number:02}.jsonl") for number in range(3)}


@pytest.mark.parametrize("same", ["size and time", "size and inode", "time and inode"])
async def test_a_file_that_differs_from_its_line_in_one_respect_is_read_again(root: Path, same: str) -> None:
    await create_sessions(root, 2)
    path, copy = root / "s00.jsonl", root / "copy"
    shutil.copy2(path, copy)
    before = path.stat()
    changed = path.read_bytes().replace(b"question 0", b"QUESTION 0" if "size" in same else b"QUESTION ZERO")
    target = path if "inode" in same else copy
    target.write_bytes(changed)
    if "time" in same:
        os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(target, ns=(0, 0))
    if target is copy:
        copy.rename(path)
    assert {row.title.casefold()[:9] for row in await listed(root, reading=["s00"]) if row.title} == {"question "}
    assert "QUESTION" in str([row.title for row in await listed(root, reading=[])])


@pytest.mark.feature("N-12")
async def test_hosts_that_share_a_root_write_one_correct_index(root: Path, index_path: Path) -> None:
    async with SessionHost(root) as one, SessionHost(root) as other:
        for number in range(20):
            await create_session(one, f"a{number}")
            await create_session(other, f"b{number}")
            if number % 5 == 0:
                await one.flush()
                await other.list_sessions()
                await other.flush()
    assert len(lines_of(index_path)) >= 40  # and each line is valid JSON
    rows = await listed(root)
    assert {row.id for row in rows} == {f"{name}{number}" for name in "ab" for number in range(20)}
    assert {row.message_count for row in rows} == {1}


async def test_rewriting_the_index_keeps_lines_that_other_hosts_wrote_meanwhile(root: Path, index_path: Path) -> None:
    await create_sessions(root, 3)
    async with SessionHost(root) as one:
        await one.list_sessions()
        async with SessionHost(root) as other:
            await create_session(other, "theirs")
            await other.load("s01")
        accessed = {line["ref"]: line["session"]["last_accessed"] for line in lines_of(index_path)}
        await one.delete("s00")
        await one.flush()
        lines = {line["ref"]: line["session"]["last_accessed"] for line in lines_of(index_path)}
        assert lines == {ref: time for ref, time in accessed.items() if ref != "s00.jsonl"}
    assert set(ids(await listed(root, reading=[]))) == {"s01", "s02", "theirs"}


async def test_a_deleted_session_is_removed_from_the_index_of_a_root_within_the_root(root: Path) -> None:
    await create_sessions(root / "work", 3)
    inner = root / "work" / ".treering" / "index.jsonl"
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk) as host:
        await host.delete(root / "work" / "s00.jsonl")
        disk.fail("rename", ENOSPC, path=f"{inner}*")
        with capture_logs() as logs:
            await host.delete(root / "work" / "s02.jsonl")
        assert [each["event"] for each in logs] == ["index_not_written"]
        assert [line["ref"] for line in lines_of(inner)] == ["s01.jsonl", "s02.jsonl"]
        before = inner.stat()
        await create_session(host, "mine")
        await host.delete("mine")
        assert inner.stat() == before  # it is rewritten only if it had the line
        shutil.rmtree(inner.parent)
        await host.delete(root / "work" / "s01.jsonl")
    assert os.listdir(root / "work") == []


async def test_an_index_with_many_outdated_lines_is_rewritten(root: Path, index_path: Path) -> None:
    sizes: list[int] = []
    for number in range(150):
        async with SessionHost(root) as host:
            session = await host.open("one")
            await session.append_message("user", f"{number} " + "word " * 100)
        sizes.append(index_path.stat().st_size)
    line, longest = sizes[0], 64 * 1024
    assert longest < max(sizes) < longest + 5 * line  # up to there, lines are appended
    assert next(after for before, after in pairwise(sizes) if after < before) < 2 * line
    assert [row.message_count for row in await listed(root)] == [150]
    assert len({line["ref"] for line in lines_of(index_path)}) == 1


class ClosingDisk(CountingDisk):
    """Knows which descriptors are open."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptors: set[int] = set()

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        self.descriptors.add(fd)
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)
        self.descriptors.remove(fd)


@pytest.mark.parametrize("too_large", [False, True])
@pytest.mark.parametrize("rewritten_bytes", [0, 1000, 1_000_000])
async def test_an_index_is_rewritten_beyond_twice_its_size_and_64_kib(
    root: Path, index_path: Path, rewritten_bytes: int, too_large: bool
) -> None:
    await create_sessions(root, 1)
    _, line = index_path.read_bytes().splitlines(keepends=True)
    head = json.dumps({"treering_index": 1, "bytes": rewritten_bytes}).encode() + b"\n"
    filling = 2 * rewritten_bytes + 64 * 1024 + too_large - len(head) - len(line)
    index_path.write_bytes(head + b"-" * (filling - 1) + b"\n" + line)
    disk = ClosingDisk()
    async with SessionHost(root, disk=disk) as host:
        await create_session(host, "new")
    assert disk.descriptors == set()
    assert (b"---" in index_path.read_bytes()) is not too_large
    assert ids(await listed(root, reading=[])) == ["new", "s00"]


@pytest.mark.parametrize("content", [b"", b'{"treering_index":2}\n', None], ids=["empty", "newer", "full"])
async def test_an_index_that_refuses_appends_is_closed(root: Path, index_path: Path, content: bytes | None) -> None:
    await create_sessions(root, 1)
    disk = ClosingDisk()
    faulty = FaultyDisk(disk)
    if content is None:
        faulty.fail("write", ENOSPC, path="*/index.jsonl*", times=None)
    else:
        index_path.write_bytes(content)
    async with SessionHost(root, disk=faulty) as host:
        await create_session(host, "new")
    assert disk.descriptors == set()
    assert ids(await listed(root)) == ["new", "s00"]


async def test_what_the_index_was_written_from_is_not_read_again(root: Path) -> None:
    disk = CountingDisk()
    async with SessionHost(root, disk=disk) as host:
        await host.list_sessions()
        assert await (await create_session(host, "s")).passivate()
        await host.flush()
        disk.opened.clear()
        assert ids(await host.list_sessions()) == ["s"]
        assert disk.opened == []


async def test_an_index_of_many_sessions_is_read_in_parts_and_appended_to(root: Path, index_path: Path) -> None:
    await create_sessions(root, 1)
    head, line = without_checksums(index_path.read_bytes()).splitlines(keepends=True)
    (root / "s00.jsonl").unlink()
    many = [line.replace(b'"s00.jsonl"', f'"gone{number}.jsonl"'.encode()) for number in range(5000)]
    head = json.dumps({"treering_index": 1, "bytes": len(b"".join(many))}).encode() + b"\n"
    index_path.write_bytes(head + b"".join(many))
    assert index_path.stat().st_size > 2 * 1024 * 1024
    async with SessionHost(root) as host:
        await create_session(host, "new")
    assert [each["ref"] for each in lines_of(index_path)] == [*(f"gone{n}.jsonl" for n in range(5000)), "new.jsonl"]
    assert ids(await listed(root, reading=[])) == ["new"]
    assert [each["ref"] for each in lines_of(index_path)] == ["new.jsonl"]


async def test_a_listing_creates_no_folder(tmp_path: Path) -> None:
    (tmp_path / "foreign.jsonl").write_bytes(FOREIGN)
    with capture_logs() as logs:
        assert ids(await listed(tmp_path)) == ["f"]
        assert await listed(tmp_path / "nowhere") == []
    assert logs == []
    assert os.listdir(tmp_path) == ["foreign.jsonl"]


async def test_an_unreadable_file_is_listed_as_corrupted_until_it_can_be_read(root: Path, index_path: Path) -> None:
    await create_sessions(root, 2)
    os.remove(index_path)
    disk = FaultyDisk(OsDisk())
    refused = disk.fail("open", EACCES, path="*/s00.jsonl", times=None)
    async with SessionHost(root, disk=disk) as host:
        for _ in range(2):
            assert {row.id: row.status for row in await host.list_sessions()} == {"s00": "corrupted", "s01": "active"}
        refused.lift()
        assert {row.id: row.status for row in await host.list_sessions()} == {"s00": "active", "s01": "active"}


@pytest.mark.parametrize(("change", "count"), SEPARATIONS)
async def test_messages_count_however_lines_are_cut(root: Path, change: Callable[[bytes], bytes], count: int) -> None:
    async with SessionHost(root) as host:
        session = await host.create("s")
        for number in range(3):
            await session.append_message("user", f"question {number}")
    log = root / "s.jsonl"
    log.write_bytes(change(log.read_bytes()))
    (row,) = await listed(root)
    assert (row.status, row.message_count, row.first_message) == ("active", count, "question 0" if count else "")


@pytest.mark.feature("N-29")
async def test_a_file_that_is_not_a_session_is_listed_as_corrupted(root: Path) -> None:
    await create_sessions(root, 2)
    (root / "bad.jsonl").write_bytes(b"no session at all\n")
    for _ in range(2):
        rows = {row.id: row for row in await listed(root)}
        assert rows.keys() == {"s00", "s01", "bad"}
        assert (rows["bad"].status, rows["bad"].path) == ("corrupted", str(root / "bad.jsonl"))
        finding = rows["bad"].finding
        assert finding is not None
        assert (str(finding.where), finding.code) == (f"{root / 'bad.jsonl'}:1:0", "unreadable")
        assert rows["bad"].problem == f"{finding.where}: {finding.message}"
        assert rows["s00"].finding is None
    async with SessionHost(root) as host:
        assert ids(await host.list_sessions(status="corrupted")) == ["bad"]
        assert ids(await host.list_sessions(status="active")) == ["s01", "s00"]
        await host.archive("s00")
        assert ids(await host.list_sessions(status="archived")) == ["s00"]
        assert set(ids(await host.list_sessions())) == {"s01", "bad"}


async def test_on_a_full_disk_only_the_index_is_not_written(root: Path) -> None:
    disk = FaultyDisk(OsDisk())
    disk.fail("open", ENOSPC, path="*/index.jsonl*", times=None)
    async with SessionHost(root, disk=disk) as host:
        await create_session(host, "s")
        assert ids(await host.list_sessions()) == ["s"]
        await host.flush()
    disk.heal()
    assert [row.message_count for row in await listed(root)] == [1]


LISTING = """
import resource, sys
import anyio
from treering import SessionHost
from treering.events.disk import OsDisk

class CountingDisk(OsDisk):
    opened = 0

    def open(self, path, flags):
        self.opened += path.endswith(".jsonl") and "/.treering/" not in path
        return super().open(path, flags)

def peak_mb():
    if sys.platform == "linux":  # `getrusage` would include the memory of the parent process here
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024

async def main():
    disk, before = CountingDisk(), peak_mb()
    for _ in range(2):
        async with SessionHost(sys.argv[1], disk=disk) as host:
            for _ in range(2):
                disk.opened = 0
                print(len(await host.list_sessions()), disk.opened)
    print(peak_mb() - before)

anyio.run(main)
"""


@pytest.mark.feature("U-14", "N-58")
def test_ten_thousand_sessions_are_listed_in_little_memory_and_again_without_opening_a_file(root: Path) -> None:
    (root / ".treering").mkdir(parents=True)
    first = root / "0.jsonl"
    first.write_bytes(FOREIGN + MESSAGE)
    for number in range(1, MANY):
        (root / f"{number}.jsonl").hardlink_to(first)  # faster than writing as many files
    done = subprocess.run([sys.executable, "-c", LISTING, str(root)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *listings, growth_mb = done.stdout.splitlines()
    assert listings == [f"{MANY} {MANY}", f"{MANY} 0", f"{MANY} 0", f"{MANY} 0"]
    assert 1 < float(growth_mb) < 100
