"""Whole logs: packed, unpacked, written in one step and deleted by this host, and what that means for reads under way.

Packing and unpacking move the same lines to another file, so the log gets another generation. A reader that still has
the earlier one asks the log's `Generations` which one came after it. Without this, it would take the host's own work
for that of another program.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from enum import Enum
from weakref import WeakValueDictionary

import anyio

from ...events.dialects.base import Dialect
from ...events.errors import AppendInDoubt, LogReplaced, SessionNotFound, TreeringError
from ...events.stores.base import Cursor, Lease, Ref, Store
from ...events.stores.capabilities import Packs


class _Fate(Enum):
    """What became of a log that is not somewhere else now."""

    DELETED = "deleted"
    REPLACED = "replaced"


class Generations:
    """The generations that this host gave to one log. It lives as long as someone reads the log.

    Attributes:
        ref: The name of the log.
    """

    __slots__ = ("__weakref__", "_later", "_moving", "ref")

    def __init__(self, ref: Ref) -> None:
        self.ref = ref
        self._moving: anyio.Event | None = None
        self._later: dict[str, str | _Fate] | None = None  # by generation; most logs are never moved

    async def later_generation(self, generation: str) -> str | None:
        """Return the generation that a log got when this host moved it; None if this host did not move it.

        Args:
            generation: The generation that the store no longer has.

        Raises:
            SessionNotFound: This host deleted the log.
            LogReplaced: This host wrote another session in its place.
        """
        if self._moving is not None:
            await self._moving.wait()
        later = None if self._later is None else self._later.get(generation)
        if later is _Fate.DELETED:
            raise SessionNotFound(f"session {self.ref!r} was deleted while it was read: load or create another one")
        if later is _Fate.REPLACED:
            raise LogReplaced(f"session {self.ref!r} was replaced by `put` while it was read: read it from the start")
        return later if isinstance(later, str) else None

    @contextmanager
    def moving(self) -> Generator[None]:
        """Let readers wait that miss their lines meanwhile."""
        done = self._moving = anyio.Event()
        try:
            yield
        finally:
            self._moving = None
            done.set()

    def note(self, before: str, later: str | _Fate) -> None:
        """Note which generation comes after another one, or why none does."""
        if not before or before == later:  # there was no log to read, or it is where it was
            return
        if isinstance(later, str):
            self.note_current(later)
        if self._later is None:
            self._later = {}
        self._later[before] = later

    def note_current(self, generation: str) -> None:
        """Note that the log has this generation now, perhaps again."""
        if self._later is not None:
            self._later.pop(generation, None)


class Moves:
    """Moves, writes and deletes whole logs whose lease the caller holds.

    Args:
        store: The store of the logs.
    """

    __slots__ = ("_generations", "_packs", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._packs = store.capability(Packs)
        self._generations: WeakValueDictionary[Ref, Generations] = WeakValueDictionary()

    def generations(self, ref: Ref) -> Generations:
        """Return the generations of a log, to be held while it is read."""
        generations = self._generations.get(ref)
        if generations is None:
            generations = self._generations[ref] = Generations(ref)
        return generations

    async def pack(self, lease: Lease) -> str | None:
        """Archive a log; see `Packs.pack`. Return its new generation; None if it cannot be read."""
        assert self._packs is not None
        generations = self.generations(lease.ref)
        # Readers rely on the note: this runs on a task of the host, where nothing passes the shield.
        with generations.moving(), anyio.CancelScope(shield=True):
            await self._packs.pack(lease)
            with suppress(TreeringError, OSError):  # the next read of the log reports it
                generation = (await self._store.open(lease.ref)).head.generation
                generations.note(lease.head.generation, generation)
                return generation
        return None

    async def unpack(self, lease: Lease) -> Lease:
        """Unarchive a log; see `Packs.unpack`. A store that cannot pack has none that is packed."""
        if self._packs is None:
            return lease
        generations = self.generations(lease.ref)
        with generations.moving():
            unpacked = await self._packs.unpack(lease)
            generations.note(lease.head.generation, unpacked.head.generation)
        return unpacked

    async def remove(self, lease: Lease) -> None:
        """Delete a log; see `Store.remove`."""
        generations = self.generations(lease.ref)
        with generations.moving():
            await self._store.remove(lease)
            generations.note(lease.head.generation, _Fate.DELETED)

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
        generations, doubt = self.generations(lease.ref), None
        with generations.moving():
            try:
                head = await self._store.put(lease, dialect, header, lines)
            except AppendInDoubt as error:
                doubt = error
                standing = await self._head_of_new_log(lease)
                if standing is None:
                    raise
                head = standing
            generations.note(lease.head.generation, _Fate.REPLACED)
            generations.note_current(head.generation)
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
