"""Tests that a store does what it declares; each group is skipped for stores without the capability.

The groups of a listing and a search are in `catalog`, those of changes in `watching`.
"""

from __future__ import annotations

import anyio
import pytest
from anyio import to_thread

from ...events.errors import Conflict, SessionLocked, SessionNotFound
from ...events.stores.base import Committed, Cursor, Lease, Store
from ...events.stores.capabilities import (
    AppendsAtOnce,
    Health,
    KeepsRows,
    Leases,
    LooksAtOnce,
    NamesFiles,
    NamesPlaces,
    Packs,
    Recovers,
    RemovesDamaged,
    ScansChanges,
    TriesWriting,
    Watches,
)
from ...events.stores.finding import FindsRows
from ...events.stores.hosts import Hosts, Inbox
from ...events.stores.search import FindsTexts, KeepsSearch
from .case import StoreCase, Writer, bare, line, lines, read_all

ALL: tuple[type, ...] = (
    Hosts,
    Inbox,
    AppendsAtOnce,
    FindsRows,
    FindsTexts,
    Health,
    KeepsRows,
    KeepsSearch,
    Leases,
    LooksAtOnce,
    NamesFiles,
    NamesPlaces,
    Packs,
    Recovers,
    RemovesDamaged,
    ScansChanges,
    TriesWriting,
    Watches,
)
"""All capabilities that a host asks for."""


class Declaring(StoreCase):
    """What every declaration has to keep."""

    async def test_what_is_declared_has_the_methods_of_its_protocol(self, store: Store) -> None:
        for kind in ALL:
            capable: object = store.capability(kind)
            assert capable is None or isinstance(capable, kind)

    async def test_what_nobody_knows_is_not_declared(self, store: Store) -> None:
        assert store.capability(StoreCase) is None


class AppendingAtOnce(StoreCase):
    """The promises of `AppendsAtOnce`."""

    async def test_a_store_that_appends_at_once_does_so_in_time(self, store: Store) -> None:
        at_once = self.capable(store, AppendsAtOnce)
        writer = await self.writer(store, "a")
        await writer.append(line(1))
        with anyio.fail_after(self.patience_s):  # it may refuse for a while, when its disk is slow
            while (outcome := at_once.try_append(writer.request(line(2)))) is None:
                await writer.append(line(3))
        writer.commit(outcome, 1)
        assert (await read_all(store, self.ref("a")))[-1] == line(2)[:-1]


class LookingAtOnce(StoreCase):
    """The promises of `LooksAtOnce`."""

    async def test_a_look_at_once_shows_what_a_read_does(self, store: Store) -> None:
        looks = self.capable(store, LooksAtOnce)
        head = await (await self.writer(store, "a")).append(*lines(1, 5))
        opening = await store.open(self.ref("a"))
        for peek in (looks.peek(self.ref("a")), await to_thread.run_sync(looks.peek, self.ref("a"))):
            assert (peek.opening.header, peek.opening.dialect.name) == (opening.header, opening.dialect.name)
            assert peek.opening.head == opening.head == head
            assert [bytes(each) for each in peek.read(2).lines] == bare(lines(3, 5))
        with pytest.raises(SessionNotFound):
            looks.peek(self.ref("b"))

    async def test_what_was_saved_beside_a_log_is_seen(self, store: Store) -> None:
        looks = self.capable(store, LooksAtOnce)
        writer = await self.writer(store, "a")
        head = await writer.append(line(1))
        assert looks.peek(self.ref("a")).load("leaf") is None
        await store.save(writer.lease, "leaf", head, b"where")
        blob = looks.peek(self.ref("a")).load("leaf")
        assert blob is not None
        assert (blob.head, blob.data) == (head, b"where")

    async def test_a_log_that_is_read_whole_has_all_lines(self, store: Store) -> None:
        looks = self.capable(store, LooksAtOnce)
        await (await self.writer(store, "a")).append(*lines(1, 5))
        whole = await to_thread.run_sync(looks.whole, self.ref("a"))
        if whole is not None:
            assert (whole.header.id, whole.dialect.name) == (f"id-of-{self.ref('a')}", "native")
            assert whole.lines == b"".join(lines(1, 5))


