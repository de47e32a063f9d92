"""A view is shared by its subscribers: it is computed once, keeps a bounded history, and recovers from errors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import pytest
from structlog.testing import capture_logs

from treering import Changed, Entry, Header, Limits, LogReplaced, MemoryStore, Session, SessionHost, Snapshot, message
from treering.errors import Closed, CorruptTree, ProjectionFailed
from treering.events.stores.base import Blob, BlobKind, Page, Ref
from treering.projections import views
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
        await fill(session, 9)
        await session.reset_leaf()  # which is no entry
        await fill(session, 1)
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
            for seq in range(1, CHANGES_MAX + 3):
                await fill(session, 1)
                assert await anext(fast) == Changed(session.cursor, seq)
                if seq == CHANGES_MAX:
                    assert isinstance(await anext(slow), Changed)
            assert await anext(slow) == Snapshot(session.cursor, CHANGES_MAX + 2)
            await fill(session, 1)
            assert await anext(slow) == Changed(session.cursor, CHANGES_MAX + 3)


async def test_a_subscriber_that_missed_too_heavy_changes_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the context weighs one more than the messages that it inserts."""
    monkeypatch.setattr(views, "WEIGHT_MAX", 99)
    async with SessionHost() as host:
        session = await host.create()
        first = await session.append_message("user", "first")
        nearer = (await session.append_many([message("user", "more")] * 31))[-1]
        farther = (await session.append_many([message("user", "much more")] * 100))[-1]
        await session.branch(first)
        subscriptions = [session.subscribe("context") for _ in range(3)]
        fast, slow, slower = subscriptions
        async with fast, slow, slower:
            for each in subscriptions:
                await anext(each)

            async def move(*leaves: str) -> None:
                for leaf in leaves:
                    await session.branch(leaf)
                    change = await anext(fast)
                    assert isinstance(change, Changed)
                    assert change.change.leaf_id == leaf

            for _ in range(2):  # once the oldest have been dropped, there is room for as many as before
                await move(*[nearer, first] * 3)
                assert all([isinstance(await anext(slow), Changed) for _ in range(6)])
            assert await anext(slower) == Snapshot(session.cursor, await session.context())
            await move(farther)  # the latest change is retained, whatever it weighs
            assert [isinstance(await anext(each), Changed) for each in (slow, slower)] == [True, True]
            await move(first, farther)
            assert await anext(slow) == Snapshot(session.cursor, await session.context())


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
            await session.branch(second)
            with pytest.raises(CorruptTree):
                await anext(contexts)
            await session.branch(first)
            assert await anext(contexts) == Snapshot(session.cursor, await session.context())


