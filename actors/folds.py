"""The values of user projections: folded when asked for, kept while the session is live, checkpointed beside the log.

User code runs here and nowhere near a write: a projection that raises is marked failed, and nobody else notices.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

from ..events.errors import ProjectionFailed, TreeringError
from ..events.stores.base import Cursor, Lease, Ref
from ..events.telemetry import logger
from ..projections.base import Projection
from .open_log import OpenLog
from .runtime import Runtime

V = TypeVar("V")


class _Held(Struct):
    """A projection's value at a cursor; `saved` is the ordinal of its checkpoint."""

    projection: Projection[Any, Any]
    cursor: Cursor
    value: Any
    saved: int


class Folds:
    """The values of all projections of all live sessions."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._held: dict[tuple[Ref, str], _Held] = {}
        self._failed: dict[tuple[Ref, str], ProjectionFailed] = {}

    async def value(self, log: OpenLog, projection: Projection[V, Any], *, anew: bool = False) -> V:
        """Return a projection's value over all visible entries.

        Args:
            log: The session's log, caught up.
            projection: The projection.
            anew: Begin from nothing, also after a failure.

        Raises:
            ProjectionFailed: It raised, now or earlier.
        """
        key = (log.ref, projection.name)
        if anew:
            self._failed.pop(key, None)
            self._held.pop(key, None)
        elif key in self._failed:
            raise self._failed[key]
        try:
            held = self._held.get(key)
            if held is None or held.cursor.generation != log.generation:
                held = await self._begin(log, projection, anew=anew)
            await self._go_on(log, projection, held)
        except TreeringError:
            raise
        except Exception as error:
            logger().exception("projection_failed", projection=projection.name, session_id=log.index.header.id)
            failure = ProjectionFailed(
                f"the projection {projection.name!r} raised {type(error).__name__}: mend it and call `rebuild`"
            )
            self._failed[key] = failure
            raise failure from error
        self._held[key] = held
        value: V = held.value
        return value

    async def _begin(self, log: OpenLog, projection: Projection[Any, Any], *, anew: bool) -> _Held:
        if not anew:
            blob = await self._runtime.store.load(log.ref, _kind(projection))
            if blob is not None and blob.head.generation == log.generation and blob.head.seq <= log.index.head:
                return _Held(projection, blob.head, projection.load(blob.data), blob.head.seq)
        return _Held(projection, Cursor(log.generation, 0), projection.initial(log.index.header), 0)

    @staticmethod
    async def _go_on(log: OpenLog, projection: Projection[Any, Any], held: _Held) -> None:
        head = log.index.head
        seq = held.cursor.seq
        while seq < head:
            entries, through = await log.page(seq, head)
            if held.cursor.seq != seq:
                seq = held.cursor.seq  # another caller went on meanwhile
                continue
            value = held.value
            for entry in entries:
                value, _ = projection.apply(value, entry)
            seq = through
            held.value, held.cursor = value, Cursor(held.cursor.generation, seq)

    async def save(self, lease: Lease) -> None:
        """Write the checkpoints of a session that is let go, and forget its values."""
        for key in [key for key in self._held if key[0] == lease.ref]:
            held = self._held.pop(key)
            if held.cursor.seq > held.saved:
                data = held.projection.dump(held.value)
                await self._runtime.store.save(lease, _kind(held.projection), held.cursor, data)


def _kind(projection: Projection[Any, Any]) -> str:
    """Return the name under which a projection's checkpoint is kept beside the log."""
    return f"view-{projection.name}"
