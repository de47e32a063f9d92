"""What is written to an archived session brings it back, and only what is written does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from treering import (
    Context,
    EntryNotFound,
    LeafMoved,
    Limits,
    Session,
    SessionHost,
    SessionInfoEntry,
    Snapshot,
    plain_text,
)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Held:
    """Runs at once what is to run elsewhere, and tells nobody that a file is there before it may."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.there = anyio.Event()
        self.told = anyio.Event()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        result = fn(*args)
        if self.path is not None and self.path.exists() and not self.there.is_set():
            self.there.set()
            await self.told.wait()
        return result


@pytest.fixture
async def host(root: Path) -> AsyncIterator[SessionHost]:
    async with SessionHost(root) as host:
        yield host


@pytest.fixture
async def session(host: SessionHost) -> Session:
    session = await host.create("a")
    await session.append_message("user", "one")
    await host.archive(session)
    return session


async def statuses(session: Session) -> list[str | None]:
    return [each.session_info.status for each in await session.entries() if isinstance(each, SessionInfoEntry)]


async def said(session: Session) -> list[str]:
    return [plain_text(message.content) for message in await session.messages()]


async def test_an_append_that_relies_on_the_state_is_carried_out(session: Session) -> None:
    leaf, seq = session.leaf_id, session.cursor.seq
    await session.append_message("user", "two", expected_leaf=leaf, expected_seq=seq)
    assert await statuses(session) == ["archived", "active"]
    assert await said(session) == ["one", "two"]


async def test_what_is_refused_leaves_it_archived(session: Session) -> None:
    with pytest.raises(EntryNotFound):
        await session.append_message("user", "two", below="nowhere")
    with pytest.raises(LeafMoved):
        await session.append_message("user", "two", expected_seq=0)
    with pytest.raises(EntryNotFound):
        await session.branch("nowhere")
    assert await statuses(session) == ["archived"]


async def test_what_was_carried_out_before_leaves_it_archived(host: SessionHost, session: Session) -> None:
    made = await session.append_message("user", "two", command_id="once")
    await host.archive(session)
    before = session.cursor.seq
    assert await session.append_message("user", "two", command_id="once") == made
    assert session.cursor.seq == before
    assert await statuses(session) == ["archived", "active", "archived"]


async def test_many_at_once_bring_it_back_once(session: Session) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(session.append_message, "user", str(number))
    assert await statuses(session) == ["archived", "active"]
    assert sorted(await said(session)) == ["0", "1", "2", "3", "4", "one"]


async def test_many_who_load_it_bring_it_back_once(host: SessionHost, session: Session) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(host.load, "a")
    assert await statuses(session) == ["archived", "active"]


async def test_a_move_of_the_leaf_brings_it_back(session: Session) -> None:
    first = session.path()[0]
    await session.branch(first)
    assert session.leaf_id == first
    assert await statuses(session) == ["archived", "active"]


async def test_it_may_be_let_go_at_any_moment(host: SessionHost, session: Session) -> None:
    done = anyio.Event()

    async def let_go() -> None:
        while not done.is_set():
            await host.passivate_idle()
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(let_go)
        for number in range(10):
            await session.append_message("user", str(number))
            await host.archive(session)
        done.set()
    assert await said(session) == ["one", *map(str, range(10))]


async def test_who_reads_it_meanwhile_gets_what_it_holds(root: Path) -> None:
    held = Held()
    read: list[str] = []
    followed: list[Context] = []

    async def reads() -> None:
        read.extend(await said(archived))

    async def follows() -> None:
        async with archived.subscribe("context") as changes:
            snapshot = await anext(changes)
            assert isinstance(snapshot, Snapshot)
            followed.append(snapshot.value)

    async with SessionHost(root, offload=held, limits=Limits(cache_bytes_max=0)) as host:
        archived = await host.create("a")
        await archived.append_message("user", "one")
        await host.archive(archived)
        assert await said(archived) == ["one"]
        held.path = root / "a.jsonl"
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(archived.append_message, "user", "two")
                await held.there.wait()
                tasks.start_soon(reads)
                tasks.start_soon(follows)
                await wait_all_tasks_blocked()
                held.told.set()
    assert read == ["one"]
    assert [plain_text(each.messages[0].content) for each in followed] == ["one"]
