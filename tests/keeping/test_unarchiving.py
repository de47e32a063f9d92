"""Every write to an archived session unarchives it, and nothing else does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from tests.stores.logs import InterruptedDisk

from treering import (
    Context,
    EntryNotFound,
    Limits,
    LogReplaced,
    MessageEntry,
    Session,
    SessionHost,
    Snapshot,
    plain_text,
)
from treering.entries import SessionInfo, SessionInfoEntry
from treering.errors import LeafMoved
from treering.events.stores.files import Writes
from treering.testing.stores.case import NATIVE

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class PausingOffload:
    """Runs blocking work inline, and pauses when a given file first exists."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.file_exists = anyio.Event()
        self.resume = anyio.Event()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        result = fn(*args)
        if self.path is not None and self.path.exists() and not self.file_exists.is_set():
            self.file_exists.set()
            await self.resume.wait()
        return result


@pytest.fixture
async def session(host: SessionHost) -> Session:
    """An archived session."""
    session = await host.create("a")
    await session.append_message("user", "one")
    await host.archive(session)
    return session


async def changes(session: Session) -> list[bool | None]:
    """Whether each entry about the session archives it or brings it back."""
    return [each.session_info.archived for each in await session.entries() if isinstance(each, SessionInfoEntry)]


async def texts(session: Session) -> list[str]:
    return [plain_text(message.content) for message in await session.messages()]


async def append_expecting(host: SessionHost, session: Session) -> None:
    await session.append_message("user", "two", expected_leaf=session.leaf_id, expected_seq=session.cursor.seq)


async def append_concurrently(host: SessionHost, session: Session) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(session.append_message, "user", str(number))


async def load_concurrently(host: SessionHost, session: Session) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(host.load, "a")


async def branch(host: SessionHost, session: Session) -> None:
    first = session.path()[0]
    await session.branch(first)
    assert session.leaf_id == first


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (append_expecting, ["one", "two"]),
        (append_concurrently, ["0", "1", "2", "3", "4", "one"]),
        (load_concurrently, ["one"]),
        (branch, ["one"]),
    ],
)
async def test_a_write_or_a_load_unarchives_the_session_once(
    host: SessionHost, session: Session, act: Callable[[SessionHost, Session], Awaitable[None]], expected: list[str]
) -> None:
    await act(host, session)
    assert await changes(session) == [True, False]
    assert sorted(await texts(session)) == expected


async def test_a_status_alone_unarchives_the_session(host: SessionHost, session: Session) -> None:
    await session.append(SessionInfo(status="waiting"))
    assert await changes(session) == [True, None]
    assert not (await host.resolve("a")).archived
    await host.archive("a")
    await session.append(SessionInfo(status="done", archived=True))  # said by the command itself
    assert (await host.resolve("a")).archived


async def test_a_refused_write_leaves_the_session_archived(session: Session) -> None:
    with pytest.raises(EntryNotFound):
        await session.append_message("user", "two", below="nowhere")
    with pytest.raises(LeafMoved):
        await session.append_message("user", "two", expected_seq=0)
    with pytest.raises(EntryNotFound):
        await session.branch("nowhere")
    assert await changes(session) == [True]


async def test_a_repeated_command_leaves_the_session_archived(host: SessionHost, session: Session) -> None:
    entry_id = await session.append_message("user", "two", command_id="once")
    await host.archive(session)
    before = session.cursor.seq
    assert await session.append_message("user", "two", command_id="once") == entry_id
    assert session.cursor.seq == before
    assert await changes(session) == [True, False, True]


async def test_the_session_may_be_passivated_at_any_moment(host: SessionHost, session: Session) -> None:
    done = anyio.Event()

    async def passivate_often() -> None:
        while not done.is_set():
            await host.passivate_idle()
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(passivate_often)
        for number in range(10):
            await session.append_message("user", str(number))
            await host.archive(session)
        done.set()
    assert await texts(session) == ["one", *map(str, range(10))]


async def test_reading_while_the_session_is_unarchived_gives_its_content(root: Path) -> None:
    pausing = PausingOffload()
    read: list[str] = []
    followed: list[Context] = []

    async def read_texts() -> None:
        read.extend(await texts(archived))

    async def read_context() -> None:
        async with archived.subscribe("context") as changes:
            snapshot = await anext(changes)
            assert isinstance(snapshot, Snapshot)
            followed.append(snapshot.value)

    async with SessionHost(root, offload=pausing, limits=Limits(cache_bytes_max=0)) as host:
        archived = await host.create("a")
        await archived.append_message("user", "one")
        await host.archive(archived)
        assert await texts(archived) == ["one"]
        pausing.path = root / "a.jsonl"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(archived.append_message, "user", "two")
            await pausing.file_exists.wait()
            tasks.start_soon(read_texts)
            tasks.start_soon(read_context)
            await wait_all_tasks_blocked()
            pausing.resume.set()
    assert read == ["one"]
    assert [plain_text(each.messages[0].content) for each in followed] == ["one"]


@pytest.mark.parametrize("writes", ["inline", "thread"])
async def test_a_file_that_another_program_restores_while_the_session_is_unarchived_is_kept(
    root: Path, writes: Writes
) -> None:
    path = root / "a.jsonl"
    async with SessionHost(root) as host:
        session = await host.create("a")
        await session.append_message("user", "one")
        await session.append_message("user", "two")
        before = path.read_bytes()
        await host.archive(session)
    archived = files_of(root)
    theirs = before.replace(b"two", b"six")
    kept = 0

    def restore() -> None:
        if not path.exists():
            whole = path.with_suffix(".new")  # a thread of the host may look at any moment
            whole.write_bytes(theirs)
            whole.rename(path)

    for nth in count(1):
        disk = InterruptedDisk()
        disk.before("stat", "open", act=restore, path=f"{path}*", nth=nth)
        async with SessionHost(root, disk=disk, writes=writes) as host:
            try:
                session = await host.load("a")
            except LogReplaced:
                session = await host.load("a")
            await session.append_message("user", "three")
            found = await texts(session)
            assert found in (["one", "two", "three"], ["one", "six", "three"])
            assert [plain_text(each.message.content) for each in entries_of(path)] == found
            kept += "six" in found
        if disk.act is not None:
            break
        for each in files_of(root):
            each.unlink()
        for each, content in archived.items():
            each.write_bytes(content)
    assert kept > 10


def files_of(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.glob("a.jsonl*")}


def entries_of(path: Path) -> list[MessageEntry]:
    entries = (NATIVE.decode(line, seq) for seq, line in enumerate(path.read_bytes().splitlines()[1:], 1))
    return [entry for entry in entries if isinstance(entry, MessageEntry)]
