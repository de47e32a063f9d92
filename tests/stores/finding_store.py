"""A store in memory that finds rows by itself, and offers no other way to list its logs: as a database does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from treering.events.offload import Offload
from treering.events.stores.base import Ref
from treering.events.stores.capabilities import KeepsRows, KeptRow, KeptRows, ScansChanges, offered
from treering.events.stores.finding import NO_WORD, FindsRows, Outdated, RowColumns, RowQuery, columns_of
from treering.events.stores.memory import MemoryStore
from treering.events.stores.search import KeepsSearch
from treering.events.stores.shelf import Shelf

T = TypeVar("T")


class FoundInMemory(FindsRows):
    """The rows of a shelf, found by looking at each.

    Attributes:
        asked: The queries so far.
        taken: How many rows were handed out so far.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.keep = shelf.rows.keep
        self.currents = shelf.rows.currents
        self.set_current = shelf.rows.set_current
        self.asked: list[RowQuery] = []
        self.taken = 0

    def rows(self) -> KeptRows | None:
        return self._shelf.rows.rows()

    def _rows(self) -> dict[Ref, KeptRow]:
        kept = self._shelf.rows.rows()
        return {} if kept is None else kept.rows

    def outdated(
        self, refs: Collection[Ref] | None = None, *, after: Ref = "", limit: int | None = None
    ) -> list[Outdated]:
        rows = self._rows()
        found = [
            Outdated(ref, log.stamp, log.head, rows.get(ref))
            for ref, log in sorted(self._shelf.logs.items())
            if log.header is not None
            and ref > after
            and (refs is None or ref in refs)
            and (ref not in rows or rows[ref].stamp != log.stamp)
        ]
        return found[:limit]

    def _columns(self) -> dict[Ref, RowColumns]:
        logs = self._shelf.logs
        there = [row for ref, row in self._rows().items() if ref in logs and logs[ref].header is not None]
        return {row.ref: columns_of(row.data) for row in there}

    def find(self, query: RowQuery) -> list[KeptRow]:
        rows = self._rows()
        found = query.select(self._columns().values(), _word_of)
        self.asked.append(query)
        self.taken += len(found)
        return [rows[each.ref] for each in found]

    def count(self, query: RowQuery) -> Mapping[str, int]:
        return Counter(map(_word_of, query.filtered(self._columns().values(), _word_of)))


def _word_of(row: RowColumns) -> str:
    return NO_WORD if row.state is None else row.state.state


class FindingStore(MemoryStore):
    """A store whose rows are found, and whose logs cannot be looked at all together."""

    def __init__(self, shelf: Shelf | None = None, *, offload: Offload | None = None) -> None:
        super().__init__(shelf, offload=offload)
        self.found = FoundInMemory(self._shelf)

    def capability(self, kind: Callable[..., T]) -> T | None:
        if kind in (FindsRows, KeepsRows):
            return offered(self.found, kind, (FindsRows, KeepsRows))
        return None if kind in (KeepsSearch, ScansChanges) else super().capability(kind)
