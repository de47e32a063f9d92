"""A batch is all there or not at all, wherever its write was broken off."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar, TypeVarTuple

import pytest

from treering import (
    AppendFailed,
    Custom,
    Label,
    Message,
    NotASession,
    OpaqueEntry,
    Payload,
    Session,
    SessionHost,
    SessionInfo,
    Usage,
    text,
)
from treering.testing.disks import FaultyDisk, MemoryDisk

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def at_once(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """An offload without threads."""
    return fn(*args)


def put(disk: MemoryDisk, path: str, data: bytes) -> None:
    """Write a file anew."""
    fd = disk.open(path, os.O_RDWR | os.O_CREAT)
    disk.truncate(fd, 0)
    disk.write(fd, data)
    disk.close(fd)


async def shown(session: Session) -> list[str]:
    """The ids of what counts: opaque entries are places in the tree, and say nothing."""
    return [entry.id or "" for entry in await session.entries() if not isinstance(entry, OpaqueEntry)]


async def said(session: Session) -> tuple[object, ...]:
    """All that entries can contribute."""
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
    ("dialect", "save"), [("native", append_batch), ("native", save_turn), ("pi", append_batch), ("omp", save_turn)]
)
async def test_a_kill_at_any_byte_leaves_all_or_none(
    dialect: Literal["native", "pi", "omp"], save: Callable[[Session, str], Awaitable[list[str]]]
) -> None:
    disk = MemoryDisk()
    async with SessionHost("/made", disk=disk, offload=at_once, dialect=dialect) as host:
        session = await host.create()
        first = await session.append_message("user", "1")
        path = session.file_path
        assert path is not None
        start, none = len(disk.files()[path]), await said(session)
        made = await save(session, first)
        whole, all_of_it = disk.files()[path], await said(session)
    assert none != all_of_it

    left = MemoryDisk()
    left.make_directory("/left")
    counts = {1: 0, 1 + len(made): 0}
    async with SessionHost("/left", disk=left, offload=at_once) as host:
        for end in range(start, len(whole) + 1):
            put(left, f"/left/{end}.jsonl", whole[:end])
            session = await host.load(f"/left/{end}.jsonl")
            ids = await shown(session)
            counts[len(ids)] += 1
            assert ids in ([first], [first, *made])
            assert await said(session) == (none if ids == [first] else all_of_it)
            if end % 7 == 0:  # what follows does not bring half of it back
                more = await session.append_custom_entry("more")
                assert await session.passivate()
                assert await shown(session) == [*ids, more]
                assert await said(session) == (none if ids == [first] else all_of_it)
            assert await session.passivate()
    assert counts == {1: len(whole) - start - 1, 1 + len(made): 2}  # a whole line that lacks its newline gets one


@pytest.mark.feature("X-13")
async def test_a_kill_while_the_file_is_made_leaves_all_or_none() -> None:
    disk = MemoryDisk()
    async with SessionHost("/made", disk=disk, offload=at_once) as host:
        session = await host.create("s")
        made = await session.append_many([Custom("note", None), Message("user", (text("b"),))])
    whole = disk.files()["/made/s.jsonl"]
    header = whole.index(b"\n")

    left = MemoryDisk()
    left.make_directory("/left")
    async with SessionHost("/left", disk=left, offload=at_once) as host:
        for end in range(len(whole) + 1):
            put(left, f"/left/{end}.jsonl", whole[:end])
            if 0 < end < header:  # without its header it is no session yet, and left as it is
                with pytest.raises(NotASession):
                    await host.load(f"/left/{end}.jsonl")
                assert left.files()[f"/left/{end}.jsonl"] == whole[:end]
                continue
            if end:
                session = await host.load(f"/left/{end}.jsonl")
                assert await shown(session) == (made if end >= len(whole) - 1 else [])
                assert await session.passivate()


@pytest.mark.feature("X-13")
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_short_write_leaves_all_or_none(dialect: Literal["native", "pi"]) -> None:
    disk = FaultyDisk(MemoryDisk())
    async with SessionHost("/made", disk=disk, offload=at_once, dialect=dialect) as host:
        session = await host.create()
        first = await session.append_message("user", "1")
        before = await said(session)
        for taken in (0, 1, 50, 200, 300, 400):
            fault = disk.shorten(taken, path="*.jsonl")
            with pytest.raises(AppendFailed):
                await append_batch(session, first)
            fault.lift()
            assert await said(session) == before
        made = await append_batch(session, first)
        assert await shown(session) == [first, *made]
        assert await session.passivate()
        assert await shown(session) == [first, *made]
