"""opencode: its database, whose tables session, message and part hold the records of the storage tree."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path

from ...events.errors import ForeignFormatError, Where
from ...events.json_values import JSON
from ..base import ForeignSession
from ..json_lines import Notes, decoded
from ..opening import read_each
from ..values import Object, as_text
from .storage import Record, UnmodifiedDatabase, open_unmodified, open_without_log

HEAD = b"SQLite format 3\0"
"""The first bytes of a database."""

_DAMAGE = (sqlite3.Error, UnicodeDecodeError)  # decoding the column names can fail as well
_TABLES = frozenset({"session", "message", "part"})


class InDatabase:
    """A session in the database; `row` is its row in the table `session`."""

    def __init__(self, path: Path, database: UnmodifiedDatabase, row: Object) -> None:
        self.path = path
        self._database = database
        self._row = row

    def info(self) -> Object:
        """Return the session's own record; see `StoredSession.info`."""
        row = self._row
        return {
            "id": row.get("id"),
            "parentID": row.get("parent_id"),
            "directory": row.get("directory"),
            "title": row.get("title"),
            "time": {"created": row.get("time_created"), "updated": row.get("time_updated")},
            "revert": decoded(as_text(row.get("revert")).encode()),
        }

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order; see `StoredSession.records`.

        Raises:
            sqlite3.OperationalError: The database changed during reading, so the messages may be inconsistent.
        """
        session = self._row.get("id")
        messages = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
        parts = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
        for message_id, info in self._values(messages, session, notes):
            yield Record(info, [part for _, part in self._values(parts, message_id, notes)])
        self._database.check()

    def _values(self, query: str, key: JSON, notes: Notes) -> Iterator[tuple[str, Object]]:
        try:
            rows = self._database.connection.execute(query, (key,)).fetchall()
        except _DAMAGE as error:
            self._database.check()
            raise ForeignFormatError(f"the database is damaged: {error}", where=Where(str(self.path))) from error
        for row_id, data in rows:
            value = _decoded_record(data)
            if value is None:
                notes.add("damaged", "error", f"the record {row_id!r} is not a JSON object, so it is left out")
            else:
                yield str(row_id), {"id": str(row_id), **value}


def is_database(path: Path) -> bool:
    """Return whether a database has the tables of opencode."""
    try:
        with open_without_log(path) as connection:
            tables = _tables(connection)
        if not tables:  # the tables of a new database may still be only in its log
            with open_unmodified(path) as database:
                tables = _tables(database.connection)
        return tables >= _TABLES
    except (*_DAMAGE, OSError):
        return False


def in_database(path: Path, read: Callable[[InDatabase], ForeignSession]) -> Iterator[ForeignSession]:
    """Read the sessions of a database one after another, without modifying it; see `read_each`.

    Args:
        path: The database.
        read: Reads a session with all of its records, or raises `ForeignFormatError`.

    Raises:
        ForeignFormatError: The database lacks opencode's tables, is damaged, or changed during reading, or none of its
            sessions can be read.
        OSError: The database cannot be copied.
    """
    try:
        with open_unmodified(path) as database:
            connection = database.connection
            if not _tables(connection) >= _TABLES:
                raise ForeignFormatError("the database holds no opencode sessions", where=Where(str(path)))
            cursor = connection.execute("SELECT * FROM session ORDER BY time_created, id")
            columns = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
            database.check()
            if rows:
                sessions = (InDatabase(path, database, _json_values(columns, row)) for row in rows)
                yield from read_each(repeat(path, len(rows)), lambda _: read(next(sessions)), "")
    except _DAMAGE as error:
        raise ForeignFormatError(f"the database cannot be read: {error}", where=Where(str(path))) from error


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _decoded_record(data: object) -> Object | None:
    if isinstance(data, str):
        return decoded(data.encode())
    return decoded(data) if isinstance(data, bytes) else None


def _json_values(columns: Sequence[str], row: Sequence[object]) -> Object:
    pairs = zip(columns, row, strict=True)
    return {name: value for name, value in pairs if value is None or isinstance(value, (str, int, float))}
