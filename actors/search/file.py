"""The file of the search index: `search.db` beside the logs, which is opened, created, and rebuilt when it is unusable.

Several processes may use it at once: SQLite's locks keep their writes apart. A file that is damaged, or of an older
version, is rebuilt; one that another program made is moved aside; one of a newer treering is left alone.

Everything here blocks and belongs in worker threads; concurrent calls wait for one another.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import count

import msgspec

from ...events.disk import FILE_MODE
from ...events.disk.disk import is_slow_device
from ...events.stores import search_index as schema
from ...events.telemetry import logger

NAME = "search.db"
"""The name of the file in the root."""

WAIT_S = 5.0
"""How long a write waits for another process to finish its own, in seconds."""

_FILES = ("", "-wal", "-shm", "-journal")
_APPLICATION_ID_AT = 68
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH)


class IndexUnavailable(Exception):
    """There is no usable index here: search without it."""


class SearchFile:
    """The file of one root's index, and the only connection to it.

    Args:
        root: The root, which must exist.

    Attributes:
        path: The path of the file.
        openings: How often the file was opened; what was read at an earlier opening may belong to another file.
    """

    def __init__(self, root: str) -> None:
        self.path = os.path.join(root, NAME)
        self.openings = 0
        self._root = root
        self._mutex = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._closed = False

    def exists(self) -> bool:
        """Return whether the file exists."""
        return os.path.exists(self.path)

    def can_be_created(self) -> bool:
        """Return whether there is a folder that the file can be created in."""
        return os.path.isdir(self._root)

    def close(self) -> None:
        """Close the file for good."""
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
                    self._inode = os.stat(self.path).st_ino
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
            db = sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
            try:
                version = self._prepare(db)
            except BaseException as error:
                db.close()
                if not isinstance(error, sqlite3.Error) or not _is_damage(error):
                    raise
                logger().warning("search_index_damaged", path=self.path, error=str(error))
                version = ()
            if version == schema.VERSION:
                return db
            db.close()
            if version > schema.VERSION:
                raise IndexUnavailable("a newer version of treering made it")
            self._move_away()
        raise IndexUnavailable("it could not be rebuilt")

    def _prepare(self, db: sqlite3.Connection) -> tuple[int, ...]:
        """Create the tables if there are none; return the version of the tables, () if they are not ours."""
        db.execute("PRAGMA secure_delete=ON")  # deleted text must not remain in the file
        db.execute("PRAGMA synchronous=NORMAL")
        # A write-ahead log needs shared memory, which a network file system does not have.
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
        """Make room for a new file: delete one of ours, which is derived, and rename any other."""
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
def _missing_feature() -> str:
    """Return what this build of SQLite lacks; "" if it lacks nothing."""
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            for statement in schema.MAKE:
                db.execute(statement)
        except sqlite3.Error as error:
            return f"SQLite {sqlite3.sqlite_version} cannot search within words ({error})"
    return ""


def _is_damage(error: Exception) -> bool:
    """Return whether an error means that the file is damaged, rather than that it cannot be used at the moment."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _DAMAGE


def _is_empty(db: sqlite3.Connection) -> bool:
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(tables == 0)
