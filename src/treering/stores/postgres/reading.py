"""Reading logs, and what is kept beside them; no lease is needed, and every host reads what was acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from psycopg.rows import TupleRow

from ...events.dialects.detect import detect
from ...events.errors import InvalidInput, LogDamaged, LogReplaced, SessionNotFound, TreeringError
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

READ_AT_ONCE = 32
"""The most logs that are read by one statement."""

LOADED_AT_ONCE = 64
"""The most records beside logs that are read by one statement."""

LOOKED_FOR_AT_ONCE = 1024
"""The most logs that are looked for by one statement."""

_SHARE = 8  # of a page that a log has which is read together with others

T = TypeVar("T")


_SEQ_MAX = 2**63 - 1


class Asked(NamedTuple):
    """Which lines of a log are wanted; see `Store.read`."""

    ref: Ref
    generation: str
    after: int
    through: int | None

    @property
    def end(self) -> int:
        """The last line that may be read."""
        return _SEQ_MAX if self.through is None else self.through

    def page(self, lines: list[bytes], head: int) -> Page:
        """Return the page of some lines of a log that ends at its head."""
        end = head if self.through is None else min(head, self.through)
        return Page(self.after + 1, lines, self.after + len(lines) < end)


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
        asked = Asked(ref, generation, after, through)
        wanted = {
            "ref": ref,
            "history": history_of(generation, self._connections.restored),
            "after": after,
            "through": asked.end,
            "lines": PAGE_LINES,
            "bytes": PAGE_BYTES,
        }

        def in_rows(rows: Sequence[TupleRow]) -> Page:
            return asked.page([line for _, _, _, line in rows if line is not None], int(rows[0][2]))

        def in_object(log: PackedLog) -> Page:
            end = log.lines if through is None else through
            return asked.page(log.page(after, end, PAGE_LINES, PAGE_BYTES), log.lines)

        return self._found(ref, generation, self._statements.read, wanted, in_rows, in_object)

    def read_each(self, asked: Sequence[Asked]) -> list[Page | TreeringError]:
        """Read several logs by one statement; the pages are smaller ones than that of a log that is read alone."""
        if len(asked) == 1:
            return [self.read(*asked[0])]
        restored = self._connections.restored
        wanted = {
            "refs": [each.ref for each in asked],
            "histories": [history_of(each.generation, restored) for each in asked],
            "afters": [each.after for each in asked],
            "throughs": [each.end for each in asked],
            "lines": PAGE_LINES // _SHARE,
            "bytes": PAGE_BYTES // _SHARE,
        }
        found: dict[int, list[TupleRow]] = {}
        for n, *row in self._rows(self._statements.read_each, wanted):
            found.setdefault(n - 1, []).append(tuple(row))
        return [self._page(each, found.get(n, [])) for n, each in enumerate(asked)]

    def _page(self, asked: Asked, rows: Sequence[TupleRow]) -> Page | TreeringError:
        """Return the page that was found of a log, or what reading it alone does: it was replaced, or is an object."""
        if rows and f"{self._connections.restored}.{rows[0][0]}" == asked.generation and rows[0][1] is None:
            return asked.page([line for _, _, _, line in rows if line is not None], int(rows[0][2]))
        try:
            return self.read(*asked)
        except TreeringError as error:
            return error

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

    def load_each(self, asked: Sequence[tuple[Ref, BlobKind]]) -> list[Blob | None]:
        """Return what is kept beside several logs."""
        if len(asked) == 1:
            return [self.load(*asked[0])]
        wanted = {"refs": [ref for ref, _ in asked], "kinds": [kind for _, kind in asked]}
        restored, found = self._connections.restored, dict[int, Blob]()
        for n, history, seq, data in self._rows(self._statements.load_each, wanted):
            found[n - 1] = Blob(Cursor(f"{restored}.{history}", seq), data)
        return [found.get(n) for n in range(len(asked))]

    def exist(self, refs: Sequence[Ref]) -> list[bool]:
        """Return of some logs whether they exist."""
        found = {ref for (ref,) in self._rows(self._statements.exist, {"refs": list(refs)})}
        return [ref in found for ref in refs]

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
