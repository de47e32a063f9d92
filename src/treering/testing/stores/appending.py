"""Tests for writing lines: seqs, heads, and fencing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from anyio import CancelScope, Event, create_task_group
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from ...events.errors import InvalidInput
from ...events.stores.base import Append, Committed, Cursor, Fenced, Outcome, Store
from .case import MALFORMED_HEADERS, StoreCase, Writer, bare, line, lines, read_all


class Appending(StoreCase):
    """The promises of `append`, `try_append` and `resolve`."""

    async def assert_fenced(self, writer: Writer, outcome: object, head: Cursor, epoch: int) -> None:
        """Assert that an append was fenced with the current head, and that the log is unchanged."""
        assert outcome == Fenced(head, epoch)
        assert (await writer.store.open(writer.lease.ref)).head == head

    async def test_the_first_append_makes_the_log(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 3))
        opening = await store.open(self.ref("a"))
        assert head.seq == 3
        assert opening.head == head
        assert opening.header.id == f"id-of-{self.ref('a')}"
        assert opening.dialect.name == "native"
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))

    async def test_a_malformed_header_is_refused_and_makes_no_log(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        for block in MALFORMED_HEADERS:
            request = replace(writer.request(line(1)), header=block)
            with pytest.raises(InvalidInput):
                await store.append([request])
            assert not await store.exists(self.ref("a")), block
        await writer.append(line(1))
        assert await read_all(store, self.ref("a")) == bare([line(1)])

    async def test_seqs_continue_across_appends(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        heads = [await writer.append(*lines(first, last)) for first, last in ((1, 1), (2, 4), (5, 5), (6, 10))]
        assert [head.seq for head in heads] == [1, 4, 5, 10]
        assert len({head.generation for head in heads}) == 1
        assert await read_all(store, self.ref("a")) == bare(lines(1, 10))

    async def test_one_call_serves_many_logs(self, store: Store) -> None:
        writers = [await self.writer(store, f"log-{number}") for number in range(5)]
        for first in (1, 4):
            requests = [writer.request(*lines(first, first + 2)) for writer in writers]
            for writer, outcome in zip(writers, await store.append(requests), strict=True):
                writer.commit(outcome, 3)
        for writer in writers:
            assert await read_all(store, writer.lease.ref) == bare(lines(1, 6))

    async def test_an_outdated_head_is_fenced_and_writes_nothing(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 3))
        wrong = [replace(head, seq=seq) for seq in (0, 2, 4)] + [replace(head, generation=f"{head.generation}-")]
        for expected in wrong:
            [outcome] = await store.append([writer.request(line(9), head=expected)])
            await self.assert_fenced(writer, outcome, head, writer.lease.epoch)
        await writer.append(line(4))
        assert await read_all(store, self.ref("a")) == bare(lines(1, 4))

    async def test_a_lost_lease_is_fenced_before_its_heir_writes(self, store: Store) -> None:
        first = await self.writer(store, "a")
        head = await first.append(line(1))
        await store.release([first.lease])
        second = await self.writer(store, "a", "host-2")
        [outcome] = await store.append([first.request(line(9))])
        await self.assert_fenced(first, outcome, head, second.lease.epoch)
        head = await second.append(line(2))
        [outcome] = await store.append([first.request(line(9), head=head)])
        await self.assert_fenced(first, outcome, head, second.lease.epoch)
        await second.append(line(3))
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))

    async def test_a_lease_lost_to_another_host_is_fenced(self, store: Store, elsewhere: Store) -> None:
        first = await self.writer(store, "a")
        await first.append(line(1))
        await store.release([first.lease])
        second = await self.writer(elsewhere, "a", "host-2")
        head = await second.append(line(2))
        for expected in (first.head, head):
            [outcome] = await store.append([first.request(line(9), head=expected)])
            assert isinstance(outcome, Fenced)
        await second.append(line(3))
        assert await read_all(elsewhere, self.ref("a")) == bare(lines(1, 3))

    async def test_an_older_epoch_is_fenced(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        head = await writer.append(line(1))
        stale = replace(writer.request(line(9)), lease=replace(writer.lease, epoch=writer.lease.epoch - 1))
        [outcome] = await store.append([stale])
        await self.assert_fenced(writer, outcome, head, writer.lease.epoch)

    async def test_a_log_that_fails_does_not_fail_its_neighbours(self, store: Store) -> None:
        writers = [await self.writer(store, name) for name in ("a", "b", "c")]
        for writer in writers:
            await writer.append(*lines(1, 2))
        requests = [writer.request(line(3)) for writer in writers]
        requests[1] = replace(requests[1], expected_head=replace(writers[1].head, seq=1))
        outcomes = await store.append(requests)
        assert [type(outcome) for outcome in outcomes] == [Committed, Fenced, Committed]
        lengths = [len(await read_all(store, writer.lease.ref)) for writer in writers]
        assert lengths == [3, 2, 3]

    async def test_an_atomic_append_lands_whole_or_not_at_all(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        await writer.append(*lines(1, 10), atomic=True)
        head = await writer.append(*lines(11, 20), atomic=True)
        [outcome] = await store.append([writer.request(*lines(21, 30), head=replace(head, seq=19), atomic=True)])
        await self.assert_fenced(writer, outcome, head, writer.lease.epoch)
        assert await read_all(store, self.ref("a")) == bare(lines(1, 20))

    async def test_trying_is_appending_or_nothing(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        for number in range(1, 4):
            request = writer.request(line(number))
            outcome = store.try_append(request)
            if outcome is None:
                [outcome] = await store.append([request])
            writer.commit(outcome, 1)
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))

    async def test_trying_is_fenced_like_appending(self, store: Store) -> None:
        first = await self.writer(store, "a")
        head = await first.append(*lines(1, 2))
        outcome = store.try_append(first.request(line(9), head=replace(head, seq=1)))
        if outcome is not None:
            await self.assert_fenced(first, outcome, head, first.lease.epoch)
        await store.release([first.lease])
        second = await self.writer(store, "a", "host-2")
        outcome = store.try_append(first.request(line(9)))
        if outcome is not None:
            await self.assert_fenced(second, outcome, head, second.lease.epoch)
        assert await read_all(store, self.ref("a")) == bare(lines(1, 2))

    async def test_resolving_tells_the_head(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 2))
        assert await store.resolve(writer.lease) == head
        await store.append([writer.request(line(9), head=replace(head, seq=1))])
        assert await store.resolve(writer.lease) == head
        await writer.append(line(3))
        assert await store.resolve(writer.lease) == writer.head


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
