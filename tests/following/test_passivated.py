"""Subscribers of a session that its host has passivated: they see what others append until the host activates it."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Literal, TypeVar

import anyio
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from treering import (
    Changed,
    Cursor,
    Entry,
    Limits,
    MemoryStore,
    MessageEntry,
    Reset,
    Session,
    SessionHost,
    SessionLocked,
    Snapshot,
)
from treering.actors.log import follower
from treering.entries import SessionInfoEntry
from treering.events.disk import Disk, FileStat, OsDisk
from treering.events.stores.base import Blob, BlobKind, Lease, Page, Ref, Store
from treering.events.stores.capabilities import Watches, offered
from treering.events.stores.files import FileStore
from treering.events.stores.shelf import Shelf
from treering.subscriptions import EntrySubscription
from treering.testing.disks import WrappedDisk

from .other_process import AnotherProcess, seq_and_text

T = TypeVar("T")

LAST = 120


async def take(entries: EntrySubscription, count: int) -> list[tuple[int, str] | Reset]:
    items = [await anext(entries) for _ in range(count)]
    return [item if isinstance(item, Reset) else seq_and_text(item) for item in items]


def last_line(session: Session) -> bytes:
    return Path(session.file_path or "").read_bytes().splitlines(keepends=True)[-1]


def append_line(session: Session, line: bytes) -> None:
    """Append a line as another program does."""
    with Path(session.file_path or "").open("ab") as file:
        file.write(line)


def is_live(host: SessionHost) -> bool:
    return host.statistics().live == 1


@pytest.fixture(params=["memory", "files"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Store, Store]:
    """Return two stores with the same logs, like those of two processes."""
    if request.param == "files":
        return FileStore(tmp_path, watch_poll_s=3600), FileStore(tmp_path, watch_poll_s=3600)
    shelf = Shelf()
    return MemoryStore(shelf), MemoryStore(shelf)


@pytest.mark.feature("X-22")
async def test_a_subscriber_sees_what_another_process_appends_after_passivation(
    tmp_path: Path, another_process: AnotherProcess
) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("shared")
        first = await session.append_message("user", "one")
        async with session.subscribe() as entries, session.subscribe("context") as contexts:
            assert await take(entries, 1) == [(1, "one")]
            assert isinstance(await anext(contexts), Snapshot)
            assert await session.passivate()
            async with another_process(tmp_path) as writer:
                await writer.run("append", "two")
                assert await take(entries, 1) == [(2, "two")]
                with pytest.raises(SessionLocked):
                    await session.append_message("user", "refused")
                assert (await anext(contexts)).cursor.seq == 2
                await writer.run("batch", "three", "four")
                assert await take(entries, 2) == [(3, "three"), (4, "four")]
                assert [(await anext(contexts)).cursor.seq for _ in range(2)] == [3, 4]
                await writer.run("branch", first)
                moved = await anext(contexts)
                assert isinstance(moved, Changed)
                assert moved.change.leaf_id == first
                await writer.run("append", "five")
                assert not is_live(host)
                assert await writer.run("passivate")
                await session.append_message("user", "six")
                assert await take(entries, 2) == [(5, "five"), (6, "six")]
                while (await anext(contexts)).cursor.seq < 6:
                    pass
                assert await session.passivate()
                await writer.run("append", "seven")
                assert await take(entries, 1) == [(7, "seven")]


async def test_a_subscriber_that_joins_or_lags_while_another_process_owns_the_session_misses_nothing(
    tmp_path: Path, another_process: AnotherProcess
) -> None:
    async with SessionHost(tmp_path, limits=Limits(feed_events_max=1)) as host:
        session = await host.create("shared")
        async with session.subscribe() as slow:
            for text in "one", "two", "three":
                await session.append_message("user", text)
            assert await session.passivate()
            async with another_process(tmp_path) as writer:
                await writer.run("append", "four")
                async with session.subscribe() as late, session.subscribe("tree") as trees:
                    expected = [(1, "one"), (2, "two"), (3, "three"), (4, "four")]
                    assert await take(slow, 4) == expected
                    assert await take(late, 4) == expected
                    snapshot = await anext(trees)
                    assert isinstance(snapshot, Snapshot)
                    assert snapshot.value == session.tree()
                    await writer.run("append", "five")
                    assert await take(slow, 1) == await take(late, 1) == [(5, "five")]
                    assert (await anext(trees)).cursor.seq == 5


@pytest.mark.parametrize("how", ["replace", "cut"])
async def test_a_file_that_is_replaced_or_shortened_after_passivation_is_a_reset(
    tmp_path: Path, another_process: AnotherProcess, how: str
) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("shared")
        for text in "one", "two", "three":
            await session.append_message("user", text)
        async with session.subscribe() as entries, session.subscribe("tree") as trees:
            assert await take(entries, 3) == [(1, "one"), (2, "two"), (3, "three")]
            await anext(trees)
            assert await session.passivate()
            async with another_process(tmp_path) as writer:
                assert await writer.run("passivate")
                await writer.run(how, 2)
                reset, *rest = await take(entries, 2)
                assert isinstance(reset, Reset)
                assert rest == [(1, "one")]
                snapshot = await anext(trees)
                assert isinstance(snapshot, Snapshot)
                assert snapshot.cursor == Cursor(reset.cursor.generation, 1)
                await writer.run("append", "goes on")
                assert await take(entries, 1) == [(2, "goes on")]
                assert await writer.run("passivate")
            await session.append_message("user", "here")
            last: list[tuple[int, str]] = []
            while (
                3,
                "here",
            ) not in last:  # the new owner may number the generations differently, which is one more reset
                (item,) = await take(entries, 1)
                last = [] if isinstance(item, Reset) else [*last, item]
            assert last in ([(3, "here")], [(1, "one"), (2, "goes on"), (3, "here")])


async def test_a_log_that_another_host_began_is_followed(stores: tuple[Store, Store]) -> None:
    ours, theirs = stores
    async with SessionHost(store=ours) as host, SessionHost(store=theirs) as other:
        session = await host.create("shared")
        async with session.subscribe() as entries, session.subscribe("tree") as trees:
            await anext(trees)
            assert await session.passivate()
            elsewhere = await other.open("shared")
            await elsewhere.append_message("user", "one")
            assert await take(entries, 1) == [(1, "one")]
            assert (await anext(trees)).cursor.seq == 1
            assert not is_live(host)


async def test_each_of_two_hosts_that_own_a_session_in_turn_sees_every_entry_once(stores: tuple[Store, Store]) -> None:
    chance = Random(7)
    limits = Limits(feed_events_max=4)
    seen: list[list[int]] = []

    async def read(session: Session) -> None:
        seqs: list[int] = []
        seen.append(seqs)
        async with session.subscribe() as entries:
            while len(seqs) < LAST:
                item = await anext(entries)
                assert isinstance(item, Entry)
                seqs.append(item.seq)
                for _ in range(chance.choice((0, 0, 0, 30))):
                    await checkpoint()

    async def watch(session: Session) -> None:
        async with session.subscribe("tree") as trees:
            while (await anext(trees)).cursor.seq < LAST:
                pass

    async with SessionHost(store=stores[0], limits=limits) as one, SessionHost(store=stores[1], limits=limits) as two:
        first = await one.create("shared")
        await first.append_message("user", "1")
        async with anyio.create_task_group() as readers:
            for _ in range(3):
                readers.start_soon(read, first)
            readers.start_soon(watch, first)
            await anyio.wait_all_tasks_blocked()
            assert await first.passivate()
            second = await two.load("shared")
            for _ in range(3):
                readers.start_soon(read, second)
            readers.start_soon(watch, second)
            await anyio.wait_all_tasks_blocked()
            owner, other = second, first
            for number in range(2, LAST + 1):
                await owner.append_message("user", str(number))
                for _ in range(chance.choice((0, 0, 1, 20))):
                    await checkpoint()
                if chance.random() < 0.3 and await owner.passivate():
                    owner, other = other, owner
        assert one.statistics().subscribers == two.statistics().subscribers == 0
    assert seen == [list(range(1, LAST + 1))] * 6


async def test_only_a_passivated_session_with_subscribers_has_a_task(stores: tuple[Store, Store]) -> None:
    async with SessionHost(store=stores[0]) as host:
        session = await host.create("shared")
        await session.append_message("user", "one")

        async def tasks() -> int:
            await anyio.wait_all_tasks_blocked()
            return len(anyio.get_running_tasks())

        before = await tasks()
        assert await session.passivate()
        assert await tasks() == before
        async with session.subscribe() as entries:
            await take(entries, 1)
            assert await tasks() == before + 1
            async with session.subscribe("tree") as trees:
                await anext(trees)
                assert await tasks() == before + 1
                await session.append_message("user", "two")
                assert await tasks() == before
                assert await session.passivate()
                assert await tasks() == before + 1
                await session.append_message("user", "three")
                assert await tasks() == before
                assert await session.passivate()
                assert await tasks() == before + 1
            assert await tasks() == before + 1
        assert await tasks() == before
        assert host.statistics().subscribers == 0


@pytest.mark.parametrize("closes", ["host", "store"])
async def test_a_host_that_closes_ends_the_subscriptions_of_passivated_sessions(
    stores: tuple[Store, Store], closes: str
) -> None:
    ours, theirs = stores
    async with SessionHost(store=theirs) as other, SessionHost(store=ours) as host:
        session = await host.create("shared")
        await session.append_message("user", "one")
        async with session.subscribe() as entries, session.subscribe("tree") as trees:
            await take(entries, 1)
            await anext(trees)
            assert await session.passivate()
            await anyio.wait_all_tasks_blocked()
            if closes == "host":
                await host.aclose()
            else:  # which the host notices when it reads what changed
                await ours.aclose()
                await (await other.load("shared")).append_message("user", "two")
            for each in entries, trees:
                with pytest.raises(StopAsyncIteration):
                    await anext(each)


class SlowToRemove(MemoryStore):
    """A store in memory that lets other tasks run between removing a log and returning."""

    async def remove(self, lease: Lease) -> None:
        await super().remove(lease)
        await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize("slow", [False, True])
async def test_deleting_a_passivated_session_ends_its_subscriptions_and_logs_no_failure(
    stores: tuple[Store, Store], slow: bool
) -> None:
    async with SessionHost(store=SlowToRemove() if slow else stores[0]) as host:
        session = await host.create("shared")
        await session.append_message("user", "one")
        async with session.subscribe() as entries:
            await take(entries, 1)
            assert await session.passivate()
            with capture_logs() as logs:
                await host.delete(session)
                with pytest.raises(StopAsyncIteration):
                    await anext(entries)
                await anyio.wait_all_tasks_blocked()
    assert logs == []


async def test_a_passivated_session_that_is_replaced_by_its_own_host_is_one_reset(stores: tuple[Store, Store]) -> None:
    async with SessionHost(store=stores[0]) as host, SessionHost() as elsewhere:
        session = await host.create("shared")
        await session.append_message("user", "old")
        another = await elsewhere.create("shared")
        async with session.subscribe() as entries, session.subscribe("tree") as trees:
            await take(entries, 1)
            await anext(trees)
            for text in "new", "newer":
                assert await session.passivate() or not is_live(host)
                await another.append_message("user", text)
                await host.put(another, replace=True)
                reset, *rest = await take(entries, 1 + len(await another.entries()))
                assert isinstance(reset, Reset)
                assert rest[-1] == (len(rest), text)
                assert (await anext(trees)).cursor == Cursor(reset.cursor.generation, len(rest))
            await session.append_message("user", "last")
            assert await take(entries, 1) == [(3, "last")]
            assert (await anext(trees)).cursor.seq == 3


class Silent(MemoryStore):
    """A store in memory that never reports a change."""

    async def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        await anyio.sleep_forever()
        yield set()


async def test_a_passivated_session_that_is_replaced_by_its_own_host_is_reset_at_once() -> None:
    async with SessionHost(store=Silent(), limits=Limits(feed_events_max=1)) as host, SessionHost() as elsewhere:
        session = await host.create("shared")
        await session.append_message("user", "old")
        await session.append_message("user", "older")
        another = await elsewhere.create("shared")
        await another.append_message("user", "new")
        async with session.subscribe() as entries:
            assert await session.passivate()
            assert await take(entries, 2) == [(1, "old"), (2, "older")]  # read from the log, which stays passivated
            new = await host.put(another, replace=True)
            assert await take(entries, 2) == [Reset(Cursor(new.cursor.generation, 0)), (1, "new")]
            assert not is_live(host)


async def test_what_others_appended_unseen_arrives_as_soon_as_the_host_activates_the_session() -> None:
    shelf = Shelf()
    async with SessionHost(store=Silent(shelf)) as host, SessionHost(store=MemoryStore(shelf)) as other:
        session = await host.create("shared")
        await session.append_message("user", "one")
        async with session.subscribe() as entries, anyio.create_task_group() as group:
            await take(entries, 1)
            assert await session.passivate()
            await anyio.wait_all_tasks_blocked()
            elsewhere = await other.load("shared")
            await elsewhere.append_message("user", "two")
            assert await elsewhere.passivate()
            received: list[object] = []

            async def receive() -> None:
                received.extend(await take(entries, 1))

            group.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            assert not received
            await host.load("shared")
            assert is_live(host)
            await anyio.wait_all_tasks_blocked()
            assert received == [(2, "two")]


class Held(MemoryStore):
    """A store in memory that delays the result of one read, of a page or of the leaf record, until `go` is set."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf)
        self.holds: Literal["page", "leaf"] | None = None
        self.held = anyio.Event()
        self.go = anyio.Event()

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        page = await super().read(ref, generation, after, through=through)
        await self._hold("page")
        return page

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        blob = await super().load(ref, kind)
        await self._hold(kind)
        return blob

    async def _hold(self, what: str) -> None:
        if self.holds == what:
            self.holds = None
            self.held.set()
            await self.go.wait()


