"""A store in memory that finds rows by itself, and offers no other way to list its logs: as a database does."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import TypeVar

from treering.events.offload import Offload
from treering.events.stores.base import Ref
from treering.events.stores.capabilities import KeepsRows, KeptRow, ScansChanges, offered
from treering.events.stores.finding import FindsRows, Outdated, RowColumns, RowQuery, columns_of
from treering.events.stores.memory import MemoryStore
from treering.events.stores.search import KeepsSearch
from treering.events.stores.shelf import MemoryRows, Shelf

T = TypeVar("T")

_WORD: Callable[[RowColumns], str] = attrgetter("word")


class FoundInMemory(MemoryRows, FindsRows):
    """The rows of a shelf, found by looking at each; `asked` holds the queries, `taken` counts the rows handed out."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self._logs = shelf.logs
        self.asked: list[RowQuery] = []
        self.taken = 0

    def _kept(self) -> dict[Ref, KeptRow]:
        kept = self.rows()
        return {} if kept is None else kept.rows

    def outdated(
        self, refs: Collection[Ref] | None = None, *, after: Ref = "", limit: int | None = None
    ) -> list[Outdated]:
        rows = self._kept()
        found = [
            Outdated(ref, log.stamp, log.head, rows.get(ref))
            for ref, log in sorted(self._logs.items())
            if log.header is not None
            and ref > after
            and (refs is None or ref in refs)
            and (ref not in rows or rows[ref].stamp != log.stamp)
        ]
        return found[:limit]

    def _columns(self) -> dict[Ref, RowColumns]:
        logs = self._logs
        there = [row for ref, row in self._kept().items() if ref in logs and logs[ref].header is not None]
        return {row.ref: columns for row in there if (columns := columns_of(row)) is not None}

    def find(self, query: RowQuery) -> list[KeptRow]:
        rows = self._kept()
        found = query.select(self._columns().values(), _WORD)
        self.asked.append(query)
        self.taken += len(found)
        return [rows[each.ref] for each in found]

    def count(self, query: RowQuery) -> Mapping[str, int]:
        return Counter(map(_WORD, query.filtered(self._columns().values(), _WORD)))


class FindingStore(MemoryStore):
    """A store whose rows are found, and whose logs cannot be looked at all together."""

    def __init__(self, shelf: Shelf | None = None, *, offload: Offload | None = None) -> None:
        super().__init__(shelf, offload=offload)
        if not isinstance(self._shelf.rows, FoundInMemory):
            self._shelf.rows = FoundInMemory(self._shelf)
        self.shelf = self._shelf
        self.found = self._shelf.rows

    def capability(self, kind: Callable[..., T]) -> T | None:
        if kind in (FindsRows, KeepsRows):
            return offered(self.found, kind, (FindsRows, KeepsRows))
        return None if kind in (KeepsSearch, ScansChanges) else super().capability(kind)
