"""Retention archives by the time of the last entry, and a dry run reports what it would do."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from tests.stores.logs import InterruptedDisk

from treering import SessionHost, SyncHost, plain_text
from treering.actors.catalog.settings import Settings
from treering.events.disk import OsDisk
from treering.testing.clocks import ManualClock
from treering.testing.disks import FaultyDisk, WrappedDisk

from .conftest import in_another_thread

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def away(root: Path, tmp_path: Path) -> Path:
    """A folder outside of the root, which a link in the root names."""
    root.mkdir()
    folder = tmp_path / "away"
    (root / "linked").symlink_to(folder)
    return folder


def files(root: Path) -> dict[str, bytes]:
    """Read the files of all sessions."""
    return {path.name: path.read_bytes() for path in root.glob("s*.jsonl*")}


async def create_used(
    host: SessionHost, clock: ManualClock, name: str, days_ago: float, *, cwd: str | None = "/work"
) -> None:
    """Create a session whose last append was this many days ago, and passivate it."""
    clock.now = NOW - timedelta(days=days_ago)
    session = await host.create(name, cwd=cwd)
    await session.append_message("user", "hello")
    await session.passivate()
    clock.now = NOW


async def listed(host: SessionHost, status: str | None = None) -> list[str]:
    return sorted(row.id for row in await host.list_sessions(status=status))


@pytest.mark.feature("N-127", "U-20")
async def test_the_51st_session_of_a_project_archives_the_oldest_and_nothing_is_deleted(
    root: Path, clock: ManualClock
) -> None:
    async with SessionHost(root, clock=clock) as host:
        for number in range(50):
            await create_used(host, clock, f"s{number:02}", 20 - number / 10)
        await create_used(host, clock, "elsewhere", 29, cwd="/other")
        await create_used(host, clock, "nowhere", 29, cwd=None)
        assert (await host.apply_retention()).archived == ()
        await create_used(host, clock, "s50", 1)
        report = await host.apply_retention()
        assert [(each.session_id, each.reason) for each in report.archived] == [("s00", "too_many")]
        assert report.spared == ()
        assert await listed(host, "archived") == ["s00"]
        assert len(await listed(host, "any")) == 53
        reader = await host.load("s00", read_only=True)
        assert len(reader.path()) == 2
        assert (await host.apply_retention()).archived == ()


@pytest.mark.feature("N-128", "U-20")
async def test_inactivity_is_measured_from_the_last_entry_and_not_from_the_file(root: Path, clock: ManualClock) -> None:
    async with SessionHost(root, clock=clock) as host:
        await create_used(host, clock, "touched", 31)
        await create_used(host, clock, "used", 30)
        await create_used(host, clock, "labelled", 60)
        clock.now = NOW - timedelta(days=3)
        labelled = await host.load("labelled")
        await labelled.set_label(labelled.path()[0], "begin")  # an entry that is not a message
        await labelled.passivate()
        clock.now = NOW
    now, long_ago = NOW.timestamp(), (NOW - timedelta(days=400)).timestamp()
    os.utime(root / "touched.jsonl", (now, now))
    os.utime(root / "used.jsonl", (long_ago, long_ago))
    os.utime(root / "labelled.jsonl", (long_ago, long_ago))
    async with SessionHost(root, clock=clock) as host:
        report = await host.apply_retention()
        assert [(each.session_id, each.reason) for each in report.archived] == [("touched", "inactive")]
        assert report.archived[0].last_entry == NOW - timedelta(days=31)
        assert await listed(host) == ["labelled", "used"]
        assert await listed(host, "archived") == ["touched"]


@pytest.mark.feature("N-138")
async def test_a_dry_run_lists_what_would_be_archived_with_reasons_and_changes_no_byte(
    root: Path, clock: ManualClock
) -> None:
    settings = Settings(max_sessions_per_project=2, auto_archive_after_days=10)
    async with SessionHost(root, clock=clock, settings=settings) as host:
        for number, days in enumerate((1, 2, 3, 12)):
            await create_used(host, clock, f"s{number}", days)
        before = files(root)
        planned = await host.apply_retention(dry_run=True)
        assert planned.dry_run
        assert [(each.session_id, each.reason) for each in planned.archived] == [("s3", "inactive"), ("s2", "too_many")]
        assert files(root) == before
        assert len(await listed(host)) == 4
        done = await host.apply_retention()
        assert (done.archived, done.spared, done.dry_run) == (planned.archived, (), False)
        assert await listed(host) == ["s0", "s1"]


async def test_a_project_is_one_under_all_of_its_names(root: Path, away: Path, clock: ManualClock) -> None:
    async with SessionHost(root, clock=clock, settings=Settings(max_sessions_per_project=1)) as host:
        for days, cwd in enumerate((away, root / "linked", away.parent)):
            await create_used(host, clock, f"s{days}", days, cwd=str(cwd))
        assert [each.session_id for each in (await host.apply_retention()).archived] == ["s1"]


async def test_sessions_in_use_are_not_archived_and_reported_as_spared(root: Path, clock: ManualClock) -> None:
    async with SessionHost(root, clock=clock) as host, SessionHost(root, clock=clock) as other:
        for name in ("here", "there", "nobody"):
            await create_used(host, clock, name, 40)
        here, there = await host.load("here"), await other.load("there")
        for dry_run in (True, False):
            report = await host.apply_retention(dry_run=dry_run)
            assert [each.session_id for each in report.archived] == ["nobody"]
            why = {each.session_id: each.why for each in report.spared}
            assert why == {
                "here": "it is in use in this program",
                "there": f"it is owned by process {os.getpid()} on {os.uname().nodename}",
            }
        assert await listed(host) == ["here", "there"]
        await here.append_message("user", "still here")
        await there.append_message("user", "still there")


@pytest.mark.parametrize("kept_in", ["links", "no links", "memory"])
async def test_the_current_session_of_each_project_is_spared_and_reported(
    root: Path, clock: ManualClock, kept_in: str
) -> None:
    settings = Settings(max_sessions_per_project=1)
    place = None if kept_in == "memory" else root
    disk = WrappedDisk(OsDisk()) if kept_in == "no links" else None
    async with SessionHost(place, clock=clock, settings=settings, disk=disk) as host:
        for name, days in (("inactive", 40), ("old", 45), ("crowded", 5), ("older", 6), ("newest", 1)):
            await create_used(host, clock, name, days)
        await create_used(host, clock, "nowhere", 50, cwd=None)
        await host.set_current_session("/work", "crowded")
        await host.set_current_session("/other", "inactive")  # a session may be current where it was not started
        await host.set_current_session("/third", "nowhere")
        await host.set_current_session("/third", None)
        for dry_run in (True, False):
            report = await host.apply_retention(dry_run=dry_run)
            assert [each.session_id for each in report.archived] == ["nowhere", "old", "older"]
            assert [(each.session_id, each.why) for each in report.spared] == [
                ("inactive", "it is the current session of its project"),
                ("crowded", "it is the current session of its project"),
            ]
        assert await listed(host) == ["crowded", "inactive", "newest"]

        await host.set_current_session("/work", "newest")
        report = await host.apply_retention()
        assert [each.session_id for each in report.archived] == ["crowded"]
        await host.archive("inactive")  # as a person may do
        assert await listed(host) == ["newest"]


async def test_a_session_behind_a_linked_folder_is_spared_as_the_current_one_too(
    root: Path, away: Path, clock: ManualClock
) -> None:
    async with SessionHost(away, clock=clock) as host:
        await create_used(host, clock, "far", 40)
    async with SessionHost(root, clock=clock) as host:
        (row,) = await host.list_sessions()
        assert row.ref == "linked/far.jsonl"
        await host.set_current_session("/work", row)
        report = await host.apply_retention()
        assert (report.archived, [each.session_id for each in report.spared]) == ((), ["far"])


async def test_damaged_pointers_do_not_prevent_retention(root: Path, clock: ManualClock) -> None:
    async with SessionHost(root, clock=clock) as host:
        await create_used(host, clock, "s", 40)
        pointers = root / ".treering" / "current"
        pointers.mkdir(parents=True)
        for number, damaged in enumerate((b"", b"\xff\xfe", b"../..", b"a\0b", b"x" * 10_000)):
            (pointers / str(number)).write_bytes(damaged)
        assert [each.session_id for each in (await host.apply_retention()).archived] == ["s"]


async def test_a_setting_applies_retention_when_the_host_starts(root: Path, clock: ManualClock) -> None:
    async with SessionHost(root, clock=clock) as host:
        await create_used(host, clock, "old", 40)
    async with SessionHost(root, clock=clock) as host:
        assert await listed(host) == ["old"]
    settings = Settings(apply_retention_at_start=True)
    async with SessionHost(root, clock=clock, settings=settings) as host:
        async with host.subscribe_sessions() as changes:
            rows = await anext(changes)
            assert isinstance(rows, list)
            while (await host.list_sessions(status="archived")) == []:
                await anext(changes)
        assert await listed(host) == []


async def test_a_limit_longer_than_dates_can_express_archives_nothing(root: Path, clock: ManualClock) -> None:
    settings = Settings(auto_archive_after_days=10**12)
    async with SessionHost(root, clock=clock, settings=settings) as host:
        await create_used(host, clock, "s", 10_000)
        assert (await host.apply_retention()).archived == ()


async def test_a_session_that_goes_on_while_others_are_archived_is_spared(root: Path, clock: ManualClock) -> None:
    """Another program appends to the second session just before the first one is packed."""

    def go_on(other: SyncHost) -> None:
        other.load("second").append_message("user", "I am back")

    disk = InterruptedDisk()
    async with SessionHost(root, clock=clock, disk=disk) as host:
        await create_used(host, clock, "first", 50)
        await create_used(host, clock, "second", 40)
        disk.before("open", act=lambda: in_another_thread(root, go_on), path="*.zst.tmp-*")
        report = await host.apply_retention()
        assert [each.session_id for each in report.archived] == ["first"]
        assert [(each.session_id, each.why) for each in report.spared] == [
            ("second", "something was appended to it just now")
        ]
        assert await listed(host) == ["second"]


async def test_a_session_that_cannot_be_archived_is_spared_with_the_reason(root: Path, clock: ManualClock) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, clock=clock, disk=disk) as host:
        await create_used(host, clock, "first", 50)
        await create_used(host, clock, "second", 40)
        disk.fail("write", errno.ENOSPC, path="*/first.jsonl*zst*")
        report = await host.apply_retention()
        assert [each.session_id for each in report.archived] == ["second"]
        assert [each.session_id for each in report.spared] == ["first"]
        assert "free some space, then archive the session again" in report.spared[0].why


async def test_a_session_that_an_append_brought_back_before_it_was_packed_is_spared(
    root: Path, clock: ManualClock
) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, clock=clock, disk=disk, durability="file") as host:
        await create_used(host, clock, "a", 50)
        stall = disk.stall("datasync", path="*/a.jsonl")

        async def go_on() -> None:
            assert await anyio.to_thread.run_sync(stall.wait)
            async with anyio.create_task_group() as more:
                more.start_soon((await host.open("a")).append_message, "user", "two")
                await wait_all_tasks_blocked()
                stall.lift()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go_on)
            report = await host.apply_retention()
        assert await listed(host) == ["a"]
        messages = await (await host.open("a")).messages()
        assert [plain_text(each.content) for each in messages] == ["hello", "two"]
        assert ([each.session_id for each in report.spared], report.archived) == (["a"], ())
