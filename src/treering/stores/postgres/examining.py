"""What is wrong with a database of sessions: rows that do not fit each other, objects that are missing or differ.

It looks at what the store promises itself: that a log has all of its lines and no others, that an object is what was
written, that nothing belongs to no log, that leases have hosts, and that numbers are not given out twice. It does not
look at what lines say. Hosts may run meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg

from ...events.dialects.detect import detect
from ...events.errors import LogDamaged, LogError, TreeringError, UnsupportedVersion
from ...events.findings import Finding, Repair, Severity
from ...events.stores.capabilities import Health
from .archive.opened import Object, OpenedObjects, Row
from .archive.sweeping import sweep
from .connections import BoundedConnection, Connections
from .schema import VERSION, Connection, status
from .statements import filled_in

PAGE_LOGS = 500
"""How many logs are looked at by one statement."""

_LOGS = """
select l.ref, l.history, l.head, l.header, l.object, l.object_hash, l.object_size, n.count, n.first, n.last, (
    select min(s) from generate_series(1, l.head) s
    where n.count < l.head and l.object is null
        and not exists (select from {s}.lines i where i.history = l.history and i.seq = s)
), l.owner is not null and h.id is null, l.owner is not null and h.until <= now()
from (select * from {s}.logs where ref > %(after)s and header is not null order by ref limit %(limit)s) l
    left join {s}.hosts h on h.id = l.owner,
    lateral (select count(*), min(seq), max(seq) from {s}.lines i where i.history = l.history) n (count, first, last)
order by l.ref
"""

_NOW = """
select history, head, header, object, object_hash, object_size from {s}.logs
where ref = %(ref)s and history = %(history)s
"""

_ORPHANS = """
select 'lines', history::text, count(*) from {s}.lines i
where not exists (select from {s}.logs l where l.history = i.history) group by history
union all
select 'beside', ref, count(*) from {s}.beside b
where not exists (select from {s}.logs l where l.ref = b.ref) group by ref
order by 1, 2
"""

_NUMBERS = """
select 'epochs', max(epoch), (select last_value from {s}.epochs) from {s}.logs
union all
select 'histories', max(history), (select last_value from {s}.histories) from {s}.logs
"""

_RAISED = "select setval('{s}.NAME', %(least)s)"


class Examiner(Health):
    """Examines one database. Every method blocks, and connects by itself; nothing is migrated.

    Args:
        connections: The connections, for the address.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._address = connections.address
        self._of = filled_in(self._address.schema)

    def examine(self) -> list[Finding]:
        """See `Health.examine`.

        Raises:
            StoreUnavailable: The server cannot be reached.
            UnsupportedVersion: The schema has another version than this program's.
        """
        with closing(self._connections.connect()) as connection:
            try:
                return list(self._findings(connection)) if self._is_there(connection) else []
            except psycopg.Error as error:
                raise self._connections.told(error) from error

    def repair(self) -> list[Repair]:
        """Raise counters that would give out numbers again; all else is left as it is. See `Health.repair`."""
        repairs: list[Repair] = []
        with closing(self._connections.connect()) as connection:
            try:
                if not self._is_there(connection):
                    return repairs
                for name, least, _ in self._behind(connection):
                    connection.execute(self._of(_RAISED.replace("NAME", name)), {"least": least})
                    repairs.append(Repair(self._address.place, "made_anew", f"the counter of {name} is {least} now"))
            except psycopg.Error as error:
                raise self._connections.told(error) from error
        return repairs

    def _is_there(self, connection: BoundedConnection) -> bool:
        connection.is_migrating = True  # it may take as long
        found = status(connection, self._address)
        if found.version not in (0, VERSION):
            raise UnsupportedVersion(
                f"{self._address.place}: schema {self._address.schema!r} has version {found.version}, and this program "
                f"examines {VERSION}: run 'treering postgres migrate', or use the program of that version"
            )
        return bool(found.version)

    def _findings(self, connection: Connection) -> Iterator[Finding]:
        after = ""
        opened = OpenedObjects()
        while True:
            rows = connection.execute(self._of(_LOGS), {"after": after, "limit": PAGE_LOGS}, binary=True).fetchall()
            for ref, history, head, header, uri, digest, size, *found, unknown, over in rows:
                there = None if uri is None else Object(uri, digest, size)
                yield from self._of_header(ref, header)
                yield from self._of_lines(ref, head, there, *found)
                if there is not None:
                    yield from self._of_object(connection, opened, ref, Row(history, head, header, there))
                if unknown:
                    yield self._finding(ref, "owner_unknown", "note", "a host owns it that is no more: it can be taken")
                elif over:
                    yield self._finding(ref, "lease_over", "note", "its owner's lease is over: it can be taken")
            if len(rows) < PAGE_LOGS:
                break
            after = rows[-1][0]
        for what, name, count in connection.execute(self._of(_ORPHANS)):
            place = self._address.place
            if what == "lines":
                message = f"{count} lines have the number {name}, which no log has: nothing reads them"
            else:
                message = f"{count} records belong to {name}, which does not exist: nothing reads them"
            yield self._finding(place, f"orphaned_{what}", "warning", message)
        for name, least, last in self._behind(connection):
            message = (
                f"the counter of {name} is {last}, but {least} is in use, so that numbers would be given out twice"
            )
            yield self._finding(self._address.place, "counter_behind", "error", f"{message}: repair it")
        if self._address.archive is not None:
            for uri in sweep(connection, self._address.schema, self._address.archive, dry_run=True).unused:
                message = "no session uses this object: 'treering postgres sweep' deletes it"
                yield self._finding(uri, "object_unused", "warning", message)

    def _of_header(self, ref: str, header: bytes) -> Iterator[Finding]:
        try:
            detect(header, ref)
        except LogError as error:
            yield self._finding(ref, "no_header", "error", error.message)

    def _of_lines(
        self,
        ref: str,
        head: int,
        there: Object | None,
        count: int,
        first: int | None,
        last: int | None,
        missing: int | None,
    ) -> Iterator[Finding]:
        if there is not None:
            if count:
                message = f"{count} of its lines are in the database, too, where nothing reads them"
                yield self._finding(ref, "lines_and_object", "warning", message)
            return
        if missing is not None:
            yield self._finding(ref, "lines_missing", "error", f"it has {head} entries, but no entry {missing}")
        if (last is not None and last > head) or (first is not None and first < 1):
            message = f"it has {head} entries, and lines numbered from {first} to {last}: the others are not read"
            yield self._finding(ref, "lines_beyond", "error", message)

    def _of_object(self, connection: Connection, opened: OpenedObjects, ref: str, row: Row) -> Iterator[Finding]:
        there = row.object
        assert there is not None
        try:
            opened.log(row, there)
        except TreeringError as error:
            wanted = {"ref": ref, "history": row.history}
            now = connection.execute(self._of(_NOW), wanted, binary=True).fetchone()
            if now is None or Row.of(now).object != there:
                return  # it was brought back meanwhile
            code = "object_damaged" if isinstance(error, LogDamaged) else "object_unreadable"
            yield self._finding(ref, code, "error", str(error))
        finally:
            opened.forget(there.uri)

    def _behind(self, connection: Connection) -> list[tuple[str, int, int]]:
        """Return the counters that are behind the numbers in use: the name, the last number in use, and the counter."""
        rows = connection.execute(self._of(_NUMBERS)).fetchall()
        return [(name, least, last) for name, least, last in rows if least is not None and least > last]

    @staticmethod
    def _finding(path: str, code: str, severity: Severity, message: str) -> Finding:
        return Finding(path, None, None, code, severity, message)
