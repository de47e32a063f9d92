"""The values of user projections: computed on request, kept while the session is open, checkpointed beside the log.

User code runs here and nowhere near a write: a projection that raises is marked as failed, and affects nothing else.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

from ..events.errors import InvalidInput
from ..events.stores.base import BlobKind, Cursor, Lease, Ref
from ..events.stores.checks import VIEW, check_kind
from ..events.telemetry import failure_of, logger
from ..projections.base import OWN, Valued
from ..projections.feed import LogView
from ..projections.subscriptions import VIEWS as NAMED_VIEWS
from ..projections.views import Failure
from .host.runtime import Runtime

V = TypeVar("V")

VIEWS = dict(
    sorted({"entries": "await session.entries()", **{name: view.read_by for name, view in NAMED_VIEWS.items()}}.items())
)
"""The views that are not projections, and the call that returns each."""
_METHODS = ("initial", "apply", "dump", "load")


class _FoldedValue(Struct):
    """A projection's value at a cursor; `saved` is the seq of its checkpoint."""

    projection: Valued[Any]
    session_id: str
    cursor: Cursor
    value: Any
    saved: int


class Values:
    """The values of one session's projections by name, and the failures of those that raised.

    Args:
        runtime: The host's seams.
        ref: The name of the session's log.
    """

    __slots__ = ("_failed", "_folded", "_ref", "_runtime")

    def __init__(self, runtime: Runtime, ref: Ref) -> None:
        self._runtime = runtime
        self._ref = ref
        self._folded: dict[str, _FoldedValue] = {}
        self._failed: dict[str, Failure] = {}

    async def value(self, log: LogView, projection: Valued[V], *, from_scratch: bool = False) -> tuple[V, int]:
        """Return a projection's value over all visible entries, and the seq of the last line that it covers.

        Args:
            log: The log, caught up.
            projection: The projection.
            from_scratch: Start without a checkpoint or an earlier value, even after a failure.

        Raises:
            InvalidInput: It is not a projection, or its name is reserved, or cannot be part of a file name.
            ProjectionFailed: It raised, now or earlier.
        """
        kind, name = kind_of(projection), projection.name
        if from_scratch:
            self._failed.pop(name, None)
            self._folded.pop(name, None)
        elif name in self._failed:
            raise self._failed[name].error()
        held = self._folded.get(name)
        try:
            if held is None or held.cursor.generation != log.cursor.generation:
                held = await self._begin(None if from_scratch else kind, log, projection)
            await _catch_up(log, projection, held)
        except _ProjectionRaised as failed:
            failure = self._failed[name] = Failure.of(name, log.index.header.id, failed.error)
            raise failure.error() from failed.error
        self._folded[name] = held
        return held.value, held.cursor.seq

    async def _begin(self, kind: BlobKind | None, log: LogView, projection: Valued[Any]) -> _FoldedValue:
        """Start from a checkpoint if one may be used and is valid, otherwise from the initial value."""
        generation, session_id = log.cursor.generation, log.index.header.id
        blob = None if kind is None else await self._runtime.store.load(self._ref, kind)
        if blob is not None and blob.head.generation == generation and blob.head.seq <= log.index.head:
            try:
                return _FoldedValue(projection, session_id, blob.head, projection.load(blob.data), blob.head.seq)
            except Exception as error:  # noqa: BLE001  # user code may raise anything
                logger().warning(
                    "checkpoint_ignored", projection=projection.name, session_id=session_id, **failure_of(error)
                )
        try:
            value = projection.initial(log.index.header)
        except Exception as error:
            raise _ProjectionRaised(error) from error
        return _FoldedValue(projection, session_id, Cursor(generation, 0), value, 0)

    async def save(self, lease: Lease) -> None:
        """Write the checkpoints of the session, which is being passivated, and forget the values.

        Failures are logged.
        """
        folded, self._folded, self._failed = self._folded, {}, {}
        for name, held in folded.items():
            if held.cursor.seq <= held.saved:
                continue
            try:
                data = held.projection.dump(held.value)
                await self._runtime.store.save(lease, kind_of(held.projection), held.cursor, data)
            except Exception as error:  # noqa: BLE001  # a checkpoint is derived data, so its loss affects nothing else
                session_id = held.session_id
                logger().error("checkpoint_not_saved", projection=name, session_id=session_id, **failure_of(error))


async def _catch_up(log: LogView, projection: Valued[Any], held: _FoldedValue) -> None:
    head = log.index.head
    while (seq := held.cursor.seq) < head:
        entries, through = await log.page(seq, head)
        if held.cursor.seq != seq:
            continue  # another caller has advanced it
        value = held.value
        try:
            for entry in entries:
                value, _ = projection.apply(value, entry)
        except Exception as error:
            raise _ProjectionRaised(error) from error
        held.value, held.cursor = value, Cursor(held.cursor.generation, through)


class _ProjectionRaised(Exception):
    """The projection's own code raised, as opposed to the log that it reads."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def kind_of(projection: Valued[object]) -> BlobKind:
    """Return the blob kind under which a projection's checkpoint is stored beside the log.

    Raises:
        InvalidInput: It is not a projection, or its name is reserved for treering, or cannot be part of a file name.
    """
    candidate: object = projection  # callers without a type checker may pass anything
    if isinstance(candidate, str):
        instead = VIEWS.get(candidate)
        hint = f"call `{instead}`, or follow it with `subscribe`" if instead else "give a projection"
        raise InvalidInput(f"{candidate!r} is not a projection: {hint}")
    if isinstance(candidate, type):
        raise InvalidInput(
            f"{candidate.__name__} is a class, not a projection: give an instance, such as {candidate.__name__}()"
        )
    name = getattr(candidate, "name", None)
    if not isinstance(name, str) or not all(callable(getattr(candidate, each, None)) for each in _METHODS):
        raise InvalidInput(
            f"{candidate!r} is not a projection: it needs a `name` and the methods {', '.join(_METHODS)}"
        )
    if name in VIEWS or (name.startswith(OWN) and not _is_own(candidate)):
        raise InvalidInput(f"{name!r} is reserved for treering: choose another name for the projection")
    return check_kind(VIEW + name)


def _is_own(projection: object) -> bool:
    """Return whether a projection class is defined by this library rather than by a program."""
    return type(projection).__module__.startswith(__name__.partition(".")[0] + ".")
