"""Commands go through a bounded mailbox to the one writer of their session; reads do not."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import Limits, MessageEntry, Session, SessionHost
from treering.events.disk import OsDisk
from treering.events.stores.base import Append, Outcome, Page, Ref
from treering.events.stores.memory import MemoryStore
from treering.testing.disks import FaultyDisk

from ..awaited_store import AwaitedStore
from ..bounded import run_within


class SlowStore(MemoryStore):
    """Holds appends until `gate` is set, and records them."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = anyio.Event()
        self.appends: list[tuple[Ref, int]] = []
        self.running: defaultdict[Ref, int] = defaultdict(int)
        self.running_max = 0

    def try_append(self, append: Append) -> Outcome | None:  # type: ignore[override]  # like a remote store
        return super().try_append(append) if self.gate.is_set() else None

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        (append,) = appends
        ref = append.lease.ref
        self.running[ref] += 1
        self.running_max = max(self.running_max, self.running[ref])
        self.appends.append((ref, len(append.lines)))
        await self.gate.wait()
        self.running[ref] -= 1
        return await super().append(appends)


async def note_texts(session: Session) -> list[str]:
    return [str(entry.custom.data) async for entry in session.iter_entries() if entry.type == "custom"]  # type: ignore[union-attr]


# -- event loops


@pytest.mark.feature("X-1")
async def test_a_typed_command_goes_through_a_bounded_mailbox(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    name, options = anyio_backend
    if name == "asyncio":
        assert ("uvloop" in type(asyncio.get_running_loop()).__module__) is options["use_uvloop"]
    else:
        assert anyio.get_current_task().name  # anyio knows the current task on trio too
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
    store = SlowStore()
    async with SessionHost(store=store, limits=Limits(mailbox_max=2)) as host, anyio.create_task_group() as tasks:
        session = await host.create()
        tasks.start_soon(session.append_custom_entry, "note", 0)
        await anyio.wait_all_tasks_blocked()
        for number in range(1, 6):
            tasks.start_soon(session.append_custom_entry, "note", number)
        await anyio.wait_all_tasks_blocked()
        assert host.statistics().sessions[0].mailbox_depth == 2
        assert store.appends == [(session.ref, 1)]
        store.gate.set()
        tasks.start_soon(session.reset_leaf)
        await anyio.wait_all_tasks_blocked()
        assert sorted(await note_texts(session)) == [str(number) for number in range(6)]
        assert session.leaf_id is None
        assert store.running_max == 1


# -- backpressure


@pytest.mark.feature("X-2")
@pytest.mark.parametrize("durability", ["os", "file"])
async def test_senders_wait_while_the_disk_stalls_and_none_is_dropped(
    tmp_path: Path, durability: Literal["os", "file"]
) -> None:
    disk = FaultyDisk(OsDisk())
    limits = Limits(mailbox_max=4)
    answered: list[str] = []
    async with SessionHost(tmp_path, disk=disk, writes="thread", durability=durability, limits=limits) as host:
        session = await host.create()
        other = await host.create()

        async def send(number: int) -> None:
            answered.append(await session.append_custom_entry("note", number))

        first = await session.append_custom_entry("note", 0)
        stall = disk.stall("write", path=f"*{session.id}*", times=None)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send, 1)
                assert await anyio.to_thread.run_sync(stall.wait)
                for number in range(2, 22):
                    tasks.start_soon(send, number)
                await anyio.wait_all_tasks_blocked()

                waiting = {each.session_id: each.mailbox_depth for each in host.statistics().sessions}
                assert waiting == {session.id: 4}
                assert answered == []
                assert session.path() == [first]
                with anyio.fail_after(30):  # a stalled session does not hold up another one
                    await other.append_custom_entry("note", "elsewhere")
                with anyio.move_on_after(0):  # a command whose sender stops waiting is not accepted
                    await send(99)
                assert answered == []
                stall.lift()
        finally:
            stall.lift()

        assert sorted(int(each) for each in await note_texts(session)) == list(range(22))
        assert sorted(answered) == sorted(session.path()[1:])
        assert host.statistics().appends == 23
        assert host.statistics().sessions[0].mailbox_depth == 0
    assert len((tmp_path / session.ref).read_bytes().splitlines()) == 23


@pytest.mark.feature("X-2")
@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves"])
@pytest.mark.parametrize("attempt", range(4))
def test_a_session_is_idle_when_no_sender_waits_at_its_full_mailbox(
    anyio_backend: tuple[str, dict[str, Any]], attempt: int, leaves: bool
) -> None:
    async def main() -> None:
        store = SlowStore()
        limits = Limits(mailbox_max=1, batch_max=1)
        async with SessionHost(store=store, limits=limits) as host, anyio.create_task_group() as tasks:
            session = await host.create()

            async def passivate() -> None:  # as soon as it counts as idle
                while not await session.passivate():
                    await checkpoint()

            async def send(number: int, scope: anyio.CancelScope) -> None:
                with scope:
                    await session.append_custom_entry("note", number)

            scopes = [anyio.CancelScope() for _ in range(3)]
            for number, scope in enumerate(scopes):  # one is at work, one fills the mailbox, one waits
                tasks.start_soon(send, number, scope)
                await anyio.wait_all_tasks_blocked()
            assert not await session.passivate()
            if leaves:
                scopes[2].cancel()
            tasks.start_soon(passivate)
            for _ in range(attempt):
                await checkpoint()
            store.gate.set()
            await anyio.wait_all_tasks_blocked()
            sent = [str(number) for number in range(2 if leaves else 3)]
            assert await note_texts(session) == sent
            await session.append_custom_entry("note", "on")
            assert await note_texts(session) == [*sent, "on"]

    run_within(10, anyio_backend, main)


# -- readers


class WatchedStore(AwaitedStore):
    """Holds reads and appends while `held` until `released` is set, and counts those that run at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.held = False
        self.released = anyio.Event()
        self.reading = self.reading_max = 0
        self.writing = self.writing_max = 0

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        self.writing += 1
        self.writing_max = max(self.writing_max, self.writing)
        if self.held:
            await self.released.wait()
        outcomes = await super().append(appends)
        self.writing -= 1
        return outcomes

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        self.reading += 1
        self.reading_max = max(self.reading_max, self.reading)
        if self.held:
            await self.released.wait()
        page = await super().read(ref, generation, after, through=through)
        self.reading -= 1
        return page


@pytest.mark.feature("G-74", "P-35")
async def test_reads_run_in_parallel_with_each_other_and_with_one_write() -> None:
    store = WatchedStore()
    seen: list[list[str | None]] = []
    async with SessionHost(store=store) as host:
        session = await host.create()
        first = await session.append_message("user", "one")
        store.held = True

        async def read() -> None:
            seen.append([entry.id for entry in await session.entries()])

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(session.append_message, "user", str(number))
                tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            assert (store.reading, store.writing) == (5, 1)  # reads and the write do not wait for each other
            assert session.path() == [first]
            assert (await session.context()).messages[0].entry_id == first
            store.released.set()

        assert seen == [[first]] * 5
        assert store.writing_max == 1
        assert len(session.path()) == 6
        assert all(isinstance(entry, MessageEntry) for entry in await session.entries())
