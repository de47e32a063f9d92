"""A memory store keeps nothing of deleted logs and finished watches."""

from __future__ import annotations

from anyio.lowlevel import checkpoint

from treering import MemoryStore, SessionHost
from treering.events.stores.shelf import Shelf


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
