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
            "ref": ref,
            "history": history_of(generation, self._connections.restored),
            "after": after,
            "through": _SEQ_MAX if through is None else through,
            "lines": PAGE_LINES,
            "bytes": PAGE_BYTES,
        }

        def in_rows(rows: Sequence[TupleRow]) -> Page:
            return page([line for _, _, _, line in rows if line is not None], int(rows[0][2]))

        def in_object(log: PackedLog) -> Page:
            return page(log.page(after, log.lines if through is None else through, PAGE_LINES, PAGE_BYTES), log.lines)

        def page(lines: list[bytes], head: int) -> Page:
            end = head if through is None else min(head, through)
            return Page(after + 1, lines, after + len(lines) < end)

        return self._found(ref, generation, self._statements.read, wanted, in_rows, in_object)

    def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """See `Store.bodies`."""
        wanted = {"ref": ref, "history": history_of(generation, self._connections.restored), "seqs": list(seqs)}

        def in_rows(rows: Sequence[TupleRow]) -> dict[int, bytes]:
            return {seq: line for _, _, seq, line in rows if seq is not None}

        def in_object(log: PackedLog) -> dict[int, bytes]:
            return log.bodies(seqs)

        found = self._found(ref, generation, self._statements.bodies, wanted, in_rows, in_object)
        if any(seq not in found for seq in seqs):
            raise InvalidInput(f"{ref} does not have all of the lines that were asked for: read its head again")
        return [found[seq] for seq in seqs]

    def _found(
        self,
        ref: Ref,
        generation: str,
        statement: bytes,
        wanted: Mapping[str, object],
        in_rows: Callable[[Sequence[TupleRow]], T],
        in_object: Callable[[PackedLog], T],
    ) -> T:
        """Return what is asked of a log, from where its lines are: they may be moved meanwhile.

        Args:
            ref: The log.
            generation: The generation that it has to have.
            statement: Selects the log's history, its object, and lines that are in the database.
            wanted: The statement's parameters.
            in_rows: Makes what is asked of what the statement selects.
            in_object: Makes it of the log's object.
        """
        for _ in range(_TRIES_MAX):
            rows = self._rows(statement, wanted)
            if not rows or f"{self._connections.restored}.{rows[0][0]}" != generation:
                break
            if rows[0][1] is None:
                return in_rows(rows)
            row = self.look(ref)
            if row.object is None or row.object.uri != rows[0][1]:
                continue
            try:
                return in_object(self._opened.log(row, row.object))
            except LogDamaged:
                if self.look(ref).object == row.object:
                    raise  # nobody brought it back meanwhile
        raise LogReplaced(f"{ref} was replaced or removed: read it from the start")

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

    def _rows(self, statement: bytes, wanted: Mapping[str, object]) -> list[TupleRow]:
        return self._connections.ask(lambda connection: connection.execute(statement, wanted, binary=True).fetchall())

    def _missing(self, ref: Ref) -> SessionNotFound:
        return SessionNotFound(
            f"there is no session {ref!r} in {self._connections.address.place}, or no longer: "
            "load or create another one"
        )