@pytest.mark.parametrize("opened", [False, True])
async def test_a_read_that_ends_after_the_host_activated_the_session_leaves_no_gap(opened: bool) -> None:
    shelf = Shelf()
    store = Held(shelf)
    late: list[tuple[int, str] | Reset] = []

    async def join(session: Session) -> None:
        async with session.subscribe() as entries:
            late.extend(await take(entries, 4))

    async with SessionHost(store=store) as host, SessionHost(store=MemoryStore(shelf)) as other:
        session = await host.create("shared")
        await session.append_message("user", "one")
        async with session.subscribe() as entries, anyio.create_task_group() as group:
            assert await take(entries, 1) == [(1, "one")]
            assert await session.passivate()
            if opened:
                async with session.subscribe() as early:
                    await take(early, 1)
            store.holds = "page"
            group.start_soon(join, session)
            await store.held.wait()
            await session.append_message("user", "two")
            await session.append_message("user", "three")
            assert await session.passivate()
            store.go.set()
            await anyio.wait_all_tasks_blocked()
            elsewhere = await other.load("shared")
            await elsewhere.append_message("user", "four")
            assert await take(entries, 3) == [(2, "two"), (3, "three"), (4, "four")]
    assert late == [(1, "one"), (2, "two"), (3, "three"), (4, "four")]


