"""Following entries from any position: each arrives once and in order, whatever happens to the session meanwhile."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import Cursor, Entry, Limits, Reset, Session, SessionHost
from treering.entries import Custom, OpaqueEntry
from treering.errors import Closed
from treering.subscriptions import EntrySubscription, TransientSubscription

WRITERS = 100
EACH = 5


@pytest.fixture(params=["memory", "files"])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionHost]:
    """A host whose feeds hold so few events that subscribers constantly fall behind."""
    limits = Limits(feed_events_max=16, feed_bytes_max=4096)
    async with SessionHost(tmp_path if request.param == "files" else None, limits=limits) as host:
        yield host


async def take(subscription: EntrySubscription, count: int) -> list[int]:
    """Receive this many entries, and return their seqs."""
    seqs: list[int] = []
    while len(seqs) < count:
        entry = await subscription.__anext__()
        assert not isinstance(entry, Reset)
        assert entry.__struct_fields__
        seqs.append(getattr(entry, "seq"))  # noqa: B009  # no transient event was asked for
    return seqs


@pytest.mark.feature("X-17")
async def test_a_subscriber_among_a_hundred_writers_receives_every_later_seq_once(host: SessionHost) -> None:
    session = await host.create()
    chance = random.Random(17)
    total = WRITERS * EACH
    seen: dict[int, tuple[int, list[int]]] = {}

    async def write(number: int) -> None:
        for each in range(EACH):
            await session.append_custom_entry("note", [number, each])
            for _ in range(chance.randrange(4)):
                await checkpoint()

    async def read(number: int) -> None:
        for _ in range(chance.randrange(300)):
            await checkpoint()
        after: Cursor | int = session.cursor if number % 2 else chance.randrange(total // 2)
        seq = after.seq if isinstance(after, Cursor) else after
        async with session.subscribe(after=after) as entries:
            seen[number] = seq, await take(entries, total - seq)

    async def passivate_often() -> None:
        for _ in range(20):
            await session.passivate()
            for _ in range(10):
                await checkpoint()

    async with anyio.create_task_group() as group:
        for number in range(WRITERS):
            group.start_soon(write, number)
        for number in range(20):
            group.start_soon(read, number)
        group.start_soon(passivate_often)
    assert len(seen) == 20
    for after, seqs in seen.values():
        assert seqs == list(range(after + 1, total + 1))


@pytest.mark.feature("X-21")
async def test_each_of_a_thousand_subscribers_receives_every_change() -> None:
    async with SessionHost() as host:
        session = await host.create()
        entries: list[list[int]] = []
        leaves: list[list[int]] = []
        subscribed = 0

        async def read() -> None:
            nonlocal subscribed
            async with session.subscribe() as subscription:
                subscribed += 1
                entries.append(await take(subscription, 20))

        async def watch() -> None:
            nonlocal subscribed
            async with session.subscribe("tree") as subscription:
                first = await subscription.__anext__()
                subscribed += 1
                seqs = [first.cursor.seq]
                while seqs[-1] < 20:
                    change = await subscription.__anext__()
                    if change.cursor.seq != seqs[-1]:
                        seqs.append(change.cursor.seq)
                leaves.append(seqs)

        async with anyio.create_task_group() as group:
            for _ in range(500):
                group.start_soon(read)
                group.start_soon(watch)
            while subscribed < 1000:
                await checkpoint()
            for number in range(20):
                await session.append_custom_entry("note", number)
        assert entries == [list(range(1, 21))] * 500
        assert leaves == [list(range(21))] * 500


async def test_the_cursor_is_that_of_the_last_entry_that_was_yielded(host: SessionHost) -> None:
    session = await host.create()
    for number in range(30):
        await session.append_custom_entry("note", number)
    cursor: Cursor | int = 0
    for seq in range(1, 31):  # each subscriber leaves after one entry, as a client does that loses its connection
        async with session.subscribe(after=cursor) as entries:
            assert entries.cursor.seq == seq - 1
            assert await take(entries, 1) == [seq]
            cursor = entries.cursor
            assert cursor == Cursor(session.cursor.generation, seq)
    async with session.subscribe(transient=True) as items:
        for seq in range(1, 31):
            assert getattr(await anext(items), "seq") == seq  # noqa: B009  # no event was emitted
            assert items.cursor.seq == seq
        session.emit("progress", 1)
        await session.append_custom_entry("note")
        session.emit("progress", 2)
        assert not hasattr(await anext(items), "seq")
        assert items.cursor.seq == 30
        assert await take_all(items) == 2
        assert items.cursor == session.cursor


async def take_all(subscription: TransientSubscription) -> int:
    """Receive everything that is available, and return how many items there were."""
    return len(await subscription.receive_many())


async def test_statistics_tell_how_far_the_slowest_subscriber_lags(host: SessionHost) -> None:
    def lag_max() -> int:
        (row,) = host.statistics().sessions
        return row.lag_max

    session = await host.create()
    async with session.subscribe() as fast:
        async with session.subscribe() as slow:
            for number in range(1, 4):
                await session.append_custom_entry("note", number)
                assert await take(fast, 1) == [number]
                assert (fast.lag, slow.lag, lag_max()) == (0, number, number)
            assert await take(slow, 3) == [1, 2, 3]
            assert lag_max() == 0
            await session.append_custom_entry("note", 4)
            await take(fast, 1)
            assert lag_max() == 1
        assert lag_max() == 0
        assert slow.lag == 0


async def test_a_subscription_from_the_cursor_of_an_unwritten_session_gets_no_reset(host: SessionHost) -> None:
    session = await host.create()
    async with session.subscribe(after=session.cursor) as entries:
        assert entries.cursor == Cursor("", 0)
        await session.append_custom_entry("note")
        assert await take(entries, 1) == [1]
        assert entries.cursor == session.cursor
        assert entries.cursor.generation


async def test_a_cursor_beyond_the_end_of_its_log_gets_a_reset_and_a_seq_beyond_it_waits(host: SessionHost) -> None:
    session = await host.create()
    await session.append_custom_entry("note")
    lost = Cursor(session.cursor.generation, 3)
    async with session.subscribe(after=lost) as entries, session.subscribe(after=40) as waiting:
        assert await entries.__anext__() == Reset(Cursor(lost.generation, 0))
        for number in range(2, 43):
            await session.append_custom_entry("note", number)
        assert await take(entries, 42) == list(range(1, 43))
        assert await take(waiting, 2) == [41, 42]


async def test_a_subscription_that_is_entered_again_continues_where_it_stopped(host: SessionHost) -> None:
    session = await host.create()
    subscription = session.subscribe()
    with pytest.raises(Closed, match="not open"):
        await subscription.__anext__()
    for seq in 1, 4, 7:
        async with subscription as entries:
            await session.append_custom_entry("note", "while it is open")
            assert await take(entries, 1) == [seq]
        for _ in range(2):
            await session.append_custom_entry("note", "while it is closed")
        for later in seq + 1, seq + 2:
            async with subscription as entries:
                assert await take(entries, 1) == [later], "the other one is left among what was received"
            assert subscription.cursor.seq == later
    with pytest.raises(Closed, match="not open"):
        await subscription.__anext__()


async def test_a_cancelled_wait_loses_no_entry(host: SessionHost) -> None:
    session = await host.create()
    async with session.subscribe() as entries:
        seqs: list[int] = []
        for number in range(1, 200):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(session.append_custom_entry, "note", number)
                    scope.cancel() if number % 3 else None
                    seqs += await take(entries, 1)
        seqs += await take(entries, session.cursor.seq - len(seqs))
        assert seqs == list(range(1, session.cursor.seq + 1))


async def test_a_subscriber_from_before_a_torn_batch_was_abandoned_receives_its_lines_as_opaque_entries(
    tmp_path: Path,
) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("torn")
        await session.append_custom_entry("note")
        await session.append_many([note(), note(), note()])
    path = tmp_path / "torn.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    async with SessionHost(tmp_path) as host:
        session = await host.load("torn")
        assert session.cursor.seq == 1
        async with session.subscribe() as entries:
            assert await take(entries, 1) == [1]
            await session.append_custom_entry("note", "after the crash")
            shown: list[Entry] = []
            while len(shown) < 3:
                item = await entries.__anext__()
                assert isinstance(item, Entry)
                shown.append(item)
        assert [each.seq for each in shown] == [2, 3, 4]
        assert [isinstance(each, OpaqueEntry) for each in shown] == [True, True, False]
        assert shown == (await session.entries())[1:]


async def test_subscriptions_end_when_the_host_closes() -> None:
    entries: list[int] = []
    changes: list[int] = []
    rows: list[object] = []
    async with anyio.create_task_group() as group, SessionHost() as host:
        session = await host.create()

        async def read(session: Session = session) -> None:
            async with session.subscribe() as subscription:
                async for entry in subscription:
                    assert isinstance(entry, Entry)
                    entries.append(entry.seq)

        async def read_tree(session: Session = session) -> None:
            async with session.subscribe("tree") as subscription:
                async for change in subscription:
                    changes.append(change.cursor.seq)  # noqa: PERF401  # appended as each arrives

        async def read_listing(host: SessionHost = host) -> None:
            async with host.subscribe_sessions() as subscription:
                async for row in subscription:
                    rows.append(row)  # noqa: PERF401  # appended as each arrives

        for each in (read, read_tree, read_listing):
            group.start_soon(each)
        await session.append_custom_entry("note")
        while not (entries and changes and rows):
            await checkpoint()
        await session.append_custom_entry("note")
        while len(entries) < 2 or changes[-1] < 2 or len(rows) < 2:
            await checkpoint()
    assert entries == [1, 2]
    assert changes[-1] == 2
    assert len(rows) >= 2


def note() -> Custom:
    return Custom("note")


@pytest.mark.parametrize("every", [1, 4])
async def test_a_subscription_that_begins_ahead_of_the_log_gets_no_reset(tmp_path: Path, every: int) -> None:
    async with SessionHost(tmp_path, limits=Limits(feed_events_max=2)) as host:
        session = await host.create()
        await session.append_custom_entry("note", 1)
        async with session.subscribe(after=20) as entries, anyio.create_task_group() as group:
            seen: list[int] = []

            async def read() -> None:
                seen.extend(await take(entries, 2))

            group.start_soon(read)
            for number in range(2, 23):
                await session.append_custom_entry("note", number)
                if number % every == 0:  # the reader gets some from the feed, and falls behind in between
                    for _ in range(10):
                        await checkpoint()
        assert seen == [21, 22]
