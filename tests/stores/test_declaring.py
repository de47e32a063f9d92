"""The store suite catches a store that declares what it does not do."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import TypeVar

import anyio
import pytest
from msgspec.structs import replace

from treering import MemoryStore
from treering.events.stores.base import Lease, Ref, Stamp, Store
from treering.events.stores.capabilities import KeepsRows, KeptRow, NamesFiles, offered
from treering.events.stores.search import EntryText, Filters, KeepsSearch, Portion, Wanted
from treering.events.stores.search_database import SearchDatabase
from treering.events.stores.search_index import SearchIndex
from treering.events.stores.shelf import MemoryPeek, MemoryRows
from treering.projections.search.query import Query
from treering.testing.stores import StoreCase
from treering.testing.stores.capabilities import AppendingAtOnce, Declaring, Leasing, LookingAtOnce, Packing
from treering.testing.stores.catalog import KeepingRows, KeepingSearch
from treering.testing.stores.watching import Scanning, Watching

from ..awaited_store import AwaitedStore

T = TypeVar("T")


class LooksAtTheFirstLook(MemoryStore):
    def peek(self, ref: Ref) -> MemoryPeek:
        return super().peek("a") if ref == "b" else super().peek(ref)


class HeldByNobody(MemoryStore):
    def holder(self, ref: Ref) -> str | None:
        return None


class PacksNothing(MemoryStore):
    async def pack(self, lease: Lease) -> None:
        await self.release([lease])


class TellsNothing(MemoryStore):
    async def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        await anyio.sleep_forever()
        yield set()


class StampsSizes(MemoryStore):
    def scan(self) -> dict[Ref, Stamp]:
        return {ref: Stamp(stamp.size, 0, 0) for ref, stamp in super().scan().items()}


class Offers(MemoryStore):
    """A store with another object for one of its capabilities, which it may not have at all."""

    def __init__(self, kind: object, capable: object) -> None:
        super().__init__()
        self._kind, self._capable = kind, capable

    def capability(self, kind: Callable[..., T]) -> T | None:
        return offered(self._capable, kind, (kind,)) if kind is self._kind else super().capability(kind)


class LosesRows(MemoryRows):
    def keep(self, rows: Sequence[KeptRow], gone: Collection[Ref]) -> bool:
        return super().keep(rows[:1], gone)


class KeepsDroppedRows(MemoryRows):
    def keep(self, rows: Sequence[KeptRow], gone: Collection[Ref]) -> bool:
        return super().keep(rows, ())


class KeepsPointers(MemoryRows):
    def forget(self, ref: Ref) -> None:
        """Forget nothing."""


class FindsAll(SearchIndex):
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
        return super().find(Query("e"), filters, log, after=after, limit=limit)


class NeverForgets(SearchIndex):
    def update(self, portions: Sequence[Portion], gone: Sequence[Ref] = ()) -> None:
        super().update(portions, ())


class TakesWhatDoesNotFollow(SearchIndex):
    def update(self, portions: Sequence[Portion], gone: Sequence[Ref] = ()) -> None:
        known = self.known()
        follow = [replace(each, before=each.before and known[each.ref].checkpoint) for each in portions]
        super().update(follow, gone)


def of_search(index: type[SearchIndex]) -> Callable[[], Store]:
    return lambda: Offers(KeepsSearch, index(SearchDatabase()))


@pytest.mark.parametrize(
    ("make", "suite", "test"),
    [
        (lambda: Offers(NamesFiles, object()), Declaring, "what_is_declared_has_the_methods_of_its_protocol"),
        (AwaitedStore, AppendingAtOnce, "a_store_that_appends_at_once_does_so_in_time"),
        (LooksAtTheFirstLook, LookingAtOnce, "a_look_at_once_shows_what_a_read_does"),
        (HeldByNobody, Leasing, "a_log_has_a_holder_as_long_as_it_is_leased"),
        (PacksNothing, Packing, "nothing_is_appended_to_a_packed_log"),
        (TellsNothing, Watching, "a_change_after_the_call_wakes"),
        (StampsSizes, Scanning, "another_log_of_the_same_size_has_another_stamp"),
        (lambda: Offers(KeepsRows, LosesRows()), KeepingRows, "rows_are_kept_byte_for_byte_with_their_stamps"),
        (lambda: Offers(KeepsRows, KeepsDroppedRows()), KeepingRows, "rows_of_logs_that_are_gone_are_dropped"),
        (
            lambda: Offers(KeepsRows, KeepsPointers()),
            KeepingRows,
            "a_project_has_a_current_log_until_it_is_cleared_or_removed",
        ),
        (of_search(FindsAll), KeepingSearch, "texts_are_found_by_what_they_contain"),
        (of_search(NeverForgets), KeepingSearch, "logs_that_are_gone_are_forgotten"),
        (of_search(TakesWhatDoesNotFollow), KeepingSearch, "a_portion_that_does_not_follow_is_skipped"),
    ],
)
async def test_a_store_that_lacks_what_it_claims(make: Callable[[], Store], suite: type[StoreCase], test: str) -> None:
    store, case = make(), suite()
    case.patience_s = 0.05
    index = store.capability(KeepsSearch) if suite is KeepingSearch else None
    more = [] if index is None else [index]
    with pytest.raises((AssertionError, TimeoutError, pytest.fail.Exception)):
        await getattr(case, f"test_{test}")(store, *more)
    if index is not None:
        index.close()


class ScansOnce(MemoryStore):
    _scanned: dict[Ref, Stamp] | None = None

    def scan(self) -> dict[Ref, Stamp]:
        self._scanned = self._scanned or super().scan()
        return self._scanned


async def test_a_store_whose_scan_is_old() -> None:
    store = ScansOnce()
    with pytest.raises(AssertionError):
        await Scanning().test_a_scan_holds_every_log_and_its_stamps_change_with_the_logs(store)
    await store.aclose()
