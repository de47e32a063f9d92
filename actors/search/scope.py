"""The scope of a search: all sessions in order, the stamps of their logs, and which of them are fully indexed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ...events.stores.base import Ref, Stamp
from ...events.stores.search import EntryText, Filters, IndexedLog, IndexUnavailable, KeepsSearch, text_of
from ...events.telemetry import logger
from ...projections.search.query import Query
from ...projections.summary import SessionSummary

LOOKUP_MAX = 64
"""How many texts of one session are looked up at a time."""

_NOTHING: Mapping[Ref, IndexedLog] = {}


class SearchRequest(Struct, frozen=True):
    """A query, its filters, and which hits are returned."""

    query: Query
    filters: Filters
    project: str | None
    limit: int
    offset: int


class SearchScope:
    """The sessions to search, as found by one look at all logs.

    Args:
        stamps: Their stamps; None if the store has none.
        rows: The rows of all sessions, in the order of their hits.
        index: The index that was brought up to date with these stamps; None for a search without one.
        indexed: What the index knows.

    Attributes:
        changes: The index's count of changes at that time.
        has_unreadable: Whether there is a session that could not be read, which may be readable the next time.
        numbers: The numbers of the logs that are fully indexed.
    """

    def __init__(
        self,
        stamps: Mapping[Ref, Stamp] | None,
        rows: Sequence[SessionSummary],
        index: KeepsSearch | None = None,
        indexed: Mapping[Ref, IndexedLog] = _NOTHING,
    ) -> None:
        self.stamps = stamps
        self.rows = rows
        self.index = index
        self.changes = index.changes if index is not None else -1
        self.has_unreadable = any(row.finding is not None for row in rows)
        self.numbers = {
            ref: indexed[ref].number for ref, stamp in (stamps or {}).items() if is_indexed(ref, stamp, indexed)
        }
        self._positions = {
            number: at for at, row in enumerate(rows) if (number := self.numbers.get(row.ref)) is not None
        }
        self._not_indexed = [at for at, row in enumerate(rows) if row.ref not in self.numbers]

    def rows_of(self, candidates: Iterable[int] | None) -> Sequence[SessionSummary]:
        """Return the rows of some logs, by number, and of all that are not indexed, in order; all rows for None."""
        if candidates is None:
            return self.rows
        positions = [at for number in candidates if (at := self._positions.get(number)) is not None]
        return [self.rows[at] for at in sorted([*positions, *self._not_indexed])]


class Lookup:
    """The index as one search uses it.

    Args:
        index: The index, brought up to date.
        numbers: The numbers of the logs that are fully indexed.
        candidates: The numbers of the entries that may match, by log; None if there are too many. They are used until
            this process changes the index.
        changes: The index's count of changes when it was up to date.

    Attributes:
        numbers: The numbers of the logs in the index.
        failed: Whether the index failed, so that the logs must be scanned.
    """

    def __init__(
        self,
        index: KeepsSearch,
        numbers: Mapping[Ref, int],
        candidates: Mapping[int, Sequence[int]] | None,
        changes: int,
    ) -> None:
        self._index = index
        self._changes = changes
        self._candidates = candidates
        self.numbers = numbers
        self.failed = False

    def find(self, rows: Sequence[SessionSummary], request: SearchRequest) -> list[list[EntryText]]:
        """Return the first matches in each of several sessions; nothing if the index fails."""
        return [self.find_next(row, request, 0) for row in rows]

    def find_next(self, row: SessionSummary, request: SearchRequest, after: int) -> list[EntryText]:
        """Return the next matches in a session after a seq; nothing if the index fails."""
        if self.failed:
            return []
        try:
            log = self.numbers[row.ref]
            known = self._candidates if self._index.changes == self._changes else None
            candidates = None if known is None else known.get(log)  # none if it was indexed anew
            return self._index.find(request.query, request.filters, log, candidates, after=after, limit=LOOKUP_MAX)
        except IndexUnavailable as error:
            warn_index_unavailable(error)
            self.failed = True
            return []


def is_indexed(ref: Ref, stamp: Stamp, indexed: Mapping[Ref, IndexedLog]) -> bool:
    """Return whether a log is fully indexed."""
    log = indexed.get(ref)
    return log is not None and log.stamp == text_of(stamp)


def warn_index_unavailable(error: IndexUnavailable) -> None:
    """Log that the index cannot be used, and why."""
    logger().warning("search_index_unavailable", why=str(error))
