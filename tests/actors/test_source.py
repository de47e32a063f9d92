"""What holds a session's log, and how that changes: one test for each arrow of the table in `actors.log.source`."""

# ruff: noqa: ASYNC240  # blocking file access is harmless in a test

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest

from treering import (
    AppendInDoubt,
    HostClosed,
    Limits,
    LogReplaced,
    MemoryStore,
    MessageEntry,
    ReadOnly,
    Reset,
    Session,
    SessionHost,
    SessionLocked,
    SessionNotFound,
    plain_text,
)
from treering.actors.log.open_log import TRIES_MAX
from treering.actors.log.source import State
from treering.entries import SessionInfo
from treering.errors import LeafMoved
from treering.events.dialects.base import Dialect
from treering.events.stores.base import Append, Cursor, InDoubt, Lease, Outcome, Ref

Read = Callable[[Session], Awaitable[object]]


@pytest.fixture
async def host(root: Path) -> AsyncIterator[SessionHost]:
    # without a cache, every read of what entries say goes to the file
    async with SessionHost(root, limits=Limits(cache_bytes_max=0)) as host:
        yield host


@pytest.fixture
async def other(root: Path, host: SessionHost) -> AsyncIterator[SessionHost]:
    """Another host of the same root, as if in another process."""
    async with SessionHost(root) as other:
        yield other


def state_of(host: SessionHost, session: Session) -> State:
    return host.core.registry.source(session.ref).state


async def written(host: SessionHost, *texts: str) -> Session:
    session = await host.create("main")
    for each in texts or ("one",):
        await session.append_message("user", each)
    return session


async def texts(session: Session) -> list[str]:
    return [plain_text(each.content) for each in await session.messages()]


async def collected(session: Session) -> list[object]:
    return [entry async for entry in session.iter_entries()]


READS: dict[str, Read] = {
    "context": lambda session: session.context(),
    "entries": lambda session: session.entries(),
    "iteration": collected,
    "export": lambda session: session.export("json"),
    "stats": lambda session: session.stats(),
    "open calls": lambda session: session.open_calls(),
    "refresh": lambda session: session.refresh(),
}


# -- a: a command makes it live


async def test_an_unwritten_session_is_live_from_its_first_append_on(host: SessionHost) -> None:
    session = await host.create("main")
    assert state_of(host, session) is State.UNWRITTEN
    assert session.leaf_id is None
    assert state_of(host, session) is State.UNWRITTEN
    await session.append_message("user", "one")
    assert state_of(host, session) is State.LIVE


@pytest.mark.parametrize("read_before", [False, True], ids=["passivated", "followed"])
async def test_an_append_to_a_session_that_is_not_live_makes_it_live(host: SessionHost, read_before: bool) -> None:
    session = await written(host)
    await session.passivate()
    if read_before:
        await session.entries()
    assert state_of(host, session) is (State.FOLLOWED if read_before else State.PASSIVATED)
    await session.append_message("user", "two")
    assert state_of(host, session) is State.LIVE
    assert await texts(session) == ["one", "two"]


async def test_what_was_read_before_the_first_append_is_not_read_again(host: SessionHost) -> None:
    session = await written(host)
    await session.passivate()
    log = await session.log()
    await session.append_message("user", "two")
    assert await session.log() is log


# -- b: a write that is in doubt


class DoubtsOnce(MemoryStore):
    """A store that cannot say once whether an append is there."""

    doubts = 0

    def try_append(self, append: Append) -> Outcome:
        if self.doubts:
            self.doubts -= 1
            return InDoubt(AppendInDoubt("nobody knows"))
        return super().try_append(append)


async def test_a_session_whose_write_is_in_doubt_is_looked_at_before_the_next_command() -> None:
    store = DoubtsOnce()
    async with SessionHost(store=store) as host:
        for session, before in ((await host.create("unwritten"), []), (await written(host), ["one"])):
            store.doubts = 1
            with pytest.raises(AppendInDoubt):
                await session.append_message("user", "doubtful")
            assert state_of(host, session) is State.IN_DOUBT
            assert await texts(session) == before
            with pytest.raises(LeafMoved):
                await session.append_message("user", "refused", expected_seq=9)
            assert state_of(host, session) is State.LIVE
            await session.append_message("user", "two")
            assert await texts(session) == [*before, "two"]


# -- c: archived


async def test_a_live_session_that_is_archived_is_brought_back_by_any_other_write(host: SessionHost) -> None:
    session = await written(host)
    await session.append(SessionInfo(archived=True))
    assert state_of(host, session) is State.ARCHIVED
    await session.append_message("user", "two")
    assert state_of(host, session) is State.LIVE
    assert await texts(session) == ["one", "two"]


