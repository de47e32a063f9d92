"""Databases of other programs: SQLite's, read without changing them or the files beside them.

SQLite creates some beside a database that has a log, even when it only reads. A database is therefore opened as
immutable, and checked afterwards: it must not have changed meanwhile. If its log is not empty, both are copied, and the
copy is read.
"""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import ClassVar, NamedTuple, TypeAlias

from msgspec.structs import replace

from ..events.errors import ForeignFormatError, Where
from .base import ForeignSession, Format
from .json_lines import Notes

HEAD = b"SQLite format 3\0"
"""The first bytes of a database."""

DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged database raises; decoding the names of columns can fail as well."""

Tables: TypeAlias = Mapping[str, AbstractSet[str]]
"""The names of the columns of each table."""

Value: TypeAlias = str | int | float | bytes | None
"""A value of SQLite's."""

Row: TypeAlias = Mapping[str, Value]
"""The values of a row by the names of its columns."""

_LOG, _JOURNAL = "-wal", "-journal"
_LOG_HEAD = 32  # rewritten when the log restarts
_TRIES = 5
_State: TypeAlias = tuple[tuple[int, int], tuple[int, int], bytes]


class UnmodifiedDatabase(NamedTuple):
    """A connection, and a check that raises `sqlite3.OperationalError` if data read so far may be inconsistent."""

    connection: sqlite3.Connection
    check: Callable[[], None]


@contextmanager
def open_unmodified(path: Path) -> Generator[UnmodifiedDatabase]:
    """Connect to a database, including the content of its log.

    Raises:
        sqlite3.Error: The database cannot be opened.
        OSError: The database cannot be copied.
    """
    path = path.resolve()  # logs are beside the file itself, not beside a link to it
    if any(_stamp(_beside(path, end))[1] for end in (_LOG, _JOURNAL)):
        with TemporaryDirectory(prefix="treering-") as folder:
            copy = Path(folder) / path.name
            _copy(path, copy)
            with closing(_connect(copy, "mode=rw")) as connection:
                yield UnmodifiedDatabase(connection, lambda: None)
        return
    before = _stamp(path)

    def check() -> None:
        if _stamp(path) != before:
            raise sqlite3.OperationalError("it was modified while it was read: import it again")

    with open_without_log(path) as connection:
        yield UnmodifiedDatabase(connection, check)


@contextmanager
def open_without_log(path: Path) -> Generator[sqlite3.Connection]:
    """Connect to a database without reading its log.

    Raises:
        sqlite3.Error: The database cannot be opened.
    """
    with closing(_connect(path.resolve(), "immutable=1")) as connection:
        yield connection


def _connect(path: Path, uri_options: str) -> sqlite3.Connection:
    # The next session may be requested from another thread, but never from two at once.
    connection = sqlite3.connect(f"{path.as_uri()}?{uri_options}", uri=True, check_same_thread=False)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _copy(path: Path, target: Path) -> None:
    """Copy a consistent state of a database and its log, trying again if they change during the copy.

    A log that grows during the copy is harmless, since SQLite ignores its incomplete end. A checkpoint, which moves
    pages from the log into the database, is not, and neither is a log that restarts.
    """
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):  # the program exited during the copy, which removed its log
            before = _state(path)
            copyfile(path, target)
            for end in (_LOG, _JOURNAL):
                _beside(target, end).unlink(missing_ok=True)
                if _stamp(_beside(path, end))[1]:
                    copyfile(_beside(path, end), _beside(target, end))
            if _state(path) == before:
                return
    raise sqlite3.OperationalError("it is modified all the time: import it when its program is idle")


def _state(path: Path) -> _State:
    """Return a value that changes if a copy in progress becomes inconsistent."""
    log = _beside(path, _LOG)
    head = b""
    if _stamp(log)[1]:
        with log.open("rb") as file:
            head = file.read(_LOG_HEAD)
    return _stamp(path), _stamp(_beside(path, _JOURNAL)), head


def _beside(path: Path, end: str) -> Path:
    return path.with_name(f"{path.name}{end}")


