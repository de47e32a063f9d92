"""Moves of the leaf, which no log has: a subscriber that asks for them always knows where the leaf is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from treering import InvalidInput, Limits, Reset, Session, SessionHost
from treering.subscriptions import EventSubscription, LeafMove, Transient


class Reader:
    """Holds the leaf as a subscriber knows it."""

    def __init__(self) -> None:
        self.leaf: str | None = None
        self.seqs: list[int] = []
        self.moves = 0

    async def read_until(self, items: EventSubscription, session: Session) -> None:
        """Read until the leaf and the entries are those of the session."""
        while self.leaf != session.leaf_id or self.seqs[-1:] != [session.cursor.seq]:
            for item in await items.receive_many():
                assert not isinstance(item, Transient)
                if isinstance(item, LeafMove):
                    self.leaf, self.moves = item.entry_id, self.moves + 1
                elif isinstance(item, Reset):
                    self.seqs, self.leaf = [], None
                else:
                    self.seqs.append(item.seq)
                    self.leaf = self.leaf if item.aside else item.id


async def change(session: Session, rng: random.Random) -> None:
    ids = [entry.id or "" for entry in await session.entries()]
    match rng.randrange(5):
        case 0 | 1:
            await session.append_message("user", "more")
        case 2:
            await session.reset_leaf() if rng.random() < 0.3 else await session.branch(rng.choice(ids))
        case 3:
            await session.append_message("user", "beside", below=rng.choice(ids), aside=True)
        case _:
            session.emit("progress", 1)


@pytest.mark.parametrize(("seed", "retained"), [(1, 1024), (2, 1024), (3, 4), (4, 4)])
async def test_the_leaf_is_known_after_every_step_and_after_many(seed: int, retained: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    async with SessionHost(tmp_path, limits=Limits(feed_events_max=retained)) as host:
        session = await host.create("a")
        await session.append_message("user", "root")
        every_step, at_times, late = Reader(), Reader(), Reader()
        async with session.subscribe(leaf=True) as one, session.subscribe(leaf=True) as two:
            for _ in range(60):
                await change(session, rng)
                await every_step.read_until(one, session)
                if rng.random() < 0.1:
                    await at_times.read_until(two, session)
                if rng.random() < 0.05:
                    await session.passivate()
            await at_times.read_until(two, session)
        after = rng.randrange(1, session.cursor.seq)
        async with session.subscribe(after=after, leaf=True) as three:
            await late.read_until(three, session)
        assert every_step.seqs == at_times.seqs == [*range(1, session.cursor.seq + 1)]
        assert late.seqs == [*range(after + 1, session.cursor.seq + 1)]
        assert late.moves <= 1
        assert at_times.moves <= every_step.moves


async def test_a_move_says_where_and_when_and_views_refuse_to_be_asked(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("a")
        first = await session.append_message("user", "one")
        await session.append_message("user", "two")
        async with session.subscribe(after=2, leaf=True) as items:
            present = await anext(items)
            assert present == LeafMove(2, session.leaf_id, session.cursor)
            await session.branch(first)
            assert await anext(items) == LeafMove(1, first, session.cursor)
            await session.reset_leaf()
            await session.branch(first)
            await session.reset_leaf()
            assert await anext(items) == LeafMove(0, None, session.cursor)  # the latest of three
        with pytest.raises(InvalidInput, match="`leaf` are for entries"):
            session.subscribe("tree", leaf=True)  # type: ignore[call-overload]  # what is refused


async def test_another_process_sees_the_leaf_move(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host, SessionHost(tmp_path) as other:
        session = await host.create("a")
        first = await session.append_message("user", "one")
        await session.append_message("user", "two")
        follower = await other.load("a", read_only=True)
        async with follower.subscribe(after=2, leaf=True) as items:
            assert await anext(items) == LeafMove(2, session.leaf_id, session.cursor)
            await session.branch(first)
            await follower.refresh()
            moved = await anext(items)
            assert isinstance(moved, LeafMove)
            assert moved.entry_id == first
