"""Tests that a store does what it declares; each is skipped for stores without the capability."""

from __future__ import annotations

import anyio
import pytest

from ...events.errors import Conflict, SessionNotFound
from ...events.stores.base import Committed, Cursor, Lease, Store
from ...events.stores.capabilities import AppendsAtOnce, LooksAtOnce, Packs, Recovers, ScansChanges
from .case import StoreCase, Writer, bare, line, lines, read_all


class Declaring(StoreCase):
    """The promises of the capabilities that need no group of their own."""

    async def test_a_store_that_appends_at_once_does_so_in_time(self, store: Store) -> None:
        at_once = store.capability(AppendsAtOnce)
        if at_once is None:
            pytest.skip("the store does not append at once")
        writer = await self.writer(store, "a")
        await writer.append(line(1))
        with anyio.fail_after(self.patience_s):  # it may refuse for a while, when its disk is slow
            while (outcome := at_once.try_append(writer.request(line(2)))) is None:
                await writer.append(line(3))
        writer.commit(outcome, 1)
        assert (await read_all(store, self.ref("a")))[-1] == line(2)[:-1]

    async def test_a_look_at_once_shows_what_a_read_does(self, store: Store) -> None:
        looks = store.capability(LooksAtOnce)
        if looks is None:
            pytest.skip("the store cannot be read without waiting")
        head = await (await self.writer(store, "a")).append(*lines(1, 5))
        peek, opening = looks.peek(self.ref("a")), await store.open(self.ref("a"))
        assert (peek.opening.header, peek.opening.dialect.name) == (opening.header, opening.dialect.name)
        assert peek.opening.head == opening.head == head
        assert [bytes(each) for each in peek.read(2).lines] == [each[:-1] for each in lines(3, 5)]
        with pytest.raises(SessionNotFound):
            looks.peek(self.ref("b"))

    async def test_a_scan_holds_every_log_and_its_stamps_change_with_the_logs(self, store: Store) -> None:
        scanning = store.capability(ScansChanges)
        if scanning is None:
            pytest.skip("the store cannot scan for changes")
        first, second = await self.writer(store, "a"), await self.writer(store, "b")
        await first.append(line(1))
        await second.append(line(1))
        before = scanning.scan()
        assert {*before} == {info.ref for info in await store.page()}
        await first.append(line(2))
        after = scanning.scan()
        assert after[self.ref("a")] != before[self.ref("a")]
        assert after[self.ref("b")] == before[self.ref("b")]
        assert scanning.look_at(self.ref("b")) == after[self.ref("b")]
        assert scanning.look_at(self.ref("c")) is None

    async def test_recovering_changes_nothing_if_nobody_died(self, store: Store) -> None:
        recovers = store.capability(Recovers)
        if recovers is None:
            pytest.skip("nothing is left behind in this store")
        head = await (await self.writer(store, "a")).append(*lines(1, 3))
        await recovers.recover()
        assert (await store.open(self.ref("a"))).head == head


class Packing(StoreCase):
    """The promises of `pack` and `unpack`."""

    async def make_packed_log(self, store: Store) -> Packs:
        """Create a log of five lines and pack it."""
        packs = store.capability(Packs)
        if packs is None:
            pytest.skip("the store cannot pack logs")
        writer = await self.writer(store, "a")
        await writer.append(*lines(1, 5))
        await packs.pack(writer.lease)
        return packs

    async def acquire_log(self, store: Store) -> Lease:
        """Acquire the log, assert that it succeeded, and return the lease."""
        return (await self.writer(store, "a")).lease

    async def test_a_packed_log_is_listed_and_read_as_before(self, store: Store) -> None:
        await self.make_packed_log(store)
        ref = self.ref("a")
        assert await store.exists(ref)
        assert [info.ref for info in await store.page()] == [ref]
        opening = await store.open(ref)
        assert opening.head.seq == 5
        assert await read_all(store, ref) == bare(lines(1, 5))
        assert await store.bodies(ref, opening.head.generation, [4, 2]) == bare([line(4), line(2)])

    async def test_packing_ends_the_lease(self, store: Store) -> None:
        archiving = await self.make_packed_log(store)
        lease = await self.acquire_log(store)
        assert lease.packed
        await archiving.pack(lease)
        with pytest.raises(Conflict):
            await archiving.unpack(lease)

    async def test_nothing_is_appended_to_a_packed_log(self, store: Store) -> None:
        await self.make_packed_log(store)
        lease = await self.acquire_log(store)
        [outcome] = await store.append([Writer(store, lease).request(line(6))])
        assert not isinstance(outcome, Committed)
        assert await read_all(store, self.ref("a")) == bare(lines(1, 5))

    async def test_an_unpacked_log_is_appended_to_as_before(self, store: Store) -> None:
        archiving = await self.make_packed_log(store)
        lease = await archiving.unpack(await self.acquire_log(store))
        assert not lease.packed
        assert lease.head.seq == 5
        writer = Writer(store, lease)
        await writer.append(line(6))
        assert await read_all(store, self.ref("a")) == bare(lines(1, 6))
        assert await archiving.unpack(lease) == Lease(
            lease.ref, lease.owner, lease.epoch, writer.head, lease.header, lease.dialect
        )

    async def test_where_the_leaf_was_moved_to_is_kept(self, store: Store) -> None:
        packs = store.capability(Packs)
        if packs is None:
            pytest.skip("the store cannot pack logs")
        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 5))
        await store.save(writer.lease, "leaf", head, b"where")
        await packs.pack(writer.lease)
        for lease in (await self.acquire_log(store), None):
            blob = await store.load(self.ref("a"), "leaf")
            assert blob is not None
            assert (blob.head.seq, blob.data) == (5, b"where")
            if lease is not None:
                await packs.unpack(lease)

    async def test_a_packed_log_is_removed_and_replaced_like_any_other(self, store: Store) -> None:
        await self.make_packed_log(store)
        lease = await self.acquire_log(store)
        await store.remove(lease)
        assert not await store.exists(self.ref("a"))
        with pytest.raises(SessionNotFound):
            await store.open(self.ref("a"))
        writer = await self.writer(store, "a")
        assert writer.head.seq == Cursor("", 0).seq
        await writer.append(line(1))
        assert await read_all(store, self.ref("a")) == bare([line(1)])
