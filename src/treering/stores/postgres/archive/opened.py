"""The objects that were read last, so that a log is not fetched again for each page of it."""

from __future__ import annotations

import threading
from collections import OrderedDict

from msgspec import Struct
from psycopg.rows import TupleRow

from . import objects
from .packed_log import PackedLog

OPENED_MAX = 8
"""How many objects are kept, at most 8 MiB of each in memory."""


class Object(Struct, frozen=True, gc=False):
    """Where the lines of a log are, the SHA-256 of these bytes, and how many they are."""

    uri: str
    hash: bytes
    size: int


class Row(Struct, frozen=True, gc=False):
    """The row of a log, as far as reading needs it; `object` is None if its lines are in the database."""

    history: int
    head: int
    header: bytes
    object: Object | None

    @classmethod
    def of(cls, row: TupleRow) -> Row:
        """Return a row as the statement `open` selects it."""
        history, head, header, uri, digest, size = row
        return cls(history, head, header, None if uri is None else Object(uri, digest, size))


class OpenedObjects:
    """The objects that were read last."""

    def __init__(self) -> None:
        self._opened: OrderedDict[str, PackedLog] = OrderedDict()
        self._lock = threading.Lock()

    def log(self, row: Row, there: Object) -> PackedLog:
        """Return the log that is in the object of its row. Blocks.

        Raises:
            LogDamaged: The object is missing, or another than it was.
            StoreUnavailable: Its place does not answer.
            ExtraMissing: A package is not installed that it needs.
        """
        with self._lock:
            found = self._opened.get(there.uri)
            if found is not None:
                self._opened.move_to_end(there.uri)
                return found
        found = PackedLog(there.uri, objects.read(there.uri, there.size), there.hash, row.header, row.head)
        with self._lock:
            self._opened[there.uri] = found
            while len(self._opened) > OPENED_MAX:
                self._opened.popitem(last=False)
        return found

    def forget(self, uri: str) -> None:
        """Keep an object no longer."""
        with self._lock:
            self._opened.pop(uri, None)
