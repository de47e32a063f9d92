"""The watching behind a session that is followed: shared by all, and never the end of a host."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias
from weakref import WeakSet

import anyio
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs
from watchfiles import _rust_notify

from treering import Entry, HostClosed, Session, SessionHost
from treering.actors import follower
from treering.events.stores.base import Ref
from treering.events.stores.files import FileStore
from treering.testing.stores.case import line

PATIENCE_S = 60
FOLLOWED = 20

Heard: TypeAlias = set[tuple[int, str]] | Literal["signal", "stop", "timeout"]


class Ears:
    """Counts what watches for us: how many there are, and how many threads listen."""

    def __init__(self) -> None:
        self.open: WeakSet[object] = WeakSet()
        self.listening = 0
        self.at_once = 0
        self._counting = threading.Lock()

    @contextmanager
    def counted(self) -> Generator[None]:
        with self._counting:
            self.listening += 1
            self.at_once = max(self.at_once, self.listening)
        try:
            yield
        finally:
            with self._counting:
                self.listening -= 1


@pytest.fixture
def ears(monkeypatch: pytest.MonkeyPatch) -> Ears:
    counts = Ears()

    class Ear:
        def __init__(self, *args: Any) -> None:  # noqa: ANN401  # as the real one
            self.real = real(*args)
            counts.open.add(self)

        def watch(self, *args: Any) -> Heard:  # noqa: ANN401  # as the real one
            with counts.counted():
                return self.real.watch(*args)

    real = _rust_notify.RustNotify
    monkeypatch.setattr(_rust_notify, "RustNotify", Ear)
    return counts


class Deaf:
    """A watcher of the operating system's that fails while it is listened to."""

    def __init__(self, *args: object) -> None:
        pass

    def watch(self, *args: object) -> Heard:
        raise RuntimeError("error in underlying watcher: overflow")


class Absent(Deaf):
    """One that is not to be had at all."""

    def __init__(self, *args: object) -> None:
        raise OSError(24, "too many open files")


def noticing(root: Path) -> FileStore:
    """Make a store that never looks by itself."""
    return FileStore(root, watch_poll_s=3600)


async def written(host: SessionHost, name: str) -> Session:
    session = await host.create(name)
    await session.append_message("user", "one")
    return session


async def seq_of_next(entries: AsyncIterator[object]) -> int:
    with anyio.fail_after(PATIENCE_S):
        found = await anext(entries)
    assert isinstance(found, Entry)
    return found.seq


@pytest.mark.parametrize("folders", ["one folder", "many folders"])
async def test_all_followed_sessions_are_watched_by_one(tmp_path: Path, ears: Ears, folders: str) -> None:
    async with SessionHost(tmp_path) as writing, SessionHost(store=noticing(tmp_path)) as host:
        owned = [await written(writing, f"s{number}") for number in range(FOLLOWED)]
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
                    assert await seq_of_next(entries) == turn
                with anyio.fail_after(PATIENCE_S):
                    while ears.listening > 1 or len(ears.open) > 1:  # one that was replaced may be on its way out
                        gc.collect()
                        await checkpoint()
                assert len(ears.open) == 1
            assert ears.at_once < FOLLOWED / 2
        with anyio.fail_after(PATIENCE_S):
            while ears.listening or ears.open:
                gc.collect()
                await checkpoint()


async def test_who_goes_on_waiting_is_woken_when_the_one_that_listened_is_gone(tmp_path: Path, ears: Ears) -> None:
    async with SessionHost(tmp_path) as writing, SessionHost(store=noticing(tmp_path)) as host:
        owned = [await written(writing, f"s{number}") for number in range(3)]
        readers = [await host.load(each.id, read_only=True) for each in owned]
        async with AsyncExitStack() as rest:
            async with readers[0].subscribe(after=1) as first:
                others = [await rest.enter_async_context(each.subscribe(after=1)) for each in readers[1:]]
                with anyio.fail_after(PATIENCE_S):
                    while not ears.listening:
                        await checkpoint()
                await owned[0].append_message("user", "two")
                assert await seq_of_next(first) == 2
            for session, entries in zip(owned[1:], others, strict=True):
                await session.append_message("user", "two")
                assert await seq_of_next(entries) == 2


@pytest.mark.parametrize("watcher", [Deaf, Absent])
async def test_a_watcher_that_fails_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watcher: type
) -> None:
    monkeypatch.setattr(_rust_notify, "RustNotify", watcher)
    store = FileStore(tmp_path, watch_poll_s=0.001)
    async with SessionHost(tmp_path) as writing, SessionHost(store=store) as host:
        owned = await written(writing, "s")
        reader = await host.load("s", read_only=True)
        with capture_logs() as logs:
            async with reader.subscribe() as entries:
                assert await seq_of_next(entries) == 1
                for seq in range(2, 5):
                    await owned.append_message("user", "more")
                    assert await seq_of_next(entries) == seq
        assert [(each["event"], each["log_level"]) for each in logs] == [("watch_polls", "warning")]
        assert await reader.entries()


class Late(FileStore):
    """Begins to watch only after something was appended, and may fail first."""

    unseen = b""
    fails = False

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        if self.unseen:
            with Path(self.path_of(refs[0])).open("ab") as file:
                file.write(self.unseen)
            self.unseen = b""
            if self.fails:
                raise ZeroDivisionError("a store of somebody else's")
        return super().watch(refs)


@pytest.mark.parametrize("fails", [False, True])
async def test_what_was_appended_while_nobody_watched_is_seen_and_a_store_that_fails_to_watch_ends_no_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(follower, "WATCH_AGAIN_S", 0)
    store = Late(tmp_path, watch_poll_s=3600)
    async with SessionHost(tmp_path) as writing, SessionHost(store=store) as host:
        owned = await written(writing, "s")
        reader = await host.load("s", read_only=True)
        store.unseen, store.fails = line(2), fails
        with capture_logs() as logs:
            async with reader.subscribe(after=1) as entries:
                assert await seq_of_next(entries) == 2
                await owned.append_message("user", "three")
                assert await seq_of_next(entries) == 3
        expected = [("watch_failed", "s", "ZeroDivisionError")] if fails else []
        assert [(each["event"], each["session_id"], each["error"]) for each in logs] == expected


@pytest.mark.parametrize("view", ["entries", "context"])
async def test_a_subscription_that_is_entered_after_the_host_closed_is_refused(
    tmp_path: Path, view: Literal["entries", "context"]
) -> None:
    async with SessionHost(tmp_path) as host:
        await written(host, "s")
        reader = await host.load("s", read_only=True)
        changes = reader.subscribe() if view == "entries" else reader.subscribe(view)
    with pytest.raises(HostClosed, match="the host is closed"):
        async with changes:
            pass
