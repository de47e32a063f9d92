"""An atomic batch is read whole or not at all, wherever its write was cut off."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar, TypeVarTuple

import anyio
import pytest

from treering import AppendFailed, Message, Session, SessionHost, SessionNotFound, Usage, message, text
from treering.entries import Custom, Label, OpaqueEntry, Payload, SessionInfo
from treering.events.stores.base import Append, Outcome, Page, Ref
from treering.events.stores.files import FileStore
from treering.testing.disks import FaultyDisk, MemoryDisk

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def run_inline(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Run blocking work on the spot: an offload that uses no threads."""
    return fn(*args)


def write_file(disk: MemoryDisk, path: str, data: bytes) -> None:
    """Replace the contents of a file."""
    fd = disk.open(path, os.O_RDWR | os.O_CREAT)
    disk.truncate(fd, 0)
    disk.write(fd, data)
    disk.close(fd)


async def visible_ids(session: Session) -> list[str]:
    """The ids of the entries that have content: an opaque entry only holds a place in the tree."""
    return [entry.id or "" for entry in await session.entries() if not isinstance(entry, OpaqueEntry)]


async def effects(session: Session) -> tuple[object, ...]:
    """Everything in the session's state that the entries of a batch can change."""
    context = await session.context()
    return (
        [each.entry_id for each in context.messages],
        session.message_count,
        session.labels(),
        session.name,
        len(await session.entries(custom_type="note")),
    )


async def append_batch(session: Session, first: str) -> list[str]:
    batch: Sequence[Payload] = [
        Message("user", (text("é"),)),
        Label(first, "x"),
        SessionInfo("n"),
        Custom("note", None),
    ]
    return await session.append_many(batch)


async def save_turn(session: Session, first: str) -> list[str]:
    return await session.save_turn([Message("user", (text("a"),)), Message("assistant", (text("b"),))], Usage(1))


@pytest.mark.feature("X-13")
@pytest.mark.parametrize(
    ("dialect", "save"),
    [
        ("native", append_batch),
        ("pi", save_turn),
        pytest.param("native", save_turn, marks=pytest.mark.soak),
        pytest.param("omp", save_turn, marks=pytest.mark.soak),
    ],
)
async def test_a_log_cut_at_any_byte_of_a_batch_shows_the_whole_batch_or_none_of_it(
    dialect: Literal["native", "pi", "omp"], save: Callable[[Session, str], Awaitable[list[str]]]
) -> None:
    disk = MemoryDisk()
    async with SessionHost("/written", disk=disk, offload=run_inline, dialect=dialect) as host:
        session = await host.create()
        first = await session.append_message("user", "1")
        path = session.file_path
        assert path is not None
        start, none = len(disk.files()[path]), await effects(session)
        batch_ids = await save(session, first)
        whole, all_of_it = disk.files()[path], await effects(session)
    assert none != all_of_it

    left = MemoryDisk()
    left.make_directory("/left")
    counts = {1: 0, 1 + len(batch_ids): 0}
    async with SessionHost("/left", disk=left, offload=run_inline) as host:
        for end in range(start, len(whole) + 1):
            write_file(left, f"/left/{end}.jsonl", whole[:end])
            session = await host.load(f"/left/{end}.jsonl")
            ids = await visible_ids(session)
            counts[len(ids)] += 1
            assert ids in ([first], [first, *batch_ids])
            assert await effects(session) == (none if ids == [first] else all_of_it)
            if end % 7 == 0:  # a later append does not make a part of the batch visible
                later = await session.append_custom_entry("more")
                assert await session.passivate()
                assert await visible_ids(session) == [*ids, later]
                assert await effects(session) == (none if ids == [first] else all_of_it)
            assert await session.passivate()
    assert counts == {1: len(whole) - start - 1, 1 + len(batch_ids): 2}  # a whole line that lacks its newline gets one


@pytest.mark.feature("X-13")
async def test_a_log_cut_in_its_first_write_shows_the_whole_batch_or_none_of_it() -> None:
    disk = MemoryDisk()
    async with SessionHost("/written", disk=disk, offload=run_inline) as host:
        session = await host.create("s")
        batch_ids = await session.append_many([Custom("note", None), Message("user", (text("b"),))])
    whole = disk.files()["/written/s.jsonl"]
    header = whole.index(b"\n")

    left = MemoryDisk()
    left.make_directory("/left")
    async with SessionHost("/left", disk=left, offload=run_inline) as host:
        for end in range(len(whole) + 1):
            write_file(left, f"/left/{end}.jsonl", whole[:end])
            if end < header:  # nothing of the session was written yet: what there is of its header is kept beside
                with pytest.raises(SessionNotFound):
                    await host.load(f"/left/{end}.jsonl")
                assert whole[:end] in left.files().values()
            else:
                session = await host.load(f"/left/{end}.jsonl")
                assert await visible_ids(session) == (batch_ids if end >= len(whole) - 1 else [])
                assert await session.passivate()


@pytest.mark.feature("X-13")
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_short_write_of_a_batch_leaves_the_session_unchanged(dialect: Literal["native", "pi"]) -> None:
    disk = FaultyDisk(MemoryDisk())
    async with SessionHost("/written", disk=disk, offload=run_inline, dialect=dialect) as host:
        session = await host.create()
        first = await session.append_message("user", "1")
        before = await effects(session)
        for taken in (0, 1, 50, 200, 300, 400):
            fault = disk.shorten(taken, path="*.jsonl")
            with pytest.raises(AppendFailed):
                await append_batch(session, first)
            fault.lift()
            assert await effects(session) == before
        batch_ids = await append_batch(session, first)
        assert await visible_ids(session) == [first, *batch_ids]
        assert await session.passivate()
        assert await visible_ids(session) == [first, *batch_ids]


class PausingStore(FileStore):
    """Pauses a read between two pages, and the reply to an append until that read has its first page."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, durability="file")
        self.pausing = False
        self.reading, self.landed, self.has_page, self.replied = (anyio.Event() for _ in range(4))

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        if self.pausing and not self.landed.is_set():
            self.reading.set()
            await self.landed.wait()
        elif self.pausing:
            self.has_page.set()
            await self.replied.wait()
        return await super().read(ref, generation, after, through=through)

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        outcomes = await super().append(appends)
        if self.pausing:
            self.landed.set()
            await self.has_page.wait()
        return outcomes


async def test_a_batch_that_a_reader_has_folded_in_part_is_folded_once(tmp_path: Path) -> None:
    store = PausingStore(tmp_path)
    async with SessionHost(store=store, dialect="pi") as host:
        session = await host.create()
        await session.append_message("user", "hello")
        store.pausing = True
        async with anyio.create_task_group() as group:
            group.start_soon(session.refresh)
            await store.reading.wait()
            ids = await session.append_many([message("user", letter * 700_000) for letter in "abc"])
            store.replied.set()
        store.pausing = False
        assert [entry.id for entry in await session.entries()][1:] == ids
        await session.append_message("user", "more")
        assert len(await session.entries()) == 5
