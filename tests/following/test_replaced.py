"""Following a session whose log is replaced or deleted: subscribers learn of it at once, and receive nothing twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import (
    Cursor,
    Entry,
    Header,
    Limits,
    LogReplaced,
    MemoryStore,
    Reset,
    Session,
    SessionHost,
    SessionNotFound,
    Snapshot,
    SyncHost,
)
from treering.entries import Custom, CustomEntry
from treering.events.index import LogIndex
from treering.events.json_values import raw_json
from treering.events.stores.base import Page, Ref
from treering.events.stores.files import FileStore
from treering.subscriptions import EntrySubscription

PATIENCE_S = 30


@pytest.fixture(params=["memory", "files"])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionHost]:
    async with SessionHost(tmp_path if request.param == "files" else None) as host:
        yield host


async def append(session: Session, *notes: str) -> None:
    for each in notes:
        await session.append_custom_entry("note", each)


async def replace_main(host: SessionHost, *notes: str) -> Session:
    """Replace the session "main" by another session with these notes."""
    async with SessionHost() as elsewhere:
        another = await elsewhere.create("main")
        await append(another, *notes)
        return await host.put(another, replace=True)


async def take(entries: EntrySubscription, count: int) -> list[object]:
    """Receive this many items: entries as their data, resets as they are."""
    items = [await anext(entries) for _ in range(count)]
    return [item.custom.data if isinstance(item, CustomEntry) else item for item in items]


async def test_a_subscriber_to_views_gets_a_snapshot_of_the_session_that_replaces_its_own(host: SessionHost) -> None:
    session = await host.create("main")
    await append(session, "old 1")
    async with session.subscribe("tree") as trees, session.subscribe("context") as contexts:
        await anext(trees)
        await anext(contexts)
        await replace_main(host, "new 1", "new 2")
        tree, context = await anext(trees), await anext(contexts)
        assert tree == Snapshot(session.cursor, session.tree())
        assert context == Snapshot(session.cursor, await session.context())
        assert session.cursor.seq == 2


async def test_replacing_a_session_without_entries_is_no_reset(host: SessionHost) -> None:
    session = await host.create("main")
    async with session.subscribe() as entries, session.subscribe("tree") as trees:
        await anext(trees)
        await replace_main(host, "new 1", "new 2")
        assert await take(entries, 2) == ["new 1", "new 2"]
        assert await anext(trees) == Snapshot(session.cursor, session.tree())


async def test_a_subscriber_receives_the_old_entries_then_a_reset_then_the_new_entries(host: SessionHost) -> None:
    session = await host.create("main")
    async with session.subscribe() as entries:
        await append(session, "old 1", "old 2")
        old = session.cursor
        async with session.subscribe(after=old) as prompt:
            new = await replace_main(host, "new 1", "new 2", "new 3")
            assert session.cursor.seq == 3
            assert await take(entries, 2) == ["old 1", "old 2"]
            assert entries.cursor == prompt.cursor == old
            for each in entries, prompt:
                assert await take(each, 4) == [Reset(Cursor(new.cursor.generation, 0)), "new 1", "new 2", "new 3"]
                assert each.cursor == new.cursor
            await append(session, "new 4")
            assert await take(entries, 1) == await take(prompt, 1) == ["new 4"]
    async with session.subscribe(after=old) as entries:
        assert entries.cursor == old  # a caller that leaves now must get the reset when it comes back
        assert await take(entries, 1) == [Reset(Cursor(new.cursor.generation, 0))]
        assert entries.cursor == Cursor(new.cursor.generation, 0)
        assert await take(entries, 1) == ["new 1"]
        assert entries.cursor == Cursor(new.cursor.generation, 1)


async def test_subscriptions_end_when_the_session_is_deleted(host: SessionHost) -> None:
    session, unwritten = await host.create("main"), await host.create("unwritten")
    await append(session, "old 1")
    ended: list[str] = []

    async def read_entries(name: str, session: Session) -> None:
        async with session.subscribe() as entries:
            async for _ in entries:
                pass
        ended.append(f"entries of {name}")

    async def read_tree(name: str, session: Session) -> None:
        async with session.subscribe("tree") as changes:
            async for _ in changes:
                pass
        ended.append(f"tree of {name}")

    async with anyio.create_task_group() as group:
        for name, each in ("main", session), ("unwritten", unwritten):
            group.start_soon(read_entries, name, each)
            group.start_soon(read_tree, name, each)
        for _ in range(50):
            await checkpoint()
        await append(session, "old 2")
        for _ in range(50):
            await checkpoint()
        assert not ended
        await host.delete(session)
        await host.delete(unwritten)
    with pytest.raises(SessionNotFound):
        await session.subscribe().__aenter__()
    assert sorted(ended) == ["entries of main", "entries of unwritten", "tree of main", "tree of unwritten"]
    assert host.statistics().subscribers == 0


async def test_after_a_delete_a_subscriber_receives_what_the_feed_holds_and_an_error_for_the_rest(
    host: SessionHost,
) -> None:
    session = await host.create("main")
    async with session.subscribe() as prompt, session.subscribe("tree") as trees:
        await anext(trees)
        await append(session, "old 1", "old 2")
        async with session.subscribe() as late:
            await host.delete(session)
            assert await take(prompt, 2) == ["old 1", "old 2"]
            with pytest.raises(StopAsyncIteration):
                await anext(prompt)
            with pytest.raises(SessionNotFound):
                await anext(late)
            with pytest.raises(SessionNotFound):
                await anext(trees)


async def test_a_subscriber_to_a_deleted_session_does_not_receive_entries_of_the_next_one_with_its_name(
    host: SessionHost,
) -> None:
    session = await host.create("main")
    await append(session, "old 1")
    early = session.subscribe("tree")
    async with session.subscribe() as entries, session.subscribe("tree") as trees:
        await take(entries, 1)
        await anext(trees)
        await host.delete(session)
        again = await host.create("main")
        await append(again, "new 1")
        async with again.subscribe() as fresh, early, again.subscribe("tree") as fresh_trees:
            for each in early, fresh_trees:
                assert await anext(each) == Snapshot(again.cursor, again.tree())
            for ended in entries, trees:
                with pytest.raises(StopAsyncIteration):
                    await anext(ended)
            await append(again, "new 2")
            assert await take(fresh, 2) == ["new 1", "new 2"]
            for each in early, fresh_trees:
                assert (await anext(each)).cursor.seq == 2
            assert host.statistics().subscribers == 3


def test_blocking_subscriptions_end_when_the_session_is_deleted() -> None:
    with SyncHost() as host:
        session = host.create("main")
        with session.subscribe() as entries, session.subscribe("tree") as changes:
            session.append_message("user", "Hello")
            assert isinstance(entries.receive(PATIENCE_S), Entry)
            changes.receive(PATIENCE_S)
            host.delete(session)
            assert list(entries) == []
            assert list(changes) == []


class ReplacesFileOnce:
    """A projection that counts entries; when it first begins, it replaces the file that it is about to read."""

    name = "disturbed"

    def __init__(self, another: Path, path: Path) -> None:
        self._another: Path | None = another
        self._path = path

    def initial(self, header: Header) -> int:
        if self._another is not None:
            os.replace(self._another, self._path)
            self._another = None
        return 0

    def apply(self, value: int, entry: Entry) -> tuple[int, int]:
        return value + 1, entry.seq

    def dump(self, value: int) -> bytes:
        return str(value).encode()

    def load(self, blob: bytes) -> int:
        return int(blob)


async def test_a_view_whose_file_is_replaced_while_it_begins_shows_the_new_file(tmp_path: Path) -> None:
    path, another = tmp_path / "main.jsonl", tmp_path / "another"
    async with SessionHost(tmp_path) as host:
        session = await host.create("main")
        await append(session, "old 1", "old 2", "old 3")
    shutil.copy(path, another)
    another.write_bytes(b"".join(another.read_bytes().splitlines(keepends=True)[:-1]))
    async with SessionHost(tmp_path) as host:
        session = await host.load("main", read_only=True)
        async with session.subscribe(ReplacesFileOnce(another, path)) as changes:
            first = await anext(changes)
            assert isinstance(first, Snapshot)
            assert (first.value, first.cursor.seq) == (2, 2)


class KeepsBeingReplaced(MemoryStore):
    """A store whose log is reported as replaced for the next few reads."""

    replacements = 0

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        if self.replacements:
            self.replacements -= 1
            raise LogReplaced(f"{ref} was replaced")
        return await super().read(ref, generation, after, through=through)


async def test_a_log_that_is_replaced_while_it_is_read_is_read_again_a_limited_number_of_times() -> None:
    store = KeepsBeingReplaced()
    async with SessionHost(store=store) as host:
        session = await host.create("main")
        await append(session, "one")
        await session.passivate()
        store.replacements = 63
        follower = await host.load("main", read_only=True)
        assert store.replacements == 0
        store.replacements = 3
        await follower.refresh()
        async with follower.subscribe() as entries:
            assert await take(entries, 1) == ["one"]
        await follower.close()
        store.replacements = 1000  # others may read meanwhile, such as the writer of the index
        with pytest.raises(LogReplaced):
            await host.load("main", read_only=True)


class ReplacedDuringRead(MemoryStore):
    """A store that runs a function once, before it reads lines."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        do, self.meanwhile = self.meanwhile, None
        if do is not None:
            await do()
        return await super().read(ref, generation, after, through=through)