# -- d, e: passivated, or followed if someone needs it


@pytest.mark.parametrize("needed_by", ["nobody", "a subscriber", "a reader"])
async def test_a_passivated_session_is_followed_if_it_has_subscribers_or_readers(
    host: SessionHost, needed_by: str
) -> None:
    session = await written(host)
    if needed_by == "a subscriber":
        async with session.subscribe() as entries:
            await anext(entries)
            await session.passivate()
            assert state_of(host, session) is State.FOLLOWED
        assert state_of(host, session) is State.PASSIVATED
    elif needed_by == "a reader":
        async with await host.load("main", read_only=True) as reader:
            assert state_of(host, session) is State.LIVE, "it shares what is in memory"
            await session.passivate()
            assert state_of(host, session) is State.FOLLOWED
            assert reader.message_count == 1
        assert state_of(host, session) is State.PASSIVATED
    else:
        await session.passivate()
        assert state_of(host, session) is State.PASSIVATED


# -- f: an awaited read


@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_a_read_locks_nothing_and_reads_what_another_host_owns(
    host: SessionHost, other: SessionHost, read: Read
) -> None:
    session = await written(host)
    await session.passivate()
    elsewhere = await other.load("main")
    await elsewhere.append_message("user", "two")
    await read(session)
    assert state_of(host, session) is State.FOLLOWED
    assert session.message_count == 2
    with pytest.raises(SessionLocked):
        await session.append_message("user", "refused")
    await elsewhere.append_message("user", "three")
    assert await texts(session) == ["one", "two", "three"]
    await elsewhere.passivate()
    await session.append_message("user", "four")
    assert await texts(session) == ["one", "two", "three", "four"]


async def test_an_unwritten_session_that_another_host_is_about_to_write_is_read_as_it_is(
    host: SessionHost, other: SessionHost
) -> None:
    session, elsewhere = await host.create("main"), await other.create("main")
    assert await elsewhere.entries() == []  # which makes it live there
    assert await session.entries() == []
    assert state_of(host, session) is State.UNWRITTEN
    async with session.subscribe() as entries:
        await elsewhere.append_message("user", "theirs")
        assert isinstance(await anext(entries), MessageEntry)
    assert await texts(session) == ["theirs"]


async def test_several_readers_read_a_log_once(host: SessionHost) -> None:
    session = await written(host)
    await session.passivate()
    readers = [await host.load("main", read_only=True) for _ in range(3)]
    logs = [await each.log() for each in (session, *readers)]
    assert all(log is logs[0] for log in logs)


# -- g: no longer followed


async def test_a_session_is_followed_as_long_as_it_is_used_or_a_reader_is_open(host: SessionHost) -> None:
    session = await written(host)
    await session.passivate()
    reader = await host.load("main", read_only=True)
    assert not await session.passivate(), "the reader still needs it"
    assert state_of(host, session) is State.FOLLOWED
    await reader.close()
    assert state_of(host, session) is State.PASSIVATED
    await session.entries()
    assert state_of(host, session) is State.FOLLOWED
    assert await session.passivate()
    assert state_of(host, session) is State.PASSIVATED


async def test_what_was_read_of_sessions_is_forgotten_when_they_are_not_used(root: Path) -> None:
    async with SessionHost(root, limits=Limits(idle_after_s=0.01)) as host:
        session = await written(host)
        await session.passivate()
        await session.entries()
        while state_of(host, session) is not State.PASSIVATED:
            await anyio.lowlevel.checkpoint()


async def test_no_more_sessions_are_followed_than_may_be_live(root: Path) -> None:
    async with SessionHost(root, limits=Limits(live_max=2)) as host:
        sessions = [await host.create() for _ in range(5)]
        for each in sessions:
            await each.append_message("user", "one")
        await host.passivate_idle()
        for number, each in enumerate(sessions, 1):
            await each.entries()
            assert state_of(host, each) is State.FOLLOWED
            assert [state_of(host, each) for each in sessions].count(State.FOLLOWED) == min(number, 2)


# -- h: deleted, by this host or by anyone


