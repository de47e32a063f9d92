"""Opening, creating, forking and putting sessions, never over an existing one."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import SessionHost, SessionNotFound, Usage, message
from treering.errors import SessionExists
from treering.events.dialects.base import Dialect
from treering.events.stores.base import BlobKind, Cursor, Lease
from treering.events.stores.memory import MemoryStore

from .conftest import header, texts

Files = Callable[[], list[str]]
TURN = [message("user", "Hello"), message("assistant", "Hi there!")]


def names_in(folder: Path, pattern: str = "*") -> list[str]:
    """List the names in a folder, or nothing if there is no such folder."""
    return sorted(path.name for path in folder.glob(pattern))


@pytest.mark.feature("D-22", "D-35")
async def test_open_creates_a_missing_session_and_turns_are_saved_at_once(root: Path, files: Files) -> None:
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


@pytest.mark.feature("D-21", "D-36", "D-39", "D-59")
async def test_a_session_in_memory_that_was_put_is_complete_and_can_be_continued(root: Path, files: Files) -> None:
    async with SessionHost() as memory, SessionHost(root) as host:
        original = await memory.create("my-session")
        first = (await original.save_turn(TURN, Usage(10, 3)))[0]
        assert (original.id, original.file_path, files()) == ("my-session", None, [])
        assert await original.messages() == TURN
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
async def test_put_refuses_to_overwrite_a_session_unless_asked_to_replace_it(root: Path) -> None:
    async with SessionHost() as memory, SessionHost(root) as host:
        existing = await host.open("my-session")
        await existing.append_message("user", "there before")
        before = (root / "my-session.jsonl").read_bytes()
        new = await memory.open("my-session")
        await new.append_message("user", "put")
        with pytest.raises(SessionExists, match=r"my-session"):
            await host.put(new)
        assert (root / "my-session.jsonl").read_bytes() == before
        connected = await host.put(new, replace=True)
        assert texts(await connected.messages()) == texts(await existing.messages()) == ["put"]
        await existing.append_message("user", "and on")
        assert texts(await connected.messages()) == ["put", "and on"]
    async with SessionHost(root) as host:
        assert texts(await (await host.open("my-session")).messages()) == ["put", "and on"]


@pytest.mark.feature("D-36")
async def test_putting_a_session_into_its_own_store_changes_nothing(root: Path, files: Files) -> None:
    async with SessionHost(root) as host:
        session = await host.put(await host.create("not yet"))
        assert files() == []
        await session.append_message("user", "Hello")
        before = (root / "not yet.jsonl").read_bytes()
        again = await host.put(session, replace=True)
        assert (root / "not yet.jsonl").read_bytes() == before
        await again.append_message("user", "and on")
        assert texts(await session.messages()) == ["Hello", "and on"]


@pytest.mark.feature("D-49")
async def test_a_fork_with_an_existing_id_is_refused(root: Path) -> None:
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


@pytest.mark.feature("D-37")
async def test_the_listing_is_newest_first_and_paged_by_limit_and_offset(host: SessionHost) -> None:
    for name in "abcde":
        await (await host.open(name)).save_turn(TURN)
    await (await host.open("b")).save_turn(TURN)
    assert [row.id for row in await host.list_sessions()] == ["b", "e", "d", "c", "a"]
    assert [row.id for row in await host.list_sessions(limit=2)] == ["b", "e"]
    assert [row.id for row in await host.list_sessions(limit=2, offset=3)] == ["c", "a"]
    assert [row.id for row in await host.list_sessions(offset=4)] == ["a"]
    assert await host.list_sessions(limit=0) == await host.list_sessions(offset=5) == []


@pytest.mark.feature("D-69")
async def test_a_sub_agents_session_names_its_parents(root: Path) -> None:
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


class YieldingStore(MemoryStore):
    """A store that lets other tasks run at each step, as a store behind a network does."""

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


async def test_a_cancelled_put_leaves_no_partial_session() -> None:
    store = YieldingStore()
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
