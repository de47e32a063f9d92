"""A caller can be cancelled at any await: its command is carried out whole or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import anyio
import pytest
from anyio.lowlevel import cancel_shielded_checkpoint

from treering import Limits, MessageEntry, Session, SessionHost, Usage, message
from treering.events.index import LogIndex

from ..pauses import ON_ASYNCIO, PAUSES_MAX, CountingPauses, cancelled_by_asyncio

T = TypeVar("T")

Way: TypeAlias = Literal["at once", "in a thread", "synced", "in memory"]
WAYS: dict[Way, dict[str, Any]] = {
    "at once": {"writes": "inline"},
    "in a thread": {"writes": "thread"},
    "synced": {"durability": "file"},
    "in memory": {},
}


async def cancelled_at_each_pause(
    call: Callable[[], Coroutine[Any, Any, T]], after: Callable[[], Awaitable[None]]
) -> int:
    """Repeat a call, cancelled before it starts, at its first await, its second ..., until one ends without it."""
    for nth in range(PAUSES_MAX):
        with anyio.CancelScope() as scope:
            if not nth:
                scope.cancel()
            pauses = CountingPauses(call(), (nth,), scope.cancel)
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
            cancelled, task = await cancelled_by_asyncio(checked.session.append_many(pair), nth)
            await checked.check()
            if not cancelled:
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
