"""A caller may be cancelled at any moment: what it asked for is carried out whole or not at all."""

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
"""Such a cancellation knows no scopes, and is asyncio's alone."""


class Pauses(Generic[T]):
    """Runs a coroutine and calls for an interruption when it pauses for the n-th time.

    Attributes:
        count: How often it has paused.
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
            except BaseException as error:  # noqa: BLE001  # it is the coroutine's own to judge
                raised = error


async def cancelled_at_each_pause(
    call: Callable[[], Coroutine[Any, Any, T]], after: Callable[[], Awaitable[None]]
) -> int:
    """Cancel a call before its first pause, at its first, its second ..., until it is over sooner."""
    for nth in range(PAUSES_MAX):
        with anyio.CancelScope() as scope:
            if not nth:
                scope.cancel()
            pauses = Pauses(call(), nth, scope.cancel)
            await pauses
        await after()
        if nth > pauses.count:
            assert not scope.cancelled_caught
            return nth
    raise AssertionError("the call never ends")


def lines_of(path: str) -> int:
    return len(Path(path).read_bytes().splitlines())


class Whole:
    """Knows what a session may hold: all that was asked for before, and of the last request all or nothing."""

    def __init__(self, session: Session, lines: int) -> None:
        self.session = session
        self.lines = lines
        self.size = 0
        self.asked = 0

    async def check(self) -> None:
        """The last request is there whole or not at all, and the actor serves on."""
        session = self.session
        await session.flush()
        count = session.cursor.seq
        assert count in (self.size, self.size + self.lines)
        await session.append_custom_entry("after", self.asked)
        self.size = count + 1
        assert session.cursor.seq == self.size
        self.asked += 1
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
async def test_a_cancelled_append_is_there_whole_or_not_at_all(
    tmp_path: Path, way: Way, lines: int, passivated: bool
) -> None:
    root = None if way == "in memory" else tmp_path
    turn = [message("user", "one"), message("assistant", "two")]
    async with SessionHost(root, limits=Limits(inline_for_s=0), **WAYS[way]) as host:
        whole = Whole(await host.create(), lines)

        async def call() -> None:
            if passivated:  # it has to be taken up again, which is cancelled on the way, too
                await whole.session.passivate()
            if lines == 1:
                await whole.session.append_message("user", "hello")
            else:
                await whole.session.save_turn(turn, Usage(1))

        tried = await cancelled_at_each_pause(call, whole.check)
        assert tried > 1
        assert whole.size > whole.asked  # the last time it was not cancelled


@pytest.mark.feature("X-11")
@pytest.mark.parametrize("way", WAYS)
async def test_a_cancelled_sender_takes_its_command_along_or_leaves_it(tmp_path: Path, way: Way) -> None:
    root = None if way == "in memory" else tmp_path
    limits = Limits(mailbox_max=1, batch_max=1)
    async with SessionHost(root, limits=limits, **WAYS[way]) as host, anyio.create_task_group() as tasks:
        whole = Whole(await host.create(), 1)
        others = 0

        async def other() -> None:
            nonlocal others
            await whole.session.append_custom_entry("other")
            others += 1

        async def call() -> None:
            for _ in range(4):  # the mailbox is full, and the sender has to wait
                tasks.start_soon(other)
            whole.size += 4
            await cancel_shielded_checkpoint()
            await whole.session.append_message("user", "hello")

        async def after() -> None:
            while others < 4 * (whole.asked + 1):
                await cancel_shielded_checkpoint()
            await whole.check()

        assert await cancelled_at_each_pause(call, after) > 1


@pytest.mark.feature("X-11")
@pytest.mark.parametrize("way", WAYS)
async def test_a_cancelled_move_of_the_leaf_is_made_or_not(tmp_path: Path, way: Way) -> None:
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
async def test_a_task_that_asyncio_cancels_is_no_different(
    tmp_path: Path, way: Way, anyio_backend: tuple[str, dict[str, Any]]
) -> None:
    root = None if way == "in memory" else tmp_path
    async with SessionHost(root, limits=Limits(inline_for_s=0), **WAYS[way]) as host:
        whole = Whole(await host.create(), 2)
        pair = [message("user", "one"), message("assistant", "two")]
        for nth in range(1, PAUSES_MAX):
            task: asyncio.Task[list[str]]
            pauses = Pauses(whole.session.append_many(pair), nth, lambda: task.cancel())  # noqa: B023

            async def run(pauses: Pauses[list[str]] = pauses) -> list[str]:
                return await pauses

            task = asyncio.create_task(run())
            await asyncio.wait([task])
            await whole.check()
            if nth > pauses.count:
                assert len(task.result()) == 2
                break
        else:
            raise AssertionError("the call never ends")


@pytest.mark.feature("X-11")
@pytest.mark.parametrize("way", WAYS)
async def test_a_cancelled_reader_leaves_the_session_alone(tmp_path: Path, way: Way) -> None:
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
