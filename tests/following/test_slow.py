"""A subscriber that does not read costs the writer nothing, and misses nothing when it reads again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from treering import Cursor, Entry, SessionHost, Settings
from treering.events.disk import OsDisk
from treering.projections.feed import Feed
from treering.projections.feed_events import Transient, transient
from treering.testing.disks import FaultyDisk

APPENDS = 100_000
STEPS = 10


@pytest.fixture(scope="module", params=[pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio")])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """One event loop is enough for so many appends."""
    backend: tuple[str, dict[str, Any]] = request.param
    return backend


def count_calls(monkeypatch: pytest.MonkeyPatch, calls: Counter[str], name: str) -> None:
    """Count the calls of a method of Feed."""
    method: Callable[..., object] = getattr(Feed, name)

    def counting(*args: object) -> object:
        calls[name] += 1
        return method(*args)

    monkeypatch.setattr(Feed, name, counting)


@pytest.mark.feature("X-20")
@pytest.mark.parametrize(("events_max", "bytes_max"), [(1, 10), (7, 1_000_000), (1000, 100), (16, 100)])
def test_a_feed_keeps_the_latest_events_within_both_bounds(events_max: int, bytes_max: int) -> None:
    feed, random = Feed(events_max, bytes_max), Random(events_max)
    sizes: list[int] = []
    for number in range(3000):
        before = feed.start
        sizes.append(random.choice((0, 1, 2, 20, 40, 60, bytes_max - 1, bytes_max, bytes_max + 1)))
        feed.publish(transient("number", feed.end), sizes[-1])
        kept = sizes[feed.start :]
        assert feed.size == sum(kept) <= bytes_max
        assert len(kept) <= events_max
        events = [feed.at(place) for place in range(feed.start, feed.end)]
        numbers = [event.data for event in events if isinstance(event, Transient)]
        assert numbers == [*range(feed.start, feed.end)]
        fits = sum(sizes[before:]) <= bytes_max and len(sizes) - before <= events_max
        assert (feed.start == before) is fits
        half = before + (len(sizes) - before + 1) // 2
        if not fits and sum(sizes[half:]) <= bytes_max:
            assert feed.start == half
        if number % 1000 == 999:  # others appended what never reaches the feed, which stands for one event
            feed.resume((Cursor("", 0), 0), (Cursor("", number), 0))
            sizes.append(0)
            assert feed.start == feed.end == len(sizes)


@pytest.mark.feature("X-20")
@pytest.mark.timeout(300)
async def test_an_idle_subscriber_adds_no_memory_and_no_work_to_appends_and_later_receives_every_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    for name in "publish", "_drop_oldest", "_wake", "section":
        count_calls(monkeypatch, calls, name)
    disk = FaultyDisk(OsDisk())
    later = Settings(debounce_ms=3_600_000)  # writes of the index of sessions would disturb the counts
    async with SessionHost(tmp_path, disk=disk, writes="inline", settings=later) as host:
        session = await host.create()

        async def work(appends: int) -> tuple[Counter[str], int]:
            """Append, and return the calls that the disk received and the bytes per line."""
            disk.reset_counts()
            for _ in range(appends):
                await session.append_custom_entry("note", "0123456789")
            return Counter(disk.counts), disk.bytes_written // appends

        await work(1)
        alone, size = await work(1000)
        assert not calls
        async with session.subscribe(after=session.cursor) as idle:
            begin = idle.cursor.seq
            for _ in range(STEPS):
                calls.clear()
                work_done, line = await work(APPENDS // STEPS)
                assert work_done == Counter({call: count * APPENDS // STEPS // 1000 for call, count in alone.items()})
                assert calls["publish"] == APPENDS // STEPS
                assert calls["_drop_oldest"] <= calls["publish"] // 512 + 1
                assert not calls["section"]
                assert line <= size + 8  # seqs get longer
                feed = host.core.registry.feed_of(session.ref)
                assert feed is not None
                assert feed.end - feed.start <= feed.events_max == 1024
                assert feed.size <= feed.bytes_max
                assert idle.lag <= feed.events_max
            assert host.core.runtime.bodies.size <= host.core.runtime.bodies.max_bytes
            seq = begin
            while seq < begin + APPENDS:
                for entry in await idle.receive_many():
                    seq += 1
                    assert isinstance(entry, Entry)
                    assert entry.seq == seq
            assert idle.cursor == session.cursor
