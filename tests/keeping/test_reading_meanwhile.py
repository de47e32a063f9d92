"""A read that is under way while its own host archives, brings back, replaces or deletes the session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from itertools import product
from pathlib import Path
from typing import TypeAlias, TypeVar, TypeVarTuple

import pytest

from treering import Limits, LogReplaced, MemoryStore, MessageEntry, Session, SessionHost, SessionNotFound, plain_text

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Change: TypeAlias = Callable[[SessionHost], Awaitable[None]]
Read: TypeAlias = Callable[[Session], Awaitable[int]]

LARGE = "x" * 100_000
"""More than is read on the event loop, so that other tasks run during a read."""

COUNT = 12
"""How many large messages are more than one page of a log."""


class InterruptedOffload:
    """Runs blocking work inline, and something else once before the next work that is interrupted."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return fn(*args)


@pytest.fixture
def offload() -> InterruptedOffload:
    return InterruptedOffload()


@pytest.fixture
async def host(root: Path, offload: InterruptedOffload) -> AsyncIterator[SessionHost]:
    # without a cache, every read goes to the file
    async with SessionHost(root, offload=offload, limits=Limits(cache_bytes_max=0)) as host:
        yield host


async def with_messages(host: SessionHost) -> Session:
    session = await host.create("a")
    await session.append_message("user", "first")
    for _ in range(COUNT):
        await session.append_message("user", LARGE)
    return session


@pytest.fixture
async def session(host: SessionHost) -> Session:
    return await with_messages(host)


async def archived_and_brought_back(host: SessionHost) -> None:
    await host.archive("a")
    await host.unarchive("a")


async def archived(host: SessionHost) -> None:
    await host.archive("a")


async def appended(host: SessionHost) -> None:
    await (await host.load("a")).append_message("user", LARGE)


async def twice(host: SessionHost) -> None:
    await archived_and_brought_back(host)
    await archived_and_brought_back(host)


READ_ONLY = pytest.mark.parametrize("read_only", [False, True], ids=["owned", "read-only"])


async def read_entry(session: Session) -> int:
    entry = await session.entry(session.path()[1])
    assert isinstance(entry, MessageEntry)
    return len(plain_text(entry.message.content))


async def read_context(session: Session) -> int:
    return len(plain_text((await session.context()).messages[-1].message.content))


async def read_entries(session: Session) -> int:
    return len(plain_text((await session.all_messages())[-1].content))


async def read_fork(session: Session) -> int:
    return len(plain_text((await (await session.fork()).messages())[-1].content))


async def deleted(host: SessionHost) -> None:
    await host.delete("a")


async def deleted_and_created(host: SessionHost) -> None:
    await host.delete("a")
    await (await host.create("a")).append_message("user", "another session")


async def archived_and_deleted(host: SessionHost) -> None:
    await archived_and_brought_back(host)
    await deleted_and_created(host)


async def replaced(host: SessionHost) -> None:
    async with SessionHost() as memory:
        other = await memory.create("a")
        await other.append_message("user", "another session")
        await host.put(other, replace=True)


async def archived_and_replaced(host: SessionHost) -> None:
    await archived(host)
    await replaced(host)
    await replaced(host)


MOVES: list[Change] = [archived, archived_and_brought_back, twice]
DELETIONS: list[Change] = [deleted, deleted_and_created, archived_and_deleted]
REPLACEMENTS: list[Change] = [replaced, archived_and_replaced]
READS: list[Read] = [read_entry, read_context, read_entries, read_fork]


@pytest.mark.parametrize(
    ("read", "change"),
    [
        *product(READS, [*MOVES, appended, *DELETIONS]),
        *product(READS[1:], REPLACEMENTS),  # a single entry is none of the new session
    ],
)
@READ_ONLY
@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.usefixtures("session")
async def test_a_read_finds_moved_lines_starts_again_with_replaced_ones_and_says_if_they_are_gone(
    host: SessionHost, offload: InterruptedOffload, read: Read, change: Change, read_only: bool, is_archived: bool
) -> None:
    session = await host.load("a", read_only=read_only)
    if is_archived:
        await archived(host)
    await session.refresh()
    offload.meanwhile = lambda: change(host)
    if change in DELETIONS:
        with pytest.raises(SessionNotFound):
            await read(session)
    else:
        assert await read(session) == (len("another session") if change in REPLACEMENTS else len(LARGE))
    assert offload.meanwhile is None


@pytest.mark.parametrize("change", [*MOVES, *REPLACEMENTS])
@READ_ONLY
@pytest.mark.usefixtures("session")
async def test_an_iteration_goes_on_in_a_moved_session_and_names_the_cause_if_it_was_replaced(
    host: SessionHost, change: Change, read_only: bool
) -> None:
    session = await host.load("a", read_only=read_only)
    lengths: list[int] = []
    expected = [len("first"), *[len(LARGE)] * COUNT]
    refused = pytest.raises(LogReplaced, match="was replaced by `put`")
    async with aclosing(session.iter_entries()) as entries:
        with nullcontext() if change in MOVES else refused:
            async for entry in entries:
                if not lengths:
                    await change(host)
                assert isinstance(entry, MessageEntry)
                lengths.append(len(plain_text(entry.message.content)))
    assert lengths == expected or change in REPLACEMENTS
    assert lengths == expected[: len(lengths)]
    if change in REPLACEMENTS:
        assert [plain_text(each.content) for each in await session.messages()] == ["another session"]


@pytest.mark.parametrize("in_memory", [False, True], ids=["files", "memory"])
@pytest.mark.parametrize("delete", DELETIONS)
@READ_ONLY
async def test_an_iteration_over_a_session_that_is_deleted_meanwhile_says_that_it_is_not_found(
    root: Path, in_memory: bool, delete: Change, read_only: bool
) -> None:
    store = MemoryStore() if in_memory else None
    async with SessionHost(None if in_memory else root, store=store, limits=Limits(cache_bytes_max=0)) as host:
        await with_messages(host)
        session = await host.load("a", read_only=read_only)
        async with aclosing(session.iter_entries()) as entries:
            await anext(entries)
            await delete(host)
            with pytest.raises(SessionNotFound):
                _ = [entry async for entry in entries]


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.usefixtures("session")
async def test_a_search_goes_on_when_a_session_was_archived(host: SessionHost, move: Change) -> None:
    search = host.search("x", limit=1000)
    found = 0
    async with aclosing(aiter(search)) as hits:
        async for _ in hits:
            if not found:
                await move(host)
            found += 1
    assert found == COUNT
    assert not search.findings
