"""Roots that cannot be written: read-only ones, and ones that cannot be directories."""

import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from treering import AppendFailed, AppendInDoubt, InvalidInput, ReadOnly, SessionHost
from treering.events.disk import OsDisk
from treering.testing.disks import FaultyDisk

Call: TypeAlias = Callable[[SessionHost, Path], Awaitable[object]]


class ReadOnlyDisk(OsDisk):
    """A disk that refuses to create anything and to open anything for writing."""

    def __init__(self, number: int) -> None:
        self.number = number

    def _refuse(self, path: str) -> None:
        raise OSError(self.number, os.strerror(self.number), path)

    def open(self, path: str, flags: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self._refuse(path)
        return super().open(path, flags)

    def make_directory(self, path: str) -> None:
        self._refuse(path)

    def unlink(self, path: str) -> None:  # type: ignore[override]  # a static method there
        self._refuse(path)


async def open_new(host: SessionHost, _: Path) -> None:
    await (await host.open("new")).context()


async def put(host: SessionHost, _: Path) -> None:
    async with SessionHost() as in_memory:
        session = await in_memory.create("copy")
        await session.append_message("user", "Hello")
        await host.put(session)


NEW: dict[str, Call] = {
    "open": open_new,
    "get_or_create": lambda host, _: host.get_or_create("telegram:1"),
    "put": put,
    "import": lambda host, elsewhere: host.import_sessions(elsewhere / "other.jsonl"),
    "fork": lambda host, elsewhere: host.fork_from(elsewhere / "other.jsonl"),
}
EXISTING: dict[str, Call] = {
    "load": lambda host, _: host.load("main"),
    "archive": lambda host, _: host.archive("main"),
    "unarchive": lambda host, _: host.unarchive("main"),
    "delete": lambda host, _: host.delete("main"),
}


@pytest.fixture
async def elsewhere(tmp_path: Path) -> Path:
    """Another root, with the session "other"."""
    folder = tmp_path / "elsewhere"
    async with SessionHost(folder) as host:
        await (await host.create("other")).append_message("user", "Hello")
    return folder


async def seed(root: Path) -> None:
    async with SessionHost(root) as host:
        await (await host.create("main")).append_message("user", "Hello")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", [*NEW.values(), *EXISTING.values()], ids=[*NEW, *EXISTING])
async def test_a_call_that_writes_to_a_read_only_root_says_where_permission_is_missing(
    root: Path, elsewhere: Path, call: Call, number: int
) -> None:
    await seed(root)
    async with SessionHost(root, disk=ReadOnlyDisk(number)) as host:
        with pytest.raises(ReadOnly, match=rf"{os.strerror(number)}: {root}/.treering/locks") as raised:
            await call(host, elsewhere)
        assert "see to the permissions there" in str(raised.value)
        assert "`read_only=True`" in str(raised.value)
        async with await host.load("main", read_only=True) as session:
            assert session.message_count == 1


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
async def test_an_append_to_a_read_only_root_says_where_permission_is_missing(root: Path, number: int) -> None:
    async with SessionHost(root, disk=ReadOnlyDisk(number)) as host:
        session = await host.create("new")
        message = rf"^new.jsonl cannot be .* \({os.strerror(number)}: {root}.*see to the permissions there, then"
        with pytest.raises(AppendFailed, match=message):
            await session.append_message("user", "Hello")
        with pytest.raises(AppendInDoubt, match=message):
            await session.append_message("user", "Hello", command_id="once")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
async def test_a_pointer_that_may_not_be_written_is_an_error_with_its_place(root: Path, number: int) -> None:
    await seed(root)
    async with SessionHost(root) as host:
        await host.set_current_session("/project", "main")
    place = rf"{root}/.treering/current.*see to the permissions there"
    async with SessionHost(root, disk=ReadOnlyDisk(number)) as host:
        for session in ("main", None):
            with pytest.raises(ReadOnly, match=place):
                await host.set_current_session("/project", session)


@pytest.mark.parametrize("below", ["", "sessions"], ids=["file", "below a file"])
@pytest.mark.parametrize("call", NEW.values(), ids=NEW)
async def test_a_root_that_turns_into_a_file_is_named(tmp_path: Path, elsewhere: Path, call: Call, below: str) -> None:
    place = tmp_path / "place"
    async with SessionHost(place / below) as host:
        place.touch()
        with pytest.raises(InvalidInput, match=rf"\(Not a directory: {place}\): make that a directory, or give"):
            await call(host, elsewhere)
        assert await host.list_sessions() == []
        assert (await host.apply_retention()).archived == ()
        await host.set_current_session("/project", None)
    assert place.read_bytes() == b""


@pytest.mark.parametrize("below", ["", "sessions"], ids=["file", "below a file"])
async def test_an_append_below_a_root_that_turns_into_a_file_fails_and_names_it(tmp_path: Path, below: str) -> None:
    place = tmp_path / "place"
    async with SessionHost(place / below) as host:
        session = await host.create("new")
        place.touch()
        with pytest.raises(AppendFailed, match=rf"\(Not a directory: {place}\): make that a directory, or give"):
            await session.append_message("user", "Hello")
        place.unlink()
        await session.append_message("user", "Hello")
    assert (place / below / "new.jsonl").exists()


class NoDirectories(OsDisk):
    """A disk on which no directory can be created, as below /proc."""

    def make_directory(self, path: str) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


async def test_a_root_that_cannot_exist_is_reported_by_its_name(root: Path, elsewhere: Path) -> None:
    async with SessionHost(root, disk=NoDirectories()) as host:
        session = await host.create("new")
        with pytest.raises(AppendFailed, match=rf"\(No such file or directory: {root}.*give the host another root"):
            await session.append_message("user", "Hello")
        with pytest.raises(InvalidInput, match=rf"\(No such file or directory: {root}.*give the host another root"):
            await put(host, elsewhere)


async def test_a_session_that_cannot_be_deleted_says_what_to_do(root: Path) -> None:
    await seed(root)
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk) as host:
        disk.fail("unlink", errno.EACCES, path="*/main.jsonl", times=None)
        with pytest.raises(PermissionError, match="fix that, then delete the session again") as raised:
            await host.delete("main")
    assert raised.value.filename == str(root / "main.jsonl")


async def test_a_session_that_cannot_be_copied_says_what_to_do(root: Path, elsewhere: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, disk=disk) as host:
        disk.fail("write", errno.ENOSPC, path="*/copy.jsonl*", times=None)
        with pytest.raises(OSError, match="free some space, then write the session again"):
            await put(host, elsewhere)
