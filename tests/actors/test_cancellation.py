"""A caller can be cancelled at any await: its command is carried out whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import anyio
import pytest
from anyio.lowlevel import cancel_shielded_checkpoint

from treering import Limits, MessageEntry, Session, SessionHost, Usage, message
from treering.events.index import LogIndex

T = TypeVar("T")

PAUSES_MAX = 200

Way: TypeAlias = Literal["at once", "in a thread", "synced", "in memory"]
WAYS: dict[Way, dict[str, Any]] = {
    "at once": {"writes": "inline"},
    "in a thread": {"writes": "thread"},
    "synced": {"durability": "file"},
    "in memory": {},
}

ON_ASYNCIO = [
    pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    pytest.param(
        ("asyncio", {"use_uvloop": True}),
        id="uvloop",
        marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop does not run here"),
    ),
]
"""For tests that cancel a task through asyncio itself, without a cancel scope."""


class CountingPauses(Generic[T]):
    """Awaits a coroutine and calls `interrupt` when it is suspended for the n-th time.

    Attributes:
        count: How many times the coroutine was suspended.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], nth: int, interrupt: Callable[[], object]) -> None:
        self._coroutine = coroutine
        self._nth = nth
        self._interrupt = interrupt
        self.count = 0

    def __await__(self) -> Generator[Any, Any, T]:
        sent: Any = None
        raised: BaseException | None = None
        while True:
            try:
                awaited = self._coroutine.send(sent) if raised is None else self._coroutine.throw(raised)
            except StopIteration as stop:
                value: T = stop.value
                return value
            self.count += 1
            if self.count == self._nth:
                self._interrupt()
            try:
                sent, raised = (yield awaited), None
            except BaseException as error:  # noqa: BLE001  # the coroutine decides what to do with it
                raised = error


async def cancelled_at_each_pause(
    call: Callable[[], Coroutine[Any, Any, T]], after: Callable[[], Awaitable[None]]
) -> int:
    """Repeat a call, cancelled before it starts, at its first await, its second ..., until one ends without it."""
    for nth in range(PAUSES_MAX):
        with anyio.CancelScope() as scope:
            if not nth:
                scope.cancel()
            pauses = CountingPauses(call(), nth, scope.cancel)
            await pauses
        await after()
        if nth > pauses.count:
            assert not scope.cancelled_caught
            return nth
    raise AssertionError("the call never ends")


def lines_of(path: str) -> int:
    return len(Path(path).read_bytes().splitlines())


class CheckedSession:
    """A session that holds all earlier commands, and the lines of the last command all or none."""

    def __init__(self, session: Session, lines: int) -> None:
        self.session = session
        self.lines = lines
        self.size = 0
        self.checks = 0

    async def check(self) -> None:
        """Assert that the last command was carried out whole or not at all, and that the actor still works."""
        session = self.session
        await session.flush()
        count = session.cursor.seq
        assert count in (self.size, self.size + self.lines)
        await session.append_custom_entry("after", self.checks)
        self.size = count + 1
        assert session.cursor.seq == self.size
        self.checks += 1
        entries = await session.entries()
        assert [entry.seq for entry in entries] == list(range(1, self.size + 1))
        assert [entry.parent_id for entry in entries] == [None, *(entry.id for entry in entries[:-1])]
        assert session.leaf_id == entries[-1].id
        if session.file_path is not None:
            index = LogIndex(session.header)
            for entry in entries:
                index.fold(entry)
            assert index == (await session.log()).index
            assert lines_of(session.file_path) == self.size + 1


@pytest.mark.feature("X-11")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lines", [1, 3])
@pytest.mark.parametrize("passivated", [False, True])
async def test_a_cancelled_append_is_written_whole_or_not_at_all(
    tmp_path: Path, way: Way, lines: int, passivated: bool
) -> None:
    root = None if way == "in memory" else tmp_path
    turn = [message("user", "one"), message("assistant", "two")]
    async with SessionHost(root, limits=Limits(inline_for_s=0), **WAYS[way]) as host:
        checked = CheckedSession(await host.create(), lines)

        async def call() -> None:
            if passivated:  # the call also activates the session, and can be cancelled while it does
                await checked.session.passivate()
            if lines == 1:
                await checked.session.append_message("user", "hello")
            else:
                await checked.session.save_turn(turn, Usage(1))

        attempts = await cancelled_at_each_pause(call, checked.check)
        assert attempts > 1
        assert checked.size > checked.checks  # the last call was not cancelled


