"""opencode: where its sessions are stored: a tree of small JSON files, an exported file, or a database.

storage/session/<project>/<session>.json      {"id":"ses_1","directory":"/work/project","title":"...","time":{...}}
storage/message/<session>/<message>.json      {"id":"msg_1","sessionID":"ses_1","role":"user","time":{...}}
storage/part/<message>/<part>.json            {"id":"prt_1","messageID":"msg_1","type":"text","text":"Hello"}

The first versions kept the whole tree within `session`, without projects:

storage/session/info/<session>.json           {"id":"ses_1","title":"...","time":{...}}
storage/session/message/<session>/<message>.json
storage/session/part/<session>/<message>/<part>.json

An exported file is one document; the tables session, message and part of the database hold the records of the tree:

{"info":{...session...},"messages":[{"info":{...message...},"parts":[...]}]}
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from ...events.errors import ForeignFormatError, Where
from ...events.json_values import JSON
from ..base import ForeignSession
from ..databases import DAMAGE, UnmodifiedDatabase, open_unmodified, tables_at, tables_of
from ..json_lines import Notes, decoded, document
from ..opening import read_each
from ..values import Object, as_object, as_objects, as_text

_DOCUMENT_FIELDS = frozenset({"info", "messages"})
_MESSAGE_FIELDS = frozenset({"info", "parts"})
_LAST = 8  # messages at the end of a session that a list is made from
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? {}"

_TABLES = frozenset({"session", "message", "part"})


class Record(Struct, frozen=True):
    """A message and its parts, in order."""

    info: Object
    parts: list[Object]


class StoredSession(Protocol):
    """One session in any of these places."""

    @property
    def path(self) -> Path:
        """The file that holds the session, or its own record."""
        ...

    def info(self) -> Object:
        """Return the session's own record.

        Raises:
            ForeignFormatError: The record cannot be read.
        """
        ...

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order, and report damaged ones to `notes`."""
        ...


class InTree:
    """A session in the tree; `path` is its own file. Its messages are read, or only the first one and the last ones."""

    def __init__(self, path: Path, *, ends_only: bool = False) -> None:
        self.path = path
        self._ends_only = ends_only
        self._is_first = is_in_first_tree(path)
        self._root = path.parent.parent if self._is_first else path.parent.parent.parent

    def info(self) -> Object:
        """Return the session's own record; see `StoredSession.info`."""
        return as_object(document(self.path))

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order; see `StoredSession.records`."""
        session = as_text(self.info().get("id")) or self.path.stem
        messages, parts = self._root / "message", self._root / "part"
        self._report_missing(messages, "messages", notes)
        any_message = False
        for info in _values(messages / _folder_name(session), notes, ends_only=self._ends_only):
            if not any_message:
                any_message = True
                self._report_missing(parts, "parts of its messages", notes)
            message = as_text(info.get("id"))
            folder = parts / _folder_name(session) if self._is_first else parts
            yield Record(info, list(_values(folder / _folder_name(message), notes)) if message else [])

    def _report_missing(self, folder: Path, content: str, notes: Notes) -> None:
        if not folder.is_dir():
            notes.add(
                "missing",
                "error",
                f"the folder {folder} with the {content} is missing: the session is read without them",
            )


def is_tree(folder: Path) -> bool:
    """Return whether a folder is a storage tree."""
    sessions = folder / "session"
    return sessions.is_dir() and ((folder / "message").is_dir() or _is_first_tree(sessions))


def is_in_first_tree(path: Path) -> bool:
    """Return whether a session's own file is in a tree of the first versions."""
    return path.parent.name == "info" and _is_first_tree(path.parent.parent)


def _is_first_tree(sessions: Path) -> bool:
    return (sessions / "info").is_dir() and (sessions / "message").is_dir()


def _folder_name(name: str) -> str:
    """Return an id as the name of a folder; an id that would lead elsewhere becomes a name that does not exist."""
    return name.replace("/", "_").replace("\0", "_") if name not in (".", "..") else "_"


def _values(folder: Path, notes: Notes, *, ends_only: bool = False) -> Iterator[Object]:
    """Yield the objects in the files of a folder, ordered by file name; all, or the first and the last ones."""
    try:
        paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    except OSError as error:
        notes.add("damaged", "error", f"the files of {folder.name[:40]!r} are left out: {error.strerror}")
        return
    if ends_only and len(paths) > _LAST:
        paths = [paths[0], *paths[-_LAST:]]
    for path in paths:
        try:
            value, problem = decoded(path.read_bytes()), "is not a JSON object"
        except OSError as error:
            value, problem = None, f"cannot be read ({error.strerror})"
        if value is None:
            notes.add("damaged", "error", f"{path.parent.name}/{path.name} {problem}, so it is left out")
        else:
            yield value


