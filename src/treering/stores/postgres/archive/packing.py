"""Moving the lines of a log into an object, and back.

To pack a log, its lines are written as an object under a name that no other has, and read back by their hash. Then one
statement notes the object in the log's row and deletes the lines, if this host still holds the log and its head is
where it was. To unpack it, one transaction puts the lines back and forgets the object, under the same conditions; after
that the object is deleted. After a crash in between, the lines are where the row says, and an object may be left that
no row names: nobody reads it, and `sweeping` finds it by its name, which holds the epoch under which it was written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator

import psycopg
from msgspec.structs import replace

from ....events.disk.packed import best_suffix, codec_of
from ....events.errors import LeafMoved, LogDamaged, StoreUnavailable, TreeringError
from ....events.stores.base import Lease, Page, Ref
from ....events.telemetry import logger
from ..connections import Connections, is_lost, row_of
from ..owning import Holdings
from ..statements import Statements
from . import objects
from .opened import OpenedObjects, Row
from .packed_log import write_packed


class Packer:
    """Packs and unpacks the logs of one database. Every method blocks.

    Args:
        connections: The connections.
        holdings: What this store holds.
        statements: The SQL.
        opened: The objects that were read last.
        look: Returns the row of a log.
        read: Returns a page of a log; see `Store.read`.
    """

    def __init__(
        self,
        connections: Connections,
        holdings: Holdings,
        statements: Statements,
        opened: OpenedObjects,
        look: Callable[[Ref], Row],
        read: Callable[[Ref, str, int, int | None], Page],
    ) -> None:
        self._connections = connections
        self._holdings = holdings
        self._statements = statements
        self._opened = opened
        self._look = look
        self._read = read
        self._identity: str | None = None

    def pack(self, lease: Lease) -> None:
        """Move the lines of a log into an object, and end its lease; see `Packs.pack`.

        Raises:
            StoreUnavailable: The place of objects, or the database, does not answer.
        """
        try:
            row = self._look(lease.ref)
            place = self._connections.address.archive
            if row.object is None and place is not None:
                self._pack(lease, row, place)
        finally:
            self._holdings.release([lease])

    def _pack(self, lease: Lease, row: Row, place: str) -> None:
        epoch, suffix = self._holdings.epoch_of(lease), best_suffix()
        with tempfile.SpooledTemporaryFile(objects.READ_BYTES) as file:
            written = write_packed(file, row.header, self._lines(lease.ref, row), codec_of(suffix))
            name = f"{written.hash.hex()}-{epoch}.jsonl{suffix}"
            uri = f"{place}/{self._its_identity()}/{name[:2]}/{name}"
            file.seek(0)
            objects.write(uri, file)
        if objects.hash_of(uri, written.size) != written.hash:
            raise StoreUnavailable(f"{uri} holds other bytes than were written: the session stays in the database")
        wanted = {
            "ref": lease.ref,
            "owner": self._holdings.owner,
            "epoch": epoch,
            "history": row.history,
            "head": row.head,
            "object": uri,
            "hash": written.hash,
            "size": written.size,
        }
        with self._connections.use() as connection:
            try:
                if connection.execute(self._statements.pack, wanted).fetchone() is not None:
                    return
            except psycopg.Error as error:
                if is_lost(error):  # the object may be noted, or still be
                    self._holdings.doubt(lease)
                raise
            state = self._holdings.states(connection, [lease.ref]).get(lease.ref)
        self.remove(uri)  # no other statement names it
        if state is None or state.epoch != epoch:
            raise self._holdings.over(lease)
        raise LeafMoved(f"{lease.ref} was written to while it was packed: it stays in the database")

    def unpack(self, lease: Lease) -> Lease:
        """Put the lines of a log back into the database; see `Packs.unpack`.

        Raises:
            LogDamaged: The object is missing, or another than it was.
        """
        head = self._holdings.resolve(lease)  # no earlier call can change the row any more
        row = self._look(lease.ref)
        if row.object is None:
            return replace(lease, head=head, packed=False)
        log = self._opened.log(row, row.object)
        wanted = {
            "ref": lease.ref,
            "owner": self._holdings.owner,
            "epoch": self._holdings.epoch_of(lease),
            "object": row.object.uri,
        }
        with self._connections.use() as connection:
            try:
                with connection.transaction(), connection.cursor() as cursor:
                    # First, so that nobody else takes the log, or puts the same lines there, before this is over.
                    if cursor.execute(self._statements.unpack, wanted).fetchone() is None:
                        raise self._holdings.over(lease)
                    with cursor.copy(self._statements.copy) as copy:
                        copy.set_types(["int8", "int8", "bytea"])
                        for seq, line in enumerate(log.lines_after(), 1):
                            copy.write_row((row.history, seq, line))
            except psycopg.Error as error:
                if is_lost(error):
                    self._holdings.doubt(lease)
                raise
        self.remove(row.object.uri)
        return replace(lease, head=head, packed=False)

    def remove(self, uri: str) -> None:
        """Delete an object that no row names; if that fails it is left, for `sweeping`."""
        self._opened.forget(uri)
        try:
            objects.remove(uri)
        except TreeringError as error:
            logger().warning("object_left", object=uri, error=str(error))

    def _lines(self, ref: Ref, row: Row) -> Iterator[bytes]:
        """Yield the lines of a log that are in the database.

        Raises:
            LogDamaged: Some are missing.
        """
        generation, seq = self._holdings.cursor(row.history, row.head).generation, 0
        while seq < row.head:
            page = self._read(ref, generation, seq, row.head)
            if not page.lines:
                raise LogDamaged(f"{ref} has no entry {seq + 1} in the database, although it has {row.head}")
            yield from page.lines
            seq = page.last

    def _its_identity(self) -> str:
        """Return what no other database has in the names of its objects."""
        if self._identity is None:
            (identity,) = self._connections.ask(lambda connection: row_of(connection, self._statements.identity))
            self._identity = str(identity)
        return self._identity
