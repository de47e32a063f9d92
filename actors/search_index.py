"""The index of a root: a file `search.db` beside the logs, which says which of their entries hold which characters.

All of it is derived, and safe to delete. Several processes may use it at once: SQLite's locks keep their writes apart,
and each write begins with a look at how far the log's checkpoint is now. A file that is damaged, or of an older version, is
made anew; one that something else made is moved aside.

Everything here blocks and belongs in worker threads; calls from several at once wait for one another.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import count

import msgspec
from msgspec import Struct

from ..events.disk import FILE_MODE
from ..events.stores.base import Ref
from ..events.stores.files.mounts import is_slow_device
from ..events.telemetry import logger
from ..projections.search import schema
from ..projections.search.query import Query
from ..projections.search.texts import Filters, Said

NAME = "search.db"
"""The name of the index's file in the root."""

WAIT_S = 5.0
"""How long a write waits for another process to end its own."""

_CANDIDATES_MAX = 4096
_FILES = ("", "-wal", "-shm", "-journal")
_APPLICATION_ID_AT = 68
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH)


class IndexUnavailable(Exception):
    """There is no index to be had here: search without it."""


class Checkpoint(Struct, frozen=True):
    """Up to where the lines of a log are in the index: the history, the last line's ordinal, and its checksum."""

    generation: str = ""
    seq: int = 0
    crc: int = 0


class Known(Struct, frozen=True):
    """What the index knows of a log: its number, how its file looked (size, time in ns), and the checkpoint.

    A size below zero says that more lines have to be taken in.
    """

    number: int
    looked: tuple[int, int]
    checkpoint: Checkpoint


class Portion(Struct, frozen=True):
    """Texts of one log that are to be taken in.

    Attributes:
        ref: The log.
        looked: How its file looked before it was read; `UNFINISHED` when another portion follows.
        before: The checkpoint that they follow; None where they begin the log anew.
        after: The checkpoint that holds with them.
        texts: The texts.
    """

    ref: Ref
    looked: tuple[int, int]
    before: Checkpoint | None
    after: Checkpoint
    texts: list[Said]


UNFINISHED = (-1, 0)
"""How a log looks of which more has to be taken in: like no file."""


