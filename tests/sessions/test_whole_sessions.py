"""Sessions as wholes: opened or made, forked, put from one store into another, and never over one that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import (
    HostClosed,
    KeyedSessions,
    Message,
    NotASession,
    Session,
    SessionExists,
    SessionHost,
    SessionNotFound,
    SyncHost,
    Usage,
    message,
    plain_text,
)
from treering.events.dialects.base import Dialect
from treering.events.stores.base import BlobKind, Cursor, Lease
from treering.events.stores.memory import MemoryStore

Files = Callable[[], list[str]]
TURN = [message("user", "Hello"), message("assistant", "Hi there!")]


def texts(messages: list[Message]) -> list[str]:
    return [plain_text(each.content) for each in messages]


def names_in(folder: Path, pattern: str = "*") -> list[str]:
    """List what is in a folder; nothing where it is not there."""
    return sorted(path.name for path in folder.glob(pattern))


def given_file(path: Path, content: bytes) -> None:
    """Write a file, in a folder that may not be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


# -- open


@pytest.mark.feature("D-22", "D-35")
async def test_opening_makes_what_is_not_there_and_a_turn_persists_by_itself(root: Path, files: Files) -> None:
    async with SessionHost(root) as host:
        session = await host.open("my-session")
        assert files() == []
        await session.save_turn(TURN, Usage(10, 3))
        assert files() == ["my-session.jsonl"]
    async with SessionHost(root) as host:
        session = await host.open("my-session")
        assert await session.messages() == TURN
        await session.save_turn([message("user", "And on.")])
    async with SessionHost(root) as host:
        assert texts(await (await host.open("my-session")).messages()) == ["Hello", "Hi there!", "And on."]


@pytest.mark.feature("D-35")
@pytest.mark.parametrize(
    "content",
    [
        b"not json at all\n",
        b'{"type":"message","id":"e1"}\n',
        b"\x00" * 100,
        b'{"type":"session"\n{"half":1}\n',
        b"[]\n",
    ],
    ids=["text", "no header", "zeros", "half", "list"],
)
async def test_a_corrupt_file_is_an_error_and_is_not_overwritten(root: Path, content: bytes) -> None:
    path = root / "my-session.jsonl"
    given_file(path, content)
    async with SessionHost(root) as host:
        other = await (await host.create("other")).fork("copy")
        for _ in range(2):
            with pytest.raises(NotASession, match=r"my-session\.jsonl"):
                await host.open("my-session")
            with pytest.raises((NotASession, SessionExists)):
                await host.create("my-session")
            with pytest.raises((NotASession, SessionExists)):
                await other.fork("my-session")
    assert path.read_bytes() == content


# -- in memory, forked, put


@pytest.mark.feature("D-21")
async def test_a_new_session_can_live_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with SessionHost() as host:
        session = await host.create("my-session")
        await session.save_turn(TURN, Usage(10, 3))
        assert (session.id, session.file_path) == ("my-session", None)
        assert await session.messages() == TURN
    assert names_in(tmp_path) == []


@pytest.mark.feature("D-26", "D-48")
async def test_a_fork_is_a_deep_copy_that_names_its_origin(root: Path) -> None:
    async with SessionHost(root) as host:
        original = await host.create("original")
        await original.save_turn(TURN, Usage(10, 3), metadata={"deep": {"list": [1]}})
        before = (root / "original.jsonl").read_bytes()
        forked = await original.fork("new-branch")
        assert (forked.id, forked.header.parent_session) == ("new-branch", "original")
        assert await forked.entries() == await original.entries()
        await forked.save_turn([message("user", "only here")])
        await forked.set_label(forked.path()[0], "mine")
        assert (root / "original.jsonl").read_bytes() == before
        assert await original.messages() == TURN
        assert original.labels() == []
        await original.append_message("user", "only there")
        assert texts(await forked.messages()) == ["Hello", "Hi there!", "only here"]


