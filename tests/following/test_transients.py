"""Transient events: shown beside the entries, conflated for who is slow, written nowhere."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from treering import Entry, EntrySubscription, Limits, SessionHost, Transient, TransientSubscription

PATIENCE_S = 30


async def told(subscription: EntrySubscription | TransientSubscription, until: int) -> list[object]:
    """What a subscriber is told up to an entry: transient events as (name, data), entries as their ordinals."""
    found: list[object] = []
    with anyio.fail_after(PATIENCE_S):
        while not found or found[-1] != until:
            found += [_plain(each) for each in [await subscription.__anext__()]]
    return found


def _plain(item: object) -> object:
    if isinstance(item, Transient):
        return item.name, item.data
    assert isinstance(item, Entry)
    return item.seq


@pytest.mark.feature("X-33")
async def test_who_keeps_up_gets_every_delta_in_order_beside_the_entries(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create()
        heard: list[object] = []
        async with session.subscribe(transient=True) as fast, session.subscribe() as plain:
            with anyio.fail_after(PATIENCE_S):
                for turn in range(1, 4):
                    for delta in "token", "by", "token":
                        session.emit("delta", {"text": delta, "turn": turn})
                        heard.append(_plain(await fast.__anext__()))
                    await session.append_message("assistant", "token by token")
                    heard.append(_plain(await fast.__anext__()))
                assert heard == [
                    each
                    for turn in range(1, 4)
                    for each in (
                        ("delta", {"text": "token", "turn": turn}),
                        ("delta", {"text": "by", "turn": turn}),
                        ("delta", {"text": "token", "turn": turn}),
                        turn,
                    )
                ]
                assert [_plain(await plain.__anext__()) for _ in range(3)] == [1, 2, 3]
        assert session.file_path is not None
        assert b"delta" not in Path(session.file_path).read_bytes()  # noqa: ASYNC240  # a small file
        assert len(await session.entries()) == 3


@pytest.mark.feature("X-33")
async def test_who_is_slow_gets_the_latest_of_each_name_between_two_entries() -> None:
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
            assert await told(slow, until=4) == [
                *(("delta", [1, 9]), ("progress", 90), 1),
                *(("delta", [2, 9]), ("progress", 90), 2),
                *(("delta", [3, 9]), ("progress", 90), 3),
                *(("delta", "of the next turn"), 4),
            ]


@pytest.mark.feature("X-33")
async def test_who_fell_behind_gets_all_entries_and_then_what_is_going_on() -> None:
    async with SessionHost(limits=Limits(feed_events_max=8)) as host:
        session = await host.create()
        async with session.subscribe(transient=True) as slow:
            for turn in range(1, 51):
                session.emit("delta", turn)
                await session.append_message("assistant", "done")
            session.emit("delta", "first")
            session.emit("delta", "last")
            assert await told(slow, until=50) == list(range(1, 51))
            assert _plain(await slow.__anext__()) == ("delta", "last")


async def test_a_flood_of_deltas_keeps_no_entry_from_any_subscriber() -> None:
    async with SessionHost(limits=Limits(feed_events_max=8)) as host:
        session = await host.create()
        heard, plain, tree = session.subscribe(transient=True), session.subscribe(), session.subscribe("tree")
        async with heard, plain, tree:
            await tree.__anext__()
            for _ in range(4):
                for number in range(100):
                    session.emit("delta", number)
                await session.append_message("assistant", "done")
            assert [each for each in await told(heard, until=4) if isinstance(each, int)] == [1, 2, 3, 4]
            assert await told(plain, until=4) == [1, 2, 3, 4]
            assert (await tree.__anext__()).cursor == session.cursor


async def test_a_session_without_entries_has_transient_events_too() -> None:
    async with SessionHost() as host:
        session = await host.create()
        session.emit("delta", "nobody hears it")
        async with session.subscribe(transient=True) as heard:
            session.emit("delta", "first")
            with anyio.fail_after(PATIENCE_S):
                assert _plain(await heard.__anext__()) == ("delta", "first")
            item = {"text": "mine"}
            session.emit("delta", item)
            item["text"] = "changed by its sender"
            await session.append_message("assistant", "done")
            assert await told(heard, until=1) == [("delta", {"text": "mine"}), 1]
