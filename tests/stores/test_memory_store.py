"""A memory store keeps nothing of what is gone, and has what hosts on files have: rows, an index, packed logs."""

from datetime import timedelta

from anyio.lowlevel import checkpoint

from treering import Limits, MemoryStore, SessionHost
from treering.events.stores.base import Page, Ref
from treering.events.stores.shelf import Shelf
from treering.testing.clocks import ManualClock


async def test_deleted_sessions_and_finished_watches_leave_nothing() -> None:
    shelf = Shelf()
    async with SessionHost(store=MemoryStore(shelf)) as host:
        kept = await host.create("kept")
        await kept.append_custom_entry("note", 1)
        for number in range(20):
            session = await host.create(f"gone-{number}")
            await session.append_custom_entry("note", 1)
            await host.delete(session.id)
            follower = await host.load("kept", read_only=True)
            async with follower.subscribe():
                await checkpoint()
        assert list(shelf.logs) == [kept.ref]
    assert not shelf.wakeups


async def test_a_later_host_of_a_shelf_knows_when_a_session_was_loaded_and_which_is_current() -> None:
    shelf, clock = Shelf(), ManualClock(step=timedelta(seconds=1))
    async with SessionHost(store=MemoryStore(shelf), clock=clock) as host:
        for name in ("a", "b"):
            await (await host.create(name, cwd="/work")).append_message("user", f"needle in {name}")
        await host.load("a")
        await host.set_current_session("/work", "b")
        rows = await host.list_sessions()
        assert [row.id for row in rows] == ["a", "b"]
    async with SessionHost(store=MemoryStore(shelf), clock=clock) as host:
        assert await host.list_sessions() == rows
        current = await host.current_session("/work")
        assert current is not None
        assert current.id == "b"


async def test_sessions_in_memory_are_packed_searched_by_an_index_and_read_as_before() -> None:
    shelf, reads = Shelf(), list[str]()

    class Counting(MemoryStore):
        async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
            reads.append(ref)
            return await super().read(ref, generation, after, through=through)

    async with SessionHost(store=Counting(shelf), limits=Limits(cache_bytes_max=0)) as host:
        session = await host.create("old")
        for number in range(200):
            await session.append_message("user", f"needle {number} in a stack of hay")
        before = (await session.context()).messages
        lines = [*shelf.logs[session.ref].lines()]
        await host.archive("old")
        assert shelf.logs[session.ref].packed
        assert shelf.logs[session.ref].lines()[:200] == lines
        expected = [hit.entry_id async for hit in host.search("needle 7", index=False)]
        assert [hit.entry_id async for hit in host.search("needle 7", index=True)] == expected
        reads.clear()
        assert [hit.entry_id async for hit in host.search("needle 7")] == expected
        assert reads == []  # from the index alone
        async with await host.load("old", read_only=True) as archived:
            assert (await archived.context()).messages == before
        assert (await (await host.load("old")).context()).messages == before
        assert not shelf.logs[session.ref].packed
