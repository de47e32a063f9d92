"""Applying the changes of a view to a replica keeps the replica equal to the view, after every step of any session."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import Changed, InvalidInput, Limits, SessionHost, SessionSummary, Snapshot
from treering.projections import labels
from treering.subscriptions import LabelChanged, LeafChanged, ListPosition, NodeAdded, SessionChanged, TreeReplica

from .steps import ContextReplica, step

T = TypeVar("T")

SEEDS = range(12)
STEPS = 40
TURNS = 30
"""After this many turns of the event loop, a subscriber to a session in memory has received all items."""


async def pending(subscription: AsyncIterator[T]) -> list[T]:
    """Return all items that a subscription delivers without further appends."""
    found: list[T] = []

    async def receive() -> None:
        while True:
            found.append(await anext(subscription))

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        for _ in range(TURNS):
            await checkpoint()
        group.cancel_scope.cancel()
    return found


@pytest.mark.feature("X-18")
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_replica_of_the_context_equals_the_view_at_every_seq(seed: int) -> None:
    chance = random.Random(seed)
    async with SessionHost(limits=Limits(feed_events_max=8 if seed % 3 == 0 else 1024)) as host:
        session = await host.create()
        prompt, late = ContextReplica(), ContextReplica()
        seen: set[int] = set()
        async with session.subscribe("context") as changes, session.subscribe("context") as late_changes:
            for number in range(STEPS):
                await step(session, chance, number)
                for item in await pending(changes):
                    held = prompt.take(item)
                    seen.add(item.cursor.seq)
                    if held.leaf_id is not None:
                        assert held == await session.context(held.leaf_id)
                assert prompt.value == await session.context()
                if number % 7 == 0:
                    for item in await pending(late_changes):
                        late.take(item)
                    assert late.value == await session.context()
        assert len(seen) > session.cursor.seq // 2


@pytest.mark.feature("X-19")
@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("seed", SEEDS)
async def test_replicas_of_the_tree_and_the_labels_equal_the_views_at_every_seq(seed: int, every: int) -> None:
    chance = random.Random(seed)
    async with SessionHost() as host:
        session = await host.create()
        tree, held, now, named = TreeReplica(), {0: session.tree()}, 0, dict[str, str]()
        async with session.subscribe("tree") as changes, session.subscribe("labels") as label_changes:
            for number in range(STEPS):
                await step(session, chance, number)
                held[session.cursor.seq] = session.tree()
                if number % every:
                    continue
                for item in await pending(changes):
                    if item.cursor.seq != now and now in held:
                        assert tree.tree() == held[now]
                    now = item.cursor.seq
                    if isinstance(item, Snapshot):
                        tree = TreeReplica(item.value)
                    else:
                        tree.apply(item.change)
                assert tree.tree() == session.tree()
                for each in await pending(label_changes):
                    named = dict(each.value) if isinstance(each, Snapshot) else labels.apply_change(named, each.change)
                assert named == dict(session.labels())
                async with session.subscribe("labels") as another:
                    assert await anext(another) == Snapshot(session.cursor, session.labels())


async def test_the_changes_of_a_tree_have_a_class_for_each_kind_of_change() -> None:
    async with SessionHost() as host:
        session = await host.create()
        changes_seen: list[str] = []
        async with session.subscribe("tree") as changes:
            await anext(changes)
            first = await session.append_message("user", "Hello")
            await session.set_label(first, "start")
            await session.branch(first)
            for _ in range(6):
                item = await anext(changes)
                assert isinstance(item, Changed)
                match item.change:
                    case NodeAdded():
                        changes_seen.append(f"{item.change.seq} below {item.change.parent_seq}")
                    case LabelChanged():
                        changes_seen.append(f"{item.change.label} at {item.change.id == first}")
                    case LeafChanged():
                        changes_seen.append(f"leaf {item.change.leaf}")
        assert changes_seen == ["1 below 0", "leaf 1", "2 below 1", "start at True", "leaf 2", "leaf 1"]


@pytest.mark.feature("X-19")
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_replica_of_the_listing_equals_the_view_at_every_step(seed: int) -> None:
    chance = random.Random(seed)
    async with SessionHost() as host:
        sessions = [await host.create(f"session-{number}") for number in range(4)]
        await sessions[0].append_message("user", "appended before the subscription")
        rows: dict[str, SessionSummary] = {}
        async with host.subscribe_sessions() as changes:
            for number in range(STEPS):
                place = chance.randrange(len(sessions))
                session = sessions[place]
                match chance.randrange(8):
                    case 0:
                        await host.delete(session)
                        sessions[place] = await host.create(f"session-{number}-anew")
                    case 1 if session.leaf_id is not None:
                        sessions.append(await session.fork(f"fork-{number}"))
                    case 2 if session.leaf_id is not None:
                        sessions.append(await session.create_branched_session(session.leaf_id))
                    case _:
                        await step(session, chance, number)
                for item in await pending(changes):
                    if isinstance(item, list):
                        rows = {row.ref: row for row in item}
                    elif item.summary is not None:
                        rows[item.ref] = item.summary
                    else:
                        rows.pop(item.ref, None)
                assert rows == {row.ref: row for row in await host.list_sessions()}


async def test_a_cancelled_wait_for_the_listing_loses_no_change(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("one")
        received: list[list[SessionSummary] | SessionChanged] = []
        async with host.subscribe_sessions() as changes:

            async def receive_cancelled() -> None:
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    received.append(await anext(changes))

            await receive_cancelled()
            assert not received
            received.append(await anext(changes))
            await session.append_message("user", "told")
            await receive_cancelled()
            received.append(await anext(changes))
        rows, changed = received
        assert rows == []
        assert isinstance(changed, SessionChanged)
        assert changed.summary is not None
        assert changed.summary.message_count == 1


@pytest.mark.parametrize("seed", SEEDS[:3])
async def test_a_replica_of_the_listing_that_leaves_and_comes_back_lacks_nothing(seed: int) -> None:
    chance = random.Random(seed)
    async with SessionHost() as host:
        rows: dict[str, SessionSummary] = {}
        position = host.sessions_position()
        sessions = [await host.create(f"session-{number}") for number in range(5)]
        for number in range(30):
            await step(chance.choice(sessions), chance, number)
            if chance.random() < 0.2:
                await host.delete(gone := chance.choice(sessions))
                sessions.remove(gone)
                sessions.append(await host.create(f"session-{number}-anew"))
            async with host.subscribe_sessions(after=position) as changes:
                while changes.waiting and (chance.random() < 0.7 or number == 29):
                    item = await anext(changes)
                    assert isinstance(item, SessionChanged)  # the rows never come anew
                    rows.pop(item.ref, None)
                    if item.summary is not None:
                        rows[item.ref] = item.summary
                position = changes.position
        assert rows == {row.ref: row for row in await host.list_sessions()}
        for unknown in (ListPosition("another", 3), ListPosition(position.epoch, 10**6)):
            async with host.subscribe_sessions(after=unknown) as changes:
                assert isinstance(await anext(changes), list)
        assert ListPosition.parse(str(position)) == position
        for text in ("", "x", "x-", "-1", "x-1e3"):
            with pytest.raises(InvalidInput, match="no position"):
                ListPosition.parse(text)


async def test_a_session_that_falls_asleep_or_wakes_counts_as_changed() -> None:
    async with SessionHost() as host:
        session = await host.create("one")
        await session.append_message("user", "Hello")
        async with host.subscribe_sessions() as changes:
            assert isinstance(await anext(changes), list)
            await session.passivate()
            asleep = await anext(changes)
            await session.append_message("user", "Hello")
            awake = await anext(changes)
            assert isinstance(asleep, SessionChanged)
            assert isinstance(awake, SessionChanged)
            assert asleep.position.n < awake.position.n
