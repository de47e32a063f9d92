"""Writing what is no append: a whole log, its removal, and what is kept beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import psycopg

from ...events.errors import AppendInDoubt, LeafMoved
from ...events.stores.base import BlobKind, Cursor, Lease
from ...events.stores.checks import check_header, check_lines
from .connections import Connections, is_lost
from .owning import Holdings, history_of
from .statements import Statements


class Writer:
    """Writes whole logs and blobs. Every method blocks.

    Args:
        connections: The connections.
        holdings: What this store holds.
        statements: The SQL.
        channel: The channel on which changes are told.
        remove_object: Deletes the object of a log that is no more.
    """

    def __init__(
        self,
        connections: Connections,
        holdings: Holdings,
        statements: Statements,
        channel: str,
        remove_object: Callable[[str], None],
    ) -> None:
        self._connections = connections
        self._holdings = holdings
        self._statements = statements
        self._channel = channel
        self._remove_object = remove_object

    def _whose(self, lease: Lease) -> dict[str, object]:
        return {
            "ref": lease.ref,
            "owner": self._holdings.owner,
            "epoch": self._holdings.epoch_of(lease),
            "channel": self._channel,
        }

    def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        """See `Store.save`."""
        wanted = self._whose(lease) | {
            "kind": kind,
            "history": history_of(head.generation, self._connections.restored),
            "seq": head.seq,
            "data": data,
            "payload": lease.ref,
        }
        statement = self._statements.save_leaf if kind == "leaf" else self._statements.save
        with self._connections.use() as connection:
            try:
                row = connection.execute(statement, wanted).fetchone()
            except psycopg.Error as error:
                if kind == "leaf" and is_lost(error):  # the rest is derived
                    self._holdings.doubt(lease)
                    raise AppendInDoubt(f"{self._connections.told(error)}; the leaf may have moved") from error
                raise
            if row is not None:
                return
            state = self._holdings.states(connection, [lease.ref]).get(lease.ref)
        if state is None or state.epoch != wanted["epoch"]:
            raise self._holdings.over(lease)
        raise LeafMoved(f"{lease.ref} ends at {state.head.seq}, not at {head.seq}: read it again")

    def put(self, lease: Lease, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """See `Store.put`."""
        check_header(header, lease.ref)
        with self._connections.use() as connection:
            try:
                with connection.transaction():
                    (history,) = connection.execute(self._statements.new_history).fetchone() or (0,)
                    head, size = 0, len(header)
                    with connection.cursor() as cursor, cursor.copy(self._statements.copy) as copy:
                        copy.set_types(["int8", "int8", "bytea"])
                        for line in lines:
                            check_lines((line,))
                            head, size = head + 1, size + len(line)
                            copy.write_row((history, head, line[:-1]))
                    wanted = self._whose(lease) | {"history": history, "head": head, "header": header, "size": size}
                    row = connection.execute(self._statements.put, wanted).fetchone()
                    if row is None:
                        raise self._holdings.over(lease)
            except psycopg.Error as error:
                if is_lost(error):
                    self._holdings.doubt(lease)
                    raise AppendInDoubt(f"{self._connections.told(error)}; the log may have been replaced") from error
                raise
        if row[0] is not None:
            self._remove_object(row[0])
        return self._holdings.cursor(history, head)

    def remove(self, lease: Lease) -> None:
        """See `Store.remove`."""
        with self._connections.use() as connection:
            row = connection.execute(self._statements.remove, self._whose(lease)).fetchone()
            if row is None:
                raise self._holdings.over(lease)
        self._holdings.forget(lease)
        if row[0] is not None:
            self._remove_object(row[0])
