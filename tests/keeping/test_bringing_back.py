"""What is written to an archived session brings it back, and only what is written does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from treering import EntryNotFound, LeafMoved, Session, SessionHost, SessionInfoEntry, plain_text


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
