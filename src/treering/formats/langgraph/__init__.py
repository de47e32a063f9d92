"""LangGraph: the databases of its SQLite savers.

checkpoints    thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
writes         thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value

`SqliteSaver` and `AsyncSqliteSaver` make both. LangGraph need not be installed, and nothing that a database names is
imported or called. A thread becomes what `treering.adapters.langgraph` makes of one.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...events.entries import NATIVE_VERSION, Header
from ..base import ForeignSession
from ..chain import is_derived
from ..databases import Database, DatabaseFormat, Tables, has_tables
from ..json_lines import Notes
from ..opening import modified_at
from .threads import NAME, ThreadReading

_CHECKPOINTS = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint"})
_WRITES = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value"})


class LanggraphFormat(DatabaseFormat):
    """A database of `SqliteSaver` or `AsyncSqliteSaver`."""

    name = NAME
    title = "LangGraph"
    checked = "the framework, 1.2.24"
    made_by_it = "tables of checkpoints and writes by thread_id and checkpoint_ns"

    def has_sessions(self, tables: Tables) -> bool:
        """Return whether a database has the tables of a saver."""
        return has_tables(tables, {"checkpoints": _CHECKPOINTS, "writes": _WRITES})

    def sessions(self, database: Database) -> Iterator[ForeignSession]:
        """Yield the threads of a database; see `DatabaseFormat.sessions`."""
        started = modified_at(database.path)
        for row in [*database.rows("SELECT thread_id, min(rowid) FROM checkpoints GROUP BY thread_id ORDER BY 2")]:
            thread, notes = str(row["thread_id"]), Notes(database.path)
            reading = ThreadReading(database, thread, notes)
            yield ForeignSession(
                header=Header(id=thread, version=NATIVE_VERSION, timestamp=reading.started() or started, key=thread),
                entries=reading.entries(),
                findings=notes.findings,
                is_of_source=is_derived,
            )