class HeldAndSilent(Held, Silent):
    """A store in memory that delays one read and reports no change, so that only subscribers read."""


async def test_a_leaf_that_was_read_before_the_host_activated_the_session_is_not_shown() -> None:
    shelf = Shelf()
    store = HeldAndSilent(shelf)

    async def join(session: Session) -> None:
        async with session.subscribe() as entries:
            await take(entries, 2)

    async with SessionHost(store=store) as host, SessionHost(store=MemoryStore(shelf)) as other:
        session = await host.create("shared")
        first = await session.append_message("user", "one")
        second = await session.append_message("user", "two")
        async with session.subscribe("context") as contexts, anyio.create_task_group() as group:
            await anext(contexts)
            assert await session.passivate()
            await join(session)
            elsewhere = await other.load("shared")
            await elsewhere.branch(first)
            assert await elsewhere.passivate()
            store.holds = "leaf"
            group.start_soon(join, session)
            await store.held.wait()
            await session.branch(second)
            store.go.set()
            await anyio.wait_all_tasks_blocked()
            third = await session.append_message("user", "three")
            for leaf_id in (first, second, third):
                change = await anext(contexts)
                assert isinstance(change, Changed)
                assert change.change.leaf_id == leaf_id


class Looks(WrappedDisk):
    """A disk that counts how often the status of each file is read."""

    def __init__(self, inner: Disk) -> None:
        super().__init__(inner)
        self.counts: Counter[str] = Counter()

    def stat(self, path: str) -> FileStat:
        self.counts[path] += 1
        return super().stat(path)


