"""The ground of a search: all sessions in their order, how their files look, and which of them the index knows whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from ..events.stores.base import Ref
from ..events.stores.files import FileStore
from ..events.telemetry import logger
from ..projections.search.query import Query
from ..projections.search.texts import Filters, Said
from ..projections.summary import CORRUPTED, SessionSummary
from .search_file import IndexUnavailable
from .search_index import SearchIndex
from .search_portions import Known, Look, look_of

Looks: TypeAlias = Mapping[Ref, Look]
"""How the files of all logs look."""

MOST = 64
"""How many texts of one session are looked up at a time."""

_NOTHING: Mapping[Ref, Known] = {}


class Wanted(Struct, frozen=True):
    """What is looked for."""

    query: Query
    filters: Filters
    project: str | None
    limit: int
    offset: int


class Ground:
    """What there is to search, as of one look at all logs.

    Args:
        looks: How their files looked; None where nobody can tell.
        rows: The rows of all sessions, in the order of their hits.
        index: The index that was brought up to that look; None for a search without one.
        known: What it knows.

    Attributes:
        changes: The index's count of changes then.
        doubtful: There is a session that could not be read, and that may be read the next time.
        numbers: The numbers of the logs that are in the index with all their lines.
    """

    def __init__(
        self,
        looks: Looks | None,
        rows: Sequence[SessionSummary],
        index: SearchIndex | None = None,
        known: Mapping[Ref, Known] = _NOTHING,
    ) -> None:
        self.looks = looks
        self.rows = rows
        self.index = index
        self.changes = index.changes if index is not None else -1
        self.doubtful = any(row.status == CORRUPTED for row in rows)
        self.numbers = {ref: known[ref].number for ref, look in (looks or {}).items() if is_in(ref, look, known)}
        self._at = {number: at for at, row in enumerate(rows) if (number := self.numbers.get(row.ref)) is not None}
        self._others = [at for at, row in enumerate(rows) if row.ref not in self.numbers]

    def among(self, narrowed: set[int] | None) -> Sequence[SessionSummary]:
        """Return the rows of some logs and of those that are not in the index, in order; all rows for None."""
        if narrowed is None:
            return self.rows
        chosen = [at for number in narrowed if (at := self._at.get(number)) is not None]
        return [self.rows[at] for at in sorted([*chosen, *self._others])]


class Lookup:
    """The index as one search uses it.

    Args:
        index: The index.
        numbers: The numbers of the logs in it.

    Attributes:
        failed: It could not tell any more: a scan has to.
    """

    def __init__(self, index: SearchIndex, numbers: Mapping[Ref, int]) -> None:
        self._index = index
        self.numbers = numbers
        self.failed = False

    def find(self, rows: Sequence[SessionSummary], wanted: Wanted) -> list[list[Said]]:
        """Return what is found first in each of some sessions; nothing where the index fails."""
        return [self.go_on(row, wanted, 0) for row in rows]

    def go_on(self, row: SessionSummary, wanted: Wanted, after: int) -> list[Said]:
        """Return what is found next in a session after an ordinal; nothing where the index fails."""
        if self.failed:
            return []
        try:
            log = self.numbers[row.ref]
            return self._index.find(wanted.query, wanted.filters, log, after=after, most=MOST)
        except IndexUnavailable as error:
            warn(error)
            self.failed = True
            return []


def looks_of(store: FileStore) -> Looks:
    """Look at all logs of a store, which may take a while; none is opened."""
    return {ref: look_of(found) for ref, found in store.scan().items()}


def is_in(ref: Ref, look: Look, known: Mapping[Ref, Known]) -> bool:
    """Tell whether a log is in the index with all its lines."""
    found = known.get(ref)
    return found is not None and found.looked == look


def warn(error: IndexUnavailable) -> None:
    """Say that the index is of no use, and why."""
    logger().warning("search_index_unavailable", why=str(error))
