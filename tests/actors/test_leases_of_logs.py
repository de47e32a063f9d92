"""What a session shows while its log is leased to another kind of write than an append, or to another host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

from treering import MemoryStore, SessionHost
from treering.events.stores.base import Append, Lease, Outcome, Ref
from treering.events.stores.capabilities import AppendsAtOnce, LooksAtOnce

from ..awaited_store import AwaitedStore

T = TypeVar("T")


class Remote(AwaitedStore):
    """A store that is waited for, and by its appends, from when it is told so, until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go: anyio.Event | None = None

    def capability(self, kind: Callable[..., T]) -> T | None:
        return None if kind in (AppendsAtOnce, LooksAtOnce) else super().capability(kind)

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        if self.let_go is not None:
            await self.let_go.wait()
        return await super().append(appends)


async def test_what_was_appended_is_read_at_once_while_the_session_waits_to_be_replaced() -> None:
    store = Remote()
    async with SessionHost(store=store) as host, SessionHost() as elsewhere, anyio.create_task_group() as tasks:
        session, other = await host.create("main"), await elsewhere.create("main")
        await other.append_message("user", "theirs")
        first = await session.append_message("user", "one")
        store.let_go = anyio.Event()
        tasks.start_soon(session.append_message, "user", "two")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(partial(host.put, other, replace=True))
        await anyio.wait_all_tasks_blocked()
        assert (session.cursor.seq, session.path()) == (1, [first])
        store.let_go.set()
        await anyio.wait_all_tasks_blocked()
        await session.refresh()
        assert session.path() == other.path()


class Taken(MemoryStore):
    """A store whose leases end, and are over when it is told so."""

    lease_s, wait_s = 60.0, 0.0
    over = False

    def holder(self, ref: Ref) -> str | None:
        return "another host" if self.over else None

    async def confirm(self, lease: Lease) -> bool:
        await checkpoint()
        return not self.over


async def test_a_session_that_a_read_finds_to_be_another_hosts_is_followed_from_then_on() -> None:
    store = Taken()
    async with SessionHost(store=store) as host:
        session = await host.create("main")
        await session.append_message("user", "one")
        assert (len(await session.entries()), host.statistics().live) == (1, 1)
        store.over = True
        assert (len(await session.entries()), host.statistics().live) == (1, 0)