@pytest.mark.feature("D-36", "D-39", "D-59")
async def test_what_is_put_is_there_whole_and_goes_on_persisting(root: Path, files: Files) -> None:
    async with SessionHost() as memory, SessionHost(root) as host:
        original = await memory.open("my-session")
        first = (await original.save_turn(TURN, Usage(10, 3)))[0]
        forked = await original.fork("forked")
        connected = await host.put(forked)
        assert files() == ["forked.jsonl"]
        assert connected.header.parent_session == "my-session"
        assert await connected.entries() == await original.entries()
        await connected.save_turn([message("user", "in the file")])
        await forked.append_message("user", "in memory")
        assert texts(await forked.messages()) == ["Hello", "Hi there!", "in memory"]
        await original.append_message("user", "aside")
        await original.set_label(first, "begin")
        await original.branch(first)
        put = await host.put(original)
        assert put.leaf_id == first
    async with SessionHost(root) as host:
        assert texts(await (await host.open("forked")).messages()) == ["Hello", "Hi there!", "in the file"]
        put = await host.open("my-session")
        assert put.leaf_id == first
        assert put.labels() == [(first, "begin")]
        assert texts(await put.messages()) == ["Hello"]
        assert await put.event_count() == 3
        assert not [entry for entry in await put.entries() if entry.type == "aborted"]


@pytest.mark.feature("D-36")
async def test_putting_refuses_what_is_there_unless_it_is_to_be_replaced(root: Path) -> None:
    async with SessionHost() as memory, SessionHost(root) as host:
        there = await host.open("my-session")
        await there.append_message("user", "there before")
        before = (root / "my-session.jsonl").read_bytes()
        new = await memory.open("my-session")
        await new.append_message("user", "put")
        with pytest.raises(SessionExists, match=r"my-session"):
            await host.put(new)
        assert (root / "my-session.jsonl").read_bytes() == before
        connected = await host.put(new, replace=True)
        assert texts(await connected.messages()) == texts(await there.messages()) == ["put"]
        await there.append_message("user", "and on")
        assert texts(await connected.messages()) == ["put", "and on"]
    async with SessionHost(root) as host:
        assert texts(await (await host.open("my-session")).messages()) == ["put", "and on"]


@pytest.mark.feature("D-36")
async def test_a_session_that_is_put_where_it_is_stays_as_it_is(root: Path, files: Files) -> None:
    async with SessionHost(root) as host:
        unborn = await host.put(await host.create("not yet"))
        assert files() == []
        await unborn.append_message("user", "Hello")
        before = (root / "not yet.jsonl").read_bytes()
        again = await host.put(unborn, replace=True)
        assert (root / "not yet.jsonl").read_bytes() == before
        await again.append_message("user", "and on")
        assert texts(await unborn.messages()) == ["Hello", "and on"]


@pytest.mark.feature("D-36")
async def test_what_is_put_by_its_key_is_found_by_its_key(root: Path) -> None:
    async with SessionHost() as memory, SessionHost(root) as host:
        await KeyedSessions(memory).add_message("a_b", "user", "Hello")
        await host.put(await memory.get_or_create("a_b"))
        await KeyedSessions(host).add_message("a_b", "user", "and on")
        assert texts(await KeyedSessions(host).history("a_b")) == ["Hello", "and on"]
        assert await KeyedSessions(host).history("a:b") == []


@pytest.mark.feature("D-36")
def test_threads_put_sessions_of_another_event_loop(root: Path) -> None:
    with SyncHost() as memory, SyncHost(root) as host:
        session = memory.open("my-session")
        session.save_turn(TURN)
        connected = host.put(session)
        connected.append_message("user", "and on")
        with pytest.raises(SessionExists):
            host.put(session)
        assert texts(host.put(session, replace=True).messages()) == ["Hello", "Hi there!"]
        assert texts(connected.messages()) == texts(session.messages())


