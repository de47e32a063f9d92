"""Notifications of changed files: who is woken, which folders are watched, and what happens when they fail."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

import anyio
import pytest
from structlog.testing import capture_logs
from watchfiles import _rust_notify

from treering.events.disk import notices
from treering.events.disk.notices import Notices, PathWatch

TICK_S = 2**-10  # what passes with each look at the clock
EVERYWHERE = {(1, "/elsewhere/file")}


class System:
    """The operating system's side: each watch reports `changes` at once, or fails."""

    def __init__(self) -> None:
        self.opened: list[list[str]] = []
        self.changes: set[tuple[int, str]] = EVERYWHERE
        self.waits: list[tuple[int, int, int]] = []
        self.fails_to: str = ""
        self.now = 0.0

    def __call__(self, folders: list[str], *options: object) -> System:
        assert options == (False, False, 0, False, True)
        self.opened.append([Path(folder).name for folder in folders])
        self._fail("open")
        return self

    def watch(
        self, debounce_ms: int, step_ms: int, wait_ms: int, stop: threading.Event
    ) -> set[tuple[int, str]] | Literal["stop", "timeout"]:
        self.waits.append((debounce_ms, step_ms, wait_ms))
        self._fail("watch")
        return self.changes

    def _fail(self, call: str) -> None:
        if self.fails_to == call:
            raise OSError(24, "too many open files")

    def time(self) -> float:
        self.now += TICK_S
        return self.now


