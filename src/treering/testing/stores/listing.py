"""Tests for listing logs: by prefix, in order, page by page."""

from __future__ import annotations

from itertools import takewhile

from ...events.stores.base import Ref, Store
from .case import StoreCase, line, lines

NAMES = ["a", "a-b", "a.b", "a_b", "aa", "ab", "b", "b-1", "b-10", "b-2", "c"]


class Listing(StoreCase):
    """The promises of `exists` and `page`."""

    async def fill(self, store: Store) -> list[Ref]:
        """Create a log for each name in reverse order; return the refs in listing order."""
        for name in reversed(NAMES):
            await (await self.writer(store, name)).append(line(1))
        return sorted(map(self.ref, NAMES))

    def prefix(self, start: str) -> str:
        """Return the common prefix of the refs of all names that begin with `start`."""
        pairs = zip(self.ref(f"{start}x"), self.ref(f"{start}y"), strict=True)
        return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    async def test_a_log_is_there_from_its_first_append_to_its_removal(self, store: Store) -> None:
        ref = self.ref("a")
        assert not await store.exists(ref)
        writer = await self.writer(store, "a")
        assert not await store.exists(ref)
        await writer.append(line(1))
        assert await store.exists(ref)
        assert not await store.exists(self.ref("b"))
        await store.remove(writer.lease)
        assert not await store.exists(ref)

    async def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        assert await store.page() == []

    async def test_logs_come_in_the_order_of_their_names(self, store: Store) -> None:
        refs = await self.fill(store)
        assert [info.ref for info in await store.page()] == refs

    async def test_a_prefix_chooses(self, store: Store) -> None:
        refs = await self.fill(store)
        for prefix in map(self.prefix, ("", "a", "a-", "b-1", "c")):
            assert [info.ref for info in await store.page(prefix)] == [ref for ref in refs if ref.startswith(prefix)]
        assert await store.page(self.prefix("nothing")) == []

    async def test_pages_follow_each_other(self, store: Store) -> None:
        refs = await self.fill(store)
        for limit in (1, 2, 3, len(refs), 100):
            listed: list[Ref] = []
            while page := await store.page(after=listed[-1] if listed else "", limit=limit):
                assert len(page) <= limit
                listed += [info.ref for info in page]
            assert listed == refs

    async def test_after_a_name_that_is_gone_the_listing_goes_on(self, store: Store) -> None:
        refs = await self.fill(store)
        between = self.ref("a-zzz")
        assert [info.ref for info in await store.page(after=between)] == [ref for ref in refs if ref > between]

    async def test_a_page_is_cut_out_by_prefix_name_and_limit(self, store: Store) -> None:
        refs = await self.fill(store)
        prefix, after = self.prefix("b"), self.ref("b-1")
        chosen = [ref for ref in refs if ref.startswith(prefix) and ref > after][:2]
        assert [info.ref for info in await store.page(prefix, after, 2)] == chosen

    async def test_a_row_tells_size_and_time(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        await writer.append(line(1))
        [before] = await store.page()
        await writer.append(*lines(2, 50))
        [after] = await store.page()
        assert 0 < before.size < after.size
        assert before.modified.tzinfo is not None
        assert before.modified <= after.modified
