"""What every listing of a host has, wherever the rows are: what is not saved yet, and how rows are made.

Also the rows of a listing as they are at one moment, of which one asks what one wants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime

import anyio
from msgspec.structs import replace

from ...events.arguments import is_text
from ...events.errors import TreeringError
from ...events.stores.base import Ref
from ...events.stores.finding import NO_WORD, RowQuery
from ...events.telemetry import failure_of, logger
from ...projections.summary import SessionSummary
from ..actor import SessionActor
from ..host.registry import Registry
from ..host.runtime import Runtime
from .rows import Rows

_LAST_MAX = 1024


class HeldRows:
    """Rows in memory.

    Args:
        rows: All rows, the most recently used first.
    """

    def __init__(self, rows: list[SessionSummary]) -> None:
        self._rows = rows

    async def find(self, query: RowQuery) -> list[SessionSummary]:
        """Return the rows that are wanted, in order."""
        return query.select(self._rows, word_of, is_ordered=query.order == "used")

    async def count(self, query: RowQuery) -> Mapping[str, int]:
        """Return how many rows meet the conditions of a query, for each state."""
        return Counter(map(word_of, query.filtered(self._rows, word_of)))

    async def pages(self, query: RowQuery) -> AsyncGenerator[list[SessionSummary]]:
        """Yield all rows that are wanted, at once."""
        yield await self.find(query)


def word_of(row: SessionSummary) -> str:
    """Return what a session is doing, in one word."""
    return NO_WORD if row.state is None else row.state.state


class ListingCore:
    """The state that every listing of a host has.

    Args:
        runtime: The host's seams.
        registry: The live sessions.

    Attributes:
        changes: A counter that grows whenever the rows or their order may have changed.
        unsaved: The sessions whose kept rows are outdated; a listener of `Touched`.
        gone: Deleted sessions of which the store may still keep rows.
        lock: The lock for work on this state.
    """

    def __init__(self, runtime: Runtime, registry: Registry) -> None:
        self._runtime = runtime
        self._registry = registry
        self._rows = Rows(runtime)
        self._accessed: dict[Ref, datetime] = {}
        self._last: dict[Ref, SessionSummary] = {}
        self.changes = 0
        self.unsaved: dict[Ref, None] = {}
        self.gone: set[Ref] = set()
        self.lock = anyio.Lock()

    def is_listed(self, ref: Ref) -> bool:
        """Return whether listings show a session, and a store can keep its row: its name has to be valid Unicode."""
        files = self._runtime.files
        return is_text(ref) and (files is None or not files.is_outside(ref))

    def last_row(self, ref: Ref) -> SessionSummary | None:
        """Return the last row of a session that no longer exists, if it was deleted lately."""
        return self._last.get(ref)

    def _note_last(self, session: SessionSummary) -> None:
        """Remember the last row of a session."""
        self._last[session.ref] = session
        if len(self._last) > _LAST_MAX:
            del self._last[next(iter(self._last))]

    def keep_passivated_row(self, actor: SessionActor) -> None:
        """Make the row of a session that is passivated while the host closes, while it can be made from memory.

        At other times a passivated session keeps no row in memory, since there may be very many of them.
        """
        if not self._registry.closing or actor.log.ref not in self.unsaved:
            return
        try:
            self._remember(actor)
        except Exception as error:  # noqa: BLE001  # a row can be made again, and must not prevent the passivation
            logger().error("background_failed", work="index", **failure_of(error))

    def _remember(self, actor: SessionActor) -> None:
        """Keep the row of a live session until it is saved, if it can be made from memory."""
        raise NotImplementedError

    async def _with_state(self, ref: Ref, session: SessionSummary) -> SessionSummary:
        """Return a row that was made from memory with the state of its session, for which entries have to be read."""
        actor = self._registry.live(ref)
        if actor is None:
            return session
        try:
            return replace(session, state=await actor.log.state())
        except (TreeringError, OSError) as error:  # what is wrong with the log is reported by whoever reads it
            logger().debug("state_unknown", session_id=session.id, **failure_of(error))
            return session


def last_used(row: SessionSummary, *times: datetime | None) -> SessionSummary:
    """Return a row with the latest known time when its session was accessed."""
    known: Iterable[datetime] = (time for time in (row.last_accessed, *times) if time is not None)
    latest = max(known, default=None)
    return row if latest == row.last_accessed else replace(row, last_accessed=latest)
