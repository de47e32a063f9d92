"""Tests for writing lines: seqs, heads, and fencing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ...events.errors import InvalidInput
from ...events.stores.base import Committed, Cursor, Fenced, Store
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
