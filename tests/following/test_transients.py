"""Transient events: delivered between the entries, conflated for slow subscribers, never written."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from treering import Entry, Limits, SessionHost
from treering.subscriptions import EntrySubscription, Transient, TransientSubscription

PATIENCE_S = 30


async def receive_until(subscription: EntrySubscription | TransientSubscription, until: int) -> list[object]:
    """Return what a subscriber receives up to an entry: transient events as (name, data), entries as their seqs."""
    found: list[object] = []
    with anyio.fail_after(PATIENCE_S):
        while not found or found[-1] != until:
            found += [simplified(each) for each in [await subscription.__anext__()]]
    return found


def simplified(item: object) -> object:
    if isinstance(item, Transient):
        return item.name, item.data
    assert isinstance(item, Entry)
    return item.seq


@pytest.mark.feature("X-33")
async def test_a_subscriber_that_keeps_up_gets_every_transient_in_order_between_the_entries(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create()
        received: list[object] = []
        async with session.subscribe(transient=True) as fast, session.subscribe() as entries_only:
            with anyio.fail_after(PATIENCE_S):
                for turn in range(1, 4):
                    for delta in "token", "by", "token":
                        session.emit("delta", {"text": delta, "turn": turn})
                        received.append(simplified(await fast.__anext__()))
                    await session.append_message("assistant", "token by token")
                    received.append(simplified(await fast.__anext__()))
                assert received == [
                    each
                    for turn in range(1, 4)
                    for each in (
                        ("delta", {"text": "token", "turn": turn}),
                        ("delta", {"text": "by", "turn": turn}),
                        ("delta", {"text": "token", "turn": turn}),
                        turn,
                    )
                ]
                assert [simplified(await entries_only.__anext__()) for _ in range(3)] == [1, 2, 3]
        assert session.file_path is not None
        assert b"delta" not in Path(session.file_path).read_bytes()  # noqa: ASYNC240  # a small file
        assert len(await session.entries()) == 3


@pytest.mark.feature("X-33")
async def test_a_slow_subscriber_gets_the_latest_transient_of_each_name_between_two_entries() -> None:
    async with SessionHost() as host:
        session = await host.create()
        async with session.subscribe(transient=True) as slow:
            for turn in range(1, 4):
                for number in range(10):
                    session.emit("delta", [turn, number])
                    session.emit("progress", number * 10)
                await session.append_message("assistant", "done")
            session.emit("delta", "of the next turn")
            await session.append_message("assistant", "done")
            assert await receive_until(slow, until=4) == [
                *(("delta", [1, 9]), ("progress", 90), 1),
                *(("delta", [2, 9]), ("progress", 90), 2),
                *(("delta", [3, 9]), ("progress", 90), 3),
                *(("delta", "of the next turn"), 4),
            ]


@pytest.mark.feature("X-33")
async def test_a_subscriber_that_fell_behind_gets_all_entries_and_then_the_current_transients() -> None:
    async with SessionHost(limits=Limits(feed_events_max=8)) as host:
        session = await host.create()
        async with session.subscribe(transient=True) as slow:
            for turn in range(1, 51):
                session.emit("delta", turn)
                await session.append_message("assistant", "done")
            session.emit("delta", "first")
            session.emit("delta", "last")
            assert await receive_until(slow, until=50) == list(range(1, 51))
            assert simplified(await slow.__anext__()) == ("delta", "last")


async def test_many_transients_displace_no_entry_for_any_subscriber() -> None:
    async with SessionHost(limits=Limits(feed_events_max=8)) as host:
        session = await host.create()
        with_transients, entries_only, tree = (
            session.subscribe(transient=True),
            session.subscribe(),
            session.subscribe("tree"),
        )
        async with with_transients, entries_only, tree:
            await tree.__anext__()
            for _ in range(4):
                for number in range(100):
                    session.emit("delta", number)
                await session.append_message("assistant", "done")
            assert [each for each in await receive_until(with_transients, until=4) if isinstance(each, int)] == [
                1,
                2,
                3,
                4,
            ]
            assert await receive_until(entries_only, until=4) == [1, 2, 3, 4]
            assert (await tree.__anext__()).cursor == session.cursor


async def test_a_session_without_entries_can_emit_transient_events() -> None:
    async with SessionHost() as host:
        session = await host.create()
        session.emit("delta", "nobody hears it")
        async with session.subscribe(transient=True) as events:
            session.emit("delta", "first")
            with anyio.fail_after(PATIENCE_S):
                assert simplified(await events.__anext__()) == ("delta", "first")
            item = {"text": "mine"}
            session.emit("delta", item)
            item["text"] = "changed by its sender"
            await session.append_message("assistant", "done")
            assert await receive_until(events, until=1) == [("delta", {"text": "mine"}), 1]
