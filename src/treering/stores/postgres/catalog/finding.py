"""Finding rows: the listing of all hosts' sessions, kept in a table with the columns by which rows are asked for.

`logs.stale` says of which logs the row has to be made again. Whoever writes to a log sets it; whoever keeps a row
clears it, in the same transaction and only if the log still has the row's stamp. A log that somebody is writing to at
that moment is not waited for: it stays marked, and its row is made once more. Keeping waits for the removal of a log
alone, so it never stands in a circle of waiting with an append.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from psycopg.rows import TupleRow

from ....events.stores.base import Cursor, Ref, Stamp
from ....events.stores.capabilities import KeptRow, KeptRows
from ....events.stores.finding import FindsRows, Outdated, RowColumns, RowQuery, columns_of, looked_through
from ..connections import Connections
from .conditions import RowConditions, is_name, names_of
from .escaping import BETWEEN, escaped, escaped_or_none, unescaped
from .row_statements import RowStatements

KEPT_AT_ONCE = 1000
"""How many rows are kept by one transaction."""


class Finder(FindsRows):
    """The rows of one database. Every method blocks.

    Args:
        connections: The connections.
        statements: The SQL.
    """

    def __init__(self, connections: Connections, statements: RowStatements) -> None:
        self._connections = connections
        self._statements = statements

    # -- finding

    def outdated(
        self, refs: Collection[Ref] | None = None, *, after: Ref = "", limit: int | None = None
    ) -> list[Outdated]:
        """See `FindsRows.outdated`."""
        wanted: dict[str, object] = {"after": after, "limit": limit}
        statement = self._statements.outdated
        if refs is not None:
            wanted["refs"] = names_of(refs)
            statement = self._statements.outdated_among
        with self._connections.use() as connection:
            rows = connection.execute(statement, wanted, binary=True, prepare=False).fetchall()
        restored = self._connections.restored
        return [
            Outdated(
                ref,
                Stamp(size, changed, history),
                Cursor(f"{restored}.{history}", head),
                None if before[3] is None else _row((ref, *before)),
            )
            for ref, size, changed, history, head, *before in rows
        ]

    def find(self, query: RowQuery) -> list[KeptRow]:
        """See `FindsRows.find`."""
        conditions = RowConditions(query)
        statement = self._statements.find(conditions.where, conditions.page())
        return [*map(_row, self._found(statement, conditions.parameters))]

    def find_current(self, query: RowQuery, refs: Collection[Ref] | None = None) -> list[KeptRow] | None:
        """See `FindsRows.find_current`. One statement finds the rows and says whether all are current."""
        conditions = RowConditions(query)
        statement = self._statements.find_current(conditions.where, conditions.page(), among=refs is not None)
        given = conditions.parameters if refs is None else conditions.parameters | {"refs": names_of(refs)}
        rows = self._found(statement, given)
        if rows[0][5] if rows else self.outdated(refs, limit=1):
            return None
        return [_row(row[:5]) for row in rows]

    def _found(self, statement: bytes, parameters: Mapping[str, object]) -> list[TupleRow]:
        # The plan depends on the values, and on the limit most of all: none is kept for other ones.
        with self._connections.use() as connection:
            return connection.execute(statement, parameters, binary=True, prepare=False).fetchall()

    def count(self, query: RowQuery) -> Mapping[str, int]:
        """See `FindsRows.count`."""
        conditions = RowConditions(query)
        statement = self._statements.count(conditions.where)
        with self._connections.use() as connection:
            counted = dict(connection.execute(statement, conditions.parameters, prepare=False).fetchall())
        return {unescaped(word): count for word, count in counted.items()}

    # -- keeping

    def rows(self) -> KeptRows | None:
        """See `KeepsRows.rows`."""
        with self._connections.use() as connection:
            rows = {row.ref: row for row in map(_row, connection.execute(self._statements.rows, binary=True))}
        return KeptRows(rows, self._connections.address.place) if rows else None

    def keep(self, rows: Sequence[KeptRow], gone: Collection[Ref]) -> bool:
        """See `KeepsRows.keep`."""
        # In the order of names, in which every host takes them: two never wait for each other.
        ordered = sorted({row.ref: row for row in rows if is_name(row.ref)}.values(), key=lambda row: row.ref)
        left = sorted({*names_of(gone)})
        while ordered or left:
            self._keep(ordered[:KEPT_AT_ONCE], left)
            ordered, left = ordered[KEPT_AT_ONCE:], []
        return True

    def _keep(self, rows: Sequence[KeptRow], gone: Sequence[Ref]) -> None:
        refs = [row.ref for row in rows]
        with self._connections.use() as connection, connection.pipeline(), connection.transaction():
            if gone:
                connection.execute(self._statements.drop_rows, {"refs": gone})
            if rows:
                connection.execute(self._statements.keep_rows, _columns(rows))
            connection.execute(self._statements.mark_stale, {"refs": [*refs, *gone]})

    # -- the current logs of projects

    def currents(self) -> Mapping[str, Ref]:
        """See `KeepsRows.currents`."""
        with self._connections.use() as connection:
            return dict(connection.execute(self._statements.currents).fetchall())

    def set_current(self, project_hash: str, ref: Ref | None) -> None:
        """See `KeepsRows.set_current`."""
        statement = self._statements.clear_current if ref is None else self._statements.set_current
        with self._connections.use() as connection:
            connection.execute(statement, {"project": project_hash, "ref": ref})

    def current(self, project_hash: str) -> Ref | None:
        """See `KeepsRows.current`."""
        with self._connections.use() as connection:
            row = connection.execute(self._statements.current, {"project": project_hash}).fetchone()
        return None if row is None else str(row[0])

    def current_among(self, refs: Collection[Ref]) -> frozenset[Ref]:
        """See `KeepsRows.current_among`."""
        with self._connections.use() as connection:
            rows = connection.execute(self._statements.current_among, {"refs": names_of(refs)})
            return frozenset(ref for (ref,) in rows)

    def forget(self, ref: Ref) -> None:
        """See `KeepsRows.forget`."""
        with self._connections.use() as connection:
            connection.execute(self._statements.forget_current, {"ref": ref})


def _row(found: Sequence[object]) -> KeptRow:
    ref, size, changed, identity, data = found
    assert isinstance(ref, str)
    assert isinstance(size, int)
    assert isinstance(changed, int)
    assert isinstance(identity, int)
    assert isinstance(data, bytes)
    return KeptRow(ref, Stamp(size, changed, identity), data)


def _columns(rows: Sequence[KeptRow]) -> dict[str, object]:
    """Return the columns of the table, each with the values of all rows."""
    found = [_known(row) for row in rows]

    def texts(of: Callable[[RowColumns], str | None]) -> list[str | None]:
        return [None if each is None else escaped_or_none(of(each)) for each in found]

    def times(of: Callable[[RowColumns], datetime]) -> list[datetime | None]:
        return [None if each is None else of(each) for each in found]

    return {
        "refs": [row.ref for row in rows],
        "sizes": [row.stamp.size for row in rows],
        "changes": [row.stamp.changed for row in rows],
        "identities": [row.stamp.identity for row in rows],
        "data": [row.data for row in rows],
        "ids": texts(lambda row: row.id),
        "keys": texts(lambda row: row.key),
        "names": texts(lambda row: row.name),
        "titles": texts(lambda row: row.title),
        "parents": texts(lambda row: row.parent_session),
        "projects": texts(lambda row: row.project),
        "project_hashes": texts(lambda row: row.project_hash),
        "statuses": texts(lambda row: row.status),
        "words": texts(lambda row: row.word),
        "archived": [None if each is None else each.archived for each in found],
        "created": times(lambda row: row.created),
        "modified": times(lambda row: row.modified),
        "last_entries": times(lambda row: row.last_entry),
        "used": times(lambda row: row.used),
        "looked": [None if each is None else BETWEEN.join(map(escaped, looked_through(each))) for each in found],
    }


def _known(row: KeptRow) -> RowColumns | None:
    """Return the columns of a row; None if it has none, or times of no zone, which cannot be compared."""
    columns = columns_of(row)
    if columns is None:
        return None
    times = (columns.created, columns.modified, columns.last_entry, columns.used)
    return None if any(time.tzinfo is None for time in times) else columns
