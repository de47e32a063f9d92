"""The costs of keyed sessions, counted in disk calls and bytes, so that they are the same on every machine."""

from collections import Counter
from pathlib import Path

import anyio
import pytest

from treering import KeyedSessions, Limits, SessionHost, message
from treering.testing.clocks import ManualClock
from treering.testing.disks import FaultyDisk

KEY = "telegram:123456"


async def fill(sessions: KeyedSessions, key: str, count: int) -> None:
    session = await sessions.get_or_create(key)
    await session.append_many([message("user", f"{number} {'x' * 90}") for number in range(count)])


@pytest.mark.feature("P-1", "P-56")
async def test_a_cached_history_reads_no_bytes_and_a_load_reads_its_file(root: Path, disk: FaultyDisk) -> None:
    read: dict[int, int] = {}
    async with SessionHost(root, disk=disk) as host:
        sessions = KeyedSessions(host)
        for count in (100, 1000):
            await fill(sessions, f"telegram:{count}", count)
    for count in (100, 1000):
        async with SessionHost(root, disk=disk) as host:
            sessions = KeyedSessions(host)
            disk.reset_counts()
            assert len(await sessions.history(f"telegram:{count}")) == count
            read[count] = disk.bytes_read
            size = (root / f"telegram_{count}.jsonl").stat().st_size
            assert size <= read[count] <= 4 * size
            for _ in range(2):
                disk.reset_counts()
                assert (await sessions.get_or_create(f"telegram:{count}")).summary == ""
                assert disk.counts.total() == 0
                assert len(await sessions.history(f"telegram:{count}")) == count
                assert disk.counts["open"] == disk.counts["pread"] == disk.bytes_read == 0
    assert 2 * read[100] < read[1000] <= 10 * read[100]  # linear in the size of the file


@pytest.mark.feature("P-57")
async def test_an_append_costs_the_same_after_ten_thousand_messages(sessions: KeyedSessions, disk: FaultyDisk) -> None:
    async def one_more(key: str) -> tuple[Counter[str], int, int]:
        await sessions.add_message(key, "user", "one that opens the file")
        disk.reset_counts()
        await sessions.add_message(key, "user", "one more")
        return Counter(disk.counts), disk.bytes_read, disk.bytes_written

    await fill(sessions, KEY, 10_000)
    calls, read, written = await one_more("telegram:1")
    calls_of_long, read_of_long, written_of_long = await one_more(KEY)
    assert (calls_of_long, read_of_long) == (calls, read)
    assert calls["write"] == 1
    assert read == 0
    assert written_of_long <= written + 4  # the seq has more digits


@pytest.mark.feature("P-55")
async def test_the_memory_of_conversations_is_bounded(root: Path) -> None:
    """Decoded content is bounded in bytes and live sessions in number; the least recently used ones are dropped."""
    limits = Limits(live_max=5, cache_bytes_max=50_000)
    async with SessionHost(root, limits=limits) as host:
        sessions = KeyedSessions(host)
        for number in range(20):
            await fill(sessions, f"telegram:{number}", 100)
            assert len(await sessions.history(f"telegram:{number}")) == 100
            assert host.statistics().live <= 5
            assert host.core.runtime.bodies.size <= 50_000
        assert len(await sessions.history("telegram:0")) == 100
        assert host.statistics().passivated >= 15


@pytest.mark.feature("P-55")
async def test_the_cached_bytes_are_proportional_to_the_messages(root: Path) -> None:
    async with SessionHost(root, clock=ManualClock()) as host:  # a time on the full second is written in fewer digits
        sessions = KeyedSessions(host)
        sizes: list[int] = []
        for number in range(4):
            await fill(sessions, f"telegram:{number}", 250)
            sizes.append(host.core.runtime.bodies.size)
        assert [size // sizes[0] for size in sizes] == [1, 2, 3, 4]


async def test_many_conversations_that_begin_at_once_look_for_lost_ones_once(root: Path, disk: FaultyDisk) -> None:
    keys = [f"telegram:{number}" for number in range(20)]
    async with SessionHost(root) as host:
        for key in keys:
            await KeyedSessions(host).add_message(key, "user", "Hello")
    looks: list[int] = []
    for at_once in (1, len(keys)):
        limiter = anyio.CapacityLimiter(at_once)

        async def look(sessions: KeyedSessions, key: str, limiter: anyio.CapacityLimiter = limiter) -> None:
            async with limiter:
                assert len(await sessions.history(key)) == 1

        async with SessionHost(root, disk=disk) as host, anyio.create_task_group() as tasks:
            disk.reset_counts()
            for key in keys:
                tasks.start_soon(look, KeyedSessions(host), key)
        looks.append(disk.counts["list_directory"])
    assert looks[0] == looks[1] > 0