class NamingPlaces(StoreCase):
    """The promises of `NamesPlaces` and `NamesFiles`."""

    async def test_each_line_has_a_place_of_its_own(self, store: Store) -> None:
        named = self.capable(store, NamesPlaces)
        await (await self.writer(store, "a")).append(*lines(1, 3))
        places = named.places(self.ref("a"), [1, 3])
        assert places.keys() == {1, 3}
        assert str(places[1]) != str(places[3])

    async def test_the_path_of_a_log_leads_back_to_it(self, store: Store) -> None:
        files = self.capable(store, NamesFiles)
        files.check_root()
        await (await self.writer(store, "a")).append(line(1))
        path = files.path_of(self.ref("a"))
        assert files.ref_of(path) == self.ref("a")
        assert not files.is_outside(self.ref("a"))
        assert files.is_outside(files.ref_of(f"{files.root}-other/a.jsonl"))
        assert files.what_is_there(self.ref("b")) is None


class TryingToWrite(StoreCase):
    """The promises of `TriesWriting`."""

    async def test_trying_to_write_leaves_nothing(self, store: Store) -> None:
        trying = self.capable(store, TriesWriting)
        await to_thread.run_sync(trying.try_writing)
        await (await self.writer(store, "a")).append(*lines(1, 3))
        await to_thread.run_sync(trying.try_writing)
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))
        health = store.capability(Health)
        if health is not None:
            assert [each for each in await to_thread.run_sync(health.examine) if each.severity != "note"] == []


class Examining(StoreCase):
    """The promises of `Health`."""

    async def test_nothing_is_wrong_with_a_sound_store(self, store: Store) -> None:
        health = self.capable(store, Health)
        assert await to_thread.run_sync(health.examine) == []
        for name in "ab":
            writer = await self.writer(store, name)
            await writer.append(*lines(1, 3))
            await store.save(writer.lease, "leaf", writer.head, b'{"leaf":"entry-2"}')
            await store.release([writer.lease])
        for _ in range(2):
            assert [each for each in await to_thread.run_sync(health.examine) if each.severity != "note"] == []
            assert await to_thread.run_sync(health.repair) == []
            assert await read_all(store, self.ref("a")) == bare(lines(1, 3))


class Leasing(StoreCase):
    """The promises of `Leases`."""

    async def test_a_log_has_a_holder_as_long_as_it_is_leased(self, store: Store) -> None:
        leases = self.capable(store, Leases)
        writer = await self.writer(store, "a")
        await writer.append(line(1))
        assert await to_thread.run_sync(leases.holder, self.ref("a"))
        assert await to_thread.run_sync(leases.holder, self.ref("b")) is None
        assert await leases.confirm(writer.lease)
        await store.release([writer.lease])
        assert await to_thread.run_sync(leases.holder, self.ref("a")) is None


class Recovering(StoreCase):
    """The promises of `Recovers`."""

    async def test_recovering_changes_nothing_if_nobody_died(self, store: Store) -> None:
        recovers = self.capable(store, Recovers)
        head = await (await self.writer(store, "a")).append(*lines(1, 3))
        await recovers.recover()
        assert (await store.open(self.ref("a"))).head == head


class RemovingDamaged(StoreCase):
    """The promises of `RemovesDamaged`."""

    async def test_a_log_that_can_be_acquired_is_not_taken_for_a_damaged_one(self, store: Store) -> None:
        removes = self.capable(store, RemovesDamaged)
        await removes.remove_damaged(self.ref("a"))
        writer = await self.writer(store, "a")
        await writer.append(*lines(1, 3))
        with pytest.raises(SessionLocked):
            await removes.remove_damaged(self.ref("a"))
        await store.release([writer.lease])
        with pytest.raises(Conflict):
            await removes.remove_damaged(self.ref("a"))
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))


class Packing(StoreCase):
    """The promises of `Packs`."""

    def packing(self, store: Store) -> Packs:
        """Return what packs logs, or skip the test for a store that has no place for packed ones."""
        packs = self.capable(store, Packs)
        if not packs.can_pack:
            pytest.skip("the store was given no place for packed logs")
        return packs

    async def make_packed_log(self, store: Store) -> Packs:
        """Create a log of five lines and pack it."""
        packs = self.packing(store)
        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 5))
        await packs.pack(writer.lease)
        assert (await store.open(self.ref("a"))).head == head
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
        packed = await self.acquire_log(store)
        lease = await archiving.unpack(packed)
        assert not lease.packed
        assert lease.head == packed.head
        writer = Writer(store, lease)
        await writer.append(line(6))
        assert await read_all(store, self.ref("a")) == bare(lines(1, 6))
        assert await archiving.unpack(lease) == Lease(
            lease.ref, lease.owner, lease.epoch, writer.head, lease.header, lease.dialect
        )

    async def test_where_the_leaf_was_moved_to_is_kept(self, store: Store) -> None:
        packs = self.packing(store)
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
        assert writer.head == Cursor("", 0)
        await writer.append(line(1))
        assert await read_all(store, self.ref("a")) == bare([line(1)])
