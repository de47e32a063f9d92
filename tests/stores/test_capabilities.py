"""What a store declares it can do, and what a host does without it."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from treering import FileStore, MemoryStore, SessionHost, plain_text
from treering.actors.log import follower
from treering.entries import MessageEntry
from treering.events.errors import NotLive, SessionNotFound
from treering.events.stores.capabilities import (
    AppendsAtOnce,
    Health,
    Leases,
    LooksAtOnce,
    NamesFiles,
    NamesPlaces,
    NeverBlocks,
    Packs,
    Recovers,
    RemovesDamaged,
    ScansChanges,
    TriesWriting,
    Watches,
    offered,
)
from treering.events.stores.files.changes import Changes
from treering.events.stores.files.root_folder import RootFolder
from treering.events.stores.finding import FindsRows
from treering.events.stores.hosts import Hosts, Inbox
from treering.events.stores.search import FindsTexts
from treering.events.stores.shelf import Shelf
from treering.testing.stores.capabilities import ALL

T = TypeVar("T")

IN_A_DATABASE = {FindsRows, FindsTexts, Hosts, Inbox}
NEED_A_DISK = {Health, NamesFiles, Recovers, RemovesDamaged, TriesWriting}


def of_files(store: FileStore) -> tuple[Leases, LooksAtOnce, Packs, Recovers, RemovesDamaged]:
    """Let the type checkers compare the file store with what it declares itself."""
    return store, store, store, store, store


def of_a_folder(folder: RootFolder) -> tuple[Health, NamesFiles, NamesPlaces, TriesWriting]:
    """Let the type checkers compare the folder with what it is offered as."""
    return folder, folder, folder, folder


def of_changes(changes: Changes) -> tuple[ScansChanges, Watches]:
    """Let the type checkers compare the changes with what they are offered as."""
    return changes, changes


def of_memory(
    store: MemoryStore,
) -> tuple[AppendsAtOnce, Leases, LooksAtOnce, NamesPlaces, Packs, ScansChanges, Watches]:
    """Let the type checkers compare the memory store with all that it declares."""
    return store, store, store, store, store, store, store


def declared(store: FileStore | MemoryStore) -> set[type]:
    return {kind for kind in ALL if store.capability(kind) is not None}


async def test_a_file_store_has_every_capability_but_those_of_databases_each_by_what_does_it(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for kind in {*ALL} - IN_A_DATABASE:
        assert isinstance(store.capability(kind), kind)
    assert [store.capability(kind) for kind in (NeverBlocks, *IN_A_DATABASE)] == [None] * 5
    await store.aclose()


async def test_a_file_store_appends_at_once_only_if_it_neither_flushes_nor_writes_in_threads(tmp_path: Path) -> None:
    group, file = FileStore(tmp_path, durability="group"), FileStore(tmp_path, durability="file")
    threaded = FileStore(tmp_path, writes="thread")
    for store in (group, threaded):
        assert declared(store) == {*ALL} - {AppendsAtOnce} - IN_A_DATABASE
        await store.aclose()
    assert (file.capability(AppendsAtOnce) is not None) == file.appends_at_once
    await file.aclose()


def test_a_memory_store_declares_what_needs_no_disk() -> None:
    store = MemoryStore()
    assert declared(store) == {*ALL} - NEED_A_DISK - IN_A_DATABASE
    assert store.capability(NeverBlocks) is store
    for kind in declared(store):
        assert isinstance(store.capability(kind), kind)


class Least(MemoryStore):
    """A store that has no capability."""

    def capability(self, kind: Callable[..., T]) -> T | None:
        return offered(self, kind, ())


async def test_a_log_is_followed_in_a_store_that_does_not_tell_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "LOOK_AGAIN_S", 0.001)
    shelf = Shelf()
    async with SessionHost(store=Least(shelf)) as host, SessionHost(store=Least(shelf)) as other:
        session = await host.create("s")
        await session.append_message("user", "1")
        async with await other.load("s", read_only=True) as followed, followed.subscribe() as entries:
            for number in (1, 2, 3):
                if number > 1:
                    await session.append_message("user", str(number))
                with anyio.fail_after(5):
                    entry = await anext(entries)
                assert isinstance(entry, MessageEntry)
                assert plain_text(entry.message.content) == str(number)


async def test_a_host_works_with_a_store_that_has_no_capability() -> None:
    async with SessionHost(store=Least()) as host:
        session = await host.create("s")
        assert (session.leaf_id, session.cursor.seq, session.header.id) == (None, 0, "s")
        await session.append_message("user", "find me")
        await session.append_message("user", "again")
        assert [row.id for row in await host.list_sessions()] == ["s"]
        async with host.search("find") as hits:
            assert [hit.session_id async for hit in hits] == ["s"]
        fork = await session.fork()
        assert (len(fork.path()), fork.message_count, fork.header.parent_session) == (2, 2, "s")
        await host.delete(fork)
        await host.archive("s")
        (row,) = await host.list_sessions(status="archived")
        assert (row.id, row.path) == ("s", None)
        await host.passivate_idle()
        with pytest.raises(NotLive, match="await `refresh` first"):
            session.tree()
        await host.delete("s")
        with pytest.raises(SessionNotFound, match="no longer: load or create another one"):
            session.tree()