class SearchIndex:
    """The index of one root.

    Args:
        root: The root, which has to be there.

    Attributes:
        changes: Grows with each change of what `known` returns.
    """

    def __init__(self, root: str) -> None:
        self.path = os.path.join(root, NAME)
        self._root = root
        self._mutex = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self.changes = 0
        self._inode = 0
        self._known: dict[Ref, Known] = {}
        self._version = -1

    def exists(self) -> bool:
        """Tell whether there is an index."""
        return os.path.exists(self.path)

    def can_be(self) -> bool:
        """Tell whether there is a folder that it could lie in."""
        return os.path.isdir(self._root)

    def close(self) -> None:
        """Let go of the file."""
        with self._mutex:
            connection, self._connection = self._connection, None
            self._known, self._version = {}, -1
            if connection is not None:
                connection.close()

    # -- what is in it

    def known(self) -> dict[Ref, Known]:
        """Return what the index knows of all logs.

        Raises:
            IndexUnavailable: There is no index to be had here.
        """
        with self._opened() as db:
            (version,) = db.execute("PRAGMA data_version").fetchone()
            if version != self._version:  # another process wrote to it
                self._known = {
                    ref: Known(number, (size, modified), Checkpoint(generation, seq, crc))
                    for ref, number, size, modified, generation, seq, crc in db.execute(schema.LOGS)
                }
                self._version = version
                self.changes += 1
            return dict(self._known)

    def take_in(self, portions: Sequence[Portion], gone: Sequence[Ref] = ()) -> None:
        """Take in texts, and forget logs that are gone, all of it or nothing.

        A portion that follows another checkpoint than the one that is there is left out: another process came first.

        Raises:
            IndexUnavailable: There is no index to be had here, or the disk refuses.
        """
        with self._opened() as db:
            changed: dict[Ref, Known | None] = {}
            db.execute("BEGIN IMMEDIATE")
            try:
                for ref in gone:
                    self._forget(db, ref)
                    changed[ref] = None
                for portion in portions:
                    known = self._take_in(db, portion)
                    if known is not None:
                        changed[portion.ref] = known
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
            self.changes += 1
            for ref, known in changed.items():
                if known is None:
                    self._known.pop(ref, None)
                else:
                    self._known[ref] = known

    @staticmethod
    def _take_in(db: sqlite3.Connection, portion: Portion) -> Known | None:
        row = db.execute(schema.LOG, (portion.ref,)).fetchone()
        if row is None:
            if portion.before is not None:
                return None
            number = db.execute(schema.ADD_LOG, (portion.ref, *UNFINISHED, "")).lastrowid
            assert number is not None
        else:
            number = row[0]
            if portion.before is None:
                _drop_entries(db, number)
            elif Checkpoint(*row[1:]) != portion.before:
                return None
        blocks: dict[int, int] = {}
        rows: list[tuple[int, str, str, str, int, str]] = []
        for said in portion.texts:
            part = said.seq // schema.SPAN
            if part not in blocks:
                blocks[part] = _block(db, number, part)
            rows.append(schema.row_of(blocks[part], said))
        db.executemany(schema.ADD_ENTRY, rows)
        db.executemany(schema.ADD_GRAMS, ((each[0], schema.gram_text(each[-1])) for each in rows))
        after = portion.after
        db.execute(schema.SET_LOG, (*portion.looked, after.generation, after.seq, after.crc, number))
        return Known(number, portion.looked, after)

    @staticmethod
    def _forget(db: sqlite3.Connection, ref: Ref) -> None:
        row = db.execute(schema.LOG, (ref,)).fetchone()
        if row is not None:
            _drop_entries(db, row[0])
            db.execute(schema.DROP_LOG, (row[0],))

    # -- looking up

    def candidates(self, query: Query) -> set[int] | None:
        """Return the numbers of the logs that may hold what a query asks for; None where these are too many to say.

        Raises:
            IndexUnavailable: There is no index to be had here.
        """
        match = schema.match(query)
        if match is None:
            return None
        with self._opened() as db:
            found = db.execute(schema.CANDIDATES, (match, _CANDIDATES_MAX)).fetchall()
            if len(found) == _CANDIDATES_MAX:
                return None
            return {log for (log,) in db.execute(schema.logs_of(number for (number,) in found))}

    def find(self, query: Query, filters: Filters, log: int, *, after: int = 0, most: int) -> list[Said]:
        """Return the texts of one log that match, in their order: those after an ordinal, and so many at most.

        Raises:
            IndexUnavailable: There is no index to be had here.
        """
        match = schema.match(query)
        statement = schema.select(filters, matched=match is not None)
        parameters = {
            "match": match,
            "role": filters.role,
            "after": schema.moment(filters.after),
            "before": schema.moment(filters.before),
        }
        found: list[Said] = []
        with self._opened() as db:
            for block, part in db.execute(schema.BLOCKS, (log, (after + 1) // schema.SPAN)).fetchall():
                skipped = max(0, after + 1 - part * schema.SPAN)
                bounds = {"first": block * schema.SPAN + skipped, "last": (block + 1) * schema.SPAN - 1}
                for row in db.execute(statement, parameters | bounds):
                    said = schema.said_of(part, *row)
                    if filters.accept(said) and query.matches(said.text):
                        found.append(said)
                        if len(found) == most:
                            return found
        return found

    # -- the file

    @contextmanager
    def _opened(self) -> Generator[sqlite3.Connection]:
        """Give the connection, and say what its errors mean."""
        with self._mutex:
            try:
                if self._connection is not None and not self._stands():
                    self.close()  # somebody deleted the file: so may anybody
                if self._connection is None:
                    self._connection = self._open()
                    self._inode = os.stat(self.path).st_ino
                yield self._connection
            except sqlite3.ProgrammingError:
                raise  # a statement of ours is wrong
            except (sqlite3.Error, msgspec.MsgspecError) as error:
                if not _is_damage(error):
                    raise IndexUnavailable(str(error)) from error
                logger().warning("search_index_damaged", path=self.path, error=str(error))
                self.close()
                with suppress(OSError):  # then it is tried again the next time
                    self._move_away()
                raise IndexUnavailable(f"it was damaged ({error}), and is made anew by the next search") from error
            except OSError as error:
                raise IndexUnavailable(str(error)) from error

    def _stands(self) -> bool:
        try:
            return os.stat(self.path).st_ino == self._inode
        except FileNotFoundError:
            return False

    def _open(self) -> sqlite3.Connection:
        """Open the file, making it or making it anew.

        Raises:
            IndexUnavailable: A newer program made it, or SQLite cannot look up parts of words.
        """
        why = _missing()
        if why:
            raise IndexUnavailable(why)
        for _ in range(2):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            db = sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
            try:
                version = self._made(db)
            except sqlite3.Error as error:
                db.close()
                if not _is_damage(error):
                    raise
                logger().warning("search_index_damaged", path=self.path, error=str(error))
                version = ()
            if version == schema.VERSION:
                return db
            db.close()
            if version > schema.VERSION:
                raise IndexUnavailable("a newer program made it")
            self._move_away()
        raise IndexUnavailable("it could not be made anew")

    def _made(self, db: sqlite3.Connection) -> tuple[int, ...]:
        """Make the tables where there are none; return the version by which they were made, () where we did not."""
        db.execute("PRAGMA secure_delete=ON")  # what was deleted is to be gone
        db.execute("PRAGMA synchronous=NORMAL")
        # A log of writes beside the file needs memory that is shared, which a network does not have.
        mode = "TRUNCATE" if is_slow_device(os.stat(self._root).st_dev) else "WAL"
        db.execute(f"PRAGMA journal_mode={mode}")
        db.execute("BEGIN IMMEDIATE")
        if _is_empty(db):
            for statement in schema.MAKE:
                db.execute(statement)
            db.execute(schema.PUT_VERSION, (" ".join(map(str, schema.VERSION)),))
        db.execute("COMMIT")
        if db.execute("PRAGMA application_id").fetchone() != (schema.APPLICATION_ID,):
            return ()
        row = db.execute(schema.GET_VERSION).fetchone()
        try:
            return tuple(map(int, row[0].split())) if row is not None else ()
        except ValueError:
            return ()

    def _move_away(self) -> None:
        """Make room for a new file: delete one that is derived, and rename one that is not ours."""
        with open(self.path, "rb") as file:
            head = file.read(_APPLICATION_ID_AT + 4)
        if not head or head[_APPLICATION_ID_AT:] == schema.APPLICATION_ID.to_bytes(4, "big"):
            for suffix in _FILES:
                with suppress(FileNotFoundError):
                    os.unlink(self.path + suffix)
            return
        target = next(each for number in count(1) if not os.path.exists(each := f"{self.path}.other-{number}"))
        for suffix in _FILES:
            with suppress(FileNotFoundError):
                os.rename(self.path + suffix, target + suffix)
        logger().warning("search_index_foreign", path=self.path, moved_to=target)


@cache
def _missing() -> str:
    """Say what this build of SQLite lacks; nothing where it lacks nothing."""
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            for statement in schema.MAKE:
                db.execute(statement)
        except sqlite3.Error as error:
            return f"SQLite {sqlite3.sqlite_version} cannot look up parts of words ({error})"
    return ""


def _is_damage(error: Exception) -> bool:
    """Tell whether an error says that the file is not as it should be, rather than that it cannot be used just now."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _DAMAGE


def _is_empty(db: sqlite3.Connection) -> bool:
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(tables == 0)


def _block(db: sqlite3.Connection, log: int, part: int) -> int:
    """Return the block that a part of a log has, giving it one where it has none."""
    row = db.execute(schema.BLOCK, (log, part)).fetchone()
    block: int | None = row[0] if row is not None else db.execute(schema.ADD_BLOCK, (log, part)).lastrowid
    assert block is not None
    return block


def _drop_entries(db: sqlite3.Connection, log: int) -> None:
    for block, _ in db.execute(schema.BLOCKS, (log, 0)).fetchall():
        bounds = (block * schema.SPAN, (block + 1) * schema.SPAN - 1)
        texts = db.execute(schema.ENTRIES, bounds)
        db.executemany(schema.DROP_GRAMS, ((number, schema.gram_text(text)) for number, text in texts))
        db.execute(schema.DROP_ENTRIES, bounds)
    db.execute(schema.DROP_BLOCKS, (log,))
