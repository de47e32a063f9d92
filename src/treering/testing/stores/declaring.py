"""Tests that a store does what it declares; each is skipped for stores without the capability."""

from __future__ import annotations

import anyio
import pytest

from ...events.errors import SessionNotFound
from ...events.stores.base import Store
from ...events.stores.capabilities import AppendsAtOnce, LooksAtOnce, Recovers, ScansChanges
from .case import StoreCase, line, lines, read_all


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
