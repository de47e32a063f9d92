"""What waits at a session, for what, and until when: senders, flushes, deletions, passivation."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from treering import AppendFailed, AppendInDoubt, Limits, MemoryStore, Session, SessionHost, message
from treering.actors.commands import AppendOptions
from treering.errors import AppendError
from treering.events.stores.base import Append, Cursor, Fenced, Lease, Outcome, Page, Ref


class GatedStore(MemoryStore):
    """Holds appends, and reads if so told, until they are let through, one at a time.

    Attributes:
        sizes: The number of lines of each append.
        lands_first: Whether the lines of an append are in the log while it is held.
        holds_reads: Whether reads are held, too.
        at_once: Whether appends are carried out at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.lands_first = False
        self.holds_reads = False
        self.at_once = False
        self.gate = anyio.Semaphore(0)

    def try_append(self, append: Append) -> Outcome | None:  # type: ignore[override]  # like a remote store
        return super().try_append(append) if self.at_once else None

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        (append,) = appends
        self.sizes.append(len(append.lines))
        outcome = super().try_append(append) if self.lands_first else None
        await self.gate.acquire()
        return [outcome or super().try_append(append)]

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        if self.holds_reads:
            await self.gate.acquire()
        return await super().read(ref, generation, after, through=through)


async def settle() -> None:
    """Let all tasks go on until each has ended or waits; there are no threads."""
    for _ in range(50):
        await checkpoint()


class Calls:
    """Calls of a session whose appends are held.

    Attributes:
        ended: The names of the calls that have ended, in that order.
    """

    def __init__(self, host: SessionHost, store: GatedStore, session: Session, tasks: TaskGroup) -> None:
        self.host = host
        self.store = store
        self.session = session
        self.ended: list[object] = []
        self._tasks = tasks

    async def start(self, name: object, call: Callable[[], Awaitable[object]]) -> anyio.CancelScope:
        """Start a call, and return when it has ended or waits."""
        scope = anyio.CancelScope()

        async def run() -> None:
            with scope:
                await call()
                self.ended.append(name)

        self._tasks.start_soon(run)
        await settle()
        return scope

    async def send(self, *numbers: int) -> None:
        for number in numbers:
            await self.start(number, partial(self.session.append_custom_entry, "note", number))

    async def let_through(self, count: int = 1) -> list[object]:
        """Let held appends through, one after the other, and return what ends; in any order after each of them."""
        ended: list[object] = []
        for _ in range(count):
            self.ended.clear()
            self.store.gate.release()
            await settle()
            ended += sorted(self.ended, key=str)
        return ended

    async def written(self) -> list[object]:
        self.store.holds_reads = False
        return [entry.custom.data for entry in await self.session.entries()]  # type: ignore[union-attr]

    def waiting(self) -> int:
        (row,) = self.host.statistics().sessions
        return row.mailbox_depth


@asynccontextmanager
async def held_calls(options: dict[str, Any] | None = None, **limits: int) -> AsyncGenerator[Calls]:
    store = GatedStore()
    host = SessionHost(store=store, limits=Limits(**limits), **(options or {}))
    async with host, anyio.create_task_group() as tasks:
        try:
            yield Calls(host, store, await host.create("s"), tasks)
        finally:  # a test that fails must not leave a host that cannot be closed
            for _ in range(100):
                store.gate.release()


@pytest.mark.feature("X-2")
async def test_waiting_commands_are_written_in_their_order_as_many_at_once_as_the_bounds_allow() -> None:
    async with held_calls(mailbox_max=3, batch_max=2) as calls:
        await calls.send(*range(7))
        assert (calls.waiting(), calls.store.sizes) == (3, [1])
        assert await calls.let_through() == [0]
        assert (calls.waiting(), calls.store.sizes) == (3, [1, 2])
        assert [await calls.let_through() for _ in range(3)] == [[1, 2], [3, 4], [5, 6]]
        assert (calls.waiting(), calls.store.sizes) == (0, [1, 2, 2, 2])
        assert await calls.written() == [*range(7)]


