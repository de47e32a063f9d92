"""Reading logs, and what is kept beside them; no lease is needed, and every host reads what was acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from psycopg.rows import TupleRow

from ...events.dialects.detect import detect
from ...events.errors import InvalidInput, LogDamaged, LogReplaced, SessionNotFound
from ...events.stores.base import Blob, BlobKind, Cursor, LogInfo, Opening, Page, Ref
from .archive.opened import OpenedObjects, Row
from .archive.packed_log import PackedLog
from .connections import Connections
from .owning import history_of
from .schema import Connection
from .statements import Statements

PAGE_BYTES = 2 * 1024 * 1024
"""The size in bytes at which a page ends."""

PAGE_LINES = 8192
"""The most lines of a page."""

T = TypeVar("T")

_SEQ_MAX = 2**63 - 1
_TRIES_MAX = 5  # of a log that is packed and unpacked between two looks


class Reader:
    """Reads the logs of one database. Every method blocks.

    Args:
        connections: The connections.
        statements: The SQL.
        opened: The objects that were read last, for logs that are not in the database.
    """

    def __init__(self, connections: Connections, statements: Statements, opened: OpenedObjects) -> None:
        self._connections = connections
        self._statements = statements
        self._opened = opened

    def open(self, ref: Ref) -> Opening:
        """See `Store.open`."""
        row = self.look(ref)
        found = detect(row.header, ref)
        return Opening(found.header, found.dialect, Cursor(self._generation(row), row.head))

    def header_block(self, ref: Ref) -> bytes:
        """See `Store.header_block`."""
        return self.look(ref).header

    def read(self, ref: Ref, generation: str, after: int, through: int | None) -> Page:
        """See `Store.read`."""
        wanted = {
            "history": history_of(generation, self._connections.restored),
            "after": after,
            "through": _SEQ_MAX if through is None else through,
            "lines": PAGE_LINES,
            "bytes": PAGE_BYTES,
        }

        def look(connection: Connection) -> tuple[list[bytes], Row]:
            with connection.pipeline():
                cursor = connection.execute(self._statements.read, wanted, binary=True)
                row = self._row_of(connection, ref, generation)  # after the lines, which then are of this history
                return [line for (line,) in cursor], row

        def is_whole(lines: list[bytes], row: Row) -> bool:
            return bool(lines) or after >= (row.head if through is None else min(row.head, through))

        def unpacked(log: PackedLog) -> list[bytes]:
            return log.page(after, log.lines if through is None else through, PAGE_LINES, PAGE_BYTES)

        lines, row = self._found(ref, look, is_whole, unpacked)
        end = row.head if through is None else min(row.head, through)
        return Page(after + 1, lines, after + len(lines) < end)

    def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """See `Store.bodies`."""
        wanted = {"history": history_of(generation, self._connections.restored), "seqs": list(seqs)}

        def look(connection: Connection) -> tuple[dict[int, bytes], Row]:
            with connection.pipeline():
                cursor = connection.execute(self._statements.bodies, wanted, binary=True)
                row = self._row_of(connection, ref, generation)
                return dict(cursor.fetchall()), row

        def is_whole(lines: dict[int, bytes], row: Row) -> bool:
            return all(seq in lines or not 0 < seq <= row.head for seq in seqs)

        found, _ = self._found(ref, look, is_whole, lambda log: log.bodies(seqs))
        if any(seq not in found for seq in seqs):
            raise InvalidInput(f"{ref} does not have all of the lines that were asked for: read its head again")
        return [found[seq] for seq in seqs]

    def _found(
        self,
        ref: Ref,
        look: Callable[[Connection], tuple[T, Row]],
        is_whole: Callable[[T, Row], bool],
        unpacked: Callable[[PackedLog], T],
    ) -> tuple[T, Row]:
        """Return what was asked of a log, from where its lines are; it may be packed or unpacked meanwhile.

        Args:
            ref: The log.
            look: Returns what the database holds of the lines, and then the log's row.
            is_whole: Tells whether these are all lines that were asked for.
            unpacked: Returns the lines from the log's object.
        """
        for tries in range(1, _TRIES_MAX + 1):
            found, row = self._connections.ask(look)
            if row.object is None:
                if is_whole(found, row) or tries == _TRIES_MAX:
                    return found, row
                continue
            try:
                return unpacked(self._opened.log(row, row.object)), row
            except LogDamaged:
                if tries == _TRIES_MAX or self.look(ref).object == row.object:
                    raise
        raise AssertionError("unreachable")

    def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """See `Store.load`."""
        row = self._row(self._statements.load, {"ref": ref, "kind": kind}, binary=True)
        return None if row is None else Blob(Cursor(f"{self._connections.restored}.{row[0]}", row[1]), row[2])

    def exists(self, ref: Ref) -> bool:
        """See `Store.exists`."""
        row = self._row(self._statements.exists, {"ref": ref})
        return row is not None and bool(row[0])

    def page(self, prefix: str, after: Ref, limit: int) -> list[LogInfo]:
        """See `Store.page`."""
        wanted = {"prefix": prefix, "after": after, "limit": limit}
        rows = self._connections.ask(lambda connection: connection.execute(self._statements.page, wanted).fetchall())
        return [LogInfo(ref, size, changed) for ref, size, changed in rows]

    def look(self, ref: Ref) -> Row:
        """Return the row of a log.

        Raises:
            SessionNotFound: There is no such log.
        """
        row = self._row(self._statements.open, {"ref": ref}, binary=True)
        if row is None:
            raise self._missing(ref)
        return Row.of(row)

    def _generation(self, row: Row) -> str:
        return f"{self._connections.restored}.{row.history}"

    def _row(self, statement: bytes, wanted: Mapping[str, object], *, binary: bool = False) -> TupleRow | None:
        return self._connections.ask(lambda connection: connection.execute(statement, wanted, binary=binary).fetchone())

    def _row_of(self, connection: Connection, ref: Ref, generation: str) -> Row:
        """Return the row of a log, if it still has this generation."""
        found = connection.execute(self._statements.open, {"ref": ref}, binary=True).fetchone()
        row = None if found is None else Row.of(found)
        if row is None or self._generation(row) != generation:
            raise LogReplaced(f"{ref} was replaced or removed: read it from the start")
        return row

    def _missing(self, ref: Ref) -> SessionNotFound:
        return SessionNotFound(
            f"there is no session {ref!r} in {self._connections.address.place}, or no longer: "
            "load or create another one"
        )
