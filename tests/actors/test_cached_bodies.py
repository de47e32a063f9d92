"""Decoded entries are kept in a bounded cache: those appended here, those read, and the last ones of an opened log."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import Context, Limits, MemoryStore, Message, SessionHost, text
from treering.actors.log.bodies import BodyCache, KeptContext
from treering.events.content import plain_text
from treering.events.disk import OsDisk
from treering.events.entries import EPOCH, Entry, MessageEntry, OpaqueEntry
from treering.events.stores.base import Page, Ref
from treering.testing.disks import FaultyDisk

pytestmark = pytest.mark.anyio

COUNT = 40


async def written(root: Path, *, torn: bool = False) -> str:
    """Write a session, with the first line of an unfinished batch at its end if `torn`, and return its id."""
    async with SessionHost(root) as host:
        session = await host.create()
        for number in range(COUNT):
            await session.append_message("user", f"message {number}")
        await session.append_many([Message("user", (text(each),)) for each in ("first", "second")])
    cut_lines(root / session.ref, 1 if torn else 2)
    return session.id


def cut_lines(path: Path, count: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-count]))


@pytest.mark.parametrize("torn", [False, True])
async def test_the_context_of_a_session_just_opened_is_not_read_a_second_time(tmp_path: Path, torn: bool) -> None:
    session_id = await written(tmp_path, torn=torn)
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk) as host:
        session = await host.load(session_id)
        await session.log()
        disk.fail("pread", errno.EIO, path="*.jsonl", times=None)
        context = await session.context()
        texts = [plain_text(each.message.content) for each in context.messages]
        assert texts == [f"message {number}" for number in range(COUNT)]


async def test_an_unfinished_batch_is_not_cached_as_if_it_were_complete(tmp_path: Path) -> None:
    session_id = await written(tmp_path, torn=True)
    async with SessionHost(tmp_path) as host:
        session = await host.load(session_id)
        added = await session.append_message("user", "after the crash")
        entries = await session.entries()
        assert isinstance(entries[-2], OpaqueEntry)
        assert entries[-1].id == added
        assert entries[-1].parent_id == entries[-3].id


async def test_without_room_in_the_cache_entries_are_read_each_time(tmp_path: Path) -> None:
    session_id = await written(tmp_path)
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, limits=Limits(cache_bytes_max=0)) as host:
        session = await host.load(session_id)
        assert len((await session.context()).messages) == COUNT
        disk.fail("pread", errno.EIO, path="*.jsonl", times=None)
        with pytest.raises(OSError, match="Input/output error"):
            await session.context()


class TellsReads(MemoryStore):
    """A store that notes how its lines were read."""

    def __init__(self) -> None:
        super().__init__()
        self.ways: list[str] = []

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        self.ways.append("page")
        return await super().read(ref, generation, after, through=through)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        self.ways.append("lines")
        return await super().bodies(ref, generation, seqs)


@pytest.mark.parametrize(
    ("lines", "ways"),
    [("m" * 63, ["lines"]), ("m" * 64, ["page"]), ("mn" * 70, ["lines"]), ("m" * 64 + "nm", ["page", "lines"])],
)
async def test_many_messages_that_follow_each_other_are_read_together(lines: str, ways: list[str]) -> None:
    """Lines are messages or notes, which a context does not show."""
    store = TellsReads()
    async with SessionHost(store=store, limits=Limits(cache_bytes_max=0)) as host:
        session = await host.create()
        for each in lines:
            await (session.append_message("user", each) if each == "m" else session.append_custom_entry("note", each))
        store.ways.clear()
        assert len((await session.context()).messages) == lines.count("m")
        assert store.ways == ways


async def test_a_context_is_extended_without_reading_what_it_shows_again(tmp_path: Path) -> None:
    session_id = await written(tmp_path)
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk) as host:
        session = await host.load(session_id)
        before = await session.context()
        assert await session.context() is before
        disk.fail("pread", errno.EIO, path="*.jsonl", times=None)
        bodies = host.core.runtime.bodies
        for number in range(50):
            await session.append_message("assistant", f"answer {number}")
            context = await session.context()
            assert context.messages[: len(before.messages)] == before.messages
            assert context.messages[-1].entry_id == context.leaf_id == session.leaf_id
            before = context
        assert len(before.messages) == COUNT + 50
        assert bodies.size <= bodies.max_bytes
        assert (await session.context(before.messages[3].entry_id)).messages == before.messages[:4]


async def test_a_context_is_not_kept_if_its_entries_have_no_room(tmp_path: Path) -> None:
    session_id = await written(tmp_path)
    async with SessionHost(tmp_path, limits=Limits(cache_bytes_max=COUNT * 50)) as host:
        session = await host.load(session_id)
        context = await session.context()
        again = await session.context()
        assert again == context
        assert again is not context


async def test_the_context_of_another_leaf_does_not_replace_the_one_that_is_kept(tmp_path: Path) -> None:
    session_id = await written(tmp_path)
    async with SessionHost(tmp_path) as host:
        session = await host.load(session_id)
        context = await session.context()
        assert len((await session.context(context.messages[3].entry_id)).messages) == 4
        assert await session.context() is context


async def test_entries_of_another_program_extend_a_context(tmp_path: Path) -> None:
    session_id = await written(tmp_path)
    async with SessionHost(tmp_path) as host, SessionHost(tmp_path) as other:
        followed = await host.load(session_id, read_only=True)
        before = await followed.context()
        session = await other.load(session_id)
        added = await session.append_message("user", "from elsewhere")
        context = await followed.context()
        assert all(one is same for one, same in zip(context.messages, before.messages, strict=False))
        assert [each.entry_id for each in context.messages[COUNT:]] == [context.leaf_id] == [added]
        assert await followed.context() == await session.context()


def entry(seq: int) -> Entry:
    message = Message("user", (text(str(seq)),))
    return MessageEntry(message=message, id=f"e{seq}", parent_id=None, timestamp=EPOCH, seq=seq)


ENTRIES = {log: [entry(seq) for seq in range(200)] for log in (1, 2)}


CONTEXTS = {log: Context(f"s{log}", 1) for log in ENTRIES}


@given(
    max_bytes=st.integers(0, 400),
    steps=st.lists(st.tuples(st.sampled_from([*ENTRIES]), st.integers(1, 100), st.integers(0, 70), st.integers(1, 9))),
)
def test_the_cache_returns_what_was_put_there_and_keeps_its_bound(
    max_bytes: int, steps: list[tuple[int, int, int, int]]
) -> None:
    cache, roomy = BodyCache(max_bytes), BodyCache(1_000_000)
    sizes: dict[tuple[int, int], int] = {}
    context_sizes: dict[int, int] = {}
    for log, first, count, size in steps:
        for each in (cache, roomy):
            if count == 0:
                each.put_context(log, KeptContext(CONTEXTS[log], first))
            elif count == 1:
                each.put(log, first, ENTRIES[log][first], size)
            else:
                each.put_run(log, first, ENTRIES[log][first : first + count], size)
        sizes.update(((log, seq), size) for seq in range(first, first + count))
        if not count:
            context_sizes[log] = first
        assert cache.size <= max_bytes
        for searched, entries in ENTRIES.items():
            seqs = [seq for at, seq in sizes if at == searched]
            found, missing = cache.get(searched, seqs)
            assert {*found} | {*missing} == {*seqs}
            assert all(found[seq] is entries[seq] for seq in found)
            assert roomy.get(searched, seqs) == ({seq: entries[seq] for seq in seqs}, [])
            assert roomy.size_of(searched, seqs) == sum(sizes[searched, seq] for seq in seqs)
            assert cache.size_of(searched, missing) == (None if missing else 0)
            assert roomy.context(searched) == _kept(searched, context_sizes)
            assert cache.context(searched) in (None, _kept(searched, context_sizes))
    assert roomy.size == sum(sizes.values()) + sum(context_sizes.values())


def _kept(log: int, context_sizes: dict[int, int]) -> KeptContext | None:
    return KeptContext(CONTEXTS[log], context_sizes[log]) if log in context_sizes else None


def test_a_context_that_is_used_stays_and_the_least_recently_used_one_is_evicted() -> None:
    cache = BodyCache(max_bytes=100)
    for log, context in CONTEXTS.items():
        cache.put_context(log, KeptContext(context, 40))
    assert cache.context(1) is not None
    cache.put(3, 1, ENTRIES[1][1], 50)
    assert cache.context(2) is None
    assert cache.context(1) is not None
    assert cache.size == 90
    cache.put_context(1, KeptContext(CONTEXTS[1], 101))
    assert cache.context(1) is None
    assert cache.size == 50
