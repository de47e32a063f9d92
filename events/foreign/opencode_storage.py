"""opencode: where its sessions lie. A tree of small JSON files, later a database of the same records, or an exported file.

storage/session/<project>/<session>.json      {"id":"ses_1","directory":"/work/project","title":"...","time":{...}}
storage/message/<session>/<message>.json      {"id":"msg_1","sessionID":"ses_1","role":"user","time":{...}}
storage/part/<message>/<part>.json            {"id":"prt_1","messageID":"msg_1","type":"text","text":"Hello"}

opencode.db                                   the tables session, message and part, a record in the column `data`

{"info":{...session...},"messages":[{"info":{...message...},"parts":[...]}]}
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from msgspec import Struct

from ..content import JSON
from ..errors import ForeignFormatError, Where
from .json_lines import Notes, decoded, document
from .values import Object, as_object, as_objects, as_text

DATABASE_HEAD = b"SQLite format 3\0"

_DAMAGE = (sqlite3.Error, UnicodeDecodeError)  # the names of columns are decoded, too
_TABLES = frozenset({"session", "message", "part"})


class Record(Struct, frozen=True):
    """A message, with its parts in order."""

    info: Object
    parts: list[Object]


class Stored(Protocol):
    """One session, wherever it lies."""

    @property
    def path(self) -> Path:
        """The file that holds it, or what is said of it as a whole."""
        ...

    def info(self) -> Object:
        """Return what is said of it as a whole.

        Raises:
            ForeignFormatError: It cannot be read.
        """
        ...

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order; what is damaged is noted."""
        ...


class InTree:
    """A session in the tree; `path` is its own file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._root = path.parent.parent.parent

    def info(self) -> Object:
        """Return what is said of it as a whole; see `Stored.info`."""
        return as_object(document(self.path))

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order; see `Stored.records`."""
        session = as_text(self.info().get("id")) or self.path.stem
        for info in _values(self._root / "message" / _plain(session), notes):
            message = as_text(info.get("id"))
            yield Record(info, list(_values(self._root / "part" / _plain(message), notes)) if message else [])


def _plain(name: str) -> str:
    """Return an id as the name of a folder: one that leads elsewhere names none that is there."""
    return name.replace("/", "_").replace("\0", "_") if name not in (".", "..") else "_"


def _values(folder: Path, notes: Notes) -> Iterator[Object]:
    """Yield the objects in the files of a folder, by the order of their names."""
    try:
        paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    except OSError as error:
        notes.add("damaged", "error", f"what belongs into {folder.name[:40]!r} is left out: {error.strerror}")
        return
    for path in paths:
        try:
            value, problem = decoded(path.read_bytes()), "is no JSON object"
        except OSError as error:
            value, problem = None, f"cannot be read ({error.strerror})"
        if value is None:
            notes.add("damaged", "error", f"{path.parent.name}/{path.name} {problem}: it is left out")
        else:
            yield value


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


class InFile:
    """A session that `opencode export` wrote."""

    def __init__(self, path: Path, given: Object) -> None:
        self.path = path
        self._given = given

    def info(self) -> Object:
        """Return what is said of it as a whole; see `Stored.info`."""
        return as_object(self._given.get("info"))

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order; see `Stored.records`."""
        for each in as_objects(self._given.get("messages")):
            yield Record(as_object(each.get("info")), as_objects(each.get("parts")))


def is_database(path: Path) -> bool:
    """Tell whether a database has the tables of opencode."""
    try:
        with closing(_connected(path)) as connection:
            return _tables(connection) >= _TABLES
    except _DAMAGE:
        return False


def in_database(path: Path) -> Iterator[InDatabase]:
    """Yield the sessions of a database, which is opened to be read only.

    Raises:
        ForeignFormatError: It has no such tables, or is damaged.
    """
    try:
        with closing(_connected(path)) as connection:
            if not _tables(connection) >= _TABLES:
                raise ForeignFormatError("this database holds no sessions of opencode", where=Where(str(path)))
            cursor = connection.execute("SELECT * FROM session ORDER BY time_created, id")
            columns = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                values = zip(columns, row, strict=True)
                yield InDatabase(path, connection, {name: value for name, value in values if _is_plain(value)})
    except _DAMAGE as error:
        raise ForeignFormatError(f"the database cannot be read: {error}", where=Where(str(path))) from error


def _connected(path: Path) -> sqlite3.Connection:
    # Whoever asks for the next session may do so from another thread, but never from two at once.
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    connection = sqlite3.connect(address, uri=True, check_same_thread=False)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float))
