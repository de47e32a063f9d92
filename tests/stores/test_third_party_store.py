"""A store as a third party might write it, in SQLite, passes the published suite and works behind a host.

It uses only what a third party may use: the protocol, its types and errors, and the two checks of every store."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import anyio
import msgspec
import pytest
from anyio.lowlevel import cancel_shielded_checkpoint

from treering import (
    KeyedSessions,
    Message,
    Session,
    SessionExists,
    SessionHost,
    SessionLocked,
    SessionNotFound,
    Usage,
    message,
    plain_text,
)
from treering.events.dialects.base import Dialect
from treering.events.dialects.detect import Detected, detect
from treering.events.errors import Conflict, HostClosed, InvalidInput, InvalidSessionId, LogReplaced
from treering.events.stores.base import (
    Append,
    Blob,
    BlobKind,
    Committed,
    Cursor,
    Fenced,
    Lease,
    LogInfo,
    Opening,
    Outcome,
    Page,
    Ref,
    Store,
)
from treering.events.stores.blobs import check_kind
from treering.events.stores.capabilities import AppendsAtOnce, offered
from treering.events.stores.lines import check_header, check_lines
from treering.testing.stores import StoreSuite

T = TypeVar("T")

PAGE_BYTES = 256 * 1024
POLL_S = 0.002
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class Kept(msgspec.Struct):
    """All that is kept of a log."""

    holder: tuple[str, str] | None = None
    epoch: int = 0
    generation: str = ""
    header: bytes | None = None
    lines: list[bytes] = []
    beside: dict[str, Blob] = {}
    modified: datetime = BEGINNING
    changes: int = 0

    @property
    def head(self) -> Cursor:
        return Cursor(self.generation, len(self.lines))

    def begin(self, ref: Ref, block: bytes) -> None:
        check_header(block, ref)
        self.header, self.generation, self.lines, self.beside = block, uuid.uuid4().hex, [], {}

    def extend(self, lines: Sequence[bytes]) -> None:
        check_lines(lines)
        self.lines += [line[:-1] for line in lines]
        self.modified = datetime.now(UTC)
        self.changes += 1

    def detected(self, ref: Ref) -> Detected | None:
        return None if self.header is None else detect(self.header, ref)


class SqliteStore:
    """Keeps logs in a SQLite database, which several stores can share."""

    def __init__(self, path: Path) -> None:
        self._id = uuid.uuid4().hex
        self._db: sqlite3.Connection | None = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript(
            "pragma journal_mode = wal; pragma synchronous = off;"
            "create table if not exists logs (ref text primary key, kept blob not null)"
        )

    # -- the database

    def _open_db(self) -> sqlite3.Connection:
        if self._db is None:
            raise HostClosed("this store was closed: make another one")
        return self._db

    def _found(self, ref: Ref) -> Kept:
        row = self._open_db().execute("select kept from logs where ref = ?", [ref]).fetchone()
        return Kept() if row is None else msgspec.msgpack.decode(row[0], type=Kept)

    @contextmanager
    def _changing(self, ref: Ref) -> Generator[Kept]:
        """Exclude other writers while a log is changed; nothing of it is changed if that fails."""
        db = self._open_db()
        db.execute("begin immediate")
        try:
            kept = self._found(ref)
            yield kept
            db.execute("insert or replace into logs values (?, ?)", [ref, msgspec.msgpack.encode(kept)])
        except BaseException:
            db.execute("rollback")
            raise
        db.execute("commit")

    def capability(self, kind: Callable[..., T]) -> T | None:
        return offered(self, kind, {AppendsAtOnce})

    # -- owning

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        if not all(refs):
            raise InvalidSessionId("the empty name names no log")
        await cancel_shielded_checkpoint()
        return [self._acquire(ref, owner) for ref in refs]

    def _acquire(self, ref: Ref, owner: str) -> Lease | SessionLocked:
        with self._changing(ref) as kept:
            if kept.holder is not None:
                return SessionLocked(f"{ref} is owned by {kept.holder[1]}")
            kept.holder = (self._id, owner)
            kept.epoch += 1
        found = kept.detected(ref)
        header, dialect = (None, None) if found is None else (found.header, found.dialect)
        return Lease(ref, owner, kept.epoch, kept.head, header, dialect)

    def _is_held(self, lease: Lease, kept: Kept) -> bool:
        return (kept.holder, kept.epoch) == ((self._id, lease.owner), lease.epoch)

    def _must_hold(self, lease: Lease, kept: Kept) -> None:
        if not self._is_held(lease, kept):
            raise Conflict(f"the lease on {lease.ref} is over")

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        return [self._is_held(lease, self._found(lease.ref)) for lease in leases]

    async def release(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            with self._changing(lease.ref) as kept:
                if self._is_held(lease, kept):
                    kept.holder = None

    # -- appending

    def try_append(self, append: Append) -> Outcome | None:
        check_lines(append.lines)
        with self._changing(append.lease.ref) as kept:
            if not self._is_held(append.lease, kept) or append.expected_head != kept.head:
                return Fenced(kept.head, kept.epoch)
            if kept.header is None:
                if append.header is None:
                    raise InvalidInput(f"the first append to {append.lease.ref} has to bring the header")
                kept.begin(append.lease.ref, append.header)
            kept.extend(append.lines)
        return Committed(kept.head)

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        for each in appends:
            check_lines(each.lines)
        outcomes = [outcome for each in appends if (outcome := self.try_append(each)) is not None]
        await cancel_shielded_checkpoint()
        return outcomes

    async def resolve(self, lease: Lease) -> Cursor:
        kept = self._found(lease.ref)
        self._must_hold(lease, kept)
        return kept.head

    # -- reading

    async def open(self, ref: Ref) -> Opening:
        kept = self._found(ref)
        found = kept.detected(ref)
        if found is None:
            raise SessionNotFound(f"there is no session {ref!r} in the database")
        return Opening(found.header, found.dialect, kept.head)

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        kept = self._same(ref, generation)
        lines: list[bytes] = []
        size = 0
        for line in kept.lines[after:through]:
            size += len(line)
            if lines and size > PAGE_BYTES:
                break
            lines.append(line)
        return Page(after + 1, lines, after + len(lines) < len(kept.lines))

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        kept = self._same(ref, generation)
        if not all(0 < seq <= len(kept.lines) for seq in seqs):
            raise InvalidInput(f"{ref} has not all of the lines that were asked for")
        return [kept.lines[seq - 1] for seq in seqs]

    def _same(self, ref: Ref, generation: str) -> Kept:
        kept = self._found(ref)
        if kept.header is None:
            raise SessionNotFound(f"there is no session {ref!r} in the database")
        if kept.generation != generation:
            raise LogReplaced(f"{ref} was replaced: read it from the start")
        return kept

    # -- beside a log

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        check_kind(kind)
        return self._found(ref).beside.get(kind)

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        check_kind(kind)
        with self._changing(lease.ref) as kept:
            self._must_hold(lease, kept)
            if head.generation != kept.generation or head.seq > len(kept.lines):
                raise Conflict(f"{lease.ref} has no head {head.seq}")
            kept.beside[kind] = Blob(head, data)
            kept.changes += kind == "leaf"

    # -- whole logs

    async def remove(self, lease: Lease) -> None:
        with self._changing(lease.ref) as kept:
            self._must_hold(lease, kept)
            kept.holder, kept.header, kept.generation, kept.lines, kept.beside = None, None, "", [], {}
            kept.changes += 1

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        whole = list(lines)
        with self._changing(lease.ref) as kept:
            self._must_hold(lease, kept)
            kept.begin(lease.ref, header)
            kept.extend(whole)
        return kept.head

    async def exists(self, ref: Ref) -> bool:
        return self._found(ref).header is not None

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        refs = [ref for (ref,) in self._open_db().execute("select ref from logs where ref > ? order by ref", [after])]
        found = {ref: kept for ref in refs if ref.startswith(prefix) and (kept := self._found(ref)).header is not None}
        sizes = {
            ref: len(kept.header or b"") + sum(len(each) + 1 for each in kept.lines) for ref, kept in found.items()
        }
        return [LogInfo(ref, sizes[ref], kept.modified) for ref, kept in found.items()][:limit]

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        return self._changes({ref: self._found(ref).changes for ref in refs})

    async def _changes(self, seen: dict[Ref, int]) -> AsyncIterator[set[Ref]]:
        while True:
            now = {ref: self._found(ref).changes for ref in seen}
            changed = {ref for ref in seen if now[ref] != seen[ref]}
            seen = now
            if changed:
                yield changed
            else:
                await anyio.sleep(POLL_S)

    async def aclose(self) -> None:
        if self._db is None:
            return
        for (ref,) in self._db.execute("select ref from logs").fetchall():
            with self._changing(ref) as kept:
                if kept.holder is not None and kept.holder[0] == self._id:
                    kept.holder = None
        self._db.close()
        self._db = None


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough: the store never waits."""
    return "asyncio"