class InFile:
    """A session in a file written by `opencode export`."""

    def __init__(self, path: Path, document_value: Object) -> None:
        self.path = path
        self._document = document_value

    def info(self) -> Object:
        """Return the session's own record; see `StoredSession.info`."""
        return as_object(self._document.get("info"))

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order; see `StoredSession.records`."""
        notes.check_fields("document", self._document, _DOCUMENT_FIELDS)
        notes.check_items("message of an unknown form", self._document.get("messages"))
        for message in as_objects(self._document.get("messages")):
            notes.check_fields("message", message, _MESSAGE_FIELDS)
            notes.check_items("part of an unknown form", message.get("parts"))
            yield Record(as_object(message.get("info")), as_objects(message.get("parts")))


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
            "metadata": decoded(as_text(row.get("metadata")).encode()),
            "time": {"created": row.get("time_created"), "updated": row.get("time_updated")},
            "revert": decoded(as_text(row.get("revert")).encode()),
        }

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order; see `StoredSession.records`.

        Raises:
            sqlite3.OperationalError: The database changed during reading, so the messages may be inconsistent.
        """
        parts = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
        for message_id, info in self._messages(self._row.get("id"), notes):
            yield Record(info, [part for _, part in self._values(parts, message_id, notes)])
        self._database.check()

    def _messages(self, session: JSON, notes: Notes) -> Iterator[tuple[str, Object]]:
        return self._values(_MESSAGES.format("ORDER BY time_created, id"), session, notes)

    def _values(self, query: str, key: JSON, notes: Notes) -> Iterator[tuple[str, Object]]:
        try:
            rows = self._database.connection.execute(query, (key,)).fetchall()
        except DAMAGE as error:
            self._database.check()
            raise ForeignFormatError(f"the database is damaged: {error}", where=Where(str(self.path))) from error
        for row_id, data in rows:
            value = _decoded_record(data)
            if value is None:
                notes.add("damaged", "error", f"the record {row_id!r} is not a JSON object, so it is left out")
            else:
                yield str(row_id), {"id": str(row_id), **value}


class EndsInDatabase(InDatabase):
    """A session in the database of which only the first message and the last ones are read."""

    def _messages(self, session: JSON, notes: Notes) -> Iterator[tuple[str, Object]]:
        first = _MESSAGES.format("ORDER BY time_created, id LIMIT 1")
        last = _MESSAGES.format(f"ORDER BY time_created DESC, id DESC LIMIT {_LAST}")
        found = dict(self._values(first, session, notes))
        found.update(reversed([*self._values(last, session, notes)]))
        yield from found.items()


def is_database(path: Path) -> bool:
    """Return whether a database has the tables of opencode."""
    return tables_at(path).keys() >= _TABLES


def in_database(
    path: Path, read: Callable[[InDatabase], ForeignSession], *, only: str | None = None
) -> Iterator[ForeignSession]:
    """Read the sessions of a database one after another, without modifying it; see `read_each`.

    Args:
        path: The database.
        read: Reads a session with all of its records, or raises `ForeignFormatError`.
        only: The id of the only session to read.

    Raises:
        ForeignFormatError: The database lacks opencode's tables, is damaged, or changed during reading, or none of its
            sessions can be read.
        OSError: The database cannot be copied.
    """
    with _rows_of(path) as (database, rows):
        wanted = [row for row in rows if only is None or row.get("id") == only]
        yield from _read_rows(path, [InDatabase(path, database, row) for row in wanted], read)


def ends_in_database(
    path: Path, read: Callable[[InDatabase], ForeignSession], since_ms: int
) -> Iterator[ForeignSession | str]:
    """Name all sessions of a database, and read how those begin and end that changed from a time on; see `in_database`.

    Yields:
        The ids of all sessions, and then those sessions.
    """
    with _rows_of(path) as (database, rows):
        yield from (as_text(row.get("id")) for row in rows)
        changed = [row for row in rows if _changed_from(row, since_ms)]
        yield from _read_rows(path, [EndsInDatabase(path, database, row) for row in changed], read)


@contextmanager
def _rows_of(path: Path) -> Generator[tuple[UnmodifiedDatabase, list[Object]]]:
    """Open a database, and read its table of sessions."""
    try:
        with open_unmodified(path) as database:
            connection = database.connection
            if not tables_of(connection).keys() >= _TABLES:
                raise ForeignFormatError("the database holds no opencode sessions", where=Where(str(path)))
            cursor = connection.execute("SELECT * FROM session ORDER BY time_created, id")
            columns = [column[0] for column in cursor.description]
            rows = [_json_values(columns, row) for row in cursor.fetchall()]
            database.check()
            yield database, rows
    except DAMAGE as error:
        raise ForeignFormatError(f"the database cannot be read: {error}", where=Where(str(path))) from error


def _read_rows(
    path: Path, stored: Sequence[InDatabase], read: Callable[[InDatabase], ForeignSession]
) -> Iterator[ForeignSession]:
    if stored:
        sessions = iter(stored)
        yield from read_each(repeat(path, len(stored)), lambda _: read(next(sessions)), "")


def _changed_from(row: Object, time_ms: int) -> bool:
    changed = row.get("time_updated")
    return not isinstance(changed, (int, float)) or changed >= time_ms


def _decoded_record(data: object) -> Object | None:
    if isinstance(data, str):
        return decoded(data.encode())
    return decoded(data) if isinstance(data, bytes) else None


def _json_values(columns: Sequence[str], row: Sequence[object]) -> Object:
    pairs = zip(columns, row, strict=True)
    return {name: value for name, value in pairs if value is None or isinstance(value, (str, int, float))}
