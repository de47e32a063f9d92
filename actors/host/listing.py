"""The listing: one row for each session of a root, cached until the session's log changes.

Rows are derived data, never the source of truth. A log that cannot be read has a row too, which says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self

from msgspec import Struct

from ...events.errors import HostClosed
from ...events.stores.base import Ref
from ...projections.summary import SessionSummary
from .runtime import Touched


class SessionChanged(Struct, frozen=True):
    """A session's row changed; `summary` is None if the session no longer exists."""

    ref: Ref
    summary: SessionSummary | None


class Listing(Protocol):
    """The rows of all sessions of a store, of whatever kind.

    Attributes:
        changes: Increases with each change of the rows that leaves no trace in a log, such as when a session was
            accessed.
    """

    changes: int

    async def rows(self) -> list[SessionSummary]:
        """Return the rows of all sessions, the most recently used first."""
        ...

    async def row(self, ref: Ref) -> SessionSummary | None:
        """Return one session's row, or None if the session does not exist."""
        ...

    def accessed(self, ref: Ref) -> None:
        """Note that a session was loaded just now."""
        ...

    def forget(self, refs: Iterable[Ref]) -> None:
        """Discard what is known of sessions that no longer exist."""
        ...


class SessionsSubscription:
    """The current listing, followed by the rows that change through this host.

    Use it as `async with host.subscribe_sessions() as changes: async for change in changes: ...`; the first item is the
    list of all rows, every further one a `SessionChanged`. If a session changes repeatedly, a slow subscriber gets only
    the last change. The iteration ends with the host.
    """

    def __init__(self, listing: Listing, touched: Touched) -> None:
        self._listing = listing
        self._touched = touched
        self._rows_yielded = False
        self._changed: dict[Ref, None] = {}

    async def __aenter__(self) -> Self:
        self._touched.listeners.append(self._changed)
        return self

    async def __aexit__(self, *_: object) -> None:
        listeners = self._touched.listeners
        listeners[:] = [each for each in listeners if each is not self._changed]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[SessionSummary] | SessionChanged:
        if not self._rows_yielded:
            rows = await self._listing.rows()
            self._rows_yielded = True
            return rows
        while not self._changed:
            if self._touched.closed:
                raise StopAsyncIteration
            await self._touched.wait()
        ref = next(iter(self._changed))
        del self._changed[ref]  # before the await, so that a change during it is reported too
        try:
            return SessionChanged(ref, await self._listing.row(ref))
        except HostClosed:  # while the row was read
            raise StopAsyncIteration from None
        except BaseException:
            self._changed[ref] = None
            raise
