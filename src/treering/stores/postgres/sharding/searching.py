"""The index of a search over several stores: each has that of its own logs."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from ....events.stores.base import Ref
from ....events.stores.search import EntryText, Filters, FindsTexts, IndexedLog, Portion, Unindexed, Wanted
from .placing import Places

T = TypeVar("T")


class ShardedTexts(FindsTexts):
    """The indexes of several stores as one; the number of a log says in which of them it is.

    Args:
        shards: That of each.
        places: Which of the stores holds a log.
    """

    def __init__(self, shards: Sequence[FindsTexts], places: Places) -> None:
        self._shards = tuple(shards)
        self._places = places

    @property
    def changes(self) -> int:
        """See `KeepsSearch.changes`."""
        return sum(each.changes for each in self._shards)

    def exists(self) -> bool:
        """See `KeepsSearch.exists`; a store without logs has none, and lacks nothing."""
        return any(each.exists() for each in self._shards)

    def can_be_created(self) -> bool:
        """See `KeepsSearch.can_be_created`."""
        return all(each.can_be_created() for each in self._shards)

    def close(self) -> None:
        """See `KeepsSearch.close`."""
        for each in self._shards:
            each.close()

    # -- content

    def known(self) -> dict[Ref, IndexedLog]:
        """See `KeepsSearch.known`."""
        return {
            ref: self._numbered(shard, log)
            for shard, each in enumerate(self._shards)
            for ref, log in each.known().items()
        }

    def unindexed(self, *, after: Ref = "", limit: int | None = None) -> list[Unindexed]:
        """See `FindsTexts.unindexed`."""
        pages: list[list[Unindexed]] = []
        for shard, each in enumerate(self._shards):
            page = each.unindexed(after=after, limit=limit)
            self._places.check(shard, (log.ref for log in page))
            pages.append(
                [log if log.known is None else replace(log, known=self._numbered(shard, log.known)) for log in page]
            )
        return list(islice(heapq.merge(*pages, key=lambda log: log.ref), limit))

    def numbers(self, refs: Collection[Ref]) -> dict[Ref, int]:
        """See `FindsTexts.numbers`."""
        return {
            ref: self._number(shard, number)
            for shard, some in self._places.grouped(refs).items()
            for ref, number in self._shards[shard].numbers(some).items()
        }

    def names(self, numbers: Collection[int]) -> dict[int, Ref]:
        """See `FindsTexts.names`."""
        groups: dict[int, list[int]] = {}
        for each in numbers:
            number, shard = divmod(each, len(self._shards))
            groups.setdefault(shard, []).append(number)
        return self._all_numbered({shard: self._shards[shard].names(some) for shard, some in groups.items()})

    def update(self, portions: Sequence[Portion], gone: Sequence[Ref] = ()) -> None:
        """See `KeepsSearch.update`; all of what concerns one store, or nothing of it."""
        groups: dict[int, list[Portion]] = {}
        for portion in portions:
            groups.setdefault(self._places.number(portion.ref), []).append(portion)
        dropped = self._places.grouped(gone)
        for shard in sorted({*groups, *dropped}):
            self._shards[shard].update(groups.get(shard, []), dropped.get(shard, []))

    def forget(self, ref: Ref) -> None:
        """See `KeepsSearch.forget`."""
        self._shards[self._places.number(ref)].forget(ref)

    # -- searching

    def candidates(self, query: Wanted) -> dict[int, list[int]] | None:
        """See `KeepsSearch.candidates`."""
        found: dict[int, dict[int, list[int]]] = {}
        for shard, each in enumerate(self._shards):
            some = each.candidates(query)
            if some is None:
                return None
            found[shard] = some
        return self._all_numbered(found)

    def find(
        self,
        query: Wanted,
        filters: Filters,
        log: int,
        candidates: Sequence[int] | None = None,
        *,
        after: int = 0,
        limit: int,
    ) -> list[EntryText]:
        """See `KeepsSearch.find`."""
        number, shard = divmod(log, len(self._shards))
        return self._shards[shard].find(query, filters, number, candidates, after=after, limit=limit)

    # -- numbers

    def _number(self, shard: int, number: int) -> int:
        return number * len(self._shards) + shard

    def _numbered(self, shard: int, log: IndexedLog) -> IndexedLog:
        return replace(log, number=self._number(shard, log.number))

    def _all_numbered(self, found: Mapping[int, Mapping[int, T]]) -> dict[int, T]:
        return {self._number(shard, number): each for shard, some in found.items() for number, each in some.items()}