async def test_archiving_a_session_sends_its_subscribers_no_reset(tmp_path: Path) -> None:
    disk = Looks(OsDisk())
    async with SessionHost(store=FileStore(tmp_path, disk=disk, watch_poll_s=0.001)) as host:
        session = await host.create("shared")
        await session.append_message("user", "one")
        path = session.file_path or ""
        async with session.subscribe(after=1) as entries:
            await host.archive(session)
            assert isinstance(await anext(entries), SessionInfoEntry)
            asked = disk.counts[path]
            while disk.counts[path] < asked + 5:
                await checkpoint()
            await anyio.wait_all_tasks_blocked()
            assert entries.lag == 0
            assert not is_live(host)
            await session.append_message("user", "two")
            while not isinstance(item := await anext(entries), MessageEntry) or seq_and_text(item) != (4, "two"):
                pass


async def test_what_another_program_appended_before_passivation_is_seen_after_it(tmp_path: Path) -> None:
    async with SessionHost(tmp_path, dialect="pi") as host, SessionHost(tmp_path / "else", dialect="pi") as other:
        session = await host.create("shared")
        await session.append_message("user", "one")
        copy = await other.put(session)
        await copy.append_message("user", "two")
        line = last_line(copy)
        async with session.subscribe() as entries:
            assert await take(entries, 1) == [(1, "one")]
            append_line(session, line)
            assert await session.passivate()
            assert await take(entries, 1) == [(2, "two")]


