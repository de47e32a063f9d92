"""How a followed session's file is watched: one watcher serves all sessions, and its failure never stops the host."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar
from weakref import WeakSet

import anyio
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs
from watchfiles import _rust_notify

from treering import Entry, HostClosed, Session, SessionHost
from treering.actors.log import follower
from treering.events.disk import notices
from treering.events.stores.base import Ref
from treering.events.stores.capabilities import Watches, offered
from treering.events.stores.files import FileStore
from treering.events.stores.files.changes import Watch
from treering.subscriptions import EntrySubscription
from treering.testing.disks import MemoryDisk
from treering.testing.stores.case import line

T = TypeVar("T")
FOLLOWED = 20

WatchResult: TypeAlias = set[tuple[int, str]] | Literal["signal", "stop", "timeout"]


class WatcherCounts:
    """Counts the watchers that exist, and the threads that wait in them."""

    def __init__(self) -> None:
        self.open: WeakSet[object] = WeakSet()
        self.waiting = 0
        self.waiting_max = 0
        self._lock = threading.Lock()

    @contextmanager
    def counted(self) -> Generator[None]:
        with self._lock:
            self.waiting += 1
            self.waiting_max = max(self.waiting_max, self.waiting)
        try:
            yield
        finally:
            with self._lock:
                self.waiting -= 1


@pytest.fixture
def watchers(monkeypatch: pytest.MonkeyPatch) -> WatcherCounts:
    counts = WatcherCounts()

    class CountedWatcher:
        def __init__(self, *args: Any) -> None:  # noqa: ANN401  # the signature of the real class
            self.real = real(*args)
            counts.open.add(self)

        def watch(self, *args: Any) -> WatchResult:  # noqa: ANN401  # the signature of the real class
            with counts.counted():
                return self.real.watch(*args)

    real = _rust_notify.RustNotify
    monkeypatch.setattr(_rust_notify, "RustNotify", CountedWatcher)
    return counts


class FailsToWatch:
    """A watcher of the operating system that fails when it is waited on."""

    def __init__(self, *args: object) -> None:
        pass

    def watch(self, *args: object) -> WatchResult:
        raise RuntimeError("error in underlying watcher: overflow")


class CannotBeCreated(FailsToWatch):
    """A watcher that cannot even be created."""

    def __init__(self, *args: object) -> None:
        raise OSError(24, "too many open files")


def store_without_polling(root: Path) -> FileStore:
    """Create a store that never polls."""
    return FileStore(root, watch_poll_s=3600)


async def create_session(host: SessionHost, name: str) -> Session:
    session = await host.create(name)
    await session.append_message("user", "one")
    return session


async def next_seq(entries: AsyncIterator[object]) -> int:
    found = await anext(entries)
    assert isinstance(found, Entry)
    return found.seq


async def check_appends(owned: Session, entries: EntrySubscription, seqs: Iterable[int]) -> None:
    """Check that a follower receives each entry as soon as it is appended."""
    for seq in seqs:
        await owned.append_message("user", "more")
        assert await next_seq(entries) == seq


@pytest.mark.parametrize("folders", ["one folder", "many folders"])
async def test_one_watcher_serves_all_followed_sessions(tmp_path: Path, watchers: WatcherCounts, folders: str) -> None:
    async with SessionHost(tmp_path) as writing, SessionHost(store=store_without_polling(tmp_path)) as host:
        owned = [await create_session(writing, f"s{number}") for number in range(FOLLOWED)]
        if folders == "many folders":
            for session in owned:
                assert await session.passivate()
                path = tmp_path / session.id / f"{session.id}.jsonl"
                path.parent.mkdir()
                (tmp_path / f"{session.id}.jsonl").rename(path)
            owned = [await writing.load(tmp_path / each.id / f"{each.id}.jsonl") for each in owned]
        async with AsyncExitStack() as stack:
            followed: list[AsyncIterator[object]] = []
            for session in owned:
                reader = await host.load(Path(session.file_path or ""), read_only=True)
                followed.append(await stack.enter_async_context(reader.subscribe(after=1)))
            for turn in 2, 3:
                for session in owned:
                    await session.append_message("user", "more")
                for entries in followed:
                    assert await next_seq(entries) == turn
                while watchers.waiting > 1 or len(watchers.open) > 1:  # a replaced watcher may not have ended yet
                    gc.collect()
                    await checkpoint()
                assert len(watchers.open) == 1
            assert watchers.waiting_max < FOLLOWED / 2
        while watchers.waiting or watchers.open:
            gc.collect()
            await checkpoint()


async def test_other_subscribers_are_woken_after_the_one_that_ran_the_watcher_left(
    tmp_path: Path, watchers: WatcherCounts
) -> None:
    async with SessionHost(tmp_path) as writing, SessionHost(store=store_without_polling(tmp_path)) as host:
        owned = [await create_session(writing, f"s{number}") for number in range(3)]
        readers = [await host.load(each.id, read_only=True) for each in owned]
        async with AsyncExitStack() as rest:
            async with readers[0].subscribe(after=1) as first:
                others = [await rest.enter_async_context(each.subscribe(after=1)) for each in readers[1:]]
                while not watchers.waiting:
                    await checkpoint()
                await owned[0].append_message("user", "two")
                assert await next_seq(first) == 2
            for session, entries in zip(owned[1:], others, strict=True):
                await session.append_message("user", "two")
                assert await next_seq(entries) == 2


async def test_a_change_is_checked_only_by_the_watches_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = 0
    checked = Watch.changed

    def counted(watch: Watch) -> set[Ref]:
        nonlocal checks
        checks += 1
        return checked(watch)

    async with (
        SessionHost(tmp_path) as writing,
        SessionHost(store=store_without_polling(tmp_path)) as host,
        AsyncExitStack() as all_,
    ):
        owned = [await create_session(writing, f"s{number}") for number in range(FOLLOWED)]
        readers = [await host.load(each.id, read_only=True) for each in owned]
        entries = [await all_.enter_async_context(each.subscribe(after=1)) for each in readers]
        for session, each in zip(owned, entries, strict=True):  # until every watch has begun
            await session.append_message("user", "two")
            assert await next_seq(each) == 2
        monkeypatch.setattr(Watch, "changed", counted)
        await check_appends(owned[0], entries[0], range(3, 8))
        assert 5 <= checks < FOLLOWED


@pytest.mark.parametrize("link", [os.link, os.symlink])
async def test_a_log_is_followed_under_a_second_name(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    async with SessionHost(tmp_path) as writing, SessionHost(store=store_without_polling(tmp_path)) as host:
        owned = await create_session(writing, "s")
        path = tmp_path / owned.ref
        link(path, path.with_name("second.jsonl"))
        reader = await host.load(path.with_name("second.jsonl"), read_only=True)
        async with reader.subscribe(after=1) as entries:
            await check_appends(owned, entries, range(2, 5))


async def test_a_session_that_was_brought_back_and_archived_again_has_changed(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await create_session(host, "a")
        await host.archive(session)
        watches = store_without_polling(tmp_path).capability(Watches)
        assert watches is not None
        changes = watches.watch([session.ref])
        await session.append_message("user", "two")
        await host.archive(session)
        with anyio.fail_after(10):
            assert await anext(changes) == {session.ref}
    assert isinstance(changes, AsyncGenerator)
    await changes.aclose()


@pytest.mark.parametrize("native", [FailsToWatch, CannotBeCreated])
async def test_polling_replaces_a_watcher_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: type
) -> None:
    monkeypatch.setattr(_rust_notify, "RustNotify", native)
    store = FileStore(tmp_path, watch_poll_s=0.001)
    async with SessionHost(tmp_path) as writing, SessionHost(store=store) as host:
        owned = await create_session(writing, "s")
        reader = await host.load("s", read_only=True)
        with capture_logs() as logs:
            async with reader.subscribe() as entries:
                assert await next_seq(entries) == 1
                await check_appends(owned, entries, range(2, 5))
        assert [(each["event"], each["log_level"]) for each in logs] == [("watch_polls", "warning")]
        assert await reader.entries()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names that are not UTF-8")
async def test_a_folder_whose_name_is_not_utf_8_does_not_end_the_notifications_for_others(tmp_path: Path) -> None:
    unusual = tmp_path / os.fsdecode(b"not utf-8 \xff")
    usual = tmp_path / "usual"
    async with (
        SessionHost(unusual) as unusual_writing,
        SessionHost(usual) as writing,
        SessionHost(store=FileStore(unusual, watch_poll_s=0.001)) as unusual_host,
        SessionHost(store=store_without_polling(usual)) as host,
    ):
        both = [await create_session(unusual_writing, "s"), await create_session(writing, "s")]
        readers = [await each.load("s", read_only=True) for each in (unusual_host, host)]
        with capture_logs() as logs:
            async with readers[0].subscribe(after=1) as first, readers[1].subscribe(after=1) as second:
                for seq in range(2, 5):
                    for owned, entries in zip(both, (first, second), strict=True):
                        await owned.append_message("user", "more")
                        assert await next_seq(entries) == seq
        assert not logs


async def test_notifications_that_broke_off_are_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do after a change of a file whose name is not UTF-8."""
    real, calls = _rust_notify.RustNotify, 0

    class BreaksOff:
        def __init__(self, *args: Any) -> None:  # noqa: ANN401  # the signature of the real class
            self.real = real(*args)

        def watch(self, *args: Any) -> WatchResult:  # noqa: ANN401  # the signature of the real class
            nonlocal calls
            calls += 1
            if calls == 1:
                raise RuntimeError("Unable to decode path to string")
            return self.real.watch(*args)

    monkeypatch.setattr(_rust_notify, "RustNotify", BreaksOff)
    monkeypatch.setattr(notices, "REOPEN_S", 0)
    async with SessionHost(tmp_path) as writing, SessionHost(store=store_without_polling(tmp_path)) as host:
        owned = await create_session(writing, "s")
        reader = await host.load("s", read_only=True)

        async def receive_the_next() -> None:
            assert await next_seq(entries) == 2

        with capture_logs() as logs:
            async with reader.subscribe(after=1) as entries, anyio.create_task_group() as group:
                group.start_soon(receive_the_next)
                while calls < 2:
                    await checkpoint()
                await owned.append_message("user", "more")
        assert [each["event"] for each in logs] == ["watch_polls"]


