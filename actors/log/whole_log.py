"""A whole log that is written in one step, together with what the store keeps beside it.

A write that is in doubt stands unless a power cut undoes it. What belongs to the log is then saved all the same: a
repeated call finds the log, and would not save it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from ...events.dialects.base import Dialect
from ...events.errors import AppendInDoubt, TreeringError
from ...events.stores.base import Cursor, Lease, Store


@asynccontextmanager
async def put_log(
    store: Store, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]
) -> AsyncGenerator[Cursor]:
    """Write a whole log and yield its head; if the write is in doubt, raise that once the caller is done.

    Raises:
        AppendInDoubt: The log was written, but may not survive a power cut.
    """
    doubt: AppendInDoubt | None = None
    try:
        head = await store.put(lease, dialect, header, lines)
    except AppendInDoubt as error:
        doubt = error
        standing = await _head_of_new_log(store, lease)
        if standing is None:
            raise
        head = standing
    try:
        yield head
    except TreeringError as error:
        if doubt is None:
            raise
        doubt.add_note(f"What belongs to the log could not be saved either: {error}")
    if doubt is not None:
        raise doubt


async def _head_of_new_log(store: Store, lease: Lease) -> Cursor | None:
    """Return the head of the log that a write in doubt left; None if the old log still stands, or none at all."""
    try:
        head = (await store.open(lease.ref)).head
    except (TreeringError, OSError):
        return None  # the caller raises the doubt, which says what to do
    return None if head.generation == lease.head.generation else head
