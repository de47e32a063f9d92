"""The values of user projections: folded when asked for, kept while the session is live, checkpointed beside the log.

User code runs here and nowhere near a write: a projection that raises is marked failed, and nobody else notices.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

from ..events.errors import ProjectionFailed
from ..events.stores.base import BlobKind, Cursor, Lease, Ref
from ..events.stores.blobs import VIEW, check_kind
from ..events.telemetry import failure_of, logger
from ..projections.base import Projection
from ..projections.source import LogView
from .runtime import Runtime

V = TypeVar("V")


class _Held(Struct):
    """A projection's value at a cursor; `saved` is the ordinal of its checkpoint."""

    projection: Projection[Any, Any]
    session_id: str
    cursor: Cursor
    value: Any
    saved: int


class Folds:
    """The values of all projections of all live sessions."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._held: dict[tuple[Ref, str], _Held] = {}
        self._failed: dict[tuple[Ref, str], ProjectionFailed] = {}

    async def value(
        self, ref: Ref, log: LogView, projection: Projection[V, Any], *, anew: bool = False
    ) -> tuple[V, int]:
        """Return a projection's value over all visible entries, and the ordinal of the last line that is in.

        Args:
            ref: The name of the session's log.
            log: The log, caught up.
            projection: The projection.
            anew: Begin from nothing, also after a failure.

        Raises:
            InvalidInput: Its name cannot be part of the name of a file.
            ProjectionFailed: It raised, now or earlier.
        """
        kind, key = kind_of(projection), (ref, projection.name)
        if anew:
            self._failed.pop(key, None)
            self._held.pop(key, None)
        elif key in self._failed:
            raise self._failed[key]
        held = self._held.get(key)
        try:
            if held is None or held.cursor.generation != log.cursor.generation:
                held = await self._begin(ref, None if anew else kind, log, projection)
            await self._go_on(log, projection, held)
        except _Raised as raised:
            error = raised.error
            session_id = log.index.header.id
            logger().error("projection_failed", projection=key[1], session_id=session_id, **failure_of(error))
            self._failed[key] = ProjectionFailed(
                f"the projection {key[1]!r} raised {type(error).__name__}: mend it and call `rebuild`"
            )
            raise self._failed[key] from error
        self._held[key] = held
        return held.value, held.cursor.seq

    async def _begin(self, ref: Ref, kind: BlobKind | None, log: LogView, projection: Projection[Any, Any]) -> _Held:
        """Begin with the checkpoint, if one may be used and is there, or else from nothing."""
        generation = log.cursor.generation
        if kind is not None:
            blob = await self._runtime.store.load(ref, kind)
            if blob is not None and blob.head.generation == generation and blob.head.seq <= log.index.head:
                try:
                    return _Held(projection, log.index.header.id, blob.head, projection.load(blob.data), blob.head.seq)
                except Exception as error:  # noqa: BLE001  # whatever a program's own code raises, the checkpoint is no use
                    session_id = log.index.header.id
                    logger().warning(
                        "checkpoint_ignored", projection=projection.name, session_id=session_id, **failure_of(error)
                    )
        try:
            value = projection.initial(log.index.header)
        except Exception as error:
            raise _Raised(error) from error
        return _Held(projection, log.index.header.id, Cursor(generation, 0), value, 0)

    @staticmethod
    async def _go_on(log: LogView, projection: Projection[Any, Any], held: _Held) -> None:
        head = log.index.head
        while (seq := held.cursor.seq) < head:
            entries, through = await log.page(seq, head)
            if held.cursor.seq != seq:
                continue  # another caller went on meanwhile
            value = held.value
            try:
                for entry in entries:
                    value, _ = projection.apply(value, entry)
            except Exception as error:
                raise _Raised(error) from error
            held.value, held.cursor = value, Cursor(held.cursor.generation, through)

    async def save(self, lease: Lease) -> None:
        """Write the checkpoints of a session that is let go, and forget its values; one that fails is left out."""
        for key in [key for key in self._held if key[0] == lease.ref]:
            held = self._held.pop(key)
            if held.cursor.seq <= held.saved:
                continue
            try:
                data = held.projection.dump(held.value)
                await self._runtime.store.save(lease, kind_of(held.projection), held.cursor, data)
            except Exception as error:  # noqa: BLE001  # a checkpoint is derived: nobody else is to notice
                session_id = held.session_id
                logger().error("checkpoint_not_saved", projection=key[1], session_id=session_id, **failure_of(error))


class _Raised(Exception):
    """The projection's own code raised, and not what it was given to read."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def kind_of(projection: Projection[Any, Any]) -> BlobKind:
    """Return the name under which a projection's checkpoint is kept beside the log.

    Raises:
        InvalidInput: The projection's name cannot be part of a file's.
    """
    return check_kind(VIEW + projection.name)
