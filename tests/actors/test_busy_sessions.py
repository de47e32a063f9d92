"""A session that others keep busy can still be flushed, closed, archived, deleted and followed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import Limits, LogReplaced, MemoryStore, Session, SessionHost, SessionNotFound, Snapshot
from treering.events.disk import OsDisk
from treering.events.stores.base import Page, Ref
from treering.testing.disks import FaultyDisk

pytestmark = pytest.mark.anyio

WRITERS = 3
"""So many that there is always a command waiting when a write ends."""
TOO_MANY = 2000
"""After so many appends, a call that has not ended waits for the writers to stop."""

WAYS: dict[str, dict[str, Any]] = {
    "in a thread": {"writes": "thread"},
    "synced": {"durability": "file"},
    "with a journal": {"durability": "group"},
}


class Writers:
    """Tasks that append until they are stopped, or the session is deleted.

    Attributes:
        appended: How many of their appends were acknowledged.
        stopped: Whether they shall stop.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.appended = 0
        self.stopped = False

    async def write(self) -> None:
        with suppress(SessionNotFound):
            while not self.stopped and self.appended < TOO_MANY:
                await self._session.append_message("user", "hello")
                self.appended += 1

    async def until_busy(self) -> None:
        while self.appended < 5 * WRITERS:
            await checkpoint()


async def close_another_handle(host: SessionHost, session: Session) -> None:
    await (await host.load(session.id)).close()


CALLS: dict[str, Callable[[SessionHost, Session], Awaitable[object]]] = {
    "flush": lambda host, session: session.flush(),
    "flush all": lambda host, session: host.flush(),
    "close": close_another_handle,
    "archive": lambda host, session: host.archive(session),
    "delete": lambda host, session: host.delete(session),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", CALLS.values(), ids=[*CALLS])
async def test_a_call_that_waits_for_a_busy_session_ends_while_others_keep_it_busy(
    tmp_path: Path, way: str, call: Callable[[SessionHost, Session], Awaitable[object]]
) -> None:
    async with SessionHost(tmp_path, **WAYS[way]) as host, anyio.create_task_group() as tasks:
        session = await host.create()
        writers = Writers(session)
        for _ in range(WRITERS):
            tasks.start_soon(writers.write)
        await writers.until_busy()
        await call(host, session)
        assert writers.appended < TOO_MANY
        writers.stopped = True


@pytest.mark.parametrize("way", WAYS)
async def test_a_read_only_handle_follows_a_session_that_its_own_host_keeps_busy(tmp_path: Path, way: str) -> None:
    async with SessionHost(tmp_path, **WAYS[way]) as host, anyio.create_task_group() as tasks:
        session = await host.create()
        await session.append_message("user", "first")
        writers = Writers(session)
        for _ in range(WRITERS):
            tasks.start_soon(writers.write)
        await writers.until_busy()
        begin = session.cursor
        async with (await host.load(session.id, read_only=True)).subscribe(after=begin) as entries:
            while entries.cursor.seq < begin.seq + 5 * WRITERS:
                await entries.receive_many()
            assert writers.appended < TOO_MANY
            writers.stopped = True
            await session.flush()
            last = session.cursor.seq
            while entries.cursor.seq < last:  # also what was committed last is noticed
                await entries.receive_many()


async def test_a_flush_waits_for_every_command_that_was_accepted_before(tmp_path: Path) -> None:
    disk = FaultyDisk(OsDisk())
    heads: list[int] = []
    async with SessionHost(tmp_path, disk=disk, writes="thread") as host, anyio.create_task_group() as tasks:
        try:
            session = await host.create("s")
            await session.append_custom_entry("note", 0)

            async def flush() -> None:
                await session.flush()
                heads.append(session.cursor.seq)

            stall = disk.stall("write", path="*.jsonl", times=None)
            for number in (1, 2, 3):  # one is being written, the others are in the mailbox
                tasks.start_soon(session.append_custom_entry, "note", number)
            assert await anyio.to_thread.run_sync(stall.wait)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(flush)
            await anyio.wait_all_tasks_blocked()
            assert heads == []
        finally:
            disk.heal()
    assert heads == [4]


async def test_a_delete_that_is_cancelled_while_it_waits_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, writes="thread") as host, anyio.create_task_group() as tasks:
        session = await host.create("s")
        await session.append_custom_entry("note", 0)
        deleting = anyio.CancelScope()

        async def delete() -> None:
            with deleting:
                await host.delete(session)

        async def append(number: int) -> None:
            await session.append_custom_entry("note", number)

        try:
            stall = disk.stall("write", path="*.jsonl", times=None)
            tasks.start_soon(append, 1)
            assert await anyio.to_thread.run_sync(stall.wait)
            tasks.start_soon(delete)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(append, 2)  # waits for the delete, and then for the actor
            seqs: list[int] = []

            async def follow() -> None:
                async with session.subscribe() as entries:
                    async for entry in entries:
                        seqs.append(getattr(entry, "seq", 0))
                        if len(seqs) == 4:
                            return

            tasks.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            deleting.cancel()
            await anyio.wait_all_tasks_blocked()
        finally:
            disk.heal()
        await session.flush()
        await append(3)
        assert [entry.seq for entry in await session.entries()] == [1, 2, 3, 4]
    assert seqs == [1, 2, 3, 4]


async def test_a_session_that_was_brought_back_while_it_was_archived_is_not_compressed(tmp_path: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, writes="thread") as host:
        session = await host.create("s")
        await session.append_custom_entry("note", 0)
        async with anyio.create_task_group() as tasks:
            try:
                stall = disk.stall("write", path="*.jsonl", times=None)
                tasks.start_soon(host.archive, session)
                assert await anyio.to_thread.run_sync(stall.wait)
                tasks.start_soon(session.append_custom_entry, "note", 1)
                await anyio.wait_all_tasks_blocked()
            finally:
                disk.heal()
        assert (await host.resolve("s")).status == "active"
        assert (tmp_path / "s.jsonl").exists()
        assert len(await session.entries()) == 4


class Moving(MemoryStore):
    """A store that once reports that a log was replaced, as when the log is archived and brought back meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.moves = 0

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        if self.moves and through is not None:
            self.moves -= 1
            raise LogReplaced(f"{ref} was replaced")
        return await super().read(ref, generation, after, through=through)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        if self.moves:
            self.moves -= 1
            raise LogReplaced(f"{ref} was replaced")
        return await super().bodies(ref, generation, seqs)


@pytest.mark.parametrize("view", ["entries", "context"])
async def test_a_subscription_goes_on_when_the_same_log_is_back(view: Literal["entries", "context"]) -> None:
    store = Moving()
    async with SessionHost(store=store, limits=Limits(cache_bytes_max=0)) as host:
        session = await host.create("s")
        await session.append_message("user", "hello")
        store.moves = 1
        async with session.subscribe(view) as items:
            item = await anext(items)
        assert store.moves == 0
        expected = (
            (await session.entries())[0] if view == "entries" else Snapshot(session.cursor, await session.context())
        )
        assert item == expected
        log = await session.log()
        assert not log.replaced
