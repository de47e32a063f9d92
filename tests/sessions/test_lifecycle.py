"""Creating, loading, continuing and closing sessions."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal
from uuid import UUID

import pytest

from treering import NotFound, Session, SessionHost, SessionNotFound
from treering.errors import InvalidSessionId, SessionExists
from treering.events.dialects.detect import DialectName
from treering.testing.clocks import ManualClock
from treering.testing.disks import MemoryDisk

from .conftest import header, state_of, texts

NOW = datetime(2026, 1, 1, 10, tzinfo=UTC)


@pytest.mark.feature("G-79", "G-103")
async def test_a_host_creates_loads_continues_and_lists_the_sessions_of_one_directory(root: Path) -> None:
    async with SessionHost(root) as host:
        assert await host.list_sessions() == []
        session = await host.create("main")
        assert (session.leaf_id, session.path(), session.tree().nodes) == (None, [], ())
        assert await session.entries() == []
        assert (await session.context()).messages == ()
        entry_id = await session.append_message("user", "Hello")
        assert session.path() == [entry_id]
        assert texts(await (await host.load("main")).messages()) == ["Hello"]
        assert (await host.continue_recent()).id == "main"
        assert [row.id for row in await host.list_sessions()] == ["main"]
    async with SessionHost(root.parent / "other") as host:
        assert await host.list_sessions() == []
        with pytest.raises(SessionNotFound):
            await host.load("main")


@pytest.mark.feature("G-78", "D-42")
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_sessions_are_created_only_under_the_given_directory(dialect: Literal["native", "pi", "omp"]) -> None:
    disk = MemoryDisk()
    disk.make_directory("/elsewhere")
    async with SessionHost("/data/sessions", disk=disk, dialect=dialect) as host:
        for cwd in (None, "/elsewhere", "/elsewhere/../..", "relative", "/", "../up", "~", "/data/sessions/.."):
            session = await host.create(cwd=cwd)
            await session.append_message("user", "Hello")
            assert (session.file_path or "").startswith("/data/sessions/")
        await (await host.create("chosen", cwd="/elsewhere")).append_message("user", "Hello")
        await (await host.fork_from(session)).append_message("user", "more")
        await (await session.create_branched_session(session.path()[0])).append_message("user", "more")
        for wrong in ("../x", "/elsewhere/x", "a/b", "..", ".", "", "a\0b", "a\nb", "a\\b"):
            for call in (host.create, host.open, partial(host.fork_from, session)):
                with pytest.raises(InvalidSessionId):
                    await call(session_id=wrong)
    assert [path for path in disk.files() if not path.startswith("/data/sessions/")] == []
    assert len([path for path in disk.files() if path.endswith(".jsonl") and "/.treering/" not in path]) == 11


@pytest.mark.feature("G-32")
async def test_every_file_has_its_own_id(host: SessionHost) -> None:
    ids: set[str] = set()
    for _ in range(10):
        session = await host.create()
        await session.append_message("user", "Hello")
        assert header(session)["id"] == session.id == session.header.id
        assert UUID(session.id).version == 4
        ids.add(session.id)
        for copy in (await session.fork(), await session.create_branched_session(session.path()[0])):
            assert header(copy)["id"] == copy.id
            ids.add(copy.id)
    assert len(ids) == 30
    with pytest.raises(SessionExists):
        await host.create(session.id)
    with pytest.raises(SessionExists):
        await session.fork(session.id)


@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_an_id_can_be_used_only_once(root: Path, clock: ManualClock, dialect: DialectName) -> None:
    async with SessionHost(root, dialect=dialect, clock=clock) as host:
        session = await host.create("main")
        await session.append_message("user", "Hello")
        with pytest.raises(SessionExists, match="main"):
            await host.create("main")
        assert (await host.open("main")).ref == session.ref
    assert len([name for name in os.listdir(root) if name.endswith(".jsonl")]) == 1


async def test_an_id_is_reserved_before_the_first_write_and_released_with_its_last_handle(host: SessionHost) -> None:
    first = await host.create("main")
    keyed = await host.create(key="telegram:1")
    with pytest.raises(SessionExists, match="main"):
        await host.create("main")
    with pytest.raises(SessionExists, match="telegram:1"):
        await host.create(key="telegram:1")
    assert [(await host.open("main")).ref, (await host.get_or_create("telegram:1")).ref] == [first.ref, keyed.ref]
    del first
    await (await host.create("main")).append_message("user", "Hello")


@pytest.mark.feature("G-35")
async def test_the_header_has_the_time_of_creation(host: SessionHost) -> None:
    session = await host.create("main")
    created = session.created
    assert session.header.timestamp == created
    await session.append_message("user", "Hello")
    assert header(session)["timestamp"] == created.isoformat().replace("+00:00", "Z")
    await session.passivate()
    again = await host.load("main")
    assert again.created == again.header.timestamp == created
    [row] = await host.list_sessions()
    assert row.created == created


@pytest.mark.feature("G-34", "G-81")
async def test_a_header_names_the_parent_session_if_it_has_one(host: SessionHost) -> None:
    alone = await host.create("alone")
    child = await host.create("child", parent_session="alone")
    for session in (alone, child):
        await session.append_message("user", "Hello")
    copy = await alone.fork()
    branch = await alone.create_branched_session(alone.path()[0])
    assert "parent_session" not in header(alone)
    assert alone.header.parent_session is None
    for each in (child, copy, branch):
        assert header(each)["parent_session"] == "alone"
        assert each.header.parent_session == "alone"
        await each.passivate()
        assert (await host.load(each.id)).header.parent_session == "alone"


@pytest.mark.feature("G-80", "G-82")
async def test_a_session_can_be_loaded_by_absolute_and_relative_paths(
    host: SessionHost,
    session: Session,
    root: Path,
    files: Callable[[], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await session.append_message("user", "Hello")
    await session.append_message("assistant", "Hi")
    known = await state_of(session)
    path = root / "main.jsonl"
    monkeypatch.chdir(tmp_path)
    for given in (
        path,
        str(path),
        Path("sessions/main.jsonl"),
        "sessions/main.jsonl",
        "./sessions/../sessions/main.jsonl",
    ):
        await session.passivate()
        found = await host.load(given)
        assert found.id == "main"
        assert found.file_path == str(path.resolve())
        assert await state_of(found) == known
    monkeypatch.chdir(root)
    assert (await host.load("main.jsonl")).ref == session.ref
    for missing in (tmp_path / "none.jsonl", str(root / "none.jsonl"), "none.jsonl", "sessions/main.jsonl", "none"):
        with pytest.raises(SessionNotFound) as caught:
            await host.load(missing)
        assert isinstance(caught.value, FileNotFoundError)
        assert isinstance(caught.value, NotFound)
        with pytest.raises(FileNotFoundError):
            await host.load(missing, read_only=True)
    assert files() == ["main.jsonl"]


@pytest.mark.feature("G-83")
async def test_continue_recent_continues_the_session_with_the_latest_entry(host: SessionHost, root: Path) -> None:
    for name in ("b", "a", "c"):
        await (await host.create(name)).append_message("user", "Hello")
    assert (await host.continue_recent()).id == "c"
    await (await host.load("a")).append_message("user", "more")
    assert (await host.continue_recent()).id == "a"
    for number, name in enumerate(("a", "c", "b")):
        os.utime(root / f"{name}.jsonl", (number, number))
    assert (await host.continue_recent()).id == "a"
    await host.passivate_idle()
    async with SessionHost(root / ".." / "sessions") as other:
        found = await other.find_recent()
        assert found is not None
        assert found.id == "a"


@pytest.mark.feature("G-83")
@pytest.mark.parametrize("names", [("x", "y", "z"), ("z", "x", "y"), ("y", "z", "x")])
async def test_continue_recent_chooses_the_same_of_equally_recent_ones(root: Path, names: tuple[str, ...]) -> None:
    async with SessionHost(root, clock=lambda: NOW) as host:
        for name in names:
            await (await host.create(name)).append_message("user", "Hello")
        assert [(await host.continue_recent()).id for _ in range(3)] == ["z", "z", "z"]
    for stamp, name in enumerate(names):
        os.utime(root / f"{name}.jsonl", (stamp, stamp))
    async with SessionHost(root) as host:
        assert (await host.continue_recent()).id == "z"


@pytest.mark.feature("G-84")
@pytest.mark.parametrize("folder", ["empty", "absent"])
async def test_in_an_empty_directory_nothing_is_recent_and_no_file_is_created(tmp_path: Path, folder: str) -> None:
    os.mkdir(tmp_path / "empty")
    async with SessionHost(tmp_path / folder) as host:
        assert await host.find_recent() is None
        assert os.listdir(tmp_path) == ["empty"]
        assert os.listdir(tmp_path / "empty") == []
        session = await host.continue_recent()
        assert session.leaf_id is None
        assert os.listdir(tmp_path / "empty") == []
        await session.append_message("user", "Hello")
        assert f"{session.id}.jsonl" in os.listdir(tmp_path / folder)
