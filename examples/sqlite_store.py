"""How to write a store, shown by one in SQLite: `python examples/sqlite_store.py [FILE]`.

A store keeps lines and numbers them; what they mean is not its business. It promises, in short:
- `capability` says what it can do beyond the least; a host asks for nothing else. This one declares three.
- A log has one writer. `acquire` grants a lease with a new epoch, and each write makes sure, in one transaction with
  itself, that its lease is the current one, and that the log ends where the caller thinks: else it is `Fenced`.
- What is `Committed` is as safe as the store says; of what is `Fenced` or `Failed`, nothing is there.
- A log that is begun anew has a new generation, and each read names its own: nobody mixes the lines of two histories.
- `watch` reports changes, those of other processes too. It may merge wake-ups, but not lose the last.

`treering.testing.stores.StoreSuite` tests all of it. A package offers its store for URLs, `sqlite:/srv/sessions.db`, by
an entry point of the group `treering.stores`: `sqlite = "my_package.sqlite_store:SqliteStore"`.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import TypeVar

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

from treering import Cursor, Durability, SessionHost, errors, plain_text, stores

T = TypeVar("T")
PAGE_BYTES = 256 * 1024
LOOKS_EVERY_S = 0.01  # SQLite tells no other process of a change, so a watcher asks
# The row of a log stays when the log is removed: its epochs must not begin anew, and watchers learn of the removal.
TABLES = """pragma journal_mode = wal;
create table if not exists logs (ref text primary key, holder text, epoch integer, generation text,
    header blob, last integer, size integer, modified real, change integer) without rowid;
