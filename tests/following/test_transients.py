"""Transient events: delivered between the entries, conflated for slow subscribers, never written."""

from __future__ import annotations

from pathlib import Path

import pytest

from treering import Entry, Limits, SessionHost
from treering.projections.running_texts import TEXT_CHARS_MAX
from treering.subscriptions import EntrySubscription, TextPiece, Transient, TransientSubscription


async def receive_until(subscription: EntrySubscription | TransientSubscription, until: int) -> list[object]:
    """Return what a subscriber receives up to an entry: transient events as (name, data), entries as their seqs."""
    found: list[object] = []
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
            for piece in ("of ", "the "):
                session.emit_text("delta", piece, message="m")
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
            received = await receive_until(with_transients, until=4)
            assert [each for each in received if isinstance(each, int)] == [1, 2, 3, 4]
            assert await receive_until(entries_only, until=4) == [1, 2, 3, 4]
            # over a network the latest state may be on its way still
            while (await tree.__anext__()).cursor != session.cursor:
                pass


async def test_a_session_without_entries_can_emit_transient_events() -> None:
    async with SessionHost() as host:
        session = await host.create()
        session.emit("delta", "nobody hears it")
        async with session.subscribe(transient=True) as events:
            session.emit("delta", "first")
            assert simplified(await events.__anext__()) == ("delta", "first")
            item = {"text": "mine"}
            session.emit("delta", item)
            item["text"] = "changed by its sender"
            await session.append_message("assistant", "done")
            assert await receive_until(events, until=1) == [("delta", {"text": "mine"}), 1]


def apply(text: str, item: object) -> str:
    """Apply a piece of a text by its offset, as its documentation says."""
    assert isinstance(item, TextPiece)
    assert item.data == {"message": item.message, "offset": item.offset, "end": item.end, "text": item.text}
    if item.offset == 0:
        return item.text
    if item.end <= len(text):
        return text
    assert item.offset == len(text)
    return text + item.text


@pytest.mark.parametrize("retained", [8, 1024])
async def test_no_piece_of_a_text_is_lost_however_slow_or_late_a_subscriber_is(retained: int) -> None:
    async with SessionHost(limits=Limits(feed_events_max=retained)) as host:
        session = await host.create()
        await session.append_message("user", "Go")
        whole = "".join(f"word{number} " for number in range(50))
        async with (
            session.subscribe(after=1, transient=True) as slow,
            session.subscribe(after=1, transient=True) as fast,
        ):
            got = ""
            for start in range(0, len(whole) // 2, 5):
                session.emit_text("answer", whole[start : start + 5], message="m1")
                session.emit("progress", start)
                for _ in range(2):
                    item = await anext(fast)
                    got = apply(got, item) if isinstance(item, TextPiece) else got
            half = len(got)
            assert got == whole[:half]
            late = session.subscribe(after=1, transient=True)
            async with late:
                assert apply("", await anext(late)) == whole[:half]
                session.emit_text("answer", whole[half:], message="m1")
                assert apply(whole[:half], await anext(late)) == whole
            text, items = "", 0
            while text != whole:
                item = await anext(slow)
                items += 1
                text = apply(text, item) if isinstance(item, TextPiece) else text
            assert items <= 4  # joined, with the progress between

        session.emit_text("answer", "another", message="m2")  # the first was given up
        async with session.subscribe(after=1, transient=True) as items_of_another:
            assert apply(whole, await anext(items_of_another)) == "another"
        await session.append_message("assistant", "another one")
        async with session.subscribe(after=1, transient=True) as after_it:
            entry = await anext(after_it)
            assert isinstance(entry, Entry)
            session.emit("progress", "next")
            assert simplified(await anext(after_it)) == ("progress", "next")  # the text is over


async def test_a_text_that_nobody_listened_to_is_known_to_whoever_comes_and_has_a_bound() -> None:
    async with SessionHost() as host:
        session = await host.create()
        await session.append_message("user", "Go")
        for number in range(3):
            session.emit_text("answer", f"{number},", message="m")
        async with session.subscribe(after=1, transient=True) as items:
            assert apply("", await anext(items)) == "0,1,2,"
        session.emit_text("answer", "x" * TEXT_CHARS_MAX, message="m")
        async with session.subscribe(after=1, transient=True) as items:
            session.emit_text("answer", "end", message="m")
            piece = await anext(items)
            assert isinstance(piece, TextPiece)
            assert (piece.offset, piece.text) == (TEXT_CHARS_MAX + 6, "end")  # its beginning is no longer kept
