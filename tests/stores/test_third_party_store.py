"""A store as a third party might write it, in SQLite, passes the published suite and works behind a host.

It uses only what a third party may use: the protocol, its types and errors, and the two checks of every store."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from anyio.lowlevel import cancel_shielded_checkpoint

from treering import (
    KeyedSessions,
    Message,
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
SCHEMA = """
create table if not exists logs (
    ref text primary key, epoch integer not null default 0, owner text, holder text,
    generation text not null default '', header blob, head integer not null default 0,
    size integer not null default 0, modified real not null default 0, changes integer not null default 0);
create table if not exists lines (ref text, seq integer, line blob, primary key (ref, seq)) without rowid;
create table if not exists beside (
    ref text, kind text, generation text, head integer, data blob, primary key (ref, kind)) without rowid;
"""


class SqliteStore:
    """Keeps logs in a SQLite database, which several stores can share."""

    def __init__(self, path: Path) -> None:
        self._id = uuid.uuid4().hex
        self._db: sqlite3.Connection | None = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._db.executescript("pragma journal_mode = wal; pragma synchronous = off;" + SCHEMA)

    def capability(self, kind: Callable[..., T]) -> T | None:
        return offered(self, kind, {AppendsAtOnce})

    # -- owning

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        if not all(refs):
            raise InvalidSessionId("the empty name names no log")
        await cancel_shielded_checkpoint()
        return [self._acquire(ref, owner) for ref in refs]

    def _acquire(self, ref: Ref, owner: str) -> Lease | SessionLocked:
        with self._transaction() as db:
            db.execute("insert or ignore into logs (ref) values (?)", [ref])
            taken = db.execute(
                "update logs set owner = ?, holder = ?, epoch = epoch + 1 where ref = ? and owner is null",
                [owner, self._id, ref],
            )
            row = self._row(ref)
            assert row is not None
            if not taken.rowcount:
                return SessionLocked(f"{ref} is owned by {row['owner']}")
        found = self._detected(row)
        header, dialect = (None, None) if found is None else (found.header, found.dialect)
        return Lease(ref, owner, row["epoch"], _head(row), header, dialect)

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        return [self._held(lease) is not None for lease in leases]

    async def release(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            if self._held(lease) is not None:
                self._open_db().execute("update logs set owner = null, holder = null where ref = ?", [lease.ref])

    def _held(self, lease: Lease) -> sqlite3.Row | None:
        row = self._row(lease.ref)
        mine = (self._id, lease.owner, lease.epoch)
        return row if row is not None and (row["holder"], row["owner"], row["epoch"]) == mine else None

    def _must_hold(self, lease: Lease) -> sqlite3.Row:
        row = self._held(lease)
        if row is None:
            raise Conflict(f"the lease on {lease.ref} is over")
        return row

    # -- appending

    def try_append(self, append: Append) -> Outcome | None:
        check_lines(append.lines)
        with self._transaction():
            row = self._held(append.lease)
            if row is None or append.expected_head != _head(row):
                row = row or self._row(append.lease.ref)
                return Fenced(Cursor("", 0), append.lease.epoch) if row is None else Fenced(_head(row), row["epoch"])
            if row["header"] is None:
                if append.header is None:
                    raise InvalidInput(f"the first append to {append.lease.ref} has to bring the header")
                self._begin(append.lease.ref, append.header)
            self._extend(append.lease.ref, append.lines)
        row = self._row(append.lease.ref)
        assert row is not None
        return Committed(_head(row))

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        for each in appends:
            check_lines(each.lines)
        outcomes = [outcome for each in appends if (outcome := self.try_append(each)) is not None]
        await cancel_shielded_checkpoint()
        return outcomes

    async def resolve(self, lease: Lease) -> Cursor:
        return _head(self._must_hold(lease))

    def _begin(self, ref: Ref, block: bytes) -> None:
        check_header(block, ref)
        self._open_db().execute("delete from lines where ref = ?", [ref])
        self._open_db().execute(
            "update logs set header = ?, generation = ?, head = 0, size = ? where ref = ?",
            [block, uuid.uuid4().hex, len(block), ref],
        )

    def _extend(self, ref: Ref, lines: Iterable[bytes]) -> None:
        row = self._row(ref)
        assert row is not None
        numbered = [(ref, seq, line[:-1]) for seq, line in enumerate(lines, row["head"] + 1)]
        self._open_db().executemany("insert into lines values (?, ?, ?)", numbered)
        size = sum(len(line) + 1 for _, _, line in numbered)
        self._open_db().execute(
            "update logs set head = head + ?, size = size + ?, modified = ?, changes = changes + 1 where ref = ?",
            [len(numbered), size, datetime.now(UTC).timestamp(), ref],
        )

    # -- reading

    async def open(self, ref: Ref) -> Opening:
        row = self._row(ref)
        found = None if row is None else self._detected(row)
        if row is None or found is None:
            raise SessionNotFound(f"there is no session {ref!r} in the database")
        return Opening(found.header, found.dialect, _head(row))

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        end = self._same(ref, generation)["head"]
        rows = self._open_db().execute(
            "select line from lines where ref = ? and seq > ? and seq <= ? order by seq",
            [ref, after, end if through is None else min(through, end)],
        )
        lines: list[bytes] = []
        size = 0
        for row in rows:
            size += len(row["line"])
            if lines and size > PAGE_BYTES:
                break
            lines.append(row["line"])
        return Page(after + 1, lines, after + len(lines) < end)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        self._same(ref, generation)
        found = [self._line(ref, seq) for seq in seqs]
        if None in found:
            raise InvalidInput(f"{ref} has not all of the lines that were asked for")
        return [line for line in found if line is not None]

    def _line(self, ref: Ref, seq: int) -> bytes | None:
        row = self._open_db().execute("select line from lines where ref = ? and seq = ?", [ref, seq]).fetchone()
        return None if row is None else row["line"]

    def _same(self, ref: Ref, generation: str) -> sqlite3.Row:
        row = self._row(ref)
        if row is None or row["header"] is None:
            raise SessionNotFound(f"there is no session {ref!r} in the database")
        if row["generation"] != generation:
            raise LogReplaced(f"{ref} was replaced: read it from the start")
        return row

    # -- beside a log

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        check_kind(kind)
        row = self._open_db().execute("select * from beside where ref = ? and kind = ?", [ref, kind]).fetchone()
        return None if row is None else Blob(Cursor(row["generation"], row["head"]), row["data"])

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        check_kind(kind)
        row = self._must_hold(lease)
        if head.generation != row["generation"] or head.seq > row["head"]:
            raise Conflict(f"{lease.ref} has no head {head.seq}")
        with self._transaction() as db:
            db.execute(
                "insert or replace into beside values (?, ?, ?, ?, ?)",
                [lease.ref, kind, head.generation, head.seq, data],
            )
            db.execute("update logs set changes = changes + ? where ref = ?", [kind == "leaf", lease.ref])

    # -- whole logs

    async def remove(self, lease: Lease) -> None:
        self._must_hold(lease)
        with self._transaction() as db:
            db.execute("delete from lines where ref = ?", [lease.ref])
            db.execute("delete from beside where ref = ?", [lease.ref])
            db.execute(
                "update logs set owner = null, holder = null, header = null, generation = '', head = 0, "
                "changes = changes + 1 where ref = ?",
                [lease.ref],
            )

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        whole = list(lines)
        check_lines(whole)
        self._must_hold(lease)
        with self._transaction() as db:
            self._begin(lease.ref, header)
            db.execute("delete from beside where ref = ?", [lease.ref])
            self._extend(lease.ref, whole)
        return _head(self._must_hold(lease))

    async def exists(self, ref: Ref) -> bool:
        row = self._row(ref)
        return row is not None and row["header"] is not None

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        rows = self._open_db().execute(
            "select ref, size, modified from logs "
            "where substr(ref, 1, ?) = ? and ref > ? and header is not null order by ref limit ?",
            [len(prefix), prefix, after, limit],
        )
        return [LogInfo(row["ref"], row["size"], datetime.fromtimestamp(row["modified"], UTC)) for row in rows]

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        return self._changes({ref: self._changed(ref) for ref in refs})

    async def _changes(self, seen: dict[Ref, int]) -> AsyncIterator[set[Ref]]:
        while True:
            now = {ref: self._changed(ref) for ref in seen}
            changed = {ref for ref in seen if now[ref] != seen[ref]}
            seen = now
            if changed:
                yield changed
            else:
                await anyio.sleep(POLL_S)

    def _changed(self, ref: Ref) -> int:
        row = self._row(ref)
        return 0 if row is None else row["changes"]

    # -- the database

    def _open_db(self) -> sqlite3.Connection:
        if self._db is None:
            raise HostClosed("this store was closed: make another one")
        return self._db

    def _transaction(self) -> _Transaction:
        return _Transaction(self._open_db())

    def _row(self, ref: Ref) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._open_db().execute("select * from logs where ref = ?", [ref]).fetchone()
        return row

    @staticmethod
    def _detected(row: sqlite3.Row) -> Detected | None:
        return None if row["header"] is None else detect(row["header"], row["ref"])

    async def aclose(self) -> None:
        if self._db is not None:
            self._db.execute("update logs set owner = null, holder = null where holder = ?", [self._id])
            self._db.close()
            self._db = None


class _Transaction:
    """A transaction that excludes other writers."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> sqlite3.Connection:
        self._db.execute("begin immediate")
        return self._db

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._db.execute("commit" if kind is None else "rollback")


def _head(row: sqlite3.Row) -> Cursor:
    return Cursor(row["generation"], row["head"])


def names_in(folder: Path, pattern: str = "*") -> list[str]:
    """List the names in a folder, or nothing if there is no such folder."""
    return sorted(path.name for path in folder.glob(pattern))


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
        live = (session.tree(), session.leaf_id, session.labels(), await session.entries(), await session.context())
    async with SessionHost(store=SqliteStore(file)) as host:
        session = await host.load("main")
        assert live == (
            session.tree(),
            session.leaf_id,
            session.labels(),
            await session.entries(),
            await session.context(),
        )
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
    assert names_in(tmp_path) == ["sessions.db"]