@pytest.mark.parametrize("waiting", range(4))
async def test_a_flush_waits_for_what_was_accepted_before_it_and_for_nothing_else(waiting: int) -> None:
    async with held_calls(batch_max=1) as calls:
        await calls.send(*range(1 + waiting))
        await calls.start("flush", calls.session.flush)
        await calls.start("flush all", calls.host.flush)
        await calls.send(8, 9)
        assert await calls.let_through(waiting) == [*range(waiting)]
        assert await calls.let_through() == [waiting, "flush", "flush all"]
        assert await calls.let_through(2) == [8, 9]
        await calls.start("flush", calls.session.flush)  # nothing is left to wait for
        assert calls.ended == [9, "flush"]


@pytest.mark.parametrize("before", range(3))
async def test_a_session_is_idle_as_soon_as_its_last_command_has_its_reply(before: int) -> None:
    async with held_calls() as calls:
        if before:  # the session has had a queue
            await calls.send(-1, -2)
            await calls.let_through(2)

        async def append_and_leave() -> None:
            await calls.session.append_custom_entry("note", 0)
            assert await calls.session.passivate()

        if before == 2:
            await calls.send(1)
        await calls.start("left", append_and_leave)
        assert not await calls.session.passivate()
        assert await calls.host.passivate_idle() == 0
        assert await calls.let_through(before or 1) in (["left"], [1, "left"])
        assert calls.host.statistics().live == 0
        await calls.send(2)
        assert await calls.let_through() == [2]


CALLS: dict[str, Callable[[Session], Awaitable[object]]] = {
    "message": lambda session: session.append_message("user", "no"),
    "payload": lambda session: session.append_custom_entry("no"),
    "batch": lambda session: session.append_many([message("user", "no"), message("user", "no")]),
    "reset": lambda session: session.reset_leaf(),
}


@pytest.mark.feature("X-11")
@pytest.mark.parametrize("call", CALLS.values(), ids=[*CALLS])
@pytest.mark.parametrize(
    ("sent", "at_once"), [(0, False), *((sent, at_once) for sent in (1, 2, 4) for at_once in (False, True))]
)
async def test_a_command_that_waits_is_not_accepted_if_its_caller_is_cancelled_already(
    call: Callable[[Session], Awaitable[object]], sent: int, at_once: bool
) -> None:
    async with held_calls(mailbox_max=3, inline_for_s=60 if at_once else 0) as calls:
        await calls.send(-1)
        await calls.let_through()
        await calls.send(*range(sent))
        calls.store.at_once = at_once
        with anyio.CancelScope() as scope:
            scope.cancel()
            await call(calls.session)
        assert scope.cancelled_caught
        await calls.let_through(2)
        assert await calls.written() == [-1, *range(sent)]
        assert calls.session.leaf_id == calls.session.path()[-1]


@pytest.mark.feature("X-11")
@pytest.mark.parametrize("of_turn", [False, True])
async def test_an_append_that_need_not_wait_is_carried_out_whole_and_the_next_turn_notices_the_cancellation(
    of_turn: bool,
) -> None:
    async with held_calls(inline_for_s=0 if of_turn else 60) as calls:
        calls.store.at_once = True
        await calls.send(-1)
        await calls.let_through()
        ids: list[str] = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            ids += [await calls.session.append_custom_entry("note", i) for i in range(3)]
            await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        assert len(ids) == (0 if of_turn else 3)
        assert await calls.written() == [-1, *range(len(ids))]
        assert calls.session.leaf_id == calls.session.path()[-1]


