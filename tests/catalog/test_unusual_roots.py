"""Roots that hold other things than session files: folders without permission, links, a named pipe."""

import os
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from errno import EACCES
from pathlib import Path

import pytest
import structlog

from treering import AppendFailed, SessionHost
from treering.events.disk import Disk, FileStat, OsDisk
from treering.events.health.doctor import examine
from treering.events.health.repair import repair
from treering.events.stores.files import FileStore
from treering.testing.clocks import ManualClock
from treering.testing.disks import FaultyDisk, WrappedDisk

from .sessions import create_session


class ScanningDiskWithLockedFolder(OsDisk):
    """A disk that scans directories in one call, with a folder that cannot be listed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def scan_directory(self, path: str, suffixes: tuple[str, ...]) -> Sequence[tuple[str, FileStat, bool]]:
        if os.path.basename(path) == self._name:
            raise PermissionError(EACCES, os.strerror(EACCES), path)
        return super().scan_directory(path, suffixes)

    def list_directory(self, path: str) -> Sequence[str]:
        if os.path.basename(path) == self._name:
            raise PermissionError(EACCES, os.strerror(EACCES), path)
        return super().list_directory(path)


def disk_with_locked_folder(name: str) -> Disk:
    disk = FaultyDisk(OsDisk())
    disk.fail("list_directory", EACCES, path=f"*/{name}", times=None)
    return disk


DISKS = pytest.mark.parametrize(
    "disk_of", [ScanningDiskWithLockedFolder, disk_with_locked_folder], ids=["scanned at once", "one by one"]
)


def without_scan(_: str = "") -> Disk:
    return WrappedDisk(OsDisk())


@DISKS
async def test_unlistable_folders_are_logged_once_and_others_listed(root: Path, disk_of: Callable[[str], Disk]) -> None:
    (root / "lost+found").mkdir(parents=True)
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    with structlog.testing.capture_logs() as logs:
        async with SessionHost(root, disk=disk_of("lost+found"), clock=clock) as host:
            await create_session(host, "one")
            for _ in range(2):
                assert [row.id for row in await host.list_sessions()] == ["one"]
                assert [hit.session_id async for hit in host.search("Hello", index=True)] == ["one"]
            assert (await host.load("last")).id == "one"
            assert await host.find_recent() is not None
            assert (await host.apply_retention()).archived == ()
    assert [event["path"] for event in logs if event["event"] == "folder_unreadable"] == [str(root / "lost+found")]
    async with aclosing(FileStore(root, disk=disk_of("lost+found"))) as store:
        assert [info.ref for info in await store.page()] == ["one.jsonl"]


@DISKS
async def test_a_root_that_cannot_be_listed_is_an_error(root: Path, disk_of: Callable[[str], Disk]) -> None:
    async with SessionHost(root) as host:
        await create_session(host, "one")
    async with SessionHost(root, disk=disk_of(root.name)) as host:
        with pytest.raises(PermissionError):
            await host.list_sessions()


@pytest.mark.parametrize("disk_of", [OsDisk, without_scan], ids=["scanned at once", "one by one"])
async def test_links_within_the_root_are_not_listed(root: Path, tmp_path: Path, disk_of: Callable[[], Disk]) -> None:
    elsewhere = tmp_path / "elsewhere"
    async with SessionHost(elsewhere) as host:
        await create_session(host, "other")
    async with SessionHost(root) as host:
        await create_session(host, "one")
    (root / "work").mkdir()
    (root / "one.jsonl").rename(root / "work" / "one.jsonl")
    (root / "data").write_bytes((root / "work" / "one.jsonl").read_bytes().replace(b'"one"', b'"three"'))
    (root / "again.jsonl").symlink_to("work/one.jsonl")
    (root / "there").symlink_to("work")
    (root / "back").symlink_to(root)
    (root / "three.jsonl").symlink_to("data")
    (root / "other.jsonl").symlink_to(elsewhere / "other.jsonl")
    (root / "others").symlink_to(elsewhere)
    (elsewhere / "back.jsonl").symlink_to(root / "work" / "one.jsonl")
    expected = ["other.jsonl", "others/other.jsonl", "three.jsonl", "work/one.jsonl"]
    async with SessionHost(root, disk=disk_of()) as host:
        assert sorted(row.ref for row in await host.list_sessions()) == expected
        assert (await host.resolve("on")).id == "one"
        assert len([hit async for hit in host.search("Hello")]) == len(expected)
    async with aclosing(FileStore(root, disk=disk_of())) as store:
        assert [info.ref for info in await store.page()] == expected


async def test_a_named_pipe_under_the_root_blocks_no_operation(root: Path) -> None:
    async with SessionHost(root) as host:
        await create_session(host, "one")
        os.mkfifo(root / "pipe.jsonl")
        assert [row.id for row in await host.list_sessions()] == ["one"]
        assert [hit.session_id async for hit in host.search("Hello", index=True)] == ["one"]
        session = await host.open("pipe")
        with pytest.raises(AppendFailed):
            await session.append_message("user", "Hello")
    assert [(Path(each.path).name, each.code) for each in examine(root)] == [("pipe.jsonl", "unreadable")]
    assert repair(root) == []