@pytest.mark.parametrize("before", [State.LIVE, State.FOLLOWED, State.PASSIVATED])
@pytest.mark.parametrize("by_host", [True, False], ids=["by the host", "from outside"])
async def test_a_deleted_session_is_not_found_until_it_is_created_anew(
    host: SessionHost, before: State, by_host: bool
) -> None:
    session = await written(host)
    path = Path(session.file_path or "")
    if before is not State.LIVE:
        await session.passivate()
    if before is State.FOLLOWED:
        await session.entries()
    assert state_of(host, session) is before
    if by_host:
        await host.delete("main")
    else:
        path.unlink()
    for _ in range(2):
        with pytest.raises(SessionNotFound):
            await session.append_message("user", "lost")
        with pytest.raises(SessionNotFound):
            await session.branch("nowhere")
        for read in READS.values():
            with pytest.raises(SessionNotFound):
                await read(session)
        with pytest.raises(SessionNotFound):
            _ = session.leaf_id
    assert not path.exists(), "nothing brings it back"
    assert state_of(host, session) in (State.GONE, State.PASSIVATED)
    with pytest.raises(SessionNotFound):
        await host.load("main")
    anew = await host.create("main")  # i
    assert state_of(host, anew) is State.UNWRITTEN
    await anew.append_message("user", "anew")
    assert await texts(session) == ["anew"]
    await anew.passivate()
    assert state_of(host, anew) is State.PASSIVATED


@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_a_live_session_whose_file_is_missing_says_so_when_it_reads_from_the_file(
    host: SessionHost, read: Read
) -> None:
    session = await written(host, "one", "two")
    log = await session.log()
    Path(session.file_path or "").unlink()
    with pytest.raises(SessionNotFound):
        await log.entries_in([1, 2])
    with pytest.raises(SessionNotFound):
        await read(session)
    assert state_of(host, session) is State.GONE


@pytest.mark.parametrize("passivated", [False, True])
async def test_every_way_to_open_a_session_by_its_name_creates_one_that_was_deleted_from_outside(
    host: SessionHost, passivated: bool
) -> None:
    for make in (host.create, host.open, host.get_or_create):
        session = await make("main")
        await session.append_message("user", "one")
        if passivated:
            await session.passivate()
        Path(session.file_path or "").unlink()
        with pytest.raises(SessionNotFound):
            await session.append_message("user", "lost")


async def test_subscribers_of_a_session_that_was_deleted_from_outside_follow_the_one_that_is_created_anew(
    host: SessionHost,
) -> None:
    session = await written(host)
    async with session.subscribe() as entries:
        assert isinstance(await anext(entries), MessageEntry)
        Path(session.file_path or "").unlink()
        with pytest.raises(SessionNotFound):
            await session.append_message("user", "lost")
        anew = await host.create("main")
        assert await anew.entries() == []
        last = await anew.append_message("user", "anew")
        assert isinstance(await anext(entries), Reset)
        entry = await anext(entries)
        assert isinstance(entry, MessageEntry)
        assert entry.id == last


# -- a, j: found again


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("reads_first", [True, False])
async def test_a_session_whose_file_is_put_back_is_found_again(
    host: SessionHost, is_live: bool, reads_first: bool
) -> None:
    session = await written(host)
    path = Path(session.file_path or "")
    if not is_live:
        await session.passivate()
        await session.entries()
    data = path.read_bytes()
    path.unlink()
    with pytest.raises(SessionNotFound):
        await session.append_message("user", "lost")
    path.write_bytes(data)
    if reads_first:
        assert await texts(session) == ["one"]
    await session.append_message("user", "two")
    assert await texts(session) == ["one", "two"]
    assert state_of(host, session) is State.LIVE


# -- k: closed


async def test_a_closed_host_refuses_every_call_in_every_state(root: Path) -> None:
    async with SessionHost(root) as host:
        sessions = {
            State.UNWRITTEN: await host.create("unwritten"),
            State.LIVE: await written(host),
            State.PASSIVATED: await host.create("passivated"),
            State.FOLLOWED: await host.create("followed"),
        }
        for state in (State.PASSIVATED, State.FOLLOWED):
            await sessions[state].append_message("user", "one")
            await sessions[state].passivate()
        await sessions[State.FOLLOWED].entries()
        assert {state: state_of(host, each) for state, each in sessions.items()} == {each: each for each in sessions}
    for session in sessions.values():
        assert state_of(host, session) is State.CLOSED
        for read in READS.values():
            with pytest.raises(HostClosed):
                await read(session)
        with pytest.raises(HostClosed):
            await session.append_message("user", "late")


# -- changing


