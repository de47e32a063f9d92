"""Tests for reading lines: pages, single bodies, cursors of another generation."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ...events.errors import LogReplaced, SessionNotFound
from ...events.stores.base import Store
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