@pytest.mark.feature("D-49")
async def test_a_fork_within_a_store_refuses_an_id_that_is_taken(root: Path) -> None:
    async with SessionHost(root) as host:
        source = await host.open("from")
        await source.save_turn(TURN)
        forked = await host.fork_from("from", session_id="new")
        await forked.append_message("user", "only here")
        content = (root / "new.jsonl").read_bytes()
        for live in (True, False):
            with pytest.raises(SessionExists):
                await host.fork_from("from", session_id="new")
            if live:
                await host.passivate_idle()
        assert (root / "new.jsonl").read_bytes() == content
        with pytest.raises(SessionNotFound):
            await host.fork_from("nowhere", session_id="newer")


# -- found and deleted


@pytest.mark.feature("D-37")
async def test_the_listing_is_cut_by_limit_and_offset_with_the_newest_first(host: SessionHost) -> None:
    for name in "abcde":
        await (await host.open(name)).save_turn(TURN)
    await (await host.open("b")).save_turn(TURN)
    assert [row.id for row in await host.list_sessions()] == ["b", "e", "d", "c", "a"]
    assert [row.id for row in await host.list_sessions(limit=2)] == ["b", "e"]
    assert [row.id for row in await host.list_sessions(limit=2, offset=3)] == ["c", "a"]
    assert [row.id for row in await host.list_sessions(offset=4)] == ["a"]
    assert await host.list_sessions(limit=0) == await host.list_sessions(offset=5) == []


@pytest.mark.feature("D-38")
async def test_deleting_may_be_repeated(host: SessionHost, files: Files) -> None:
    session = await host.open("my-session")
    await session.save_turn(TURN)
    for _ in range(3):
        await host.delete("my-session")
        assert files() == []
    await host.delete("never there")
    with pytest.raises(SessionNotFound):
        await host.load("my-session")


@pytest.mark.feature("D-69")
async def test_the_session_of_a_sub_agent_names_where_it_was_started(
    root: Path, header: Callable[[Session], dict[str, Any]]
) -> None:
    async with SessionHost(root) as host:
        session = await host.open("main")
        call = await session.append_message("assistant", "I have it looked up.")
        child = await host.create("child", parent_session=session.id, parent_entry=call)
        await child.append_message("user", "Look it up.")
        assert header(child)["parent_session"] == "main"
        assert header(child)["parent_entry"] == call
    async with SessionHost(root) as host:
        child = await host.load("child")
        assert (child.header.parent_session, child.header.parent_entry) == ("main", call)
        rows: dict[str, str | None] = {row.id: row.parent_session for row in await host.list_sessions()}
        assert rows == {"main": None, "child": "main"}


async def test_a_closed_host_puts_nothing(root: Path) -> None:
    async with SessionHost() as memory:
        session: Session = await memory.open("my-session")
        host = SessionHost(root)
        async with host:
            pass
        with pytest.raises(HostClosed):
            await host.put(session)
    assert names_in(root) == []


class Waiting(MemoryStore):
    """Gives way to others at each step, as a store at the other end of a network does."""

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        head = await super().put(lease, dialect, header, lines)
        self.reached.set()
        await checkpoint()
        return head

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        await checkpoint()
        await super().save(lease, kind, head, data)

    async def release(self, leases: Sequence[Lease]) -> None:
        await checkpoint()
        await super().release(leases)

    def __init__(self) -> None:
        super().__init__()
        self.reached = anyio.Event()


async def test_a_put_that_is_cancelled_leaves_no_half_of_a_session() -> None:
    store = Waiting()
    async with SessionHost() as memory, SessionHost(store=store) as host:
        session = await memory.create("main")
        first = await session.append_message("user", "Hello")
        await session.append_message("assistant", "Hi!")
        await session.branch(first)
        async with anyio.create_task_group() as group:
            group.start_soon(host.put, session)
            await store.reached.wait()
            group.cancel_scope.cancel()
        copy = await host.load("main")
        await copy.refresh()
        assert copy.leaf_id == first
        await copy.append_message("assistant", "Hello!")
        assert texts(await copy.messages()) == ["Hello", "Hello!"]
