"""Tests for ownership: one owner at a time, refusals, and lost leases."""

from __future__ import annotations

import pytest

from ...events.errors import SessionLocked, SessionNotFound
from ...events.stores.base import Cursor, Lease, Store
from .case import StoreCase, bare, line, lines, read_all


class Ownership(StoreCase):
    """The promises of `acquire`, `renew`, `release` and `aclose`."""

    async def test_a_log_that_is_not_there_can_be_acquired(self, store: Store) -> None:
        [lease] = await store.acquire([self.ref("a")], "host-1")
        assert isinstance(lease, Lease)
        assert (lease.ref, lease.owner, lease.head) == (self.ref("a"), "host-1", Cursor("", 0))
        assert lease.header is None
        assert lease.dialect is None

    async def test_acquiring_alone_makes_no_log(self, store: Store) -> None:
        await self.writer(store, "a")
        assert await store.page() == []
        with pytest.raises(SessionNotFound):
            await store.open(self.ref("a"))

    async def test_a_lease_tells_what_is_there(self, store: Store) -> None:
        first = await self.writer(store, "a")
        await first.append(*lines(1, 3))
        await store.release([first.lease])
        second = await self.writer(store, "a")
        assert second.head == first.head
        assert second.lease.header is not None
        assert second.lease.header.id == f"id-of-{self.ref('a')}"
        assert second.lease.dialect is not None
        assert second.lease.dialect.name == "native"

    async def test_each_ref_has_its_answer_in_order(self, store: Store) -> None:
        held = await self.writer(store, "held", "host-2")
        free = await self.writer(store, "free")
        await free.append(line(1))
        await store.release([free.lease])
        answers = await store.acquire([self.ref(name) for name in ("new", "held", "free")], "host-1")
        assert [type(answer) for answer in answers] == [Lease, SessionLocked, Lease]
        assert [answer.ref for answer in answers if isinstance(answer, Lease)] == [self.ref("new"), self.ref("free")]
        await held.append(line(1))

    async def test_no_refs_no_answers(self, store: Store) -> None:
        assert await store.acquire([], "host-1") == []
        assert await store.renew([]) == []
        assert await store.append([]) == []
        await store.release([])

    async def test_a_second_owner_is_refused_until_the_first_lets_go(self, store: Store) -> None:
        first = await self.writer(store, "a")
        await first.append(line(1))
        [refused] = await store.acquire([self.ref("a")], "host-2")
        assert isinstance(refused, SessionLocked)
        await first.append(line(2))
        await store.release([first.lease])
        second = await self.writer(store, "a", "host-2")
        await second.append(line(3))
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))

    async def test_the_epoch_grows_when_a_log_changes_hands(self, store: Store) -> None:
        epochs: list[int] = []
        for owner in ("host-1", "host-2", "host-1"):
            writer = await self.writer(store, "a", owner)
            await writer.append(line(writer.head.seq + 1))
            epochs.append(writer.lease.epoch)
            await store.release([writer.lease])
        assert epochs == sorted(set(epochs))

    async def test_a_lease_that_is_held_can_be_renewed(self, store: Store) -> None:
        writers = [await self.writer(store, name) for name in ("a", "b")]
        assert await store.renew([writer.lease for writer in writers]) == [True, True]

    async def test_giving_back_a_lost_lease_takes_it_from_nobody(self, store: Store) -> None:
        first = await self.writer(store, "a")
        await first.append(line(1))
        await store.release([first.lease])
        second = await self.writer(store, "a", "host-2")
        await store.release([first.lease])
        [refused] = await store.acquire([self.ref("a")], "host-3")
        assert isinstance(refused, SessionLocked)
        await second.append(line(2))

    async def test_another_host_is_refused_until_the_first_lets_go(self, store: Store, elsewhere: Store) -> None:
        first = await self.writer(store, "a")
        [refused] = await elsewhere.acquire([self.ref("a")], "host-2")
        assert isinstance(refused, SessionLocked)
        await first.append(line(1))
        [refused] = await elsewhere.acquire([self.ref("a")], "host-2")
        assert isinstance(refused, SessionLocked)
        await store.release([first.lease])
        second = await self.writer(elsewhere, "a", "host-2")
        assert second.head == first.head
        assert second.lease.epoch > first.lease.epoch

    async def test_a_log_can_go_to_and_fro_between_hosts(self, store: Store, elsewhere: Store) -> None:
        epochs: list[int] = []
        for turn in range(6):
            host = (store, elsewhere)[turn % 2]
            writer = await self.writer(host, "a", f"host-{turn % 2}")
            assert writer.head.seq == 2 * turn
            await writer.append(*lines(2 * turn + 1, 2 * turn + 2))
            epochs.append(writer.lease.epoch)
            await host.release([writer.lease])
        assert epochs == sorted(set(epochs))
        assert await read_all(store, self.ref("a")) == bare(lines(1, 12))

    async def test_a_store_that_is_closed_holds_nothing(self, store: Store, elsewhere: Store) -> None:
        first = await self.writer(store, "a")
        await first.append(line(1))
        await store.aclose()
        second = await self.writer(elsewhere, "a", "host-2")
        await second.append(line(2))

    async def test_what_was_committed_outlives_the_store(self, store: Store) -> None:
        first = await self.writer(store, "a")
        await first.append(*lines(1, 3))
        again = await self.reopen(store)
        if again is None:
            pytest.skip("the store's data do not outlive it")
        try:
            second = await self.writer(again, "a")
            assert second.head == first.head
            await second.append(line(4))
            assert await read_all(again, self.ref("a")) == bare(lines(1, 4))
        finally:
            await again.aclose()
