"""Whole logs: written in one step and deleted by this host, and what that means for reads under way.

A reader whose log has gone asks the log's `Fates` whether this host did that. Without them, it would take the host's
own work for that of another program.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from weakref import WeakValueDictionary

import anyio

from ...events.dialects.base import Dialect
from ...events.errors import AppendInDoubt, LogReplaced, SessionNotFound, TreeringError
from ...events.stores.base import Cursor, Lease, Ref, Store


class _Fate(Enum):
    """What became of the lines of a log."""

    DELETED = "deleted"
    REPLACED = "replaced"


class Fates:
    """What this host did to the lines of one log, by generation. It lives as long as someone reads the log.

    Attributes:
        ref: The name of the log.
    """

    __slots__ = ("__weakref__", "_changing", "_fates", "ref")

    def __init__(self, ref: Ref) -> None:
        self.ref = ref
        self._changing: anyio.Event | None = None
        self._fates: dict[str, _Fate] | None = None  # most logs are never written or deleted whole

    async def check(self, generation: str) -> None:
        """Wait for what this host is doing to the log, and raise what it did to the generation, if it did anything.

        Args:
            generation: The generation that the store no longer has.

        Raises:
            SessionNotFound: This host deleted the log.
            LogReplaced: This host wrote another session in its place.
        """
        if self._changing is not None:
            await self._changing.wait()
        fate = None if self._fates is None else self._fates.get(generation)
        if fate is _Fate.DELETED:
            raise SessionNotFound(f"session {self.ref!r} was deleted while it was read: load or create another one")
        if fate is _Fate.REPLACED:
            raise LogReplaced(f"session {self.ref!r} was replaced by `put` while it was read: read it from the start")

    @contextmanager
    def changing(self) -> Generator[None]:
        """Let readers wait that miss their lines meanwhile."""
        done = self._changing = anyio.Event()
        try:
            yield
        finally:
            self._changing = None
            done.set()

    def note(self, generation: str, fate: _Fate) -> None:
        """Note what became of the lines of a generation."""
        if not generation:  # there was no log to read
            return
        if self._fates is None:
            self._fates = {}
        self._fates[generation] = fate

    def note_current(self, generation: str) -> None:
        """Note that the log has this generation now, perhaps again."""
        if self._fates is not None:
            self._fates.pop(generation, None)


class WholeLogs:
    """Writes and deletes whole logs whose lease the caller holds.

    Args:
        store: The store of the logs.
    """

    __slots__ = ("_fates", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fates: WeakValueDictionary[Ref, Fates] = WeakValueDictionary()

    def fates(self, ref: Ref) -> Fates:
        """Return the fates of a log, to be held while it is read."""
        fates = self._fates.get(ref)
        if fates is None:
            fates = self._fates[ref] = Fates(ref)
        return fates

    async def remove(self, lease: Lease) -> None:
        """Delete a log; see `Store.remove`."""
        fates = self.fates(lease.ref)
        with fates.changing():
            await self._store.remove(lease)
            fates.note(lease.head.generation, _Fate.DELETED)

    @asynccontextmanager
    async def put(
        self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]
    ) -> AsyncGenerator[Cursor]:
        """Write a whole log in one step, in the place of another one if there is one, and yield its head.

        The caller then saves what belongs to the log. A write that is in doubt stands unless a power cut undoes it: the
        doubt is raised once the caller is done, since a repeated call finds the log, and would save nothing beside it.

        Raises:
            AppendInDoubt: The log was written, but may not survive a power cut.
        """
        fates, doubt = self.fates(lease.ref), None
        with fates.changing():
            try:
                head = await self._store.put(lease, dialect, header, lines)
            except AppendInDoubt as error:
                doubt = error
                standing = await self._head_of_new_log(lease)
                if standing is None:
                    raise
                head = standing
            fates.note(lease.head.generation, _Fate.REPLACED)
            fates.note_current(head.generation)
            try:
                yield head
            except TreeringError as error:
                if doubt is None:
                    raise
                doubt.add_note(f"What belongs to the log could not be saved either: {error}")
        if doubt is not None:
            raise doubt

    async def _head_of_new_log(self, lease: Lease) -> Cursor | None:
        """Return the head of the log that a write in doubt left; None if the old one still stands, or none at all."""
        try:
            head = (await self._store.open(lease.ref)).head
        except (TreeringError, OSError):
            return None  # the caller raises the doubt, which says what to do
        return None if head.generation == lease.head.generation else head