class BlockingSystem(System):
    """Blocks whoever listens until `arrived` is set, until it is stopped, or until its time is over."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Event()

    def watch(
        self, debounce_ms: int, step_ms: int, wait_ms: int, stop: threading.Event
    ) -> set[tuple[int, str]] | Literal["stop", "timeout"]:
        for _ in range(wait_ms):
            if self.arrived.wait(0.001):
                self.arrived.clear()
                return self.changes
            if stop.is_set():
                return "stop"
        return "timeout"


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    system = System()
    monkeypatch.setattr(_rust_notify, "RustNotify", system)
    monkeypatch.setattr(notices, "current_time", system.time)
    return system


@pytest.fixture
def at(tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    for name in "uvwxyz":
        (tmp_path / name).mkdir()
    with suppress(OSError):  # some systems have only names in UTF-8
        (tmp_path / "caf\udce9").mkdir()
    return lambda *names: tuple(str(tmp_path / name) + "/" * name.endswith("/") for name in names)


@pytest.mark.parametrize(
    ("changed", "woken"), [("x/a", "ace"), ("x/b", "bcde"), ("y/b", "de"), ("x/other", "ce"), ("y/other", "e")]
)
async def test_a_change_wakes_those_that_it_concerns(
    system: System, at: Callable[..., tuple[str, ...]], changed: str, woken: str
) -> None:
    here = Notices()
    wanted = {"a": ["x/a"], "b": ["x/b"], "c": ["x/"], "d": ["x/b", "y/b"], "e": ["x/", "y/"]}
    with ExitStack() as stack:
        watches = {name: stack.enter_context(here.watching()) for name in wanted}
        for name, paths in wanted.items():
            watches[name].set_paths(at(*paths))
        for watch in watches.values():
            await watch.wait(60)
        assert system.opened == [["x", "y"]]
        system.changes = {(1, path) for path in at(changed)}
        assert await watches[woken[0]].wait(60) == {*at(changed)}
        assert {name for name, watch in watches.items() if watch.noticed} == set(woken[1:])
        for name in woken[1:]:
            assert await watches[name].wait(60) == {*at(changed)}
        system.changes = EVERYWHERE
        assert await watches["a"].wait(60) is None
        assert {name for name, watch in watches.items() if watch.noticed} == set("bcde")


async def test_only_what_concerns_a_watch_is_told_and_too_many_paths_may_be_any(
    system: System, at: Callable[..., tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "CHANGED_MAX", 2)
    here = Notices()
    with here.watching() as one, here.watching() as folder:
        one.set_paths(at("x/b"))
        folder.set_paths(at("x/"))
        assert await one.wait(60) is None, "what changed before"
        assert await folder.wait(60) is None
        system.changes = {(1, path) for path in at("x/a", "x/b")}
        assert await one.wait(60) == {*at("x/b")}
        assert await folder.wait(60) == {*at("x/a", "x/b")}
        system.changes = {(1, path) for path in at("x/a", "x/b", "x/c")}
        assert await one.wait(60) == {*at("x/b")}
        assert await folder.wait(60) is None
        system.changes = set()
        assert await folder.wait(2.5 * TICK_S) == set()


async def test_the_folders_that_are_watched_are_those_that_are_needed(
    system: System, at: Callable[..., tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Notices()
    opened: list[str] = []

    async def now(watch: PathWatch, paths: Iterable[str], *expected: str) -> None:
        watch.set_paths(paths)
        watch.noticed = False
        await watch.wait(60)
        opened.extend(expected)
        assert ["".join(folders) for folders in system.opened] == opened

    with here.watching() as first, here.watching() as second:
        await first.wait(2.5 * TICK_S)
        assert system.opened == [], "there is nothing to watch yet"
        await now(first, at("x/a"), "x")
        await now(first, at("x/a"))
        await now(second, at("x/b", "missing/b"), "x")
        await now(second, at("x/b"))
        await now(second, at("y/b"), "xy")
        await now(second, at("x/b", "x/c"))
        await now(second, at("x/c", "y/c"))
        with here.watching() as third:
            await now(third, at("u/a", "v/a", "y/c"), "uvxy")
            await now(third, at("y/c"))
        await now(second, at("x/c"), "x")
        await now(second, at("x/c", "caf\udce9/a"), "x")
        monkeypatch.setattr(notices, "FOLDERS_MAX", 2)
        await now(second, at("u/c", "v/c", "w/c"), "ux")
        await now(second, at("u/c", "v/c", "w/c", "z/c"))
        opened.append("xx")
    opened.pop()
    with here.watching() as last:
        await now(last, at("z/a"), "z")


async def test_beyond_the_bound_each_watch_knows_whether_it_is_told_of_everything(
    system: System, at: Callable[..., tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "FOLDERS_MAX", 3)
    here = Notices()
    with here.watching() as many:
        many.set_paths(at("z/", "x/", "w/", "z/a"))
        assert not many.is_told, "nothing is watched yet"
        await many.wait(60)
        assert (system.opened, many.is_told) == ([["w", "x", "z"]], True)
    with here.watching() as many, here.watching() as one:
        many.set_paths(at("z/", "x/", "w/", "v/"))
        one.set_paths(at("y/a"))
        await one.wait(60)
        assert (system.opened[1:], many.is_told, one.is_told) == ([["x", "y", "z"]], False, True)
        one.set_paths(at("caf\udce9/a"))
        assert not one.is_told
        one.set_paths(at("z/a"))
        system.fails_to = "watch"
        many.noticed = False
        await many.wait(60)
        assert not one.is_told, "nothing is told after a failure"


async def test_after_a_failure_files_are_checked_by_time_until_it_is_tried_again(
    system: System, at: Callable[..., tuple[str, ...]]
) -> None:
    here = Notices()
    system.fails_to = "open"
    with here.watching() as watch, capture_logs() as logs:
        watch.set_paths(at("x/a"))
        for wait_s, passed_s, attempts in [
            (60.0, 0.0, 1),
            (2.5 * TICK_S, 0.0, 1),
            (2.5 * TICK_S, 59.0, 1),
            (60.0, 2.0, 2),
            (2.5 * TICK_S, 58.0, 2),
        ]:
            system.now += passed_s
            await watch.wait(wait_s)
            assert len(system.opened) == attempts
        assert len(logs) == 1
        system.fails_to = ""
        system.now += 3.0
        await watch.wait(60)
        await watch.wait(60)
        system.fails_to = "watch"
        await watch.wait(60)
        assert [each["event"] for each in logs] == ["watch_polls"] * 2
        waits = len(system.waits)
        for wait_s, passed_s, attempts in [(2.5 * TICK_S, 0.5, 3), (60.0, 0.6, 4)]:
            system.now += passed_s
            await watch.wait(wait_s)
            assert (len(system.opened), len(system.waits)) == (attempts, waits)
        await watch.wait(60)
        assert len(logs) == 2, "it is said once until notifications arrive again"
    system.fails_to = "open"
    for attempts in (5, 6):  # a new watch of no others tries at once, and says so
        with here.watching() as watch, capture_logs() as logs:
            watch.set_paths(at("x/a"))
            await watch.wait(60)
        assert (len(system.opened), len(logs)) == (attempts, 1)


async def test_whoever_waits_is_told_though_others_listen_leave_or_watch_other_folders(
    at: Callable[..., tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    system = BlockingSystem()
    monkeypatch.setattr(_rust_notify, "RustNotify", lambda *given: system(*given))
    monkeypatch.setattr(notices, "current_time", system.time)
    here, told = Notices(), list[str]()

    async def wait(name: str, wait_s: float, scope: anyio.CancelScope) -> None:
        with scope:
            await watches[name].wait(wait_s)
            told.append(name)

    async def expect(*names: str) -> None:
        with anyio.fail_after(10):
            while len(told) < len(names):
                await anyio.wait_all_tasks_blocked()
                await anyio.lowlevel.checkpoint()
        assert sorted(told) == [*names]
        told.clear()

    with ExitStack() as stack, capture_logs() as logs:
        watches = {name: stack.enter_context(here.watching()) for name in "abcd"}
        idle = [stack.enter_context(here.watching()) for _ in range(30)]
        for watch in watches.values():
            watch.set_paths(at("x/a"))
        async with anyio.create_task_group() as group:

            async def begin(name: str, wait_s: float = 60) -> anyio.CancelScope:
                scope = anyio.CancelScope()
                group.start_soon(wait, name, wait_s, scope)
                await anyio.wait_all_tasks_blocked()
                return scope

            for name in "abcd":
                await begin(name)
            await expect(*"abcd")
            assert system.opened == [["x"]]

            listening = await begin("a")
            await begin("b")
            listening.cancel()  # what its thread is told from now on is lost, so all are told to look
            await expect("b")
            assert system.opened == [["x"]] * 2
            for name in "acd":
                await watches[name].wait(60)

            await begin("a", 0.3)
            await begin("b")
            assert told == []
            for watch in idle:
                watch.noticed = False
                await watch.wait(3 * TICK_S)
            system.now += 1.0
            await expect("a")  # its time is over, and only `b` still waits, and listens now
            await anyio.wait_all_tasks_blocked()
            system.changes = {(1, path) for path in at("x/a")}
            system.arrived.set()
            await expect("b")

            await begin("b")
            await begin("c")
            watches["d"].set_paths(at("y/a"))
            await expect("b", "c")
            assert system.opened == [["x"]] * 2 + [["x", "y"]]

            for name in "ad":
                await watches[name].wait(60)
            await begin("b")
            await begin("d")
            for name, path in [("d", "y/a"), ("b", "x/a")]:
                system.changes = {(1, each) for each in at(path)}
                system.arrived.set()
                await expect(name)
        assert logs == []


async def test_notifications_are_closed_after_the_last_watch(
    at: Callable[..., tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[weakref.ref[System]] = []

    def open_them(*given: list[str]) -> System:
        system = System()
        opened.append(weakref.ref(system))
        return system(*given)

    monkeypatch.setattr(_rust_notify, "RustNotify", open_them)
    here = Notices()
    for _ in range(2):
        with here.watching() as first:
            with here.watching() as second:
                second.set_paths(at("x/a"))
                await second.wait(60)
            assert opened[-1]() is not None
            await first.wait(0.0)
        assert opened[-1]() is None
    assert len(opened) == 2


@pytest.mark.parametrize(("wait_s", "wait_ms"), [(60.0, 59_999), (1.25 * TICK_S, 1), (1.5, 1_499)])
async def test_the_thread_of_the_system_waits_as_long_as_the_watch(
    system: System, at: Callable[..., tuple[str, ...]], wait_s: float, wait_ms: int
) -> None:
    with Notices().watching() as watch:
        watch.set_paths(at("x/a"))
        await watch.wait(60)
        await watch.wait(wait_s)
    assert system.waits == [(20, 5, wait_ms)]