async def test_a_disk_in_memory_is_watched_by_polling(watchers: WatcherCounts) -> None:
    disk = MemoryDisk()
    store = FileStore("/sessions", disk=disk, watch_poll_s=0.001)
    async with SessionHost(store=FileStore("/sessions", disk=disk)) as writing, SessionHost(store=store) as host:
        owned = await create_session(writing, "s")
        reader = await host.load("s", read_only=True)
        async with reader.subscribe() as entries:
            assert await next_seq(entries) == 1
            await check_appends(owned, entries, range(2, 5))
            assert not watchers.open


class WritesBeforeWatching(FileStore):
    """A store whose file grows just before watching begins, and whose watching may fail first."""

    unseen = b""
    fails = False

    def capability(self, kind: Callable[..., T]) -> T | None:
        return offered(self, kind, (Watches,)) or super().capability(kind)

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        if self.unseen:
            with (Path(self.root) / refs[0]).open("ab") as file:
                file.write(self.unseen)
            self.unseen = b""
            if self.fails:
                raise ZeroDivisionError("a bug in another store")
        watches = super().capability(Watches)
        assert watches is not None
        return watches.watch(refs)


@pytest.mark.parametrize("fails", [False, True])
async def test_entries_appended_while_nothing_watched_arrive_even_if_watching_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(follower, "WATCH_AGAIN_S", 0)
    store = WritesBeforeWatching(tmp_path, watch_poll_s=3600)
    async with SessionHost(tmp_path) as writing, SessionHost(store=store) as host:
        owned = await create_session(writing, "s")
        reader = await host.load("s", read_only=True)
        store.unseen, store.fails = line(2), fails
        with capture_logs() as logs:
            async with reader.subscribe(after=1) as entries:
                assert await next_seq(entries) == 2
                await owned.append_message("user", "three")
                assert await next_seq(entries) == 3
        expected = [("watch_failed", "s", "ZeroDivisionError")] if fails else []
        assert [(each["event"], each["session_id"], each["error"]) for each in logs] == expected


@pytest.mark.parametrize("view", ["entries", "context"])
async def test_entering_a_subscription_after_the_host_closed_is_refused(
    tmp_path: Path, view: Literal["entries", "context"]
) -> None:
    async with SessionHost(tmp_path) as host:
        await create_session(host, "s")
        reader = await host.load("s", read_only=True)
        changes = reader.subscribe() if view == "entries" else reader.subscribe(view)
    with pytest.raises(HostClosed, match="the host is closed"):
        async with changes:
            pass
