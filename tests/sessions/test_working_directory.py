"""A session's directory is stored as an absolute path, whatever path was given."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from treering import FileStore, Session, SessionHost
from treering.events.health.doctor import examine

MakeSession = Callable[[SessionHost, "str | os.PathLike[str]"], Awaitable[Session]]

EVERY_WAY = pytest.mark.parametrize(
    "make",
    [
        lambda host, cwd: host.create(cwd=cwd),
        lambda host, cwd: host.open("main", cwd=cwd),
        lambda host, cwd: host.get_or_create("main", cwd=cwd),
        lambda host, cwd: host.continue_recent(cwd=cwd),
    ],
    ids=["create", "open", "get_or_create", "continue_recent"],
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@EVERY_WAY
@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (".", "."),
        ("src", "src"),
        ("src/..", "."),
        (Path("src"), "src"),
        ("./src/", "src"),
        ("~/project", "."),
        (Path("../link"), "../link"),  # a link is stored as it is given
    ],
)
async def test_a_path_is_stored_as_an_absolute_one(
    root: Path, project: Path, make: MakeSession, given: str | Path, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.parent))
    (project.parent / "link").symlink_to(project)
    async with SessionHost(root) as host:
        session = await make(host, given)
        await session.append_message("user", "Hello")
        assert session.header.cwd == os.path.normpath(project / stored)
        (row,) = await host.list_sessions(project=given)
        assert row.id == session.id
        assert await host.list_sessions(project=project / stored) == [row]
        recent = await host.find_recent(cwd=given)
        assert recent is not None
        assert recent.id == session.id


async def test_the_folder_of_a_pi_file_is_named_after_the_absolute_path(root: Path, project: Path) -> None:
    async with SessionHost(root, dialect="pi") as host:
        session = await host.create(cwd=".")
        assert session.header.cwd == str(project)
        assert project.name in session.ref.split("/")[0]


async def test_rebind_stores_the_absolute_path_of_the_project(root: Path, project: Path) -> None:
    async with SessionHost(root) as host:
        session = await host.create(cwd="/elsewhere")
        await session.rebind("src")
        assert session.metadata.project == os.path.realpath(project / "src")
        assert [row.id for row in await host.list_sessions(project="./src")] == [session.id]


async def test_a_tilde_is_expanded_everywhere(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with SessionHost("~/sessions") as host:
        session = await host.create("main")
        await session.append_message("user", "Hello")
        await session.rebind("~/project")
        (row,) = await host.list_sessions(project="~/project")
        assert row.project == str(project)
        for path in ("~/sessions/main.jsonl", Path("~/sessions/main.jsonl")):
            assert (await host.load(path)).id == "main"
        await host.set_current_session("~/project", "main")
        current = await host.current_session(project)
        assert current is not None
        assert current.id == "main"
        assert [hit.session_id async for hit in host.search("Hello", project="~/project")] == ["main"]
        assert await session.export("json", "~/main.json") == tmp_path / "main.json"
    async with SessionHost(store=FileStore("~/others")) as others:
        await others.import_sessions("~/main.json")
    assert (tmp_path / "others" / "main.jsonl").is_file()
    assert examine("~/others") == []
