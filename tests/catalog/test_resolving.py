"""Which session a text means: by id, name, path, the beginning of an id, or `last`; from any directory."""

import os
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from errno import EACCES
from functools import partial
from pathlib import Path

import pytest

from treering import InvalidInput, NotASession, SessionHost, SessionNotFound, UnsupportedVersion
from treering.actors.catalog.check import IndexCheck
from treering.actors.host.runtime import Clock
from treering.entries import SessionInfo
from treering.errors import AmbiguousSession, InvalidSessionId
from treering.events.disk import OsDisk
from treering.events.projects import project_hash
from treering.testing.disks import FaultyDisk

from .sessions import create_session


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()


@pytest.fixture
async def host(root: Path, clock: Clock) -> SessionHost:
    """A host that is not entered yet, with three sessions in its root."""
    async with SessionHost(root, clock=clock) as host:
        await create_session(host, "abc-1")
        session = await create_session(host, "abc-2")
        await session.append_session_info("Fix the bug")
        session = await create_session(host, "xyz")
        await session.append_session_info("a/b: odd\nname")
    return SessionHost(root, clock=clock)


@pytest.mark.feature("N-41", "N-165", "U-16")
async def test_a_text_can_be_an_id_a_name_a_path_the_beginning_of_an_id_or_last(
    host: SessionHost, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with host:
        for folder in (tmp_path, Path("/")):
            monkeypatch.chdir(folder)
            for text, expected in [
                ("abc-1", "abc-1"),
                ("x", "xyz"),
                ("abc-2", "abc-2"),
                ("Fix the bug", "abc-2"),
                ("a/b: odd\nname", "xyz"),
                ("last", "xyz"),
                (str(root / "abc-1.jsonl"), "abc-1"),
            ]:
                assert (await host.resolve(text)).id == expected
                assert text == "x" or (await host.load(text)).id == expected
            assert (await host.resolve(root / "abc-1.jsonl")).id == "abc-1"
        for nothing in ("x", "zzz", str(root / "zzz.jsonl"), "zzz.jsonl"):
            if nothing != "x":
                with pytest.raises(SessionNotFound):
                    await host.resolve(nothing)
            to_project = partial(host.set_current_session, "/")
            for call in (host.load, host.archive, host.unarchive, host.fork_from, to_project):
                with pytest.raises(SessionNotFound):
                    await call(nothing)
            await host.delete(nothing)
            assert await host.get_session(nothing) is None
        assert len(await host.list_sessions()) == 3
        with pytest.raises(InvalidSessionId):
            await host.load("..")
        assert await host.get_session("\0") is None


async def test_a_missing_file_outside_the_root_is_not_found_and_not_created(host: SessionHost, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    async with host:
        for path in (folder / "typo.jsonl", folder / "typo", folder / "missing" / "typo.jsonl"):
            await host.delete(path)
            for call in (host.load, partial(host.load, read_only=True), host.archive, host.unarchive):
                with pytest.raises(SessionNotFound):
                    await call(path)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", SessionNotFound),
        (b"notes\n", NotASession),
        (b'{"type":"session","version":99,"id":"later","timestamp":"2030-01-01T00:00:00.000Z"}\n', UnsupportedVersion),
    ],
    ids=["empty", "notes", "newer"],
)
async def test_another_file_outside_the_root_is_refused_and_left_alone_in_its_folder(
    host: SessionHost, tmp_path: Path, content: bytes, error: type[Exception]
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path = folder / "other.jsonl"
    path.write_bytes(content)
    calls: list[Callable[[Path], Awaitable[object]]] = [host.load, partial(host.load, read_only=True)]
    calls += [] if error is UnsupportedVersion else [host.archive, host.unarchive, host.delete]
    async with host:
        for call in calls:
            with nullcontext() if call == host.delete and not content else pytest.raises(error):
                await call(path)
            assert [each.name for each in folder.iterdir()] == ["other.jsonl"]
            assert path.read_bytes() == content


@pytest.mark.parametrize("call", ["delete", "unarchive"])
async def test_changing_a_directory_outside_the_root_is_refused(host: SessionHost, tmp_path: Path, call: str) -> None:
    folder = tmp_path / "elsewhere"
    (folder / "other.jsonl").mkdir(parents=True)
    async with host:
        with pytest.raises(NotASession, match=r"other\.jsonl is a directory: give the path of a session's file"):
            await getattr(host, call)(folder / "other.jsonl")
    assert [each.name for each in folder.iterdir()] == ["other.jsonl"]


@pytest.mark.parametrize("archived", [False, True])
async def test_a_session_outside_the_root_is_deleted(host: SessionHost, tmp_path: Path, archived: bool) -> None:
    async with SessionHost(tmp_path / "elsewhere") as other:
        await create_session(other, "s")
        if archived:
            await other.archive("s")
    async with host:
        await host.delete(tmp_path / "elsewhere" / "s.jsonl")
    assert not list((tmp_path / "elsewhere").glob("s.jsonl*"))


async def test_an_ambiguous_text_is_refused_with_the_candidates(host: SessionHost) -> None:
    async with host:
        with pytest.raises(AmbiguousSession, match=r"abc-2 \(Fix the bug\), abc-1 \(Hello\)") as raised:
            await host.resolve("abc")
        assert raised.value.candidates == ("abc-2", "abc-1")
        assert len(await host.list_sessions()) == 3
        session = await host.load("xyz")
        await session.append_session_info("Fix the bug")
        for call in (host.resolve, host.get_session, host.load, host.delete):
            with pytest.raises(AmbiguousSession):
                await call("Fix the bug")
        await create_session(host, "abc")  # a whole id takes precedence over beginnings of ids
        assert (await host.resolve("abc")).id == "abc"
        await create_session(host, "last")
        await create_session(host, "later")
        assert (await host.resolve("last")).id == "last"


async def test_a_title_from_the_first_message_is_not_a_name_and_the_error_gives_the_id(host: SessionHost) -> None:
    async with host:
        await (await host.create("one")).append_message("user", "Fix the cart")
        with pytest.raises(SessionNotFound, match="the name 'Fix the cart': 'one' begins so, give that id"):
            await host.load("Fix the cart")
        with pytest.raises(SessionNotFound, match="the name 'Fix': list the sessions"):
            await host.load("Fix")


async def test_open_takes_a_text_as_a_whole_id(host: SessionHost) -> None:
    async with host:
        session = await host.open("ab")
        assert session.id == "ab"
        assert (await host.open("abc-1")).message_count == 1
        assert session.message_count == 0


@pytest.mark.feature("N-44")
async def test_get_session_opens_no_session_file(host: SessionHost, root: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk) as again:
        await again.get_session("abc-1")  # reads the index
        disk.reset_counts()
        row = await again.get_session("abc-2")
        assert row is not None
        assert (row.id, row.name, row.message_count) == ("abc-2", "Fix the bug", 1)
        assert disk.counts["open"] == 0
        assert disk.bytes_read == 0
        assert await again.get_session("nobody") is None


@pytest.mark.feature("N-43")
async def test_a_projects_sessions_are_listed_newest_first_in_pages(root: Path, tmp_path: Path, clock: Clock) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    (tmp_path / "link").symlink_to(one)
    async with SessionHost(root, clock=clock) as host:
        for number in range(3):
            await create_session(host, f"one{number}", cwd=one)
            await create_session(host, f"other{number}", cwd=f"{other}/")
        await create_session(host, "linked", cwd=tmp_path / "link")
        await create_session(host, "none")
        for project in (one, f"{one}/", tmp_path / "link", f"{other}/../one"):
            rows = await host.list_sessions(project=project)
            assert [row.id for row in rows] == ["linked", "one2", "one1", "one0"]
            assert {row.project_hash for row in rows} == {project_hash(one)}
        assert [row.id for row in await host.list_sessions(project=other)] == ["other2", "other1", "other0"]
        assert await host.list_sessions(project=tmp_path) == []
        whole = await host.list_sessions()
        assert [row.id for row in whole][:2] == ["none", "linked"]
        assert await host.list_sessions(limit=3, offset=2) == whole[2:5]
        assert await host.list_sessions(offset=7) == whole[7:]
        assert await host.list_sessions(limit=3, after=whole[1]) == whole[2:5]
        assert await host.list_sessions(after=whole[1], offset=1) == whole[3:]
        assert await host.list_sessions(after=whole[-1]) == []
        assert await host.list_sessions(limit=0) == []
        with pytest.raises(InvalidInput):
            await host.list_sessions(limit=-1)
        with pytest.raises(InvalidInput):
            await host.list_sessions(offset=-1)
        with pytest.raises(InvalidInput, match="`after` is 'last': give a row"):
            await host.list_sessions(after="last")  # type: ignore[arg-type]  # as callers without a type checker do


async def test_an_archived_session_is_left_out_of_the_default_listing_only(host: SessionHost) -> None:
    async with host:
        session = await host.load("abc-1")
        await session.append(SessionInfo(status="archived"))
        assert {row.id for row in await host.list_sessions()} == {"abc-2", "xyz"}
        assert [row.id for row in await host.list_sessions(status="archived")] == ["abc-1"]
        assert len(await host.list_sessions(status="any")) == 3
        assert (await host.resolve("abc-1")).status == "archived"
        assert (await session.all_messages())[0].role == "user"
        await session.append(SessionInfo(status="active"))
        assert {row.id for row in await host.list_sessions()} == {"abc-1", "abc-2", "xyz"}


async def test_a_status_of_the_program_is_listed_and_survives_archiving(root: Path, host: SessionHost) -> None:
    async with host:
        session = await host.load("abc-1")
        await session.append(SessionInfo(status="waiting"))
        assert [row.id for row in await host.list_sessions(status="waiting")] == ["abc-1"]
        assert {row.id for row in await host.list_sessions(status="active")} == {"abc-2", "xyz"}
        assert {row.id for row in await host.list_sessions()} == {"abc-1", "abc-2", "xyz"}
        await host.archive("abc-1")
        assert await host.list_sessions(status="waiting") == []
    for indexed in (True, False):  # the row is read from the index, and from the log
        async with SessionHost(root) as again:
            (row,) = await again.list_sessions(status="archived")
            assert (row.id, row.status, row.archived) == ("abc-1", "waiting", True)
            metadata = (await again.load("abc-1", read_only=True)).metadata
            assert (metadata.status, metadata.archived) == ("waiting", True)
        if indexed:
            (root / ".treering" / "index.jsonl").unlink()
    async with SessionHost(root) as again:
        await again.unarchive("abc-1")
        (row,) = await again.list_sessions(status="waiting")
        assert (row.id, row.archived) == ("abc-1", False)


@pytest.mark.feature("U-16", "N-165")
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_rebind_moves_to_a_project_by_an_entry(root: Path, tmp_path: Path, clock: Clock, dialect: str) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    async with SessionHost(root, clock=clock, dialect=dialect) as host:  # type: ignore[arg-type]  # one of the three names
        session = await create_session(host, "s", cwd=old)
        path = Path(session.file_path or "")
    before = bytes_of(path)
    os.rename(old, new)
    async with SessionHost(root, clock=clock) as host:
        session = await host.load("s")  # an id is found wherever the project is
        assert [row.id for row in await host.list_sessions(project=old)] == ["s"]
        assert await host.list_sessions(project=new) == []
        entry_id = await session.rebind(new)
        entry = await session.entry(entry_id)
        assert entry is not None
        assert entry.type == "session_info"
        assert session.metadata.project == str(new)
        assert session.header.cwd == session.metadata.cwd == str(old)
        assert [row.id for row in await host.list_sessions(project=new)] == ["s"]
        assert await host.list_sessions(project=old) == []
        found = await host.find_recent(cwd=new)
        assert found is not None
        assert found.id == "s"
    assert bytes_of(path).startswith(before)
    async with SessionHost(root) as host:
        assert [row.project for row in await host.list_sessions(project=new)] == [str(new)]


@pytest.mark.feature("N-20")
@pytest.mark.parametrize(
    "wrong", ["", ".", "..", "a/b", "../a", "/", "a\\b", "a\0b", "\n", "x" * 256, "é" * 128], ids=repr
)
async def test_an_id_that_cannot_name_a_file_is_refused_and_nothing_is_created(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.chdir(tmp_path)  # whatever lies beside the folder in which the tests run
    async with SessionHost(root) as host:
        with pytest.raises(InvalidSessionId):
            await host.create(wrong)
        with pytest.raises(InvalidSessionId):
            await host.open(wrong)
        if os.sep not in wrong:  # with a separator it is a path
            with pytest.raises(InvalidSessionId):
                await host.load(wrong)
        assert await host.get_session(wrong) is None
    assert os.listdir(tmp_path) == []


async def test_a_session_that_could_not_be_deleted_can_still_be_used(root: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk) as host:
        await create_session(host, "s")
        refused = disk.fail("unlink", EACCES, path="*/s.jsonl", times=None)
        with pytest.raises(PermissionError):
            await host.delete("s")
        refused.lift()
        session = await host.load("s")
        await session.append_message("user", "still here")
        await host.delete("s")
        assert await host.list_sessions() == []


async def test_an_empty_text_means_no_session_even_if_there_is_only_one(root: Path, clock: Clock) -> None:
    async with SessionHost(root, clock=clock) as host:
        await create_session(host, "only")
        for operation in (host.load, host.resolve, host.delete):
            with pytest.raises(InvalidSessionId):
                await operation("")
        assert await host.get_session("") is None
        assert [row.id for row in await host.list_sessions()] == ["only"]


async def test_a_moved_project_has_its_sessions_under_the_new_path_and_a_link(root: Path, tmp_path: Path) -> None:
    project, moved = tmp_path / "shop", tmp_path / "shop2"
    project.mkdir()
    async with SessionHost(root) as host:
        await create_session(host, "one", cwd=project)
        assert len(await host.list_sessions(project=project)) == 1
        project.rename(moved)
        project.symlink_to("shop2")
        assert len(await host.list_sessions(project=project)) == 1
    async with SessionHost(root) as host:
        for each in (project, moved):
            assert [row.id for row in await host.list_sessions(project=each)] == ["one"]
            assert [hit.session_id async for hit in host.search("Hello", project=each)] == ["one"]
            recent = await host.find_recent(cwd=each)
            assert recent is not None
            assert recent.id == "one"
    assert [each.code for each in IndexCheck(OsDisk(), str(root)).findings()] == []


@pytest.mark.parametrize("inside", [True, False])
async def test_paths_without_sessions_are_named(host: SessionHost, root: Path, tmp_path: Path, *, inside: bool) -> None:
    folder = root if inside else tmp_path
    (folder / "empty.jsonl").touch()
    (folder / "folder.jsonl").mkdir()
    async with host:
        for name, what in [("empty", "empty file"), ("folder", "is a directory"), ("gone", "there is no session")]:
            path = folder / f"{name}.jsonl"
            for named in (path, str(path)):
                with pytest.raises(SessionNotFound, match=what):
                    await host.resolve(named)
            assert await host.get_session(path) is None
        with pytest.raises(SessionNotFound, match="its file is empty"):
            await host.load(folder / "empty.jsonl")
