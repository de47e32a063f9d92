"""The SQLite database of a search index: its tables, in a file or in memory.

    settings   the version of the index, which is rebuilt if the version differs
    logs       a row for each log: its stamp, and the checkpoint up to which its lines are indexed
    blocks     which numbers belong to the entries of which log
    entries    a row for each searchable entry, with its original text
    grams      the trigrams of each entry's folded text

`grams` is an FTS5 table that stores neither text nor positions (`content=''`, `detail=none`): it finds the entries that
contain all trigrams of a query, and the texts themselves decide which of those really match. So the index finds exactly
what a plain scan finds, regardless of FTS5's idea of a word, and text reaches the FTS5 query language only as trigrams.

All of it is derived. There is no migration: an index of an older version is rebuilt. Several processes may use a file
at once: SQLite's locks keep their writes apart. A file that is damaged is rebuilt, too; one that another program made
is moved aside; one of a newer treering is left alone.

Everything here blocks and belongs in worker threads; concurrent calls wait for one another.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import unicodedata
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import count
from typing import Final

import msgspec

from ..disk import FILE_MODE
from ..disk.disk import is_slow_device
from ..telemetry import logger
from .search import IndexUnavailable

WAIT_S: Final = 5.0
"""How long a write waits for another process to finish its own, in seconds."""

APPLICATION_ID: Final = 0x54524E47
"""The SQLite application id of an index."""

VERSION: Final = (2, *map(int, unicodedata.unidata_version.split(".")))
"""The version of an index: that of these tables, and that of Unicode, on which case folding depends."""

MAKE: Final = (
    f"PRAGMA application_id={APPLICATION_ID}",
    "CREATE TABLE settings(version TEXT NOT NULL)",
    """CREATE TABLE logs(
        number INTEGER PRIMARY KEY AUTOINCREMENT, ref TEXT NOT NULL UNIQUE, looked TEXT NOT NULL,
        generation TEXT NOT NULL, seq INTEGER NOT NULL, crc INTEGER NOT NULL
    )""",
    "CREATE TABLE blocks(block INTEGER PRIMARY KEY, log INTEGER NOT NULL, part INTEGER NOT NULL, UNIQUE(log, part))",
    """CREATE TABLE entries(
        number INTEGER PRIMARY KEY, entry_id TEXT NOT NULL, role TEXT NOT NULL, tools TEXT NOT NULL,
        time INTEGER NOT NULL, text TEXT NOT NULL
    )""",
    """CREATE VIRTUAL TABLE grams USING fts5(
        text, content='', columnsize=0, detail=none, tokenize='trigram case_sensitive 1'
    )""",
)
"""The statements that create the tables in an empty file."""

PUT_VERSION: Final = "INSERT INTO settings VALUES(?)"
GET_VERSION: Final = "SELECT version FROM settings"

_FILES = ("", "-wal", "-shm", "-journal")
_APPLICATION_ID_AT = 68
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH)


class SearchDatabase:
    """A database in memory, which ends when it is closed; the base of the one in a file.

    Attributes:
        openings: How often the database was opened; what was read at an earlier opening may belong to another one.
    """

    path = ":memory:"

    def __init__(self) -> None:
        self.openings = 0
        self._mutex = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def exists(self) -> bool:
        """Return whether there is an index."""
        return self._connection is not None

    def can_be_created(self) -> bool:
        """Return whether there is a place for an index."""
        return True

    def close(self) -> None:
        """Close the database for good."""
        with self._mutex:
            self._closed = True
            self._disconnect()

    @contextmanager
    def opened(self) -> Generator[sqlite3.Connection]:
        """Yield the connection, and translate its errors.

        Raises:
            IndexUnavailable: There is no usable index here, or the disk refuses.
        """
        with self._mutex:
            if self._closed:
                raise IndexUnavailable("it is closed")
            try:
                if self._connection is not None and not self._is_current():
                    self._disconnect()  # the file was deleted, which anyone may do
                if self._connection is None:
                    self._connection = self._open()
                    self.openings += 1
                yield self._connection
            except sqlite3.ProgrammingError:
                raise  # a bug in one of our statements
            except (sqlite3.Error, msgspec.MsgspecError) as error:
                if not _is_damage(error):
                    raise IndexUnavailable(str(error)) from error
                logger().warning("search_index_damaged", path=self.path, error=str(error))
                self._disconnect()
                with suppress(OSError):  # it is tried again the next time
                    self._move_away()
                raise IndexUnavailable(f"it was damaged ({error}); the next search rebuilds it") from error
            except OSError as error:
                raise IndexUnavailable(str(error)) from error

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> sqlite3.Connection:
        """Open the database, and create its tables if there are none.

        Raises:
            IndexUnavailable: SQLite cannot search within words.
        """
        missing = _missing_feature()
        if missing:
            raise IndexUnavailable(missing)
        db = self._connect()
        self._create_tables(db)
        return db

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)

    def _create_tables(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            for statement in MAKE:
                db.execute(statement)
            db.execute(PUT_VERSION, (" ".join(map(str, VERSION)),))
        db.execute("COMMIT")

    def _is_current(self) -> bool:
        """Return whether the connection still leads to the database at its path."""
        return True

    def _move_away(self) -> None:
        """Make room for a new database."""


class SearchFile(SearchDatabase):
    """The file of one index, and the only connection to it.

    Args:
        path: Its path; to create it, its folder must exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.path = os.fspath(path)
        self._folder = os.path.dirname(os.path.abspath(self.path))
        self._inode = 0

    def exists(self) -> bool:
        """Return whether the file exists."""
        return os.path.exists(self.path)

    def can_be_created(self) -> bool:
        """Return whether there is a folder that the file can be created in."""
        return os.path.isdir(self._folder)

    def _is_current(self) -> bool:
        try:
            return os.stat(self.path).st_ino == self._inode
        except FileNotFoundError:
            return False

    def _open(self) -> sqlite3.Connection:
        """Open the file, creating or rebuilding it if needed.

        Raises:
            IndexUnavailable: A newer treering made it, or SQLite cannot search within words.
        """
        missing = _missing_feature()
        if missing:
            raise IndexUnavailable(missing)
        for _ in range(2):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            db = self._connect()
            try:
                version = self._prepare(db)
            except BaseException as error:
                db.close()
                if not isinstance(error, sqlite3.Error) or not _is_damage(error):
                    raise
                logger().warning("search_index_damaged", path=self.path, error=str(error))
                version = ()
            if version == VERSION:
                self._inode = os.stat(self.path).st_ino
                return db
            db.close()
            if version > VERSION:
                raise IndexUnavailable("a newer version of treering made it")
            self._move_away()
        raise IndexUnavailable("it could not be rebuilt")

    def _prepare(self, db: sqlite3.Connection) -> tuple[int, ...]:
        """Create the tables if there are none; return the version of the tables, () if they are not ours."""
        db.execute("PRAGMA secure_delete=ON")  # deleted text must not remain in the file
        db.execute("PRAGMA synchronous=NORMAL")
        # A write-ahead log needs shared memory, which a network file system does not have.
        mode = "TRUNCATE" if is_slow_device(os.stat(self._folder).st_dev) else "WAL"
        db.execute(f"PRAGMA journal_mode={mode}")
        self._create_tables(db)
        if db.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
            return ()
        row = db.execute(GET_VERSION).fetchone()
        try:
            return tuple(map(int, row[0].split())) if row is not None else ()
        except ValueError:
            return ()

    def _move_away(self) -> None:
        """Make room for a new file: delete one of ours, which is derived, and rename any other."""
        with open(self.path, "rb") as file:
            head = file.read(_APPLICATION_ID_AT + 4)
        if not head or head[_APPLICATION_ID_AT:] == APPLICATION_ID.to_bytes(4, "big"):
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
def _missing_feature() -> str:
    """Return what this build of SQLite lacks; "" if it lacks nothing."""
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            for statement in MAKE:
                db.execute(statement)
        except sqlite3.Error as error:
            return f"SQLite {sqlite3.sqlite_version} cannot search within words ({error})"
    return ""


def _is_damage(error: Exception) -> bool:
    """Return whether an error means that the database is damaged, rather than that it cannot be used at the moment."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _DAMAGE
