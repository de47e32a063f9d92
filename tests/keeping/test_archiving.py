"""Archived sessions: hidden from the default listing, and complete."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import pytest
from tests.stores.logs import InterruptedDisk

from treering import (
    Conflict,
    ExtraMissing,
    Limits,
    MemoryStore,
    Reset,
    Session,
    SessionHost,
    SessionLocked,
    SessionNotFound,
    plain_text,
)
from treering.contexts import calculate_budget
from treering.entries import SessionInfo
from treering.errors import LogDamaged
from treering.events.disk import OsDisk
from treering.events.health.doctor import examine
from treering.events.health.repair import repair
from treering.projections.usage import UsageProjection
from treering.subscriptions import Transient
from treering.testing.disks import FaultyDisk

from .conftest import in_another_thread

LONG = "All the lines of a session that is longer than one piece. " * 40


def files(root: Path) -> list[str]:
    logs = (path for path in root.rglob("*.jsonl*") if path.suffix in {".jsonl", ".zst", ".gz"})
    return sorted(path.name for path in logs if path.name != "index.jsonl")


def output_of(command: str, path: Path) -> bytes:
    return subprocess.run([command, path], capture_output=True, check=True).stdout


async def listed(host: SessionHost, status: str | None = None) -> list[tuple[str, str]]:
    return [(row.id, row.status) for row in await host.list_sessions(status=status)]


async def create_session(host: SessionHost, name: str | None = "old", entries: int = 3) -> tuple[Session, Path, bytes]:
    session = await host.create(name, cwd="/work")
    for number in range(entries):
        await session.append_message("user", f"entry {number}")
    assert session.file_path is not None
    path = Path(session.file_path)
    return session, path, output_of("cat", path)


@pytest.mark.feature("N-29", "N-45")
async def test_an_archived_session_is_hidden_by_default_and_readable(root: Path) -> None:
    async with SessionHost(root) as host:
        session, path, before = await create_session(host)
        await session.set_label(session.path()[0], "begin")
        await host.create("other")
        await host.archive(session)
        assert await listed(host) == []
        assert await listed(host, "archived") == [("old", "archived")]
        assert await listed(host, "any") == [("old", "archived")]
        assert files(root) == ["old.jsonl.zst"]

        reader = await host.load("old", read_only=True)
        assert [entry.type for entry in await reader.entries()] == ["message"] * 3 + ["label", "session_info"]
        assert reader.labels() == [(session.path()[0], "begin")]
        assert [hit.entry_id async for hit in host.search("entry 1")] == [session.path()[1]]
        copy = await host.fork_from("old")
        assert copy.path() == session.path()
        assert files(root) == sorted([f"{copy.id}.jsonl", "old.jsonl.zst"]), "reading unpacks nothing"

        await host.unarchive("old")
        assert path.read_bytes().startswith(before)
        assert await listed(host) == [("old", "active")]
        # The copied lines include the archiving, so the copy is archived until an append.
        await copy.append_message("user", "more")
        assert sorted(await listed(host)) == sorted([("old", "active"), (copy.id, "active")])
        assert files(root) == sorted([f"{copy.id}.jsonl", "old.jsonl"])


@pytest.mark.feature("N-7", "N-45")
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_packing_keeps_every_byte(root: Path, dialect: Literal["native", "pi", "omp"]) -> None:
    async with SessionHost(root, dialect=dialect) as host:
        session, path, before = await create_session(host, None)
        await session.branch(session.path()[0])
        leaf, generation = session.leaf_id, session.cursor.generation
        await host.archive(session)
        archived = session.path()
        assert not path.exists()
        assert session.leaf_id == archived[-1]
        assert archived[-2] == leaf, "the entry that records the archiving follows the leaf"
    packed_form = path.with_name(path.name + ".zst")
    async with SessionHost(root) as host:
        reader = await host.load(packed_form, read_only=True)
        assert (reader.path(), reader.cursor.generation) == (archived, generation)
        assert (await reader.context()).messages
        await host.unarchive(reader.id)
        assert (await host.load(reader.id)).path()[: len(archived)] == archived
        status_lines = output_of("cat", path).removeprefix(before).splitlines()
        assert len(status_lines) == 2
        assert b'"archived":true' in status_lines[0]
        assert b'"archived":false' in status_lines[1]
        assert examine(root) == []
    for _ in range(3):  # cursors hold, also after the first of these hosts has saved a snapshot
        async with SessionHost(root, limits=Limits(snapshot_after_lines=1)) as host:
            back = await host.load(reader.id)
            await back.append_message("user", "more")
            assert back.cursor.generation == generation


async def test_a_generation_that_was_damaged_beside_an_archived_session_is_not_believed(root: Path) -> None:
    async with SessionHost(root) as host:
        session, path, _ = await create_session(host)
        generation = session.cursor.generation
        await host.archive(session)
    beside = path.with_name("old.jsonl.index")
    beside.write_bytes(beside.read_bytes().replace(generation.encode(), generation[::-1].encode()))
    async with SessionHost(root) as host:
        reader = await host.load("old", read_only=True)
        assert reader.cursor.generation not in ("", generation, generation[::-1])


async def test_a_session_that_an_older_version_archived_reads_as_before(root: Path) -> None:
    async with SessionHost(root) as host:
        session, _, _ = await create_session(host)
        await session.append(SessionInfo(status="waiting"))
        await session.append(SessionInfo(status="archived"))
        assert await listed(host) == []
    index = root / ".treering" / "index.jsonl"
    older = index.read_bytes().replace(b'"archived":true,', b"")
    assert older != index.read_bytes()
    index.write_bytes(older)
    async with SessionHost(root) as host:
        (row,) = await host.list_sessions(status="archived")
        assert (row.status, row.archived) == ("archived", True)
        assert examine(root) == []
        await host.unarchive("old")
        assert await listed(host) == [("old", "active")]


async def test_archiving_or_unarchiving_twice_changes_nothing_and_a_delete_unpacks_nothing(
    host: SessionHost, root: Path
) -> None:
    session, path, _ = await create_session(host)
    form = path.with_name("old.jsonl.zst")
    await host.archive(session)
    once = form.read_bytes()
    await host.archive("old")
    assert form.read_bytes() == once
    await host.unarchive("old")
    back = path.read_bytes()
    await host.unarchive("old")
    assert path.read_bytes() == back
    await host.archive("old")
    await host.delete("old")
    assert files(root) == []
    assert await listed(host, "any") == []


async def test_subscribers_stay_while_a_session_is_archived_and_unarchived(host: SessionHost) -> None:
    session, path, _ = await create_session(host)
    async with session.subscribe(after=session.cursor) as entries:
        await host.archive(session)
        assert not path.exists()
        last = await session.append_message("user", "again")
        got: list[str | None] = []
        started_over = False
        while last not in got:
            change = await anext(entries)
            if isinstance(change, Reset):  # the file was replaced
                got, started_over = [], True
            elif not isinstance(change, Transient):
                got.append(change.id)
    ids = [entry.id for entry in await session.entries()]
    assert got == (ids if started_over else ids[-3:])


async def test_a_session_that_another_host_owns_cannot_be_archived_and_is_followed_when_it_is(root: Path) -> None:
    async with SessionHost(root) as host, SessionHost(root) as other:
        session, path, before = await create_session(host)
        with pytest.raises(SessionLocked):
            await other.archive("old")
        assert path.read_bytes() == before
        with pytest.raises(SessionNotFound):
            await other.archive("nobody")
        unborn = await other.create("unborn")
        with pytest.raises(SessionNotFound):
            await other.archive(unborn)
        follower = await other.load("old", read_only=True)
        for move in (host.archive, host.unarchive):
            await move(session)
            await follower.refresh()
            assert follower.path() == session.path()


async def test_archiving_in_memory_only_sets_the_status() -> None:
    async with SessionHost(store=MemoryStore()) as host:
        session = await host.create("old")
        await session.append_message("user", "hello")
        await host.archive(session)
        assert await listed(host) == []
        assert [hit.session_id async for hit in host.search("hello")] == ["old"]
        await host.unarchive("old")
        assert await listed(host) == [("old", "active")]


# -- compressed files


async def test_gzip_is_used_without_zstandard_and_zcat_prints_the_log(
    host: SessionHost, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setattr("treering.events.stores.files.packing.PIECE", 4096)
    session, path, _ = await create_session(host)
    for _ in range(6):
        await session.append_message("assistant", LONG)
    await host.archive(session)
    form = path.with_name("old.jsonl.gz")
    assert files(root) == [form.name]
    data = gzip.decompress(form.read_bytes())
    if shutil.which("zcat"):
        assert output_of("zcat", form) == data
    reader = await host.load("old", read_only=True)
    assert len(await reader.entries()) == 10
    await host.unarchive("old")
    assert path.read_bytes().startswith(data)


async def test_a_log_that_was_compressed_by_hand_can_be_read(root: Path) -> None:
    async with SessionHost(root) as host:
        _, path, before = await create_session(host)
    path.with_name("old.jsonl.gz").write_bytes(gzip.compress(before))
    path.unlink()
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk) as host:
        assert await listed(host) == [("old", "active")]
        reader = await host.load("old", read_only=True)
        for _ in range(3):
            disk.reset_counts()
            assert len(await reader.messages()) == 3
        assert disk.counts["open"] == 0, "it is as it was when it was read"
        session = await host.load("old")
        assert len(await session.entries()) == 3
        assert not path.exists()
        await session.append_message("user", "more")
        assert path.read_bytes().startswith(before)


async def test_without_zstandard_loading_a_zst_file_names_the_missing_extra(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SessionHost(root) as host:
        session, _, _ = await create_session(host)
        await host.archive(session)
    form = (root / "old.jsonl.zst").read_bytes()
    monkeypatch.setitem(sys.modules, "zstandard", None)
    async with SessionHost(root) as host:
        (root / "index.jsonl").unlink(missing_ok=True)
        with pytest.raises(ExtraMissing, match=r"treering\[zstd\]"):
            await host.load("old")
        assert [each.code for each in examine(root)] == ["archive_unreadable"]
    assert (root / "old.jsonl.zst").read_bytes() == form


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda data: data[: len(data) // 2],
    "flipped": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0xFF]) + data[len(data) // 2 + 1 :],
    "garbage": lambda data: data + b"garbage",
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_archive_is_reported_and_unchanged(root: Path, damage: str) -> None:
    async with SessionHost(root) as host:
        session, _, _ = await create_session(host, entries=30)
        await host.archive(session)
    form = root / "old.jsonl.zst"
    data = DAMAGES[damage](form.read_bytes())
    form.write_bytes(data)
    async with SessionHost(root) as host:
        assert await listed(host, "corrupted") == [("old", "corrupted")]
        for read_only in (True, False):
            with pytest.raises(LogDamaged):
                await host.load("old", read_only=read_only)
        with pytest.raises(LogDamaged):
            await host.unarchive("old")
        with pytest.raises(LogDamaged):
            await (await host.open("old")).append_message("user", "more")
        search = host.search("entry")
        assert [hit async for hit in search] == []
    [finding] = examine(root)
    assert [str(each.where) for each in search.findings] == [str(finding.where)]
    assert (finding.code, finding.severity, finding.path) == ("archive_damaged", "error", str(form))
    assert finding.byte is not None
    assert repair(root) == []
    assert form.read_bytes() == data
    assert files(root) == [form.name]


async def test_the_doctor_examines_archives_and_the_files_beside_them(root: Path) -> None:
    async with SessionHost(root) as host:
        session, path, before = await create_session(host)
        await session.branch(session.path()[0])
        await host.archive(session)
        await host.passivate_idle()
    assert examine(root) == []
    assert examine(root / "old.jsonl.zst") == []
    path.write_bytes(before)
    assert [(each.code, each.severity) for each in examine(root)] == [("archive_left", "warning")]
    path.unlink()
    form = root / "old.jsonl.zst"
    (root / "old.jsonl.zst.tmp-1-1").write_bytes(b"half")
    assert "temporary" in [each.code for each in examine(root)]
    form.write_bytes(gzip.compress(before + b"no json\n"))
    os.rename(form, root / "old.jsonl.gz")
    assert ("not_json", 5) in [(each.code, each.line) for each in examine(root)]


async def test_of_two_compressed_files_the_one_with_other_content_is_kept(root: Path) -> None:
    async with SessionHost(root) as host:
        session, path, before = await create_session(host)
        await host.archive(session)
        zst, gz = (path.with_name(path.name + suffix) for suffix in (".zst", ".gz"))
        packed = zst.read_bytes()
        gz.write_bytes(gzip.compress(before + b"{}\n"))  # from another machine, where the session continued
        await host.unarchive(session)
        assert path.read_bytes().startswith(before)
        assert (zst.exists(), gz.exists()) == (False, True)
    path.unlink()
    gz.write_bytes(gzip.compress(before))
    zst.write_bytes(packed)
    async with SessionHost(root) as host:
        await host.load("old")
    assert files(root) == [path.name]


async def test_an_emptied_archive_is_damaged_and_not_a_new_session(root: Path) -> None:
    async with SessionHost(root) as host:
        session, path, before = await create_session(host)
        await host.archive(session)
    form = path.with_name(path.name + ".zst")
    form.write_bytes(b"")
    async with SessionHost(root) as host:
        assert [(row.id, row.status) for row in await host.list_sessions()] == [("old", "corrupted")]
        with pytest.raises(LogDamaged, match="empty"):
            await (await host.open("old")).append_message("user", "more")
    assert files(root) == [form.name]
    path.write_bytes(before)
    async with SessionHost(root) as host:
        await host.load("old")
    assert files(root) == [path.name]


async def forked(session: Session) -> object:
    return await (await session.fork()).messages()


async def branched(session: Session) -> object:
    assert session.leaf_id is not None
    return await (await session.create_branched_session(session.leaf_id)).messages()


async def entries(session: Session) -> object:
    return [entry.id for entry in await session.entries() if entry.type == "message"]


async def built(session: Session) -> object:
    return (await session.build_context(calculate_budget(100_000))).messages


READS: dict[str, Callable[[Session], Awaitable[object]]] = {
    "entry": lambda session: session.entry(session.leaf_id or ""),
    "entries": entries,
    "context": lambda session: session.messages(),
    "all messages": lambda session: session.all_messages(),
    "view": lambda session: session.rebuild(UsageProjection()),
    "usage": lambda session: session.total_usage(session.leaf_id),
    "tokens": lambda session: session.used_tokens(),
    "built context": built,
    "safe cut": lambda session: session.find_safe_cut(1),
    "compaction": lambda session: session.dry_compact(keep_tokens=0),
    "open calls": lambda session: session.open_calls(),
    "tool executions": lambda session: session.tool_executions(),
    "fork": forked,
    "branch": branched,
}


@pytest.mark.parametrize("how", ["loaded", "passivated"])
async def test_a_session_that_is_archived_while_it_is_read_can_be_read(root: Path, how: str) -> None:
    async with SessionHost(root) as host:
        await create_session(host, entries=1)
    disk = InterruptedDisk()
    async with SessionHost(root, disk=disk) as host:
        if how == "passivated":
            session = await host.load("old")
            assert await session.passivate()
        disk.before("open", act=lambda: in_another_thread(root, lambda other: other.archive("old")), nth=2)
        if how == "loaded":
            session = await host.load("old", read_only=True)
        assert session.leaf_id is not None
        assert disk.act is None
        assert [plain_text(each.content) for each in await session.messages()] == ["entry 0"]


async def test_a_session_that_is_brought_back_while_it_is_looked_for_is_found(root: Path) -> None:
    async with SessionHost(root) as host:
        await create_session(host, entries=1)
    for moment in range(1, 100):
        in_another_thread(root, lambda other: other.archive("old"))
        disk = InterruptedDisk()
        disk.before("stat", act=lambda: in_another_thread(root, lambda other: other.unarchive("old")), nth=moment)
        async with SessionHost(root, disk=disk) as host:
            assert len(await (await host.load("old", read_only=True)).messages()) == 1
        if disk.act is not None:
            break
    assert moment > 1


@pytest.mark.parametrize("what", READS)
async def test_a_read_only_handle_reads_all_the_same_while_another_host_archives_the_session(
    root: Path, what: str
) -> None:
    async with SessionHost(root) as owner:
        await create_session(owner)
    for moment in range(1, 100):
        disk = InterruptedDisk()
        async with SessionHost(root, disk=disk, limits=Limits(cache_bytes_max=0)) as host:
            session = await host.load("old", read_only=True)
            wanted = await READS[what](session)
            disk.before("stat", act=lambda: in_another_thread(root, lambda other: other.archive("old")), nth=moment)
            assert await READS[what](session) == wanted
        if disk.act is not None:
            break
        in_another_thread(root, lambda other: other.unarchive("old"))
    assert moment > 1


class EmptyingDisk(OsDisk):
    """A disk on which another program empties a log after it was flushed."""

    def __init__(self) -> None:
        self.path: Path | None = None

    def datasync(self, fd: int) -> None:
        super().datasync(fd)
        if self.path is not None:
            os.truncate(self.path, 0)
            self.path = None


async def test_a_log_that_another_program_empties_is_not_archived(root: Path) -> None:
    disk = EmptyingDisk()
    async with SessionHost(root, disk=disk) as host:
        session, disk.path, before = await create_session(host)
        path = disk.path
        with pytest.raises(Conflict, match="archive it again"):
            await host.archive(session)
        assert files(root) == [path.name]
        path.write_bytes(before)
        await host.archive(session)
        assert files(root) == [path.name + ".zst"]
