"""The values of user projections: folded when asked for, kept while the session is open, checkpointed beside the log.

User code runs here and nowhere near a write: a projection that raises is marked failed, and nobody else notices.
"""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from ..events.errors import InvalidInput
from ..events.stores.base import BlobKind, Cursor, Lease, Ref
from ..events.stores.blobs import VIEW, check_kind
from ..events.telemetry import failure_of, logger
from ..projections.base import OWN, Valued
from ..projections.failure import Failure
from ..projections.source import LogView
from .runtime import Runtime

V = TypeVar("V")

VIEWS = {
    "context": "await session.context()",
    "entries": "await session.entries()",
    "labels": "session.labels()",
    "tree": "session.tree()",
}
"""The views that are no projections, and how each is asked for."""
_METHODS = ("initial", "apply", "dump", "load")


class _Held(Struct):
    """A projection's value at a cursor; `saved` is the ordinal of its checkpoint."""

    projection: Valued[Any]
    session_id: str
    cursor: Cursor
    value: Any
    saved: int


class Values:
    """The values of one session's projections, by their names, and which of these raised."""

    __slots__ = ("__weakref__", "failed", "held")

    def __init__(self) -> None:
        self.held: dict[str, _Held] = {}
        self.failed: dict[str, Failure] = {}


class Folds:
    """The values of all projections of all sessions that are open: they are live, or followed."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._live: dict[Ref, Values] = {}
        self._all: WeakValueDictionary[Ref, Values] = WeakValueDictionary()

    def of(self, ref: Ref, *, live: bool) -> Values:
        """Return a session's values, for as long as the caller holds them, and where it is live until it is let go."""
        values = self._all.get(ref)
        if values is None:
            values = self._all[ref] = Values()
        if live:
            self._live[ref] = values
        return values

    async def value(
        self, ref: Ref, values: Values, log: LogView, projection: Valued[V], *, from_scratch: bool = False
    ) -> tuple[V, int]:
        """Return a projection's value over all visible entries, and the ordinal of the last line that is in.

        Args:
            ref: The name of the session's log.
            values: The session's values.
            log: The log, caught up.
            projection: The projection.
            from_scratch: Begin from nothing, also after a failure.

        Raises:
            InvalidInput: It is no projection, or its name is taken, or cannot be part of the name of a file.
            ProjectionFailed: It raised, now or earlier.
        """
        kind, name = kind_of(projection), projection.name
        if from_scratch:
            values.failed.pop(name, None)
            values.held.pop(name, None)
        elif name in values.failed:
            raise values.failed[name].error()
        held = values.held.get(name)
        try:
            if held is None or held.cursor.generation != log.cursor.generation:
                held = await self._begin(ref, None if from_scratch else kind, log, projection)
            await self._go_on(log, projection, held)
        except _Raised as raised:
            failure = values.failed[name] = Failure.of(name, log.index.header.id, raised.error)
            raise failure.error() from raised.error
        values.held[name] = held
        return held.value, held.cursor.seq

    async def _begin(self, ref: Ref, kind: BlobKind | None, log: LogView, projection: Valued[Any]) -> _Held:
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
    async def _go_on(log: LogView, projection: Valued[Any], held: _Held) -> None:
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
        values = self._live.pop(lease.ref, None)
        if values is None:
            return
        held_so_far, values.held, values.failed = values.held, {}, {}
        for name, held in held_so_far.items():
            if held.cursor.seq <= held.saved:
                continue
            try:
                data = held.projection.dump(held.value)
                await self._runtime.store.save(lease, kind_of(held.projection), held.cursor, data)
            except Exception as error:  # noqa: BLE001  # a checkpoint is derived: nobody else is to notice
                session_id = held.session_id
                logger().error("checkpoint_not_saved", projection=name, session_id=session_id, **failure_of(error))


class _Raised(Exception):
    """The projection's own code raised, and not what it was given to read."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def kind_of(projection: Valued[object]) -> BlobKind:
    """Return the name under which a projection's checkpoint is kept beside the log.

    Raises:
        InvalidInput: It is no projection, or its name is one of treering's own, or cannot be part of a file's.
    """
    given: object = projection  # whatever it is declared to be
    if isinstance(given, str):
        instead = VIEWS.get(given)
        hint = f"call `{instead}`, or follow it with `subscribe`" if instead else "give a projection"
        raise InvalidInput(f"{given!r} is no projection: {hint}")
    if isinstance(given, type):
        raise InvalidInput(
            f"{given.__name__} is a class and no projection: give an instance, such as {given.__name__}()"
        )
    name = getattr(given, "name", None)
    if not isinstance(name, str) or not all(callable(getattr(given, each, None)) for each in _METHODS):
        raise InvalidInput(f"{given!r} is no projection: it needs a `name`, and the methods {', '.join(_METHODS)}")
    if name in VIEWS or (name.startswith(OWN) and not _is_own(given)):
        raise InvalidInput(f"{name!r} is a name of treering's own: name the projection otherwise")
    return check_kind(VIEW + name)


def _is_own(projection: object) -> bool:
    """Tell whether a projection is the library's, and no program's, one that is made of the library's included."""
    return type(projection).__module__.startswith(__name__.partition(".")[0] + ".")
