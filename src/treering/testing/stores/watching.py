"""Tests for noticing changes: a watch is woken by them, the last one included, and a scan shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from anyio import create_task_group, fail_after, to_thread

from ...events.stores.base import Ref, Store
from ...events.stores.capabilities import ScansChanges
from .case import NATIVE, StoreCase, header_of, line, lines, watching


class Watching(StoreCase):
    """The promises of `Watches`."""

    async def wait_for_change(self, changes: AsyncIterator[set[Ref]], watched: Sequence[Ref], ref: Ref) -> None:
        """Wait until the watch reports a change of a log."""
        with fail_after(self.patience_s):
            async for changed in changes:
                assert changed <= set(watched)
                if ref in changed:
                    return
        raise AssertionError("the watch ended by itself")

    async def wait_for_seq(self, store: Store, changes: AsyncIterator[set[Ref]], ref: Ref, seq: int) -> None:
        """Open a log at each reported change, until it has reached a seq."""
        with fail_after(self.patience_s):
            async for changed in changes:
                if ref in changed and (await store.open(ref)).head.seq >= seq:
                    return
        raise AssertionError("the watch ended by itself")

    async def test_a_change_after_the_call_wakes(self, store: Store) -> None:
        refs = [self.ref("a"), self.ref("b")]
        writers = [await self.writer(store, name) for name in ("a", "b")]
        for writer in writers:
            await writer.append(line(1))
        async with watching(store, refs) as changes:
            for number in (2, 3):
                for writer in writers:
                    await writer.append(line(number))
                    await self.wait_for_seq(store, changes, writer.lease.ref, number)

    async def test_a_log_can_be_watched_before_it_is_there(self, store: Store) -> None:
        ref = self.ref("a")
        async with watching(store, [ref]) as changes:
            writer = await self.writer(store, "a")
            await writer.append(line(1))
            await self.wait_for_change(changes, [ref], ref)

    async def test_changes_of_other_logs_are_not_told(self, store: Store) -> None:
        ref = self.ref("a")
        writer, other = await self.writer(store, "a"), await self.writer(store, "b")
        async with watching(store, [ref]) as changes:
            await other.append(*lines(1, 3))
            await writer.append(line(1))
            await self.wait_for_change(changes, [ref], ref)

    async def test_a_sleeper_is_woken_by_the_last_change(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        async with watching(store, [self.ref("a")]) as changes:
            for last in (100, 200):
                for number in range(last - 99, last + 1):
                    await writer.append(line(number))
                await self.wait_for_seq(store, changes, self.ref("a"), last)

    async def test_a_follower_is_woken_by_the_last_change(self, store: Store) -> None:
        writer = await self.writer(store, "a")
        await writer.append(line(1))

        async def write() -> None:
            for number in range(2, 301):
                await writer.append(line(number))

        async with watching(store, [self.ref("a")]) as changes, create_task_group() as tasks:
            tasks.start_soon(write)
            await self.wait_for_seq(store, changes, self.ref("a"), 300)

    async def test_each_watch_is_woken(self, store: Store) -> None:
        ref = self.ref("a")
        writer = await self.writer(store, "a")
        async with watching(store, [ref]) as first, watching(store, [ref, self.ref("b")]) as second:
            await writer.append(line(1))
            await self.wait_for_change(first, [ref], ref)
            await self.wait_for_change(second, [ref, self.ref("b")], ref)
        async with watching(store, [ref]) as third:
            await writer.append(line(2))
            await self.wait_for_change(third, [ref], ref)

    async def test_replacing_and_removing_wake(self, store: Store) -> None:
        ref = self.ref("a")
        writer = await self.writer(store, "a")
        await writer.append(*lines(1, 3))
        async with watching(store, [ref]) as changes:
            await store.put(writer.lease, NATIVE, NATIVE.encode_header(header_of("put")), [line(1)])
            await self.wait_for_change(changes, [ref], ref)
        async with watching(store, [ref]) as changes:
            await store.remove(writer.lease)
            await self.wait_for_change(changes, [ref], ref)

    async def test_another_host_is_woken(self, store: Store, elsewhere: Store) -> None:
        ref = self.ref("a")
        writer = await self.writer(store, "a")
        await writer.append(line(1))
        async with watching(elsewhere, [ref]) as changes:
            for last in (2, 12, 13):
                await writer.append(*lines(writer.head.seq + 1, last))
                await self.wait_for_seq(elsewhere, changes, ref, last)


class Scanning(StoreCase):
    """The promises of `ScansChanges`."""

    async def test_a_scan_holds_every_log_and_its_stamps_change_with_the_logs(self, store: Store) -> None:
        scanning = self.capable(store, ScansChanges)
        first, second = await self.writer(store, "a"), await self.writer(store, "b")
        await first.append(line(1))
        await second.append(line(1))
        await self.writer(store, "c")  # leased, and nothing was written to it
        before = await to_thread.run_sync(scanning.scan)
        assert {ref for ref, stamp in before.items() if stamp.size} == {info.ref for info in await store.page()}
        await first.append(line(2))
        after = await to_thread.run_sync(scanning.scan)
        assert after[self.ref("a")] != before[self.ref("a")]
        assert after[self.ref("b")] == before[self.ref("b")]
        assert scanning.look_at(self.ref("b")) == after[self.ref("b")]
        assert scanning.look_at(self.ref("d")) is None

    async def test_another_log_of_the_same_size_has_another_stamp(self, store: Store) -> None:
        scanning, ref = self.capable(store, ScansChanges), self.ref("a")
        writer = await self.writer(store, "a")
        await writer.append(line(1))
        before = scanning.scan()[ref]
        await store.put(writer.lease, NATIVE, NATIVE.encode_header(header_of(f"id-of-{ref}")), [line(2)])
        after = scanning.scan()[ref]
        assert after.size == before.size
        assert after != before

    async def test_a_log_that_was_removed_has_no_stamp(self, store: Store) -> None:
        scanning, ref = self.capable(store, ScansChanges), self.ref("a")
        writer = await self.writer(store, "a")
        await writer.append(line(1))
        await store.remove(writer.lease)
        assert ref not in scanning.scan()
        assert scanning.look_at(ref) is None

    async def test_how_a_log_was_left_fits_its_stamp(self, store: Store) -> None:
        scanning, ref = self.capable(store, ScansChanges), self.ref("a")
        writer = await self.writer(store, "a")
        await writer.append(*lines(1, 3))
        stamp = scanning.look_at(ref)
        assert stamp is not None
        left = scanning.left(ref)
        assert left is None or left == (3, stamp.size, stamp.identity)
        assert scanning.reads_all(ref)
        await store.release([writer.lease])
        assert scanning.left(ref) is None
