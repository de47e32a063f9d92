"""Tests for the data kept beside a log: index snapshot, leaf record, projection checkpoints."""

from __future__ import annotations

from contextlib import suppress

import pytest

from ...events.errors import TreeringError
from ...events.stores.base import Blob, BlobKind, Store
from .case import StoreCase, line, lines

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
