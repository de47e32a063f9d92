"""Archiving, unarchiving, replacing and deleting of logs by this host, and what that means for reads that began before.

Archiving and unarchiving move the same lines to another file, so the log gets another generation. A reader that still
has the earlier one asks here where the lines are now. Without this, it would take the host's own work for that of
another program.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from enum import Enum

import anyio

from ...events.dialects.base import Dialect
from ...events.errors import AppendInDoubt, LogReplaced, SessionNotFound, TreeringError
from ...events.stores.base import Cursor, Lease, Ref, Store
from ...events.stores.capabilities import Packs

MOVES_MAX = 4096
"""How many moves and deletions are remembered. A read that lasts while more logs are moved may raise `LogReplaced`."""


class _Fate(Enum):
    """What became of a log that is not somewhere else now."""

    DELETED = "deleted"
    REPLACED = "replaced"


class MovedLogs:
    """Moves and deletes logs whose lease the caller holds, and remembers their generations before and after.

    Args:
        store: The store of the logs.
    """

    __slots__ = ("_in_progress", "_later", "_packs", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._packs = store.capability(Packs)
        self._in_progress: dict[Ref, anyio.Event] = {}
        self._later: OrderedDict[tuple[Ref, str], str | _Fate] = OrderedDict()

    # -- moving and deleting

    async def pack(self, lease: Lease) -> str | None:
        """Archive a log; see `Packs.pack`. Return its new generation; None if it cannot be read."""
        assert self._packs is not None
        # Readers rely on the note: this runs on a task of the host, where nothing passes the shield.
        with self._changing(lease.ref), anyio.CancelScope(shield=True):
            await self._packs.pack(lease)
            with suppress(TreeringError, OSError):  # the next read of the log reports it
                generation = (await self._store.open(lease.ref)).head.generation
                self._note(lease, generation)
                return generation
        return None

    async def unpack(self, lease: Lease) -> Lease:
        """Unarchive a log; see `Packs.unpack`."""
        assert self._packs is not None
        with self._changing(lease.ref):
            unpacked = await self._packs.unpack(lease)
            self._note(lease, unpacked.head.generation)
        return unpacked

    async def remove(self, lease: Lease) -> None:
        """Delete a log; see `Store.remove`."""
        with self._changing(lease.ref):
            await self._store.remove(lease)
            self._note(lease, _Fate.DELETED)

    @contextmanager
    def replacing(self, lease: Lease) -> Generator[Callable[[str], None]]:
        """Yield what to call with the generation of the log that takes a log's place; readers wait meanwhile."""

        def note(generation: str) -> None:
            self._later.pop((lease.ref, generation), None)
            self._note(lease, _Fate.REPLACED)

        with self._changing(lease.ref):
            yield note

    @contextmanager
    def _changing(self, ref: Ref) -> Generator[None]:
        done = self._in_progress[ref] = anyio.Event()
        try:
            yield
        finally:
            del self._in_progress[ref]
            done.set()

    def _note(self, lease: Lease, later: str | _Fate) -> None:
        """Note which generation comes after that of a lease, or why none does."""
        before = lease.head.generation
        if not before or before == later:  # there was no log to read, or it is where it was
            return
        if isinstance(later, str):
            self._later.pop((lease.ref, later), None)  # a generation may come back, and is then the last one
        self._later[lease.ref, before] = later
        if len(self._later) > MOVES_MAX:
            self._later.popitem(last=False)

    # -- reading

    async def later_generation(self, ref: Ref, generation: str) -> str | None:
        """Return the generation that a log got when this host moved it; None if this host did not move it.

        Args:
            ref: The name of the log.
            generation: The generation that the store no longer has.

        Raises:
            SessionNotFound: This host deleted the log.
            LogReplaced: This host wrote another session in its place.
        """
        in_progress = self._in_progress.get(ref)
        if in_progress is not None:
            await in_progress.wait()
        later = self._later.get((ref, generation))
        if later is _Fate.DELETED:
            raise SessionNotFound(f"session {ref!r} was deleted while it was read: load or create another one")
        if later is _Fate.REPLACED:
            raise LogReplaced(f"session {ref!r} was replaced by `put` while it was read: read it from the start")
        return later if isinstance(later, str) else None

    def was_replaced(self, ref: Ref, generation: str) -> bool:
        """Return whether this host wrote another session in the place of a log."""
        return self._later.get((ref, generation)) is _Fate.REPLACED


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
