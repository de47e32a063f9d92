"""A view is shared by its subscribers: it is computed once, keeps a bounded history, and recovers from errors."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from treering import Changed, CorruptTree, Entry, Header, Session, SessionHost, Snapshot
from treering.projections.views import CHANGES_MAX


class Count:
    """A projection that counts entries, and counts the calls of its own apply."""

    name = "count"

    def __init__(self) -> None:
        self.calls = 0

    def initial(self, header: Header) -> int | None:
        return None

    def apply(self, value: int | None, entry: Entry) -> tuple[int | None, int]:
        self.calls += 1
        return (value or 0) + 1, entry.seq

    def dump(self, value: int | None) -> bytes:
        return str(value).encode()

    def load(self, blob: bytes) -> int | None:
        return int(blob)


async def fill(session: Session, count: int) -> None:
    for number in range(count):
        await session.append_custom_entry("note", number)


async def test_an_entry_is_folded_once_for_a_hundred_subscribers() -> None:
    count = Count()
    async with SessionHost() as host, AsyncExitStack() as stack:
        session = await host.create()
        subscriptions = [session.subscribe(count) for _ in range(100)]
        for each in subscriptions:
            await stack.enter_async_context(each)
            assert await anext(each) == Snapshot(session.cursor, None)
        await fill(session, 10)
        for each in subscriptions:
            assert [(await anext(each)).cursor.seq for _ in range(10)] == list(range(1, 11))
        assert count.calls == 10


async def test_a_subscriber_that_missed_too_many_changes_gets_a_snapshot_and_one_that_kept_up_gets_each_change() -> (
    None
):
    async with SessionHost() as host:
        session = await host.create()
        async with session.subscribe(Count()) as fast, session.subscribe(Count()) as slow:
            await anext(fast)
            await anext(slow)
            for seq in range(1, CHANGES_MAX + 11):
                await fill(session, 1)
                assert await anext(fast) == Changed(session.cursor, seq)
            assert await anext(slow) == Snapshot(session.cursor, CHANGES_MAX + 10)
            await fill(session, 1)
            assert await anext(slow) == Changed(session.cursor, CHANGES_MAX + 11)


async def test_a_view_that_failed_works_again_once_it_can_be_computed(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("cycle")
        first = await session.append_message("user", "sound")
        second = await session.append_message("user", "soon its own ancestor")
    path = tmp_path / "cycle.jsonl"
    path.write_bytes(path.read_bytes().replace(f'"parent_id":"{first}"'.encode(), f'"parent_id":"{second}"'.encode()))
    async with SessionHost(tmp_path) as host:
        session = await host.load("cycle")
        async with session.subscribe("context") as contexts:
            for _ in range(2):
                with pytest.raises(CorruptTree):
                    await anext(contexts)
            await session.branch(first)
            assert await anext(contexts) == Snapshot(session.cursor, await session.context())