def _stamp(path: Path) -> tuple[int, int]:
    """Return the modification time and size of a file; zeros if it does not exist."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (stat.st_mtime_ns, stat.st_size)


def tables_of(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """Return the tables of a database, each with the names of its columns.

    Raises:
        sqlite3.Error: The database is damaged.
    """
    names = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = "SELECT name FROM pragma_table_info(?)"
    return {name: frozenset(str(each) for (each,) in connection.execute(columns, (name,))) for name in names}


def tables_at(path: Path) -> dict[str, frozenset[str]]:
    """Return the tables of a file; none if it is no database, or a damaged one.

    Each format of databases asks in turn while a file is recognized: it is opened for the first of them.
    """
    return _tables_at(path, _stamp(path), _stamp(_beside(path, _LOG)))


@lru_cache(maxsize=1)
def _tables_at(path: Path, _database: tuple[int, int], _log: tuple[int, int]) -> dict[str, frozenset[str]]:
    try:
        with open_without_log(path) as connection:
            tables = tables_of(connection)
        if not tables:  # the tables of a new database may still be only in its log
            with open_unmodified(path) as database:
                tables = tables_of(database.connection)
    except (*DAMAGE, OSError):
        return {}
    return tables


def beside_database(path: Path) -> tuple[Path, ...]:
    """Return the files that SQLite keeps beside a database."""
    return tuple(_beside(path, end) for end in (_LOG, "-shm", _JOURNAL))


def has_tables(tables: Tables, wanted: Tables) -> bool:
    """Return whether there are these tables with these columns."""
    return all(tables.get(name, frozenset()) >= columns for name, columns in wanted.items())


class Database:
    """An open database of a program that keeps many sessions in it.

    Args:
        path: Its file.
        database: The connection.

    Attributes:
        path: Its file.
        tables: Its tables, each with the names of its columns.
    """

    def __init__(self, path: Path, database: UnmodifiedDatabase) -> None:
        self.path = path
        self._database = database
        self.tables = tables_of(database.connection)

    def rows(self, query: str, *values: Value) -> Iterator[Row]:
        """Yield the rows that a query finds, one after another.

        Raises:
            ForeignFormatError: The database is damaged.
        """
        try:
            yield from self._rows(query, values)
        except DAMAGE as error:
            raise self._failed(error) from error

    def rows_until_damage(self, notes: Notes, what: str, query: str, *values: Value) -> Iterator[Row]:
        """Yield the rows that a query finds up to where the database is damaged, which is reported.

        Args:
            notes: Where it is reported.
            what: What the rows are, in words.
            query: The query.
            *values: Its values.

        Raises:
            ForeignFormatError: The database changed while it was read.
        """
        try:
            yield from self._rows(query, values)
        except DAMAGE as error:
            self.check()
            notes.add("damaged", "error", f"the database is damaged ({error}): {what} from here on are left out")

    def check(self) -> None:
        """Check that what was read so far is consistent.

        Raises:
            ForeignFormatError: The database changed while it was read.
        """
        try:
            self._database.check()
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def references(self, table: str) -> dict[str, str]:
        """Return the tables that the columns of a table refer to."""
        keys = self.rows('SELECT "from" AS name, "table" AS target FROM pragma_foreign_key_list(?)', table)
        return {str(key["name"]): str(key["target"]) for key in keys}

    def _rows(self, query: str, values: tuple[Value, ...]) -> Iterator[Row]:
        cursor = self._database.connection.execute(query, values)
        names = [column[0] for column in cursor.description]
        for row in cursor:
            yield _Row(zip(names, row, strict=True))

    def _failed(self, error: Exception) -> ForeignFormatError:
        return ForeignFormatError(f"the database cannot be read: {error}", where=Where(str(self.path)))


class _Row(dict[str, Value]):
    """A row of a table whose columns were not checked, which may lack some that are asked for."""

    def __missing__(self, column: str) -> Value:
        raise ForeignFormatError(f"a table of the database lacks the column {column!r}, as no known version does")


class DatabaseFormat(Format):
    """A program that keeps its sessions in a database.

    Attributes:
        made_by_it: What only this program's databases hold, in words.
    """

    made_by_it: ClassVar[str]

    @abstractmethod
    def has_sessions(self, tables: Tables) -> bool:
        """Return whether a database with these tables is one of the program's."""
        ...

    @abstractmethod
    def sessions(self, database: Database) -> Iterator[ForeignSession]:
        """Yield the sessions of a database; their entries are read while the next one is not yet asked for.

        Raises:
            ForeignFormatError: Nothing in it can be read.
        """
        ...

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is a database of the program."""
        return head.startswith(HEAD) and self.has_sessions(tables_at(path))

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read all sessions of a database; see `Format.read`."""
        where = Where(str(path))
        try:
            with open_unmodified(path) as opened:
                database = Database(path, opened)
                if not self.has_sessions(database.tables):
                    raise ForeignFormatError(
                        f"the database holds no sessions of {self.title}, which have {self.made_by_it}", where=where
                    )
                for session in self.sessions(database):
                    yield replace(session, beside=beside_database(path))
        except DAMAGE as error:
            raise ForeignFormatError(f"the database cannot be read: {error}", where=where) from error


def quoted(name: str) -> str:
    """Return the name of a table or column as it stands in a query."""
    return '"' + name.replace('"', '""') + '"'