async def test_a_file_that_is_gone_for_a_while_ends_no_subscription(tmp_path: Path) -> None:
    path, kept = tmp_path / "shared.jsonl", tmp_path / "kept"
    async with SessionHost(store=FileStore(tmp_path, watch_poll_s=0.001)) as host, SessionHost(tmp_path) as other:
        session = await host.create("shared")
        await session.append_message("user", "one")
        shutil.copy(path, kept)
        async with session.subscribe() as entries:
            await take(entries, 1)
            assert await session.passivate()
            with capture_logs() as logs:
                path.unlink()
                while not logs:
                    await checkpoint()
            assert [(each["event"], each["session_id"]) for each in logs] == [("log_unreadable", "shared")]
            os.replace(kept, path)
            await (await other.load("shared")).append_message("user", "two")
            reset, *texts = await take(entries, 3)
            assert isinstance(reset, Reset)
            assert texts == [(1, "one"), (2, "two")]


class Unwatched(FileStore):
    """A store whose next watches fail, as many as `failures`."""

    failures = 0

    def capability(self, kind: Callable[..., T]) -> T | None:
        return offered(self, kind, (Watches,)) or super().capability(kind)

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError("an error of this store")
        watches = super().capability(Watches)
        assert watches is not None
        return watches.watch(refs)


@pytest.mark.parametrize("failures", [1, 2])
async def test_a_failed_watch_does_not_prevent_passivation_and_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    monkeypatch.setattr(follower, "WATCH_AGAIN_S", 0)
    store = Unwatched(tmp_path, watch_poll_s=3600)
    async with SessionHost(store=store) as host, SessionHost(tmp_path) as other:
        session = await host.create("shared")
        await session.append_message("user", "one")
        async with session.subscribe() as entries:
            await take(entries, 1)
            store.failures = failures
            with capture_logs() as logs:
                assert await session.passivate()
                await (await other.load("shared")).append_message("user", "two")
                assert await take(entries, 1) == [(2, "two")]
    assert [each["event"] for each in logs] == ["watch_failed"] * failures


async def test_a_failed_watch_is_retried_only_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "WATCH_AGAIN_S", 3600)
    store = Unwatched(tmp_path)
    async with SessionHost(store=store) as host:
        session = await host.create("shared")
        await session.append_message("user", "one")
        async with session.subscribe() as entries:
            await take(entries, 1)
            store.failures = 3
            with capture_logs() as logs:
                assert await session.passivate()
                await anyio.wait_all_tasks_blocked()
            assert [each["event"] for each in logs] == ["watch_failed"]
            await session.append_message("user", "two")
            assert await take(entries, 1) == [(2, "two")]
