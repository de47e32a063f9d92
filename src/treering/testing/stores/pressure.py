"""Tests with many concurrent and cancelled callers: nothing is lost, duplicated or torn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from anyio import CancelScope, Event, create_task_group
from anyio.lowlevel import checkpoint

from ...events.stores.base import Append, Committed, Fenced, Outcome, Store
from .case import StoreCase, Writer, bare, line, lines, read_all

LOGS = 50
APPENDS = 20
"""Appends to each log: a thousand in total."""


class Pressure(StoreCase):
    """The promises of `append` under concurrency and cancellation."""

    async def test_a_thousand_appends_at_once_to_fifty_logs(self, store: Store) -> None:
        writers = [await self.writer(store, f"log-{number:02}") for number in range(LOGS)]

        async def write(writer: Writer) -> None:
            for number in range(1, APPENDS + 1):
                await writer.append(line(number, writer.lease.ref))

        async with create_task_group() as tasks:
            for writer in writers:
                tasks.start_soon(write, writer)
        for writer in writers:
            assert await read_all(store, writer.lease.ref) == bare(lines(1, APPENDS, writer.lease.ref))

    async def test_of_those_who_know_the_same_head_one_wins(self, store: Store) -> None:
        writers = [await self.writer(store, f"log-{number:02}") for number in range(LOGS)]
        for writer in writers:
            await writer.append(line(1))
        outcomes: dict[str, list[tuple[Append, Outcome]]] = {writer.lease.ref: [] for writer in writers}

        async def race(request: Append) -> None:
            [outcome] = await store.append([request])
            outcomes[request.lease.ref].append((request, outcome))

        async with create_task_group() as tasks:
            for number in range(APPENDS):
                for writer in writers:
                    tasks.start_soon(race, writer.request(line(2, f"from {number}")))
        for ref, answers in outcomes.items():
            won = [request for request, outcome in answers if isinstance(outcome, Committed)]
            lost = [request for request, outcome in answers if isinstance(outcome, Fenced)]
            assert (len(won), len(lost)) == (1, APPENDS - 1)
            assert await read_all(store, ref) == bare([line(1), *won[0].lines])

    async def test_readers_beside_a_writer_see_whole_lines_in_order(self, store: Store) -> None:
        written = lines(1, 200, "x" * 300)
        writer = await self.writer(store, "a")
        await writer.append(written[0])
        done = Event()

        async def follow() -> None:
            while not done.is_set():
                bodies = await read_to_end(store, writer)
                assert bodies == bare(written[: len(bodies)])
                await checkpoint()

        async with create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(follow)
            for each in written[1:]:
                await writer.append(each)
                await checkpoint()
            done.set()
        assert await read_all(store, self.ref("a")) == bare(written)

    @pytest.mark.parametrize("logs", [1, 8])
    async def test_an_append_whose_caller_leaves_is_carried_out_whole(self, store: Store, logs: int) -> None:
        writers = [await self.writer(store, f"log-{number}") for number in range(logs)]
        for writer in writers:
            await writer.append(line(1))
        await self.leave(store, [writer.request(*lines(2, 100, "x" * 1000), atomic=True) for writer in writers])
        for writer in writers:
            writer.head = await store.resolve(writer.lease)
            assert writer.head.seq == 100
            await writer.append(line(101))
            assert await read_all(store, writer.lease.ref) == bare([line(1), *lines(2, 100, "x" * 1000), line(101)])

    async def leave(self, store: Store, requests: Sequence[Append]) -> None:
        """Append each request in its own task, and cancel all of them while they wait for the outcome."""
        scope = CancelScope()
        calling = [Event() for _ in requests]

        async def call(request: Append, called: Event) -> None:
            called.set()
            await store.append([request])

        with scope:
            async with create_task_group() as tasks:
                for request, called in zip(requests, calling, strict=True):
                    tasks.start_soon(call, request, called)
                tasks.start_soon(cancel_after, scope, calling)

    async def test_a_caller_who_had_left_before_writes_all_or_nothing(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        await writer.append(line(1))
        with CancelScope() as scope:
            scope.cancel()
            await store.append([writer.request(*lines(2, 100))])
        writer.head = await store.resolve(writer.lease)
        assert writer.head.seq in (1, 100)
        await writer.append(line(101))
        assert await read_all(store, self.ref("a")) == bare([*lines(1, writer.head.seq - 1), line(101)])


async def cancel_after(scope: CancelScope, events: Sequence[Event]) -> None:
    """Cancel a scope once all events are set."""
    for event in events:
        await event.wait()
    scope.cancel()


async def read_to_end(store: Store, writer: Writer) -> list[bytes]:
    """Read from the beginning to the current end of the log."""
    bodies: list[bytes] = []
    while True:
        page = await store.read(writer.lease.ref, writer.head.generation, len(bodies))
        bodies += page.lines
        if not page.more:
            return bodies
