"""Google's Agent Development Kit: the databases of its sessions.

sessions       app_name, user_id, id, state, create_time, update_time
events         app_name, user_id, session_id, id, timestamp, event_data     {"id": "e1", "author": "user", ...}
app_states     app_name, state, update_time
user_states    app_name, user_id, state, update_time

`SqliteSessionService` makes them, with numbers as times, and `DatabaseSessionService` on SQLite does. The kit need not
be installed. A session becomes what `treering.adapters.adk` makes of one; the state of an app or a user is a session of
its own.

What a session's state held at first is not kept in a database. It is taken to be what the state holds that no event
has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from ...events.entries import EPOCH, NATIVE_VERSION, Custom, Header, KnownEntry, SessionInfo, entry_of
from ...events.errors import ForeignFormatError, InvalidEntry, UnsupportedVersion, Where
from ...events.json_values import JSON, raw_object
from ..base import ForeignSession
from ..chain import derived_id
from ..databases import Database, DatabaseFormat, Row, Tables, has_tables
from ..json_lines import Notes, decoded, unheard
from ..values import Object, as_object, as_time
from .events import Event, named, payload_of
from .names import APP, BEGUN, CHANGE, USER, Name, Scope

NAME = "adk"

_SCHEMA = "1"
_SESSIONS = frozenset({"app_name", "user_id", "id", "state", "create_time", "update_time"})
_EVENTS = frozenset({"app_name", "user_id", "session_id", "id", "invocation_id", "timestamp"})


class AdkFormat(DatabaseFormat):
    """A database of `SqliteSessionService` or `DatabaseSessionService`."""

    name = NAME
    title = "Agent Development Kit"
    checked = "the framework, 2.13.0"
    made_by_it = "tables of sessions and events by app_name and user_id"

    def has_sessions(self, tables: Tables) -> bool:
        """Return whether a database has the tables of the kit, of whatever version."""
        return has_tables(tables, {"sessions": _SESSIONS, "events": _EVENTS})

    def sessions(self, database: Database) -> Iterator[ForeignSession]:
        """Yield what apps and users have in common, and then the sessions; see `DatabaseFormat.sessions`.

        Raises:
            ForeignFormatError: The database is of an early version, which holds pickled objects.
            UnsupportedVersion: The database is of a later version.
        """
        _check_version(database)
        for table, prefix in (("app_states", APP), ("user_states", USER)):
            if table in database.tables:
                for row in [*database.rows(f"SELECT * FROM {table} ORDER BY update_time")]:
                    if as_object(_json(row["state"])):
                        yield _scope(database, row, prefix)
        for row in [*database.rows("SELECT * FROM sessions ORDER BY create_time, app_name, user_id, id")]:
            yield _session(database, row)


def _check_version(database: Database) -> None:
    where = Where(str(database.path))
    if "event_data" not in database.tables["events"]:
        raise ForeignFormatError(
            "this database is of an early version of the Agent Development Kit, which pickled objects: bring it to the "
            "present one with `adk migrate session`",
            where=where,
        )
    if "adk_internal_metadata" in database.tables:
        query = "SELECT value FROM adk_internal_metadata WHERE key = 'schema_version'"
        version = next((row["value"] for row in database.rows(query)), _SCHEMA)
        if version != _SCHEMA:
            raise UnsupportedVersion(
                f"this database of the Agent Development Kit has the schema {version!r}, and {_SCHEMA!r} is the latest "
                "that treering can read",
                where=where,
            )


# -- the state of an app or a user


def _scope(database: Database, row: Row, prefix: str) -> ForeignSession:
    name = Name(str(row["app_name"]), str(row.get("user_id", "")), "")
    scope = name.scope(prefix)
    return ForeignSession(
        header=Header(id=scope.key, version=NATIVE_VERSION, timestamp=_time(row["update_time"]), key=scope.key),
        entries=_changes(database, row, scope, name),
        findings=[],
    )


def _changes(database: Database, row: Row, scope: Scope, name: Name) -> Iterator[KnownEntry]:
    """Yield the state of an app or a user, as it was changed last."""
    query, values = "SELECT max(timestamp) AS latest FROM events WHERE app_name = ?", [name.app_name]
    if scope.prefix == USER:
        query, values = f"{query} AND user_id = ?", [*values, name.user_id]
    changed = _time(row["update_time"])
    if not changed.microsecond:  # written to the second
        changed += timedelta(seconds=1)
    latest = max(changed, *(_time(each["latest"], changed) for each in database.rows(query, *values)))
    latest += timedelta(microseconds=1)  # later than each event: what one of them changed is in it
    info_id = derived_id(NAME, scope.key, "info")
    yield entry_of(SessionInfo(name=scope.title), id=info_id, parent_id=None, timestamp=latest)
    data = raw_object({"values": _json(row["state"]), "at": latest.isoformat()}, "the state")
    change_id = derived_id(NAME, scope.key, str(row["update_time"]), str(row["state"]))
    yield entry_of(Custom(CHANGE, data), id=change_id, parent_id=info_id, timestamp=latest)
    database.check()


# -- a session


def _session(database: Database, row: Row) -> ForeignSession:
    name = Name(str(row["app_name"]), str(row["user_id"]), str(row["id"]))
    notes = Notes(database.path)
    return ForeignSession(
        header=Header(id=name.key, version=NATIVE_VERSION, timestamp=_time(row["create_time"]), key=name.key),
        entries=_Reading(database, row, name, notes).entries(),
        findings=notes.findings,
    )


class _Reading:
    """A conversion of the events of one session."""

    def __init__(self, database: Database, row: Row, name: Name, notes: Notes) -> None:
        self._database = database
        self._row = row
        self._name = name
        self._notes = notes
        self._time = _time(row["create_time"])
        self._leaf: str | None = None
        self._last: str | None = None
        self._begun: dict[str, tuple[str, str | None]] = {}  # by invocation, its first event and what is above that
        self._rewinds: dict[str, str | None] = {}

    def entries(self) -> Iterator[KnownEntry]:
        """Yield its beginning and its events, as the adapter stores them."""
        changed = {name for _, stored in self._rows() for name in _delta(stored)}
        state = {name: value for name, value in as_object(_json(self._row["state"])).items() if name not in changed}
        begun = raw_object({"created": self._time.timestamp(), "state": state}, "the state")
        self._leaf = derived_id(NAME, self._name.key, "begun")
        yield entry_of(Custom(BEGUN, begun), id=self._leaf, parent_id=None, timestamp=self._time)
        for row, stored in self._rows(self._notes):
            try:
                yield self._entry({**named(stored), "id": str(row["id"]), "invocationId": str(row["invocation_id"])})
            except InvalidEntry as error:
                self._notes.add("damaged", "error", f"the event {row['id']!r} is left out: {error}")
        self._database.check()
        self._notes.close()

    def _rows(self, notes: Notes | None = None) -> Iterator[tuple[Row, Object]]:
        """Yield the rows of events with what they hold, and report those that hold nothing that can be read."""
        query = (
            "SELECT id, invocation_id, event_data FROM events WHERE app_name = ? AND user_id = ? AND session_id = ?"
            " ORDER BY timestamp, rowid"
        )
        heard = notes or unheard()
        for row in self._database.rows_until_damage(heard, "the events", query, *self._name):
            stored = _json(row["event_data"])
            if isinstance(stored, dict):
                yield row, stored
            else:
                heard.add("damaged", "error", f"the event {row['id']!r} is left out: it is not a JSON object")

    def _entry(self, event: Event) -> KnownEntry:
        """Return the entry of an event: below the one before it, or above what it takes back."""
        actions, invocation = as_object(event.get("actions")), str(event.get("invocationId"))
        entry_id, parent, payload = derived_id(NAME, self._name.key, str(event["id"])), self._leaf, payload_of(event)
        rewound = self._begun.get(str(actions.get("rewindBeforeInvocationId")))
        if rewound is not None:
            first, above = rewound
            payload, parent = payload_of(event, after=self._last), self._rewinds.get(first, above)
        if actions.get("rewindBeforeInvocationId") is not None:
            self._rewinds[entry_id] = self._last if rewound is not None else None
        self._begun.setdefault(invocation, (entry_id, parent))
        self._time = max(self._time, _time(event.get("timestamp"), self._time))
        self._leaf = self._last = entry_id
        return entry_of(payload, id=entry_id, parent_id=parent, timestamp=self._time)


def _delta(stored: Object) -> Object:
    """Return what a stored event changes in the state."""
    return as_object(as_object(named(stored).get("actions")).get("stateDelta"))


def _json(value: object) -> JSON:
    return decoded(value.encode(errors="replace")) if isinstance(value, str) else None


def _time(value: object, otherwise: datetime = EPOCH) -> datetime:
    """Return the time that a number of seconds or a text says."""
    if isinstance(value, (int, float)):
        return as_time(value * 1000) or otherwise
    return as_time(value if isinstance(value, str) else None) or otherwise