create table if not exists lines (ref text, seq integer, line blob, primary key (ref, seq)) without rowid;
create table if not exists beside (ref text, kind text, seq integer, data blob, primary key (ref, kind)) without rowid;
"""


@dataclass(slots=True)
class Log:
    """The row of a log. Without a header, the log does not exist, but may have an owner who is to begin it."""

    ref: stores.Ref
    holder: str | None = None  # the process, the store object and the owner
    epoch: int = 0
    generation: str = ""
    header: bytes | None = None
    last: int = 0  # the seq of the last line
    size: int = 0
    modified: float = 0
    change: int = 0  # counts what watchers want to know of

    @property
    def head(self) -> Cursor:
        return Cursor(self.generation, self.last)


class SqliteStore:
    """Keeps logs in a SQLite database on a local disk, which the processes of a machine can share.

    With the durability "os", an acknowledged append survives the process, with any other a power cut too. Methods
    without a docstring do what `Store`, or a capability, says; they block while SQLite works, which is short.
    """

    def __init__(self, path: str | os.PathLike[str], *, durability: Durability = "os", **_: object) -> None:
        self._path = os.fspath(path).removeprefix("sqlite:")
        self._me = f"{os.getpid()} {uuid.uuid4().hex} "
        # A blocking host makes its store in one thread and uses it in another, never in two at the same time.
        self._db: sqlite3.Connection | None = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._sql(f"pragma synchronous = {'normal' if durability == 'os' else 'full'}")
        self._db.executescript(TABLES)

    def capability(self, kind: Callable[..., T]) -> T | None:
        return stores.offered(self, kind, {stores.AppendsAtOnce, stores.LooksAtOnce, stores.NamesPlaces})

    def _sql(self, statement: str, *values: object) -> sqlite3.Cursor:
        if self._db is None:
            raise errors.HostClosed("this store was closed: make another one")
        return self._db.execute(statement, values)

    def _log(self, ref: stores.Ref) -> Log:
        row = self._sql("select * from logs where ref = ?", ref).fetchone()
        return Log(ref) if row is None else Log(*row)

    @contextmanager
    def _changing(self, ref: stores.Ref, lease: stores.Lease | None = None) -> Generator[Log]:
        """Change a log, alone; if the block fails, nothing is changed. An await in it would let other tasks join in."""
        self._sql("begin immediate")
        try:
            log = self._log(ref)
            if lease is not None and not self._holds(lease, log):
                raise errors.Conflict(f"the lease on {ref} is over: acquire the log again")
            yield log
            self._sql("insert or replace into logs values (?, ?, ?, ?, ?, ?, ?, ?, ?)", *astuple(log))
            self._sql("commit")
        except BaseException:
            if self._db is not None and self._db.in_transaction:  # after some errors, SQLite has rolled back by itself
                self._db.rollback()
            raise

    async def acquire(self, refs: Sequence[stores.Ref], owner: str) -> list[stores.Lease | errors.SessionLocked]:
        if not all(refs):
            raise errors.InvalidSessionId("the empty name names no log")
        await cancel_shielded_checkpoint()
        return [self._acquire(ref, owner) for ref in refs]

    def _acquire(self, ref: stores.Ref, owner: str) -> stores.Lease | errors.SessionLocked:
        with self._changing(ref) as log:
            if log.holder is not None and runs(int((held := log.holder.split(" ", 2))[0])):
                return errors.SessionLocked(
                    f"{ref} is owned by {held[2]} in process {held[0]}: open it read-only, or wait"
                )
            found = None if log.header is None else self.peek(ref).opening
            log.holder, log.epoch = self._me + owner, log.epoch + 1
        return stores.Lease(ref, owner, log.epoch, log.head, *((found.header, found.dialect) if found else ()))

    def _holds(self, lease: stores.Lease, log: Log) -> bool:
        return (log.holder, log.epoch) == (self._me + lease.owner, lease.epoch)

    async def renew(self, leases: Sequence[stores.Lease]) -> list[bool]:
        return [self._holds(lease, self._log(lease.ref)) for lease in leases]

    async def release(self, leases: Sequence[stores.Lease]) -> None:
        for ref, holder, epoch in ((lease.ref, self._me + lease.owner, lease.epoch) for lease in leases):
            self._sql("update logs set holder = null where ref = ? and holder = ? and epoch = ?", ref, holder, epoch)

    def try_append(self, append: stores.Append) -> stores.Outcome | None:
        try:
            with self._changing(append.lease.ref) as log:
                if not self._holds(append.lease, log) or append.expected_head != log.head:
                    return stores.Fenced(log.head, log.epoch)
                if log.header is None:
                    if append.header is None:
                        raise errors.InvalidInput(
                            f"{log.ref} does not exist yet: its first append needs a header block"
                        )
                    stores.check_header(append.header, log.ref)
                    self._begin(log, append.header)
                self._extend(log, append.lines)
        except sqlite3.Error as error:
            failure = errors.AppendFailed(f"{self._path} could not be written ({error}): nothing was appended")
            failure.__cause__ = error
            return stores.Failed(append.expected_head, failure)
        return stores.Committed(log.head)

    async def append(self, appends: Sequence[stores.Append]) -> list[stores.Outcome]:
        stores.check_lines(line for each in appends for line in each.lines)
        outcomes = [outcome for each in appends if (outcome := self.try_append(each)) is not None]
        await cancel_shielded_checkpoint()  # other tasks go on; a cancelled caller learns of it later
        return outcomes

    async def resolve(self, lease: stores.Lease) -> Cursor:
        with self._changing(lease.ref, lease) as log:
            return log.head

    async def put(self, lease: stores.Lease, dialect: stores.Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        with self._changing(lease.ref, lease) as log:
            stores.check_header(header, log.ref)
            self._begin(log, header)
            self._extend(log, lines)
        return log.head

    async def remove(self, lease: stores.Lease) -> None:
        with self._changing(lease.ref, lease) as log:
            self._begin(log, None)
            log.holder, log.change = None, log.change + 1

    async def save(self, lease: stores.Lease, kind: stores.BlobKind, head: Cursor, data: bytes) -> None:
        stores.check_kind(kind)
        with self._changing(lease.ref, lease) as log:
            if head.generation != log.generation or head.seq > log.last:
                raise errors.Conflict(f"{lease.ref} has no head {head.seq}: read it again")
            self._sql("insert or replace into beside values (?, ?, ?, ?)", log.ref, kind, head.seq, data)
            log.change += kind == "leaf"  # what follows a session wants to know where its leaf is

    def _begin(self, log: Log, header: bytes | None) -> None:
        self._sql("delete from lines where ref = ?", log.ref)
        self._sql("delete from beside where ref = ?", log.ref)
        log.header, log.generation, log.last, log.size = header, uuid.uuid4().hex, 0, len(header or b"")

    def _extend(self, log: Log, lines: Iterable[bytes]) -> None:
        for line in lines:
            stores.check_lines((line,))
            log.last, log.size = log.last + 1, log.size + len(line)
            self._sql("insert into lines values (?, ?, ?)", log.ref, log.last, line[:-1])
        log.modified, log.change = datetime.now(UTC).timestamp(), log.change + 1

    async def open(self, ref: stores.Ref) -> stores.Opening:
        return self.peek(ref).opening

    async def read(self, ref: stores.Ref, generation: str, after: int, *, through: int | None = None) -> stores.Page:
        return self.peek(ref, generation).read(after, through)

    async def bodies(self, ref: stores.Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        self.peek(ref, generation)  # refuses another generation
        rows = [self._sql("select line from lines where ref = ? and seq = ?", ref, seq).fetchone() for seq in seqs]
        if None in rows:
            raise errors.InvalidInput(f"{ref} does not have all of the lines that were asked for")
        return [line for (line,) in rows]

    async def load(self, ref: stores.Ref, kind: stores.BlobKind) -> stores.Blob | None:
        stores.check_kind(kind)
        return self.peek(ref).load(kind) if await self.exists(ref) else None

    def peek(self, ref: stores.Ref, generation: str | None = None) -> SqlitePeek:
        log = self._log(ref)
        if log.header is None:
            raise errors.SessionNotFound(f"there is no session {ref!r} in {self._path}, or no longer")
        if generation not in (None, log.generation):
            raise errors.LogReplaced(f"{ref} was replaced: read it from the start")
        found = stores.detect(log.header, ref)
        return SqlitePeek(self._sql, ref, stores.Opening(found.header, found.dialect, log.head))

    def places(self, ref: stores.Ref, seqs: Sequence[int]) -> dict[int, errors.Where]:
        last = self._log(ref).last
        return {
            seq: errors.Where(f"{self._path}#{ref}", seq + 1) for seq in seqs if 0 < seq <= last
        }  # the header is line 1

    async def exists(self, ref: stores.Ref) -> bool:
        return self._log(ref).header is not None

    async def page(self, prefix: str = "", after: stores.Ref = "", limit: int = 1000) -> list[stores.LogInfo]:
        wanted = """select ref, size, modified from logs where header is not null
            and ref > ? and ref >= ? and substr(ref, 1, ?) = ? order by ref limit ?"""
        rows = self._sql(wanted, after, prefix, len(prefix), prefix, limit)
        return [stores.LogInfo(ref, size, datetime.fromtimestamp(time, UTC)) for ref, size, time in rows]

    def watch(self, refs: Sequence[stores.Ref]) -> AsyncIterator[set[stores.Ref]]:
        return self._changes({ref: self._log(ref).change for ref in refs})  # from this call on

    async def _changes(self, seen: dict[stores.Ref, int]) -> AsyncIterator[set[stores.Ref]]:
        while True:
            before, seen = seen, {ref: self._log(ref).change for ref in seen}
            if changed := {ref for ref, change in seen.items() if change != before[ref]}:
                yield changed
            else:
                await anyio.sleep(LOOKS_EVERY_S)

    async def aclose(self) -> None:
        if self._db is not None:
            self._sql("update logs set holder = null where substr(holder, 1, ?) = ?", len(self._me), self._me)
            self._db.close()
            self._db = None


@dataclass(frozen=True, slots=True)
class SqlitePeek:
    """A log, opened for one read; see `Peek`."""

    sql: Callable[..., sqlite3.Cursor]
    ref: stores.Ref
    opening: stores.Opening

    def load(self, kind: stores.BlobKind) -> stores.Blob | None:
        row = self.sql("select seq, data from beside where ref = ? and kind = ?", self.ref, kind).fetchone()
        return None if row is None else stores.Blob(Cursor(self.opening.head.generation, row[0]), row[1])

    def read(self, after: int, through: int | None = None) -> stores.Page:
        end = self.opening.head.seq
        last, lines, size = end if through is None else min(through, end), list[bytes](), 0
        wanted = "ref = ? and seq > ? and seq <= ? order by seq"
        for (line,) in self.sql(f"select line from lines where {wanted}", self.ref, after, last):
            size += len(line)
            if lines and size > PAGE_BYTES:
                break
            lines.append(line)
        return stores.Page(after + 1, lines, after + len(lines) < end)


def runs(pid: int) -> bool:
    """Tell whether a process of this machine runs; if its number is used again, a log stays locked a while longer."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # it runs, as another user
    return True


async def main(path: str) -> None:
    """Hold a short conversation in one host, and read it in another."""
    async with SessionHost(store=SqliteStore(path)) as host:
        session = await host.open("greeting")
        await session.append_message("user", "Hello, store!")
        await session.append_message("assistant", "Hello! What shall I keep?")
    async with SessionHost(store=SqliteStore(path)) as host:
        for message in (await (await host.load("greeting")).context()).messages:
            print(f"{message.role}: {plain_text(message.content)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, "sessions.db"))