async def test_a_session_that_is_replaced_while_a_subscriber_reads_it_is_a_reset() -> None:
    store = ReplacedDuringRead()
    async with SessionHost(store=store, limits=Limits(cache_bytes_max=0)) as host:
        session = await host.create("main")
        await append(session, "old 1", "old 2", "old 3")
        async with session.subscribe() as entries:
            store.meanwhile = lambda: replace_main(host, "new 1", "new 2")
            assert await take(entries, 3) == [Reset(Cursor(session.cursor.generation, 0)), "new 1", "new 2"]
            assert store.meanwhile is None
            assert entries.cursor == session.cursor


def cut_to(path: Path, lines: int) -> None:
    """Replace a session's file by its header and first lines, as another program would."""
    kept = path.read_bytes().splitlines(keepends=True)[: lines + 1]
    other = path.with_suffix(".tmp")
    other.write_bytes(b"".join(kept))
    other.replace(path)


async def test_a_native_file_that_is_replaced_under_a_live_session_is_read_again_after_one_error(
    tmp_path: Path,
) -> None:
    # without a cache, every read goes to the file
    async with SessionHost(tmp_path, limits=Limits(cache_bytes_max=0)) as host:
        session = await host.create("main")
        await append(session, *"abcdef")
        cut_to(tmp_path / session.ref, 3)
        with pytest.raises(LogReplaced):
            await session.entries()
        assert [each.custom.data for each in await session.entries() if isinstance(each, CustomEntry)] == [
            "a",
            "b",
            "c",
        ]
        await append(session, "g")
        assert len(await session.entries()) == 4


