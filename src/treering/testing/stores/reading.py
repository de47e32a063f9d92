"""Tests for reading lines: pages, single bodies, cursors of another generation."""

from __future__ import annotations

from itertools import takewhile

import pytest
from msgspec.structs import replace

from ...events.errors import LogReplaced, SessionNotFound
from ...events.stores.base import Ref, Store
from .case import StoreCase, bare, line, lines, read_all


class Reading(StoreCase):
    """The promises of `open`, `read` and `bodies`."""

    async def test_what_is_not_there_cannot_be_opened(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.open(self.ref("a"))

    async def test_reading_needs_no_lease(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        await writer.append(*lines(1, 2))
        assert await read_all(store, self.ref("a")) == bare(lines(1, 2))
        await store.release([writer.lease])
        assert await read_all(store, self.ref("a")) == bare(lines(1, 2))
        assert await store.bodies(self.ref("a"), writer.head.generation, [2]) == bare([line(2)])

    async def test_another_host_reads_what_was_acknowledged(self, store: Store, elsewhere: Store) -> None:
        writer = await self.writer(store, "a")
        for number in range(1, 6):
            await writer.append(line(number))
            assert (await elsewhere.open(self.ref("a"))).head == writer.head
            assert await read_all(elsewhere, self.ref("a")) == bare(lines(1, number))

    async def test_pages_follow_each_other_without_a_gap(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        written = lines(1, 3000, "x" * 1500)
        for first in range(0, 3000, 500):
            await writer.append(*written[first : first + 500])
        assert await read_all(store, self.ref("a")) == bare(written)

    @pytest.mark.parametrize(("after", "through"), [(0, 4), (3, 7), (3, 4), (9, 10), (4, None), (3, 99)])
    async def test_a_part_is_read_by_its_ends(self, store: Store, after: int, through: int | None) -> None:
        writer = await self.writer(store, "a")
        await writer.append(*lines(1, 10))
        assert await read_all(store, self.ref("a"), after, through) == bare(lines(1, 10))[after:through]

    @pytest.mark.parametrize("after", [10, 11, 1000])
    async def test_after_the_end_there_is_an_empty_page(self, store: Store, after: int) -> None:
        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 10))
        page = await store.read(self.ref("a"), head.generation, after)
        assert (page.lines, page.more) == ([], False)
        assert page.last in (10, after)

    async def test_bodies_come_in_the_order_asked_for(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 10))
        for seqs in ([1], [10, 1, 5], [3, 2, 1], [4, 4, 2, 4], [], list(range(1, 11))):
            bodies = await store.bodies(self.ref("a"), head.generation, seqs)
            assert bodies == bare([line(seq) for seq in seqs])

    async def test_bodies_of_an_appended_line_are_there_at_once(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        for number in range(1, 6):
            head = await writer.append(line(number))
            assert await store.bodies(self.ref("a"), head.generation, [number, 1]) == bare([line(number), line(1)])

    async def test_a_cursor_of_another_history_is_refused(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 3))
        other = replace(head, generation=f"{head.generation}-").generation
        with pytest.raises(LogReplaced):
            await store.read(self.ref("a"), other, 0)
        with pytest.raises(LogReplaced):
            await store.bodies(self.ref("a"), other, [1])

    async def test_text_comes_back_byte_for_byte(self, store: Store) -> None:
        texts = ["", "süß 漢字 🦊 👩‍👩‍👧", "\u2028\u2029\u0085\x7f", "\\n\\u0000\t\r\n\x00", "\ufeff", "é é"]
        written = [line(number, text) for number, text in enumerate(texts, 1)]
        writer = await self.writer(store, "a")
        head = await writer.append(*written)
        assert await read_all(store, self.ref("a")) == bare(written)
        assert await store.bodies(self.ref("a"), head.generation, range(1, len(texts) + 1)) == bare(written)

    async def test_a_line_of_five_megabytes_is_a_line(self, store: Store) -> None:
        written = [line(1), line(2, "ü" * 2_500_000), line(3), line(4, "x" * 5_000_000)]
        writer = await self.writer(store, "a")
        await writer.append(*written[:2])
        head = await writer.append(*written[2:])
        assert await read_all(store, self.ref("a")) == bare(written)
        assert await store.bodies(self.ref("a"), head.generation, [4, 1, 2]) == bare(
            [written[3], written[0], written[1]]
        )


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
