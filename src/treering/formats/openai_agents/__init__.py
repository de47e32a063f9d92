"""OpenAI's Agents SDK: the databases of its sessions.

agent_sessions       session_id, created_at, updated_at
agent_messages       id, session_id, message_data, created_at     {"role": "user", "content": "Hello"}
message_structure    session_id, message_id, branch_id, sequence_number, user_turn_number, ...
turn_usage           session_id, branch_id, user_turn_number, requests, input_tokens, ...

`SQLiteSession`, `AsyncSQLiteSession` and `SQLAlchemySession` make the first two, under these or other names;
`AdvancedSQLiteSession` makes all four. The SDK need not be installed. A session becomes what
`treering.adapters.openai_agents` makes of one: an item is a message, a branch is a mark and what is below it.

A row has the same id here whenever it is read, so what was added since can be told. What the SDK took back is no longer
in its database: an entry that it is here stays, beside what comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...events.entries import NATIVE_VERSION, Header, KnownEntry
from ..base import ForeignSession
from ..chain import is_derived
from ..databases import Database, DatabaseFormat, Row, Tables, quoted
from ..json_lines import Notes
from ..opening import modified_at
from ..values import as_time
from .branches import STRUCTURE, Branches
from .records import NAME, Items

_MESSAGES = frozenset({"id", "session_id", "message_data", "created_at"})
_SESSIONS = frozenset({"session_id", "created_at", "updated_at"})


class OpenaiAgentsFormat(DatabaseFormat):
    """A database of `SQLiteSession`, `AdvancedSQLiteSession` or `SQLAlchemySession`."""

    name = NAME
    title = "OpenAI Agents SDK"
    checked = "the framework, 0.24.0"
    made_by_it = "a table with message_data that refers to one of sessions"

    def has_sessions(self, tables: Tables) -> bool:
        """Return whether a database has tables of sessions and messages, whatever their names are."""
        return any(each == _MESSAGES for each in tables.values()) and _SESSIONS in tables.values()

    def sessions(self, database: Database) -> Iterator[ForeignSession]:
        """Yield the sessions of a database, the oldest first; see `DatabaseFormat.sessions`."""
        seen = set[str]()
        for names in _pairs(database):
            messages, sessions = quoted(names.messages), quoted(names.sessions)
            query = (  # of the messages it reads the index alone, which tells those with any
                f"SELECT m.session_id, s.created_at AS started FROM (SELECT DISTINCT session_id FROM {messages}) AS m"
                f" LEFT JOIN {sessions} AS s ON s.session_id = m.session_id ORDER BY started, m.session_id"
            )
            for row in [*database.rows(query)]:
                notes = Notes(database.path)
                if str(row["session_id"]) in seen:
                    message = f"there are several sessions {row['session_id']!r}, in tables of their own"
                    notes.add("damaged", "error", message)
                seen.add(str(row["session_id"]))
                yield _session(database, names, row, notes)


class _Names(NamedTuple):
    """The names of two tables that belong together, and whether the tables of branches are theirs."""

    messages: str
    sessions: str
    has_branches: bool


def _pairs(database: Database) -> Iterator[_Names]:
    branched = ""
    if database.tables.get("message_structure", frozenset()) >= STRUCTURE:
        branched = database.references("message_structure").get("message_id", "")
    for name, columns in database.tables.items():
        sessions = database.references(name).get("session_id", "") if columns == _MESSAGES else ""
        if database.tables.get(sessions) == _SESSIONS:
            yield _Names(name, sessions, branched == name)


def _session(database: Database, names: _Names, row: Row, notes: Notes) -> ForeignSession:
    session, written = str(row["session_id"]), row["started"]
    started = as_time(written if isinstance(written, str) else None) or modified_at(database.path)
    items, branches = Items(session, started, notes), Branches(database, names.messages)
    has_branches = names.has_branches and branches.has(session)
    return ForeignSession(
        header=Header(id=session, version=NATIVE_VERSION, timestamp=started, key=session),
        entries=_entries(database, items, branches.entries(items) if has_branches else _plain(database, names, items)),
        findings=notes.findings,
        leaf_id=branches.leaf(session) if has_branches else None,
        is_of_source=is_derived,
    )


def _entries(database: Database, items: Items, entries: Iterator[KnownEntry]) -> Iterator[KnownEntry]:
    yield from entries
    database.check()
    items.notes.close()


def _plain(database: Database, names: _Names, items: Items) -> Iterator[KnownEntry]:
    """Yield the entries of a session without branches."""
    leaf: str | None = None
    query = f"SELECT * FROM {quoted(names.messages)} WHERE session_id = ? ORDER BY id"
    for row in database.rows_until_damage(items.notes, "the items", query, items.session):
        item = items.item(row)
        entry = None if item is None else items.entry(row, item, leaf)
        if entry is not None:
            leaf = entry.id
            yield entry
