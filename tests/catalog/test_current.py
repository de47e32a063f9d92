"""The current session of a project: a pointer file, which can be lost without losing a session."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

import os
from pathlib import Path

import pytest

from treering import SessionHost, SessionNotFound, plain_text
from treering.actors.host.runtime import Clock
from treering.errors import LogError
from treering.events.disk import OsDisk
from treering.events.projects import project_hash
from treering.testing.disks import WrappedDisk

from .sessions import create_session, id_of, ids


class DiskWithoutLinks(WrappedDisk):
    """A disk without a method for symbolic links."""


class DiskRefusingLinks(OsDisk):
    """A disk whose file system refuses symbolic links."""

    def link(self, target: str, path: str) -> None:
        raise OSError(95, "Operation not supported")


def target_of(pointer: Path, *, is_link: bool) -> Path:
    """The path that a pointer names, after checking whether the pointer is a link."""
    assert pointer.is_symlink() == is_link
    return pointer.resolve() if is_link else (pointer.parent / pointer.read_text().strip()).resolve()


@pytest.fixture(params=["links", "no links", "links refused"])
def disk(request: pytest.FixtureRequest) -> OsDisk | DiskWithoutLinks:
    if request.param == "no links":
        return DiskWithoutLinks(OsDisk())
    return OsDisk() if request.param == "links" else DiskRefusingLinks()


@pytest.fixture
def pointer(root: Path, tmp_path: Path) -> Path:
    return root / ".treering" / "current" / project_hash(tmp_path)


@pytest.mark.feature("N-19", "N-42", "N-47")
async def test_the_pointer_names_the_current_session_and_continue_recent_uses_it(
    root: Path, tmp_path: Path, pointer: Path, clock: Clock, disk: OsDisk | DiskWithoutLinks
) -> None:
    async with SessionHost(root, clock=clock, disk=disk) as host:
        assert await host.current_session(tmp_path) is None
        for name in ("one", "two", "three"):
            await create_session(host, name, cwd=tmp_path)
        assert await host.current_session(tmp_path) is None
        await host.set_current_session(tmp_path, "one")
    assert target_of(pointer, is_link=type(disk) is OsDisk) == root / "one.jsonl"
    async with SessionHost(root, clock=clock, disk=disk) as host:
        current = await host.current_session(tmp_path)
        assert current is not None
        assert (current.id, current.title) == ("one", "Hello")
        assert (await host.continue_recent(cwd=tmp_path)).id == "one"
        assert (await host.continue_recent()).id == "three"
        assert await host.current_session("/elsewhere") is None
        await host.set_current_session(f"{tmp_path}/", await host.load("two"))
        assert (await host.continue_recent(cwd=tmp_path)).id == "two"
        for _ in range(2):
            await host.set_current_session(tmp_path, None)
            assert await host.current_session(tmp_path) is None
        assert (await host.continue_recent(cwd=tmp_path)).id == "three"
        with pytest.raises(SessionNotFound):
            await host.set_current_session(tmp_path, "nobody")


@pytest.mark.feature("N-42")
async def test_a_pointer_that_is_damaged_or_names_no_session_is_ignored(
    root: Path, tmp_path: Path, pointer: Path, clock: Clock, disk: OsDisk | DiskWithoutLinks
) -> None:
    async with SessionHost(root, clock=clock, disk=disk) as host:
        await create_session(host, "one", cwd=tmp_path)
        await create_session(host, "two", cwd=tmp_path)
        await host.set_current_session(tmp_path, "one")
    (root / "one.jsonl").unlink()
    async with SessionHost(root, clock=clock, disk=disk) as host:
        assert await host.current_session(tmp_path) is None
        assert (await host.continue_recent(cwd=tmp_path)).id == "two"
    for damaged in (b"", b"\xff\xfe", b"../..", b"a\0b", b"x" * 10_000):
        pointer.unlink()
        pointer.write_bytes(damaged)
        async with SessionHost(root, clock=clock, disk=disk) as host:
            assert await host.current_session(tmp_path) is None
            await host.set_current_session(tmp_path, "two")
            assert id_of(await host.current_session(tmp_path)) == "two"


@pytest.mark.feature("N-46")
async def test_deleting_a_session_removes_its_line_in_the_index_and_its_pointer_only(
    root: Path, tmp_path: Path, index_path: Path, pointer: Path, clock: Clock, disk: OsDisk | DiskWithoutLinks
) -> None:
    async with SessionHost(root, clock=clock, disk=disk) as host:
        await create_session(host, "one", "a secret", cwd=tmp_path)
        await create_session(host, "two", cwd=tmp_path)
        await host.set_current_session(tmp_path, "one")
        await host.set_current_session("/elsewhere", "two")
        await host.flush()
        assert "a secret" in index_path.read_text()
        other = (root / "two.jsonl").read_bytes()
        for _ in range(3):
            await host.delete("one")
            assert await host.current_session(tmp_path) is None
            assert ids(await host.list_sessions()) == ["two"]
        await host.flush()
        assert "one" not in index_path.read_text()
        assert "a secret" not in index_path.read_text()
        assert os.listdir(pointer.parent) == [project_hash("/elsewhere")]
        assert id_of(await host.current_session("/elsewhere")) == "two"
    assert (root / "two.jsonl").read_bytes() == other
    assert sorted(os.listdir(root)) == [".treering", "two.jsonl"]


async def test_a_file_that_cannot_be_read_does_not_become_current(root: Path, tmp_path: Path, pointer: Path) -> None:
    async with SessionHost(root) as host:
        await create_session(host, "one", cwd=tmp_path)
        await host.set_current_session(tmp_path, "one")
        (root / "noise.jsonl").write_text("noise\n")
        with pytest.raises(LogError, match="not a session header"):
            await host.set_current_session(tmp_path, root / "noise.jsonl")
        assert (await host.continue_recent(cwd=tmp_path)).id == "one"
    assert target_of(pointer, is_link=True) == root / "one.jsonl"


async def test_a_session_can_be_given_as_handle_row_path_or_text(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "sessions") as host:
        session = await create_session(host, "one")
        row = await host.resolve(session)
        assert row.path is not None
        for named in (session, row, row.path, Path(row.path), "one"):
            await host.set_current_session(tmp_path, None)
            assert await host.current_session(tmp_path) is None
            await host.set_current_session(tmp_path, named)
            assert id_of(await host.current_session(tmp_path)) == "one"
            assert (await host.resolve(named)).ref == (await host.load(named, read_only=True)).ref == session.ref
        await host.archive(row)
        await host.unarchive(Path(row.path))
        await host.delete(row)
        assert await host.get_session(row) is None


async def test_a_row_of_another_root_means_the_session_in_that_root(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "here") as here, SessionHost(tmp_path / "there") as there:
        await create_session(here, "one", "here")
        await create_session(there, "one", "there")
        async with await here.load(await there.resolve("one"), read_only=True) as loaded:
            assert [plain_text(each.content) for each in await loaded.messages()] == ["there"]


async def test_a_host_in_memory_has_a_current_session(tmp_path: Path) -> None:
    async with SessionHost() as host:
        await create_session(host, "one", cwd=tmp_path)
        await create_session(host, "two", cwd=tmp_path)
        await host.set_current_session(tmp_path, "one")
        assert (await host.continue_recent(cwd=tmp_path)).id == "one"
        await host.delete("one")
        assert await host.current_session(tmp_path) is None
        assert (await host.continue_recent(cwd=tmp_path)).id == "two"


async def test_an_archived_session_is_not_current_until_it_is_unarchived(root: Path) -> None:
    async with SessionHost(root) as host:
        await create_session(host, "older", cwd="/work")
        await host.set_current_session("/work", await create_session(host, "now", cwd="/work"))
        await host.archive("now")
        assert await host.current_session("/work") is None
        recent = await host.find_recent(cwd="/work")
        assert recent is not None
        assert recent.id == "older"
        await host.unarchive("now")
        assert id_of(await host.current_session("/work")) == "now"
        assert (await host.continue_recent(cwd="/work")).id == "now"
