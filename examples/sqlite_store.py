"""How to write a store, shown by one in SQLite: `python examples/sqlite_store.py`.

A store keeps lines and numbers them; what they mean is not its business. It promises, in short:
- A log has one writer. `acquire` grants a lease with a new epoch, and each write makes sure, in one transaction with
  itself, that its lease is the current one, and that the log ends where the caller thinks: else it is `Fenced`.
- What is `Committed` is as safe as the store says; here it survives the process, with another durability than "os" also
  a power cut. Of what is `Fenced` or `Failed`, nothing is there.
- A log that is begun anew has a new generation, and each read names its own: nobody mixes the lines of two histories.
- `capability` says what it can do beyond the least; a host does without the rest, or less well. The base classes are
  those that this one has, and say what their methods do. They may be called from any thread, hence the lock.

`treering.testing.stores.StoreSuite` tests all of it, and each capability that is declared. A package offers its store
for URLs, `sqlite:/srv/s.db`, by an entry point of the group `treering.stores`: `sqlite = "my_package:SqliteStore"`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint
from msgspec import Struct
from msgspec.structs import astuple

from treering import Cursor, Durability, SessionHost, errors, plain_text, stores

T = TypeVar("T")
TABLES = """pragma journal_mode = wal;
create table if not exists logs (ref text primary key, holder text, epoch integer, generation integer,
    header blob, last integer, size integer, changed integer) without rowid;
