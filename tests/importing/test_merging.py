"""Importing again, and merging copies of one session: nothing is doubled or lost."""

import errno
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar, TypeVarTuple, cast

import anyio
import pytest

from treering import AppendFailed, AppendInDoubt, InvalidInput, Session, SessionHost, SyncHost, plain_text
from treering.entries import SessionInfo
from treering.errors import ForeignFormatError, SessionExists
from treering.events.dialects.detect import DialectName
from treering.events.disk import OsDisk
from treering.events.offload import ThreadOffload
from treering.events.stores.files import Durability
from treering.testing.disks import FaultyDisk

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DATA = Path(__file__).resolve().parents[1] / "data"
WORK = DATA / "claude_code" / "work.jsonl"
TIMEOUT_S = 30


async def texts(session: Session) -> list[str]:
    return [plain_text(each.message.content) for each in (await session.context()).messages]


async def ids(session: Session) -> list[str | None]:
    return [entry.id for entry in await session.entries()]


def file_bytes(session: Session) -> bytes:
    return Path(session.file_path or "").read_bytes()


@pytest.mark.feature("N-167")
async def test_copies_of_one_session_on_two_machines_can_be_merged(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    async with SessionHost(here) as one, SessionHost(there) as two:
        session = await one.create("plan", cwd="/work/project")
        first = await session.append_message("user", "What do we plant?")
        await session.append_message("assistant", "Pears.")

        assert session.file_path is not None
        carried = shutil.copy(session.file_path, tmp_path / "carried.jsonl")  # a session is one file
        (report,) = await two.import_sessions(carried)
        assert (report.id, report.ref, report.added, report.existed) == ("plan", "plan.jsonl", 2, False)
        copy = await two.load("plan")
        assert file_bytes(copy) == file_bytes(session)
        assert (copy.header, copy.leaf_id) == (session.header, session.leaf_id)

        mine = await session.append_message("user", "And here?")
        await copy.append_message("user", "And there?")
        theirs = await copy.append_message("assistant", "Plums.")

        (back,) = await one.import_sessions(copy.file_path or "")
        (forth,) = await two.import_sessions(session.file_path)
        assert (back.added, forth.added) == (2, 1)
        assert back.existed
        assert sorted(await ids(session), key=str) == sorted(await ids(copy), key=str)
        assert len(set(await ids(session))) == len(await ids(session)) == 5
        # each keeps its leaf; the other's messages are another branch
        assert (session.leaf_id, copy.leaf_id) == (mine, theirs)
        assert await texts(session) == ["What do we plant?", "Pears.", "And here?"]
        assert await texts(copy) == ["What do we plant?", "Pears.", "And there?", "Plums."]
        assert session.path(theirs)[0] == first

        for host, path in ((one, copy.file_path), (two, session.file_path)):
            assert [report.added for report in await host.import_sessions(path or "")] == [0]
    async with SessionHost(here, durability="file") as again:
        assert (await again.load("plan")).leaf_id == mine


async def test_importing_a_copy_that_only_grew_moves_the_leaf(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "here") as one, SessionHost(tmp_path / "there") as two:
        session = await one.create("plan")
        await session.append_message("user", "one")
        await two.import_sessions(session.file_path or "")
        last = await session.append_message("assistant", "two")
        beside = await session.append_message("user", "beside", below=session.path()[0], aside=True)
        (report,) = await two.import_sessions(session.file_path or "")
        copy = await two.load("plan")
        assert (report.added, copy.leaf_id) == (2, last)
        assert beside in await ids(copy)


async def test_subscribers_receive_imported_entries(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "here") as one, SessionHost(tmp_path / "there") as two:
        session = await one.create("plan")
        await session.append_message("user", "one")
        await two.import_sessions(session.file_path or "")
        copy = await two.load("plan")
        with anyio.fail_after(TIMEOUT_S):
            async with copy.subscribe("context") as changes:
                await anext(changes)
                added = await session.append_message("assistant", "two")
                await two.import_sessions(session.file_path or "")
                await anext(changes)
                assert copy.leaf_id == added


@pytest.mark.parametrize("name", ["pi_v1", "pi_v2", "pi_v3", "omp_v3"])
@pytest.mark.feature("U-27")
async def test_imported_pi_files_keep_their_bytes(name: str, tmp_path: Path) -> None:
    source = DATA / f"{name}.jsonl"
    async with SessionHost(tmp_path) as host:
        (report,) = await host.import_sessions(source)
        path = tmp_path / report.ref
        assert path.read_bytes() == source.read_bytes()
        assert report.format == name[: name.index("_")]
        before = len(await ids(await host.load(path, read_only=True)))
        session = await host.load(path)  # migrates an old version
        assert len(await ids(session)) == before == report.entries
        await session.append_message("user", "More.")
        (again,) = await host.import_sessions(source)
        assert (again.added, again.existed) == (0, True)
        assert session.message_count == report.messages + 1


async def test_a_fragment_at_the_end_of_an_imported_file_is_reported_and_left_out(tmp_path: Path) -> None:
    source = tmp_path / "torn.jsonl"
    source.write_bytes((DATA / "pi_v3.jsonl").read_bytes() + b'\n\n{"type":"mess')
    async with SessionHost(tmp_path / "sessions") as host:
        (report,) = await host.import_sessions(source)
        (finding,) = report.findings
        assert (finding.code, finding.byte) == ("truncated", source.stat().st_size - 13)
        assert (tmp_path / "sessions" / report.ref).read_bytes() == (DATA / "pi_v3.jsonl").read_bytes()


async def test_an_import_does_not_overwrite_the_file_of_another_session(tmp_path: Path) -> None:
    async with SessionHost(tmp_path, dialect="native") as host:
        (report,) = await host.import_sessions(WORK)
        path = tmp_path / report.ref
        path.write_bytes(path.read_bytes().replace(report.id.encode(), b"another"))
        before = path.read_bytes()
        with pytest.raises(SessionExists, match="another session"):
            await host.import_sessions(WORK)
        assert path.read_bytes() == before


async def test_invalid_sources_and_formats_are_refused(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions") as host:
        (tmp_path / "notes.txt").write_text("Nothing that anybody would import.")
        for path in (tmp_path / "notes.txt", tmp_path / "absent.jsonl", tmp_path):
            with pytest.raises(ForeignFormatError, match=path.name):
                await host.import_sessions(path)
        with pytest.raises(InvalidInput, match="lone surrogates"):
            await host.import_sessions("\ud800")
        with pytest.raises(InvalidInput, match="type `list`"):
            await host.import_sessions(WORK, format=cast("str", []))
        with pytest.raises(ForeignFormatError, match="no format 'word'"):
            await host.import_sessions(WORK, format="word")
        with pytest.raises(ForeignFormatError):
            await host.import_sessions(WORK, format="pi")
        evil = tmp_path / "evil.jsonl"
        evil.write_text('{"type":"session","id":"../../evil","version":3,"timestamp":"2026-01-01T00:00:00Z"}\n')
        with pytest.raises(ForeignFormatError, match="cannot be imported"):
            await host.import_sessions(evil)
        assert await host.list_sessions() == []
        assert not (tmp_path / "sessions").exists() or not list((tmp_path / "sessions").glob("*.jsonl"))


class CancellingOffload:
    """An offload that cancels a scope at a given call."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.calls = 0
        self.scope = anyio.CancelScope()
        self._inner = ThreadOffload()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.calls += 1
        if self.calls == self.at:
            self.scope.cancel()
        return await self._inner(fn, *args)


@pytest.mark.parametrize("grown", [False, True])
async def test_an_import_that_was_cancelled_at_any_point_can_be_repeated(grown: bool, tmp_path: Path) -> None:
    lines = WORK.read_bytes().splitlines(keepends=True)
    source = tmp_path / "growing.jsonl"
    reached, at = True, 0
    while reached:
        at += 1
        offload = CancellingOffload(at if not grown else 0)
        source.write_bytes(b"".join(lines[:12]))
        async with SessionHost(tmp_path / str(at), offload=offload) as host:
            if grown:
                await host.import_sessions(source)
                offload.at = offload.calls + at
            source.write_bytes(b"".join(lines))
            with offload.scope:
                await host.import_sessions(source)
            reached = offload.calls >= offload.at
            (report,) = await host.import_sessions(source)
            session = await host.load(report.id)
            found = await ids(session)
            assert len(set(found)) == len(found) >= 16
            assert session.leaf_id == "a10"
            assert not [path for path in (tmp_path / str(at)).iterdir() if ".tmp-" in path.name]
    assert at > 3


async def test_concurrent_imports_and_appends_lose_and_double_nothing(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        (report,) = await host.import_sessions(WORK)
        session = await host.load(report.id)
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(host.import_sessions, WORK)
                group.start_soon(session.append_message, "user", str(number))
        assert len(await ids(session)) == report.entries + 5
        assert len(set(await ids(session))) == report.entries + 5


class FullDisk(OsDisk):
    """A disk that can run out of space."""

    full = False

    def datasync(self, fd: int) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().datasync(fd)


async def test_a_failed_import_leaves_no_session(tmp_path: Path) -> None:
    disk = FullDisk()
    async with SessionHost(tmp_path / "sessions", disk=disk) as host:
        with full(disk), pytest.raises(OSError, match="No space"):
            await host.import_sessions(WORK)
        assert await host.list_sessions() == []
        (report,) = await host.import_sessions(WORK)
        assert report.added == report.entries


@asynccontextmanager
async def two_copies(
    tmp_path: Path, *, continued: bool, durability: Durability = "os"
) -> AsyncGenerator[tuple[SessionHost, Session, FaultyDisk, Path]]:
    """Yield a host with one copy of a session, which may have continued there, and the file of the other, which did."""
    disk = FaultyDisk(OsDisk())
    async with (
        SessionHost(tmp_path / "here", disk=disk, durability=durability) as one,
        SessionHost(tmp_path / "there") as two,
    ):
        session = await one.create("plan")
        await session.append_message("user", "What do we plant?")
        await two.import_sessions(session.file_path or "")
        copy = await two.load("plan")
        for text in ("And there?", "Plums.", "Fine."):
            await copy.append_message("user", text)
        if continued:
            await session.append_message("user", "And here?")
        yield one, session, disk, Path(copy.file_path or "")


@pytest.mark.parametrize("continued", [True, False])
@pytest.mark.parametrize(("call", "durability"), [("position", "os"), ("datasync", "file")])
async def test_an_import_in_doubt_that_has_landed_is_completed_with_its_leaf(
    call: str, durability: Durability, continued: bool, tmp_path: Path
) -> None:
    async with two_copies(tmp_path, continued=continued, durability=durability) as (host, session, disk, source):
        before = await texts(session)
        await session.passivate()
        fault = disk.fail(call, errno.EIO, path="*plan.jsonl")
        (report,) = await host.import_sessions(source)
        assert fault.done
        assert report.added == 3
        expected = before if continued else ["What do we plant?", "And there?", "Plums.", "Fine."]
        assert await texts(session) == expected


@pytest.mark.parametrize("continued", [True, False])
async def test_an_import_that_ran_out_of_space_leaves_the_leaf_and_can_go_on(continued: bool, tmp_path: Path) -> None:
    async with two_copies(tmp_path, continued=continued) as (host, session, disk, source):
        before = await texts(session)
        disk.shorten(300, path="*plan.jsonl")
        with pytest.raises(AppendFailed, match="free some space"):
            await host.import_sessions(source)
        assert len(await ids(session)) == len(before) + 1
        assert await texts(session) == before
        (report,) = await host.import_sessions(source)
        assert report.added == 2
        expected = before if continued else ["What do we plant?", "And there?", "Plums.", "Fine."]
        assert await texts(session) == expected


async def test_an_import_that_stays_in_doubt_is_reported(tmp_path: Path) -> None:
    async with two_copies(tmp_path, continued=True, durability="file") as (host, session, disk, source):
        disk.fail("datasync", errno.EIO, path="*plan.jsonl", times=None)
        with pytest.raises(AppendInDoubt, match="the append could not be flushed") as caught:
            await host.import_sessions(source)
        assert "The leaf could not be kept" in caught.value.__notes__[-1]
        disk.heal()
        await host.import_sessions(source)
        assert len(await ids(session)) == 5


@contextmanager
def full(disk: FullDisk) -> Iterator[None]:
    disk.full = True
    yield
    disk.full = False


async def test_a_session_can_be_imported_into_memory(tmp_path: Path) -> None:
    async with SessionHost() as host:
        (report,) = await host.import_sessions(WORK)
        assert len(await ids(await host.load(report.id))) == report.added == report.entries
        assert [each.added for each in await host.import_sessions(WORK)] == [0]


def test_the_blocking_facade_imports_sessions(tmp_path: Path) -> None:
    with SyncHost(tmp_path) as host:
        (report,) = host.import_sessions(WORK, format="claude-code")
        assert host.load(report.id).leaf_id == "a10"


@pytest.mark.parametrize("packed", [True, False])  # a store that packs nothing only marks it
async def test_importing_new_entries_unarchives_a_session(tmp_path: Path, packed: bool) -> None:
    copy = tmp_path / "copy.jsonl"
    async with SessionHost(tmp_path / "one") as one, SessionHost(tmp_path / "other") as other:
        session = await one.create("a")
        await session.append_message("user", "before")
        shutil.copy(tmp_path / "one" / "a.jsonl", copy)
        await other.import_sessions(copy)
        await (other.archive("a") if packed else (await other.load("a")).append(SessionInfo(archived=True)))
        (again,) = await other.import_sessions(copy)
        assert (again.added, [row.status for row in await other.list_sessions(status="any")]) == (0, ["archived"])
        assert (tmp_path / "other" / "a.jsonl.zst").exists() is packed
        await session.append_message("user", "meanwhile")
        shutil.copy(tmp_path / "one" / "a.jsonl", copy)
        (more,) = await other.import_sessions(copy)
        (row,) = await other.list_sessions()
        assert (more.added, row.status, row.message_count) == (1, "active", 2)


async def test_an_archived_session_takes_the_leaf_of_a_copy_that_was_continued(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "one") as one, SessionHost(tmp_path / "other") as other:
        session = await one.create("a")
        await session.append_message("user", "before")
        await other.import_sessions(session.file_path or "")
        for number in range(2):
            await other.archive("a")
            last = await session.append_message("user", f"meanwhile {number}")
            (report,) = await other.import_sessions(session.file_path or "")
            copy = await other.load("a")
            assert report.added == 1
            assert last in copy.path()
            assert await texts(copy) == await texts(session)
        # the only new entries for the first host are those of archiving and unarchiving
        (back,) = await one.import_sessions(copy.file_path or "")
        assert back.added == 4
        assert await texts(session) == await texts(copy)


@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
@pytest.mark.parametrize("archived_there", [False, True])
async def test_archiving_that_a_continued_copy_knows_of_does_not_hold_back_what_it_said_since(
    tmp_path: Path, dialect: DialectName, archived_there: bool
) -> None:
    async with (
        SessionHost(tmp_path / "one", dialect=dialect) as one,
        SessionHost(tmp_path / "other", dialect=dialect) as other,
    ):
        session = await one.create("a")
        await session.append_message("user", "before")
        await other.import_sessions(session.file_path or "")
        for host in (other, one) if archived_there else (other,):
            await host.archive("a")
            await host.unarchive("a")
        copy = await other.load("a")
        last = await session.append_message("user", "meanwhile")
        await one.import_sessions(copy.file_path or "")  # the status of the copy, at the end of the file
        assert session.leaf_id == last
        await other.import_sessions(session.file_path or "")
        assert copy.leaf_id == last
        assert await texts(copy) == await texts(session) == ["before", "meanwhile"]


async def test_setting_a_title_counts_as_continuing_the_session(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "one") as one, SessionHost(tmp_path / "other") as other:
        session = await one.create("a")
        await session.append_message("user", "before")
        await other.import_sessions(session.file_path or "")
        copy = await other.load("a")
        named = await copy.set_title("Pears")
        await session.append_message("user", "meanwhile")
        await other.import_sessions(session.file_path or "")
        assert copy.leaf_id == named
        assert await texts(copy) == ["before"]