@pytest.mark.feature("X-11")
@pytest.mark.parametrize("way", WAYS)
async def test_a_command_is_carried_out_whole_or_not_at_all_if_its_sender_is_cancelled_at_a_full_mailbox(
    tmp_path: Path, way: Way
) -> None:
    root = None if way == "in memory" else tmp_path
    limits = Limits(mailbox_max=1, batch_max=1)
    async with SessionHost(root, limits=limits, **WAYS[way]) as host, anyio.create_task_group() as tasks:
        checked = CheckedSession(await host.create(), 1)
        others = 0

        async def other() -> None:
            nonlocal others
            await checked.session.append_custom_entry("other")
            others += 1

        async def call() -> None:
            for _ in range(4):  # they fill the mailbox, so the sender has to wait
                tasks.start_soon(other)
            checked.size += 4
            await cancel_shielded_checkpoint()
            await checked.session.append_message("user", "hello")

        async def after() -> None:
            while others < 4 * (checked.checks + 1):
                await cancel_shielded_checkpoint()
            await checked.check()

        assert await cancelled_at_each_pause(call, after) > 1


@pytest.mark.feature("X-11")
@pytest.mark.parametrize("way", WAYS)
async def test_a_cancelled_branch_moves_the_leaf_or_leaves_it(tmp_path: Path, way: Way) -> None:
    root = None if way == "in memory" else tmp_path
    async with SessionHost(root, **WAYS[way]) as host:
        session = await host.create()
        first = await session.append_message("user", "one")
        last = await session.append_message("user", "two")

        async def after() -> None:
            await session.flush()
            leaf = session.leaf_id
            assert leaf in (first, last)
            assert await session.passivate()
            assert session.leaf_id == leaf
            await session.branch(last)

        assert await cancelled_at_each_pause(lambda: session.branch(first), after) > 1
        assert session.cursor.seq == 2


@pytest.mark.feature("X-11")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("anyio_backend", ON_ASYNCIO)
async def test_a_batch_is_written_whole_or_not_at_all_if_asyncio_cancels_the_task(
    tmp_path: Path, way: Way, anyio_backend: tuple[str, dict[str, Any]]
) -> None:
    root = None if way == "in memory" else tmp_path
    async with SessionHost(root, limits=Limits(inline_for_s=0), **WAYS[way]) as host:
        checked = CheckedSession(await host.create(), 2)
        pair = [message("user", "one"), message("assistant", "two")]
        for nth in range(1, PAUSES_MAX):
            task: asyncio.Task[list[str]]
            pauses = CountingPauses(checked.session.append_many(pair), nth, lambda: task.cancel())  # noqa: B023

            async def run(pauses: CountingPauses[list[str]] = pauses) -> list[str]:
                return await pauses

            task = asyncio.create_task(run())
            await asyncio.wait([task])
            await checked.check()
            if nth > pauses.count:
                assert len(task.result()) == 2
                break
        else:
            raise AssertionError("the call never ends")


@pytest.mark.feature("X-11")
@pytest.mark.parametrize("way", WAYS)
async def test_a_cancelled_reader_does_not_affect_the_session(tmp_path: Path, way: Way) -> None:
    root = None if way == "in memory" else tmp_path
    async with SessionHost(root, **WAYS[way]) as host:
        session = await host.create()
        for number in range(3):
            await session.append_message("user", f"{number} " + "x" * 40_000)

        async def call() -> None:
            await session.passivate()
            assert len(await session.entries()) == 3
            assert len((await session.context()).messages) == 3

        async def after() -> None:
            assert session.message_count == 3
            assert all(isinstance(entry, MessageEntry) for entry in await session.entries())

        await cancelled_at_each_pause(call, after)
        await session.append_message("user", "on")
