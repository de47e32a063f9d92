"""opencode: its database, which holds the records of the tree in the tables session, message and part."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ..content import JSON
from ..errors import ForeignFormatError, Where
from .json_lines import Notes, decoded
from .opencode_storage import Record
from .opencode_untouched import as_it_lies, untouched
from .values import Object, as_text

HEAD = b"SQLite format 3\0"
"""How a database begins."""

_DAMAGE = (sqlite3.Error, UnicodeDecodeError)  # the names of columns are decoded, too
_TABLES = frozenset({"session", "message", "part"})


class InDatabase:
    """A session in the database, of which `row` is the row."""

    def __init__(self, path: Path, connection: sqlite3.Connection, row: Object) -> None:
        self.path = path
        self._connection = connection
        self._row = row

    def info(self) -> Object:
        """Return what is said of it as a whole; see `Stored.info`."""
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
        """Yield its messages in order; see `Stored.records`."""
        session = self._row.get("id")
        messages = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
        parts = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
        for message_id, info in self._values(messages, session, notes):
            yield Record(info, [part for _, part in self._values(parts, message_id, notes)])

    def _values(self, query: str, key: JSON, notes: Notes) -> Iterator[tuple[str, Object]]:
        try:
            rows = self._connection.execute(query, (key,)).fetchall()
        except _DAMAGE as error:
            raise ForeignFormatError(f"the database is damaged: {error}", where=Where(str(self.path))) from error
        for row_id, data in rows:
            value = decoded(data.encode() if isinstance(data, str) else bytes(data or b""))
            if value is None:
                notes.add("damaged", "error", f"the record {row_id!r} is no JSON object: it is left out")
            else:
                yield str(row_id), {"id": str(row_id), **value}


def is_database(path: Path) -> bool:
    """Tell whether a database has the tables of opencode."""
    try:
        with as_it_lies(path) as connection:
            tables = _tables(connection)
        if not tables:  # a new database may stand in its log alone, as yet
            with untouched(path) as connection:
                tables = _tables(connection)
        return tables >= _TABLES
    except (*_DAMAGE, OSError):
        return False


def in_database(path: Path) -> Iterator[InDatabase]:
    """Yield the sessions of a database, which is left untouched.

    Raises:
        ForeignFormatError: It has no such tables, is damaged, or was written to meanwhile.
        OSError: It cannot be copied.
    """
    try:
        with untouched(path) as connection:
            if not _tables(connection) >= _TABLES:
                raise ForeignFormatError("this database holds no sessions of opencode", where=Where(str(path)))
            cursor = connection.execute("SELECT * FROM session ORDER BY time_created, id")
            columns = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                values = zip(columns, row, strict=True)
                yield InDatabase(path, connection, {name: value for name, value in values if _is_plain(value)})
    except _DAMAGE as error:
        raise ForeignFormatError(f"the database cannot be read: {error}", where=Where(str(path))) from error


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float))