@pytest.mark.parametrize("waiting", range(4))
async def test_what_a_cancelled_append_has_written_shows_without_another_command(waiting: int) -> None:
    async with held_calls({"dialect": "pi"}, mailbox_max=2, batch_max=1) as calls:
        await calls.send(0)
        await calls.let_through()
        calls.store.lands_first = True
        cancelled = await calls.start("cancelled", partial(calls.session.append_custom_entry, "note", 1))
        async with calls.session.subscribe() as entries:
            await calls.send(*range(2, 2 + waiting))
            cancelled.cancel()
            await settle()
            calls.store.lands_first = False
            assert [(await anext(entries)).seq for _ in range(2)] == [1, 2]  # type: ignore[union-attr]
        assert await calls.let_through(waiting) == [*range(2, 2 + waiting)]
        assert await calls.written() == [*range(2 + waiting)]
        assert await calls.session.passivate()


async def test_a_session_that_is_being_read_anew_is_not_released_and_its_deletion_waits() -> None:
    async with held_calls({"dialect": "pi"}) as calls:
        await calls.send(0)
        await calls.let_through()
        calls.store.holds_reads = True
        await calls.start("refresh", calls.session.refresh)
        assert not await calls.session.passivate()
        assert await calls.host.passivate_idle() == 0
        await calls.start("delete", partial(calls.host.delete, calls.session))
        assert calls.ended == [0]
        assert await calls.let_through() == ["delete", "refresh"]


async def test_a_deletion_goes_on_when_the_last_sender_has_left() -> None:
    async with held_calls(mailbox_max=1, batch_max=1) as calls:
        await calls.send(0, 1)
        sender = await calls.start("left", partial(calls.session.append_custom_entry, "note", 2))
        await calls.start("delete", partial(calls.host.delete, calls.session))
        sender.cancel()
        await settle()
        assert await calls.let_through(2) == [0, 1, "delete"]


# -- a log that cannot be looked at


class UnreadableStore(MemoryStore):
    """Another owner has the log, and looking at it fails."""

    error: OSError | None = None

    def try_append(self, append: Append) -> Outcome:
        return super().try_append(append) if self.error is None else Fenced(append.expected_head, 0)

    async def resolve(self, lease: Lease) -> Cursor:
        if self.error is not None:
            raise self.error
        return await super().resolve(lease)


ERRORS: list[tuple[OSError, str]] = [
    (OSError(errno.EIO, "broken"), "(broken): fix that"),
    (OSError(errno.EIO, "broken", "/root/s.jsonl"), "(broken): fix that"),
    (OSError(errno.EIO, "broken", "/root"), "(broken: /root): check the disk"),
    (OSError(errno.EACCES, "refused", "/root/s.jsonl"), "(refused): see to the permissions there"),
    (OSError(errno.EACCES, "refused", "/root"), "(refused: /root): see to the permissions there"),
    (OSError(errno.ENOSPC, "full", "/root/s.jsonl"), "(full): free some space"),
    (
        OSError(errno.ENOTDIR, "a file", "/root"),
        "(a file: /root): make that a directory, or give the host another root",
    ),
    (OSError("no number"), "(no number): fix that"),
]


@pytest.mark.parametrize(("error", "reason"), ERRORS, ids=[reason for _, reason in ERRORS])
@pytest.mark.parametrize(
    ("options", "kind", "then"),
    [({}, AppendFailed, "append again"), ({"command_id": "c"}, AppendInDoubt, "retry with the same command id")],
)
async def test_an_append_to_a_log_that_cannot_be_looked_at_says_why_and_what_to_do(
    error: OSError, reason: str, options: AppendOptions, kind: type[AppendError], then: str
) -> None:
    store = UnreadableStore()
    async with SessionHost(store=store) as host:
        session = await host.create("s")
        first = await session.append_message("user", "one")
        store.error = error
        with pytest.raises(AppendError) as caught:
            await session.append(message("user", "two"), **options)
        assert type(caught.value) is kind
        assert str(caught.value) == f"s.jsonl cannot be opened or read {reason}, then {then}"
        assert caught.value.__cause__ is error
        with pytest.raises(AppendFailed, match="cannot be opened or read"):
            await session.branch(first)
        store.error = None
        assert session.path(await session.append_message("user", "three")) == [first, session.leaf_id]
