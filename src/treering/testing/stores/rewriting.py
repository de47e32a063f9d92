"""Tests for replacing and removing logs: atomic, and followed by a new generation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

import pytest

from ...events.errors import InvalidInput, LogReplaced, SessionNotFound, TreeringError
from ...events.stores.base import Blob, BlobKind, Cursor, Lease, Store
from .case import MALFORMED_HEADERS, NATIVE, StoreCase, bare, header_of, line, lines, read_all


class Rewriting(StoreCase):
    """The promises of `put` and `remove`."""

    async def put(self, store: Store, lease: Lease, written: Iterable[bytes]) -> Cursor:
        """Replace a log, with a header that differs from the first one."""
        return await store.put(lease, NATIVE, NATIVE.encode_header(header_of("put")), written)

    async def test_putting_replaces_the_log(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        old = await writer.append(*lines(1, 5))
        new = await self.put(store, writer.lease, lines(11, 13))
        assert new.seq == 3
        assert new.generation != old.generation
        opening = await store.open(self.ref("a"))
        assert (opening.head, opening.header.id) == (new, "put")
        assert await read_all(store, self.ref("a")) == bare(lines(11, 13))
        assert await store.bodies(self.ref("a"), new.generation, [3, 1]) == bare([line(13), line(11)])

    async def test_a_cursor_into_the_replaced_log_is_refused(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        old = await writer.append(*lines(1, 3))
        await self.put(store, writer.lease, lines(1, 3))
        with pytest.raises(LogReplaced):
            await store.read(self.ref("a"), old.generation, 0)
        with pytest.raises(LogReplaced):
            await store.bodies(self.ref("a"), old.generation, [1])

    async def test_the_lease_holds_after_putting(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        await writer.append(*lines(1, 5))
        writer.head = await self.put(store, writer.lease, lines(1, 2))
        await writer.append(line(3))
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))

    async def test_putting_can_make_a_log(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        head = await self.put(store, writer.lease, lines(1, 3))
        assert (await store.open(self.ref("a"))).head == head
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))

    async def test_lines_may_be_made_while_they_are_put(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        head = await self.put(store, writer.lease, (line(number) for number in range(1, 4)))
        assert (await store.open(self.ref("a"))).head == head
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))

    async def test_what_making_lines_raises_is_raised_and_nothing_is_put(self, store: Store) -> None:
        def failing_lines() -> Iterator[bytes]:
            yield line(11)
            raise LookupError("there is no line 12")

        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 3))
        with pytest.raises(LookupError, match="line 12"):
            await self.put(store, writer.lease, failing_lines())
        assert (await store.open(self.ref("a"))).head == head
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))
        await writer.append(line(4))

    async def test_a_malformed_header_is_refused_and_nothing_is_put(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 3))
        for block in MALFORMED_HEADERS:
            with pytest.raises(InvalidInput):
                await store.put(writer.lease, NATIVE, block, lines(11, 13))
            assert (await store.open(self.ref("a"))).head == head, block
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))

    async def test_what_was_kept_beside_the_replaced_log_does_not_pass_for_the_new_ones(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        old = await writer.append(*lines(1, 3))
        await store.save(writer.lease, "leaf", old, b"kept")
        await self.put(store, writer.lease, lines(1, 3))
        blob = await store.load(self.ref("a"), "leaf")
        assert blob is None or blob.head == old

    async def test_a_lost_lease_puts_nothing(self, store: Store) -> None:
        first = await self.writer(store, "a")
        head = await first.append(*lines(1, 3))
        await store.release([first.lease])
        await self.writer(store, "a", "host-2")
        with suppress(TreeringError):  # the protocol leaves open whether it raises
            await self.put(store, first.lease, lines(11, 12))
        assert (await store.open(self.ref("a"))).head == head
        assert await read_all(store, self.ref("a")) == bare(lines(1, 3))

    async def test_removing_leaves_nothing(self, store: Store) -> None:
        writer, neighbour = await self.writer(store, "a"), await self.writer(store, "b")
        await writer.append(line(1))
        await neighbour.append(line(1))
        await store.save(writer.lease, "index", writer.head, b"index")
        await store.save(writer.lease, "leaf", writer.head, b"leaf")
        await store.remove(writer.lease)
        with pytest.raises(SessionNotFound):
            await store.open(self.ref("a"))
        assert await store.load(self.ref("a"), "index") is None
        assert await store.load(self.ref("a"), "leaf") is None
        assert [info.ref for info in await store.page()] == [self.ref("b")]

    async def test_the_lease_ends_with_the_log(self, store: Store) -> None:
        first = await self.writer(store, "a")
        old = await first.append(*lines(1, 3))
        await store.remove(first.lease)
        second = await self.writer(store, "a", "host-2")
        assert (second.head.seq, second.lease.header) == (0, None)
        new = await second.append(*lines(11, 13))
        assert new.generation != old.generation
        with pytest.raises(LogReplaced):
            await store.read(self.ref("a"), old.generation, 0)

    async def test_removing_again_takes_nothing_from_the_heir(self, store: Store) -> None:
        first = await self.writer(store, "a")
        await first.append(line(1))
        await store.remove(first.lease)
        second = await self.writer(store, "a", "host-2")
        await second.append(line(2))
        with suppress(TreeringError):  # the protocol leaves open whether it raises
            await store.remove(first.lease)
        await second.append(line(3))
        assert await read_all(store, self.ref("a")) == bare(lines(2, 3))

    async def test_a_lost_lease_removes_nothing(self, store: Store) -> None:
        first = await self.writer(store, "a")
        await first.append(line(1))
        await store.release([first.lease])
        second = await self.writer(store, "a", "host-2")
        with suppress(TreeringError):  # the protocol leaves open whether it raises
            await store.remove(first.lease)
        await second.append(line(2))
        assert await read_all(store, self.ref("a")) == bare(lines(1, 2))


KINDS: list[BlobKind] = ["index", "leaf", "view-words"]


class Keeping(StoreCase):
    """The promises of `load` and `save`."""

    @pytest.mark.parametrize("kind", KINDS)
    async def test_at_first_nothing_is_kept(self, store: Store, kind: BlobKind) -> None:
        writer = await self.writer(store, "a")
        await writer.append(line(1))
        assert await store.load(self.ref("a"), kind) is None

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        "data", [b"", b"{}", bytes(range(256)), b"x" * 1_000_000], ids=["none", "json", "raw", "big"]
    )
    async def test_what_was_saved_is_loaded_with_its_head(self, store: Store, kind: BlobKind, data: bytes) -> None:
        writer = await self.writer(store, "a")
        head = await writer.append(*lines(1, 3))
        await store.save(writer.lease, kind, head, data)
        assert await store.load(self.ref("a"), kind) == Blob(head, data)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_saving_again_replaces(self, store: Store, kind: BlobKind) -> None:
        writer = await self.writer(store, "a")
        for number, data in enumerate([b"a long first", b"second", b"and a still longer third"], 1):
            head = await writer.append(line(number))
            await store.save(writer.lease, kind, head, data)
            assert await store.load(self.ref("a"), kind) == Blob(head, data)

    async def test_kinds_and_logs_do_not_mix(self, store: Store) -> None:
        first, second = await self.writer(store, "a"), await self.writer(store, "b")
        await first.append(line(1))
        await second.append(*lines(1, 2))
        await store.save(first.lease, "index", first.head, b"index of a")
        await store.save(first.lease, "leaf", first.head, b"leaf of a")
        await store.save(second.lease, "index", second.head, b"index of b")
        assert await store.load(self.ref("a"), "index") == Blob(first.head, b"index of a")
        assert await store.load(self.ref("a"), "leaf") == Blob(first.head, b"leaf of a")
        assert await store.load(self.ref("b"), "index") == Blob(second.head, b"index of b")
        assert await store.load(self.ref("b"), "leaf") is None

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_later_append_does_not_change_the_head_that_is_named(self, store: Store, kind: BlobKind) -> None:
        writer = await self.writer(store, "a")
        blob = Blob(await writer.append(*lines(1, 3)), b"kept")
        await store.save(writer.lease, kind, blob.head, blob.data)
        await writer.append(*lines(4, 6))
        assert await store.load(self.ref("a"), kind) in (blob, None)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_lost_lease_saves_nothing(self, store: Store, kind: BlobKind) -> None:
        first = await self.writer(store, "a")
        await first.append(line(1))
        await store.release([first.lease])
        second = await self.writer(store, "a", "host-2")
        await store.save(second.lease, kind, second.head, b"the heir's")
        with suppress(TreeringError):  # the protocol leaves open whether it raises
            await store.save(first.lease, kind, first.head, b"the ghost's")
        assert await store.load(self.ref("a"), kind) == Blob(second.head, b"the heir's")

    async def test_what_was_saved_outlives_the_store(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        await writer.append(*lines(1, 3))
        for kind in KINDS:
            await store.save(writer.lease, kind, writer.head, kind.encode())
        again = await self.reopen(store)
        if again is None:
            pytest.skip("the store's data do not outlive it")
        try:
            assert await again.load(self.ref("a"), "leaf") == Blob(writer.head, b"leaf")
            assert await again.load(self.ref("a"), "index") in (Blob(writer.head, b"index"), None)
        finally:
            await again.aclose()