class Holding(MemoryStore):
    """A store that lets its caller wait when it acquires a log, or when it has put one."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = ""
        self.held_count = 0
        self.held, self.go = anyio.Event(), anyio.Event()

    async def _hold(self, call: str) -> None:
        if self.holds == call:
            self.held_count += 1
            self.held.set()
            await self.go.wait()

    async def acquire(self, refs: Sequence[str], owner: str) -> list[Lease | SessionLocked]:
        await self._hold("acquire")
        return await super().acquire(refs, owner)

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        head = await super().put(lease, dialect, header, lines)
        await self._hold("put")
        return head


async def test_others_wait_while_a_session_is_changing() -> None:
    store, order = Holding(), list[str]()
    async with SessionHost(store=store) as host:
        session = await written(host)
        await session.passivate()
        store.holds = "acquire"

        async def append() -> None:
            await session.append_message("user", "two")
            order.append("append")

        async def read() -> None:
            assert len(await session.entries()) == 2
            order.append("read")

        async with anyio.create_task_group() as group:
            group.start_soon(append)
            await store.held.wait()
            assert state_of(host, session) is State.CHANGING
            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            assert order == []
            store.go.set()
        assert order == ["append", "read"]


async def test_a_read_that_waited_until_the_host_closed_is_refused() -> None:
    store = Holding()
    async with SessionHost() as elsewhere, anyio.create_task_group() as group:
        host = await SessionHost.start(store=store)
        session, other = await written(host), await written(elsewhere, "theirs")
        await session.passivate()
        store.holds = "acquire"

        async def read() -> None:
            with pytest.raises(HostClosed):
                await session.entries()

        group.start_soon(partial(host.put, other, replace=True))
        await store.held.wait()
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(host.aclose)
        await anyio.wait_all_tasks_blocked()
        store.go.set()


async def test_a_session_is_leased_to_one_at_a_time() -> None:
    store = Holding()
    async with SessionHost(store=store) as host, SessionHost() as elsewhere:
        session, other = await written(host), await written(elsewhere, "theirs")
        await session.passivate()
        store.holds = "acquire"
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(partial(host.put, other, replace=True))
            await store.held.wait()
            await anyio.wait_all_tasks_blocked()
            assert store.held_count == 1
            store.go.set()
        assert await texts(session) == ["theirs"]


# -- moved, by this host or by another


async def test_a_read_that_misses_its_lines_waits_until_it_is_known_where_they_are() -> None:
    store = Holding()
    async with SessionHost(store=store, limits=Limits(cache_bytes_max=0)) as host, SessionHost() as elsewhere:
        session, other = await written(host), await written(elsewhere, "theirs")
        log, refused = await session.log(), list[LogReplaced]()
        store.holds = "put"

        async def read() -> None:
            with pytest.raises(LogReplaced, match="was replaced by `put`") as caught:
                await log.entries_in([1])
            refused.append(caught.value)

        async with anyio.create_task_group() as group:
            group.start_soon(partial(host.put, other, replace=True))
            await store.held.wait()
            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            assert not refused
            store.go.set()
        assert len(refused) == 1


class NeverTheSame(MemoryStore):
    """A store in which another log is in the place of the one that is read, whenever its entries are read."""

    reads = 0

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        self.reads += 1
        raise LogReplaced(f"{ref} was replaced")


async def test_a_read_begins_again_a_limited_number_of_times() -> None:
    store = NeverTheSame()
    async with SessionHost(store=store, limits=Limits(cache_bytes_max=0)) as host:
        session = await written(host)
        await session.passivate()
        with pytest.raises(LogReplaced):
            await session.context()
        assert store.reads == TRIES_MAX
        await session.append_message("user", "two")
        with pytest.raises(LogReplaced):
            await session.context()
        assert store.reads == TRIES_MAX + 1, "an actor says so at once"


@pytest.mark.parametrize("read_only", [False, True])
async def test_an_iteration_goes_on_when_another_host_archives_the_session_or_brings_it_back(
    host: SessionHost, other: SessionHost, read_only: bool
) -> None:
    large = "x" * 100_000
    session = await written(host, "first", *[large] * 12)
    await session.passivate()
    if read_only:
        session = await host.load("main", read_only=True)
    for move, lines in ((other.archive, 13), (other.unarchive, 14)):  # archiving adds a line
        seqs: list[int] = []
        async for entry in session.iter_entries():
            if not seqs:
                await move("main")
                await other.passivate_idle()
            seqs.append(entry.seq)
        assert seqs == list(range(1, lines + 1))
        await session.refresh()
        assert session.cursor.seq == lines + 1
    if read_only:
        with pytest.raises(ReadOnly):
            await session.append_message("user", "refused")