create table if not exists lines (ref text, seq integer, line blob, primary key (ref, seq)) without rowid;
create table if not exists beside (ref text, kind text, seq integer, data blob, primary key (ref, kind)) without rowid;
create table if not exists rows (ref text primary key, data blob, size integer, changed integer, identity integer);
create table if not exists current (project text primary key, ref text);
"""


class Log(Struct):
    """The row of a log; it stays without a header when the log is removed, since its epochs must not begin anew."""

    sql: Callable[..., list[tuple[Any, ...]]]
    ref: stores.Ref
    holder: str | None = None  # the process, the store object and the owner
    epoch: int = 0
    generation: int = 0
    header: bytes | None = None
    last: int = 0  # the seq of the last line
    size: int = 0
    changed: int = 0

    def is_held_by(self, lease: stores.Lease) -> bool:
        return self.holder is not None and self.epoch == lease.epoch  # no two leases on a log have the same epoch

    @property
    def head(self) -> Cursor:
        return Cursor("" if self.header is None else str(self.generation), self.last)

    @property
    def opening(self) -> stores.Opening:
        found = stores.detect(self.header or b"", self.ref)
        return stores.Opening(found.header, found.dialect, self.head)

    def load(self, kind: stores.BlobKind) -> stores.Blob | None:
        rows = self.sql("select seq, data from beside where ref = ? and kind = ?", self.ref, kind)
        return stores.Blob(Cursor(str(self.generation), rows[0][0]), rows[0][1]) if rows else None

    def read(self, after: int, through: int | None = None) -> stores.Page:
        last = min(self.last, after + 64, self.last if through is None else through)
        wanted = "select line from lines where ref = ? and seq > ? and seq <= ? order by seq"
        return stores.Page(after + 1, [line for (line,) in self.sql(wanted, self.ref, after, last)], last < self.last)


class SqliteStore(stores.AppendsAtOnce, stores.KeepsRows, stores.LooksAtOnce, stores.NamesPlaces, stores.ScansChanges):
    """Keeps logs in a SQLite database on a local disk, which the processes of a machine can share."""

    def __init__(self, path: str | os.PathLike[str], *, durability: Durability = "os", **_: object) -> None:
        self._path = os.fspath(path).removeprefix("sqlite:")
        self._me = f"{os.getpid()} {os.urandom(8).hex()} "
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._db.executescript(f"pragma synchronous = {'normal' if durability == 'os' else 'full'};{TABLES}")

    def capability(self, kind: Callable[..., T]) -> T | None:
        if kind is stores.KeepsSearch:  # in a database of its own
            index = stores.SearchIndex(stores.SearchFile(f"{self._path}-search"))
            return stores.offered(index, kind, {stores.KeepsSearch})
        return stores.offered(self, kind, type(self).__mro__)

    def _sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            if self._db is None:
                raise errors.HostClosed("this store was closed: make another one")
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def _transaction(self) -> Generator[None]:
        """Change all of something or nothing, alone. The block must not await, or other tasks would join in."""
        with self._lock:
            try:
                self._sql("begin immediate")
                yield
                self._sql("commit")
            except BaseException as error:
                if self._db is not None and self._db.in_transaction:  # SQLite may have rolled back by itself
                    self._db.rollback()
                if isinstance(error, sqlite3.Error):
                    raise OSError(f"{self._path} could not be written ({error}): try again") from error
                raise

    def _log(self, ref: stores.Ref) -> Log:
        rows = self._sql("select * from logs where ref = ?", ref)
        return Log(self._sql, *rows[0]) if rows else Log(self._sql, ref)

    @contextmanager
    def _changing(self, ref: stores.Ref, lease: stores.Lease | None = None) -> Generator[Log]:
        with self._transaction():
            log = self._log(ref)
            if lease is not None and not log.is_held_by(lease):
                raise errors.Conflict(f"the lease on {ref} is over: acquire the log again")
            yield log
            self._sql("insert or replace into logs values (?, ?, ?, ?, ?, ?, ?, ?)", *astuple(log)[1:])

    async def acquire(self, refs: Sequence[stores.Ref], owner: str) -> list[stores.Lease | errors.SessionLocked]:
        return [self._acquire(ref, owner) for ref in refs]

    def _acquire(self, ref: stores.Ref, owner: str) -> stores.Lease | errors.SessionLocked:
        with self._changing(ref) as log:
            if log.holder is not None and runs(int((held := log.holder.split(" ", 2))[0])):
                return errors.SessionLocked(f"{ref} is owned by {held[2]} in process {held[0]}: read it, or wait")
            found = None if log.header is None else log.opening
            log.holder, log.epoch = self._me + owner, log.epoch + 1
        return stores.Lease(ref, owner, log.epoch, log.head, *((found.header, found.dialect) if found else ()))

    async def renew(self, leases: Sequence[stores.Lease]) -> list[bool]:
        return [self._log(lease.ref).is_held_by(lease) for lease in leases]

    async def release(self, leases: Sequence[stores.Lease]) -> None:
        for lease in leases:
            self._sql("update logs set holder = null where ref = ? and epoch = ?", lease.ref, lease.epoch)

    def try_append(self, append: stores.Append) -> stores.Outcome | None:
        try:
            with self._changing(append.lease.ref) as log:
                if not log.is_held_by(append.lease) or append.expected_head != log.head:
                    return stores.Fenced(log.head, log.epoch)
                if log.header is None:
                    self._begin(log, append.header or b"")
                self._extend(log, append.lines)
        except OSError as error:
            return stores.Failed(append.expected_head, errors.AppendFailed(f"nothing was appended: {error}"))
        return stores.Committed(log.head)

    async def append(self, appends: Sequence[stores.Append]) -> list[stores.Outcome]:
        stores.check_lines(line for each in appends for line in each.lines)
        await cancel_shielded_checkpoint()  # other tasks go on; a cancelled caller learns of it later
        return [outcome for each in appends if (outcome := self.try_append(each)) is not None]

    async def resolve(self, lease: stores.Lease) -> Cursor:
        with self._changing(lease.ref, lease) as log:
            return log.head

    async def put(self, lease: stores.Lease, dialect: stores.Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        all_lines = await anyio.to_thread.run_sync(list, lines)  # making them may take long
        with self._changing(lease.ref, lease) as log:
            self._begin(log, header)
            self._extend(log, all_lines)
        return log.head

    async def remove(self, lease: stores.Lease) -> None:
        with self._changing(lease.ref, lease) as log:
            self._begin(log, None)
            log.holder = None

    async def save(self, lease: stores.Lease, kind: stores.BlobKind, head: Cursor, data: bytes) -> None:
        stores.check_kind(kind)
        with self._changing(lease.ref, lease) as log:
            if head.generation != str(log.generation) or head.seq > log.last:
                raise errors.Conflict(f"{lease.ref} has no head {head.seq}: read it again")
            self._sql("insert or replace into beside values (?, ?, ?, ?)", log.ref, kind, head.seq, data)

    def _begin(self, log: Log, header: bytes | None) -> None:
        if header is not None:
            stores.check_header(header, log.ref)
        self._sql("delete from lines where ref = ?", log.ref)
        self._sql("delete from beside where ref = ?", log.ref)
        log.header, log.generation, log.last, log.size = header, log.generation + 1, 0, len(header or b"")

    def _extend(self, log: Log, lines: Iterable[bytes]) -> None:
        for line in lines:
            stores.check_lines((line,))
            log.last, log.size = log.last + 1, log.size + len(line)
            self._sql("insert into lines values (?, ?, ?)", log.ref, log.last, line[:-1])
        log.changed = time.time_ns()

    def peek(self, ref: stores.Ref, generation: str | None = None) -> Log:
        log = self._log(ref)
        if log.header is None:
            raise errors.SessionNotFound(
                f"there is no session {ref!r} in {self._path}, or no longer: load or create another one"
            )
        if generation not in (None, str(log.generation)):
            raise errors.LogReplaced(f"{ref} was replaced: read it from the start")
        return log

    async def open(self, ref: stores.Ref) -> stores.Opening:
        return self.peek(ref).opening

    async def header_block(self, ref: stores.Ref) -> bytes:
        return self.peek(ref).header or b""

    async def read(self, ref: stores.Ref, generation: str, after: int, *, through: int | None = None) -> stores.Page:
        return self.peek(ref, generation).read(after, through)

    async def bodies(self, ref: stores.Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        self.peek(ref, generation)  # refuses another generation
        rows = [self._sql("select line from lines where ref = ? and seq = ?", ref, seq) for seq in seqs]
        if [] in rows:
            raise errors.InvalidInput(f"{ref} does not have all of the lines that were asked for")
        return [line for ((line,),) in rows]

    async def load(self, ref: stores.Ref, kind: stores.BlobKind) -> stores.Blob | None:
        return self._log(ref).load(stores.check_kind(kind))

    def places(self, ref: stores.Ref, seqs: Sequence[int]) -> dict[int, errors.Where]:
        last = self._log(ref).last  # the header is line 1
        return {seq: errors.Where(f"{self._path}#{ref}", seq + 1) for seq in seqs if 0 < seq <= last}

    async def exists(self, ref: stores.Ref) -> bool:
        return self._log(ref).header is not None

    async def page(self, prefix: str = "", after: stores.Ref = "", limit: int = 1000) -> list[stores.LogInfo]:
        wanted = "header is not null and ref > ? and substr(ref, 1, ?) = ? order by ref limit ?"
        rows = self._sql(f"select ref, size, changed from logs where {wanted}", after, len(prefix), prefix, limit)
        return [stores.LogInfo(ref, size, datetime.fromtimestamp(time / 1e9, UTC)) for ref, size, time in rows]

    def scan(self) -> dict[stores.Ref, stores.Stamp]:
        rows = self._sql("select ref, size, changed, generation from logs where header is not null")
        return {ref: stores.Stamp(*stamp) for ref, *stamp in rows}

    def look_at(self, ref: stores.Ref) -> stores.Stamp | None:
        log = self._log(ref)
        return None if log.header is None else stores.Stamp(log.size, log.changed, log.generation)

    def rows(self) -> stores.KeptRows:
        rows = self._sql("select ref, data, size, changed, identity from rows")
        kept = {ref: stores.KeptRow(ref, stores.Stamp(*stamp), data) for ref, data, *stamp in rows}
        return stores.KeptRows(kept, self._path)

    def keep(self, rows: Sequence[stores.KeptRow], gone: Collection[stores.Ref]) -> bool:
        with self._transaction():
            for ref in gone:
                self._sql("delete from rows where ref = ?", ref)
            for row in rows:
                self._sql("insert or replace into rows values (?, ?, ?, ?, ?)", row.ref, row.data, *astuple(row.stamp))
        return True

    def currents(self) -> dict[str, stores.Ref]:
        return dict(self._sql("select project, ref from current where ref is not null"))

    def set_current(self, project_hash: str, ref: stores.Ref | None) -> None:
        self._sql("insert or replace into current values (?, ?)", project_hash, ref)

    async def aclose(self) -> None:
        with self._lock:
            if self._db is not None:
                self._sql("update logs set holder = null where substr(holder, 1, ?) = ?", len(self._me), self._me)
                self._db.close()
                self._db = None


def runs(pid: int) -> bool:
    """Tell whether a process of this machine runs; if its number is used again, a log stays locked a while longer."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # it runs, as another user
    return True


async def main(path: str) -> None:
    async with SessionHost(store=SqliteStore(path)) as host:
        session = await host.open("greeting")
        await session.append_message("user", "Hello, store!")
        await session.append_message("assistant", "Hello! What shall I keep?")
        for message in (await session.context()).messages:
            print(f"{message.role}: {plain_text(message.content)}")


if __name__ == "__main__":
    anyio.run(main, ":memory:")
