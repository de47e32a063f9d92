"""The statistics of a host: their types and their values."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import anyio
import pytest

from treering import AppendFailed, HostStatistics, Limits, SessionHost, SessionStatistics
from treering.actors.statistics import Latency
from treering.events.disk import OsDisk
from treering.testing.disks import FaultyDisk


def size_of_entries(root: Path) -> int:
    """How many bytes the logs have after their headers."""
    return sum(len(log.read_bytes().partition(b"\n")[2]) for log in root.glob("*.jsonl"))


@pytest.mark.feature("X-15")
async def test_the_statistics_of_a_new_host_are_zero_and_typed() -> None:
    async with SessionHost() as host:
        nothing = HostStatistics(
            live=0,
            activated=0,
            passivated=0,
            appends=0,
            batches=0,
            bytes=0,
            failures=0,
            commit=Latency(0.0, 0.0),
            subscribers=0,
            sessions=(),
        )
        assert host.statistics() == nothing
        kinds = get_type_hints(HostStatistics)
        for name in ("live", "activated", "passivated", "appends", "batches", "bytes", "failures", "subscribers"):
            assert kinds[name] is int
        assert kinds["commit"] is Latency
        assert kinds["sessions"] == tuple[SessionStatistics, ...]
        assert get_type_hints(Latency) == {"p50_s": float, "p99_s": float}
        assert {*get_type_hints(SessionStatistics)} >= {"session_id", "mailbox_depth", "head", "subscribers", "lag_max"}


@pytest.mark.feature("X-15")
async def test_sessions_appends_batches_and_bytes_are_counted(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        one, two = await host.create(), await host.create()
        assert host.statistics().live == 0
        for number in range(10):
            await one.append_message("user", f"é {number}")
        await two.append_message("user", "hello")
        await two.save_turn([(await two.messages())[0]] * 3)
        found = host.statistics()
        assert (found.live, found.activated, found.passivated) == (2, 2, 0)
        assert (found.appends, found.batches, found.failures) == (15, 12, 0)
        assert found.bytes == size_of_entries(tmp_path)
        assert {each.session_id: each.head for each in found.sessions} == {one.id: 10, two.id: 5}
        assert 0 < found.commit.p50_s <= found.commit.p99_s < 60

        await one.passivate()
        found = host.statistics()
        assert (found.live, found.activated, found.passivated) == (1, 2, 1)
        assert [each.session_id for each in found.sessions] == [two.id]
        await one.append_message("user", "again")
        assert (host.statistics().live, host.statistics().activated) == (2, 3)


@pytest.mark.feature("X-15")
async def test_mailboxes_batches_and_commit_latency_are_measured(tmp_path: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, writes="thread", limits=Limits(mailbox_max=8)) as host:
        session = await host.create()
        await session.append_custom_entry("note", 0)
        stall = disk.stall("write", path="*.jsonl")
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.append_custom_entry, "note", 1)
                assert await anyio.to_thread.run_sync(stall.wait)
                for number in range(2, 7):
                    tasks.start_soon(session.append_custom_entry, "note", number)
                await anyio.wait_all_tasks_blocked()
                (found,) = host.statistics().sessions
                assert (found.mailbox_depth, found.head) == (5, 1)
                stall.lift()
        finally:
            stall.lift()
        assert host.statistics().sessions[0].mailbox_depth == 0
        assert (host.statistics().appends, host.statistics().batches) == (7, 3)  # the five waiting ones were one batch

        disk.fail("write", 5, path="*.jsonl")
        with pytest.raises(AppendFailed):
            await session.append_custom_entry("note", 7)
        assert (host.statistics().appends, host.statistics().failures) == (7, 1)


@pytest.mark.feature("X-15")
async def test_subscribers_and_their_lag_are_shown() -> None:
    async with SessionHost() as host:
        session, other = await host.create(), await host.create()
        await session.append_custom_entry("note", 0)
        await other.append_custom_entry("note", 0)
        async with session.subscribe(after=session.cursor) as slow, session.subscribe(after=session.cursor) as quick:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anext, quick)
                tasks.start_soon(anext, slow)
                await anyio.wait_all_tasks_blocked()
                await session.append_custom_entry("note", 1)
            for number in range(2, 6):
                await session.append_custom_entry("note", number)
            for _ in range(4):
                await anext(quick)
            found = {each.session_id: each for each in host.statistics().sessions}
            assert (found[session.id].subscribers, found[session.id].lag_max) == (2, 4)
            assert (found[other.id].subscribers, found[other.id].lag_max) == (0, 0)
            assert host.statistics().subscribers == 2
            await session.passivate()
            assert host.statistics().subscribers == 2  # subscribers of a passivated session count too
            await slow.receive_many()
        assert host.statistics().subscribers == 0