class Raises(Count):
    """A projection that raises at an entry."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def apply(self, value: int | None, entry: Entry) -> tuple[int | None, int]:
        if entry.seq == self.at:
            raise ZeroDivisionError("a bug")
        return super().apply(value, entry)


@pytest.mark.parametrize("at", [1, 2])
async def test_a_view_whose_projection_raised_says_so_until_it_is_rebuilt(at: int) -> None:
    async with SessionHost() as host:
        session = await host.create("s")
        await fill(session, 1)
        projection = Raises(at)
        with capture_logs() as logs:
            async with session.subscribe(projection) as changes:
                if at == 2:
                    assert await anext(changes) == Snapshot(session.cursor, 1)
                    await fill(session, 1)
                for _ in range(2):
                    with pytest.raises(ProjectionFailed, match="'count' raised ZeroDivisionError") as raised:
                        await anext(changes)
                    assert isinstance(raised.value.__cause__, ZeroDivisionError)
                projection.at = 0
                with pytest.raises(ProjectionFailed):
                    await anext(changes)
                await session.rebuild(projection)
                assert await anext(changes) == Snapshot(session.cursor, at)
                await fill(session, 1)
                assert await anext(changes) == Changed(session.cursor, at + 1)
        assert [(each["event"], each["session_id"]) for each in logs] == [("projection_failed", "s")]


async def test_a_view_that_fell_behind_or_was_left_begins_with_a_snapshot_and_goes_on_with_changes() -> None:
    async with SessionHost(limits=Limits(feed_events_max=4)) as host:
        session = await host.create()
        subscription = session.subscribe(Count())
        with pytest.raises(Closed, match="not open"):
            await anext(subscription)
        await subscription.__aexit__(None, None, None)
        for _ in range(2):
            async with subscription as changes, session.subscribe(transient=True):
                for _ in range(2):
                    session.emit("progress", 1)
                    assert await anext(changes) == Snapshot(session.cursor, session.cursor.seq or None)
                    for _ in range(3):
                        await fill(session, 1)
                        session.emit("progress", 2)
                        assert await anext(changes) == Changed(session.cursor, session.cursor.seq)
                    await fill(session, 9)
                assert await anext(changes) == Snapshot(session.cursor, session.cursor.seq)
            await fill(session, 1)
        with pytest.raises(Closed, match="not open"):
            await anext(subscription)
        assert host.statistics().subscribers == 0


class Disturbed(MemoryStore):
    """A store that reports its log as replaced at the next reads."""

    def __init__(self) -> None:
        super().__init__()
        self.replacements = 0

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        await self._disturb()
        return await super().read(ref, generation, after, through=through)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        await self._disturb()
        return await super().bodies(ref, generation, seqs)

    async def _disturb(self) -> None:
        if self.replacements:
            self.replacements -= 1
            raise LogReplaced("it was replaced")


@pytest.mark.parametrize("is_owned", [True, False])
async def test_a_view_of_a_replaced_log_is_built_again_and_fails_if_that_goes_on(is_owned: bool) -> None:
    store = Disturbed()
    async with SessionHost(store=store, limits=Limits(cache_bytes_max=0)) as host:
        session = await host.create("main")
        await session.append_message("user", "Hello")
        if not is_owned:
            await host.passivate_idle()
            session = await host.load("main", read_only=True)
        async with session.subscribe("context") as contexts:
            store.replacements = 100
            with pytest.raises(LogReplaced):
                await anext(contexts)
            for is_looked_at in [False] if is_owned else [False, True, True]:
                store.replacements = 1
                if is_looked_at:
                    await session.refresh()
                assert await anext(contexts) == Snapshot(session.cursor, await session.context())
                assert store.replacements == 0


@pytest.mark.parametrize("name", ["context", "tree", "labels", "session_state"])
async def test_a_view_folds_what_is_appended_without_reading_the_log(name: Literal["context"]) -> None:
    store = Disturbed()
    async with SessionHost(store=store, limits=Limits(cache_bytes_max=0)) as host:
        session = await host.create("main")
        await session.append_message("user", "Hello")
        async with session.subscribe(name) as changes:
            await anext(changes)
            assert [each.lag_max for each in host.statistics().sessions] == [0]
            store.replacements = 1
            asked = await session.append_message("user", "Hello?")
            await session.set_label(asked, "twice")
            assert isinstance(await anext(changes), Changed)
            assert store.replacements == 1


async def test_an_entry_that_arrives_while_a_view_is_built_is_folded_once() -> None:
    class Slow(MemoryStore):
        session: Session | None = None

        async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
            session, self.session = self.session, None
            if session is not None:
                await fill(session, 1)
            return await super().load(ref, kind)

    store = Slow()
    count = Count()
    async with SessionHost(store=store, limits=Limits(cache_bytes_max=0)) as host:
        session = await host.create()
        await fill(session, 3)
        async with session.subscribe(count) as changes:
            store.session = session
            cursor = (first := await anext(changes)).cursor
            assert isinstance(first, Snapshot)
            value = first.value or 0
            await fill(session, 2)
            while cursor != session.cursor:
                change = await anext(changes)
                assert isinstance(change, Changed)
                assert change.cursor.seq == cursor.seq + 1
                value, cursor = value + 1, change.cursor
        assert value == count.calls == 6
