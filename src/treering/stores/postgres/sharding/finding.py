"""The rows over several stores: each finds its own, and what they find is merged in the order that is wanted.

The pointer to a project's current log is where the log is, so that a log can be deleted while another database is down.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from ....events.stores.base import Ref
from ....events.stores.capabilities import KeptRow, KeptRows
from ....events.stores.finding import FindsRows, Outdated, RowPlace, RowQuery, columns_of
from .placing import Places


class ShardedRows(FindsRows):
    """The rows of several stores.

    Args:
        shards: Those of each.
        places: Which of the stores holds a log.
    """

    def __init__(self, shards: Sequence[FindsRows], places: Places) -> None:
        self._shards = tuple(shards)
        self._places = places

    # -- finding

    def outdated(
        self, refs: Collection[Ref] | None = None, *, after: Ref = "", limit: int | None = None
    ) -> list[Outdated]:
        """See `FindsRows.outdated`."""
        asked = dict.fromkeys(range(len(self._shards))) if refs is None else self._places.grouped(refs)
        pages: list[list[Outdated]] = []
        for number, some in asked.items():
            pages.append(page := self._shards[number].outdated(some, after=after, limit=limit))
            self._places.check(number, (each.ref for each in page))
        return list(islice(heapq.merge(*pages, key=lambda each: each.ref), limit))

    def find(self, query: RowQuery) -> list[KeptRow]:
        """See `FindsRows.find`."""
        wanted = _beginning(query)
        return self._merged(query, {number: self._shards[number].find(wanted) for number in self._holding(query)})

    def find_current(self, query: RowQuery, refs: Collection[Ref] | None = None) -> list[KeptRow] | None:
        """See `FindsRows.find_current`."""
        wanted = _beginning(query)
        current = None if refs is None else self._places.grouped(refs)
        pages: dict[int, list[KeptRow]] = {}
        for number in range(len(self._shards)) if current is None else {*self._holding(query), *current}:
            shard, some = self._shards[number], None if current is None else current.get(number, [])
            page = shard.find(wanted) if some == [] else shard.find_current(wanted, some)
            if page is None:
                return None
            pages[number] = page
        return self._merged(query, pages)

    def count(self, query: RowQuery) -> Mapping[str, int]:
        """See `FindsRows.count`."""
        counted = Counter[str]()
        for number in self._holding(query):
            counted.update(self._shards[number].count(query))
        return counted

    def _holding(self, query: RowQuery) -> Iterable[int]:
        """Return which stores may hold what is wanted: a question about some logs concerns only theirs."""
        named = [some.refs for some in query.among if some.refs is not None]
        if not named or len(named) < len(query.among):
            return range(len(self._shards))
        return {self._places.number(ref) for refs in named for ref in refs}

    def _merged(self, query: RowQuery, pages: Mapping[int, Sequence[KeptRow]]) -> list[KeptRow]:
        def place_of(row: KeptRow) -> RowPlace:
            columns = columns_of(row)
            assert columns is not None  # or it would not have been found
            return query.place_of(columns)

        for number, page in pages.items():
            self._places.check(number, (row.ref for row in page))
        rows = heapq.merge(*pages.values(), key=place_of, reverse=query.is_descending)
        return list(islice(rows, query.offset, None if query.limit is None else query.offset + query.limit))

    # -- keeping

    def rows(self) -> KeptRows | None:
        """See `KeepsRows.rows`."""
        found = [kept for each in self._shards if (kept := each.rows()) is not None]
        rows = {ref: row for kept in found for ref, row in kept.rows.items()}
        return KeptRows(rows, ", ".join(kept.place for kept in found)) if found else None

    def keep(self, rows: Sequence[KeptRow], gone: Collection[Ref]) -> bool:
        """See `KeepsRows.keep`."""
        by_ref = {row.ref: row for row in rows}
        kept, dropped = self._places.grouped(by_ref), self._places.grouped(gone)
        done = [
            self._shards[number].keep([by_ref[ref] for ref in kept.get(number, ())], dropped.get(number, ()))
            for number in sorted({*kept, *dropped})
        ]
        return all(done)

    # -- the current logs of projects

    def currents(self) -> Mapping[str, Ref]:
        """See `KeepsRows.currents`."""
        return {project: ref for each in self._shards for project, ref in each.currents().items()}

    def set_current(self, project_hash: str, ref: Ref | None) -> None:
        """See `KeepsRows.set_current`; the pointer is nowhere if this is interrupted."""
        number = None if ref is None else self._places.number(ref)
        for other, shard in enumerate(self._shards):
            if other != number:
                shard.set_current(project_hash, None)
        if number is not None:
            self._shards[number].set_current(project_hash, ref)

    def current(self, project_hash: str) -> Ref | None:
        """See `KeepsRows.current`."""
        return next((ref for each in self._shards if (ref := each.current(project_hash)) is not None), None)

    def current_among(self, refs: Collection[Ref]) -> frozenset[Ref]:
        """See `KeepsRows.current_among`."""
        groups = self._places.grouped(refs)
        return frozenset[Ref]().union(*(self._shards[number].current_among(some) for number, some in groups.items()))

    def forget(self, ref: Ref) -> None:
        """See `KeepsRows.forget`."""
        self._shards[self._places.number(ref)].forget(ref)


def _beginning(query: RowQuery) -> RowQuery:
    """Return what is asked of each store, any of which may hold all that is wanted, and all that is skipped."""
    return replace(query, offset=0, limit=None if query.limit is None else query.offset + query.limit)
