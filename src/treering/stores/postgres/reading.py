"""Reading logs, and what is kept beside them; no lease is needed, and every host reads what was acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg.rows import TupleRow

from ...events.dialects.detect import detect
from ...events.errors import InvalidInput, LogReplaced, SessionNotFound
from ...events.stores.base import Blob, BlobKind, Cursor, LogInfo, Opening, Page, Ref
from .connections import Connections
from .owning import history_of
from .statements import Statements

PAGE_BYTES = 2 * 1024 * 1024
"""The size in bytes at which a page ends."""

PAGE_LINES = 8192
"""The most lines of a page."""

_SEQ_MAX = 2**63 - 1


class Reader:
    """Reads the logs of one database. Every method blocks.

    Args:
        connections: The connections.
        statements: The SQL.
    """

    def __init__(self, connections: Connections, statements: Statements) -> None:
        self._connections = connections
        self._statements = statements

    def open(self, ref: Ref) -> Opening:
        """See `Store.open`."""
        header, head = self._look(ref)
        found = detect(header, ref)
        return Opening(found.header, found.dialect, head)

    def header_block(self, ref: Ref) -> bytes:
        """See `Store.header_block`."""
        return self._look(ref)[0]

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

        rows = self._rows(self._statements.read, wanted)
        self._check(ref, generation, rows)
        lines = [line for _, _, line in rows if line is not None]
        end = int(rows[0][1]) if through is None else min(int(rows[0][1]), through)
        return Page(after + 1, lines, after + len(lines) < end)

    def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """See `Store.bodies`."""
        wanted = {"ref": ref, "history": history_of(generation, self._connections.restored), "seqs": list(seqs)}
        rows = self._rows(self._statements.bodies, wanted)
        self._check(ref, generation, rows)
        found = {seq: line for _, seq, line in rows if line is not None}
        if any(seq not in found for seq in seqs):
            raise InvalidInput(f"{ref} does not have all of the lines that were asked for: read its head again")
        return [found[seq] for seq in seqs]

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

    def _look(self, ref: Ref) -> tuple[bytes, Cursor]:
        row = self._row(self._statements.open, {"ref": ref}, binary=True)
        if row is None:
            raise self._missing(ref)
        return row[2], Cursor(f"{self._connections.restored}.{row[0]}", row[1])

    def _row(self, statement: bytes, wanted: Mapping[str, object], *, binary: bool = False) -> TupleRow | None:
        return self._connections.ask(lambda connection: connection.execute(statement, wanted, binary=binary).fetchone())

    def _rows(self, statement: bytes, wanted: Mapping[str, object]) -> list[TupleRow]:
        return self._connections.ask(lambda connection: connection.execute(statement, wanted, binary=True).fetchall())

    def _check(self, ref: Ref, generation: str, rows: Sequence[TupleRow]) -> None:
        """Refuse rows of a log that no longer has this generation; they begin with its history."""
        if not rows or f"{self._connections.restored}.{rows[0][0]}" != generation:
            raise LogReplaced(f"{ref} was replaced or removed: read it from the start")

    def _missing(self, ref: Ref) -> SessionNotFound:
        return SessionNotFound(
            f"there is no session {ref!r} in {self._connections.address.place}, or no longer: "
            "load or create another one"
        )