@pytest.mark.feature("D-1")
class TestSqliteStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.file = tmp_path / "sessions.db"

    async def make_store(self) -> Store:
        return SqliteStore(self.file)

    async def another_host(self, store: Store) -> Store:
        return SqliteStore(self.file)


async def state_of(session: Session) -> list[object]:
    return [session.tree(), session.leaf_id, session.labels(), await session.entries(), await session.context()]


@pytest.mark.feature("D-1", "D-2", "D-8")
async def test_a_host_works_on_a_third_party_store(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    async with SessionHost(store=SqliteStore(file)) as host:
        session = await host.create("main", cwd="/work")
        first = await session.append_message("user", "Hello")
        await session.save_turn([message("assistant", "Hi"), message("user", "And?")], Usage(1, 2))
        await session.branch(first)
        other = await session.append_message("user", "Or rather:")
        await session.set_label(first, "start")
        await session.append_compaction("They greeted.", other, 10)
        await KeyedSessions(host).add_message("telegram:1", "user", "Hey")
        fork = await host.fork_from("main", session_id="copy")
        await host.put(await fork.fork("copy of the copy"))
        with pytest.raises(SessionExists):
            await host.fork_from("main", session_id="copy")
        await session.branch(first)
        live = await state_of(session)
    async with SessionHost(store=SqliteStore(file)) as host:
        session = await host.load("main")
        assert await state_of(session) == live
        ids = [row.id for row in await host.list_sessions()]
        assert sorted(ids) == ["copy", "copy of the copy", "main", "telegram_1"]
        messages: list[Message] = await KeyedSessions(host).history("telegram:1")
        assert [plain_text(each.content) for each in messages] == ["Hey"]
        async with session.subscribe() as entries:
            appended = await session.append_message("user", "live")
            async for entry in entries:
                if entry.id == appended:  # type: ignore[union-attr]
                    break
        await host.delete("main")
        with pytest.raises(SessionNotFound):
            await host.load("main")
    assert os.listdir(tmp_path) == ["sessions.db"]