async def test_a_subscriber_gets_a_reset_when_a_native_file_is_replaced(tmp_path: Path) -> None:
    async with SessionHost(tmp_path, limits=Limits(cache_bytes_max=0, feed_events_max=1)) as host:
        session = await host.create("main")
        await append(session, *"abcdef")
        async with session.subscribe() as entries:
            cut_to(tmp_path / session.ref, 3)
            reset, *notes = await take(entries, 4)
    assert isinstance(reset, Reset)
    assert notes == ["a", "b", "c"]


@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_file_shortened_while_its_session_is_passivated_is_a_reset(tmp_path: Path, forgotten: bool) -> None:
    async with SessionHost(store=FileStore(tmp_path, readers_max=1)) as host:
        session = await host.create("main")
        await append(session, *"abcdef")
        other = await host.create("other")
        await append(other, "x")
        await other.passivate()
        async with session.subscribe() as entries:
            assert await take(entries, 6) == list("abcdef")
            assert await session.passivate()
            await anyio.wait_all_tasks_blocked()
            if forgotten:  # the store then takes the rest for the history that it was
                await (await host.load("other", read_only=True)).entries()
            path = tmp_path / session.ref
            path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
            await append(session, *"ghijklm")  # more lines than the subscriber has received
            reset, *notes = await take(entries, 10)
    assert isinstance(reset, Reset)
    assert notes == [*"abghijklm"]


async def test_following_a_batch_reads_the_head_of_the_log_a_bounded_number_of_times_per_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 500
    reads = 0

    def counted_head(index: LogIndex) -> int:
        nonlocal reads
        reads += 1
        return len(index.kinds) - 1

    monkeypatch.setattr(LogIndex, "head", property(counted_head))
    async with SessionHost(tmp_path) as owner, SessionHost(tmp_path) as other:
        session = await owner.create("main")
        await append(session, "first")
        follower = await other.load("main", read_only=True)
        async with follower.subscribe() as entries:
            assert await take(entries, 1) == ["first"]
            await session.append_many([Custom("note", raw_json(number)) for number in range(count)])
            assert await take(entries, count) == list(range(count))
    assert reads < 20 * count
