"""Tests for what a store keeps for a catalog: the rows of a listing, and the index of a search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest

from ...events.stores.base import Ref, Stamp, Store
from ...events.stores.capabilities import KeepsRows, KeptRow
from ...events.stores.search import (
    UNFINISHED,
    Checkpoint,
    EntryText,
    Filters,
    FindsTexts,
    IndexUnavailable,
    KeepsSearch,
    Portion,
    text_of,
)
from ...projections.search.query import Query
from .case import TIME, StoreCase, line

NONE = Filters()


class KeepingRows(StoreCase):
    """The promises of `KeepsRows`."""

    def row(self, name: str, data: bytes = b"{}", size: int = 1) -> KeptRow:
        """Return a row of a log."""
        return KeptRow(self.ref(name), Stamp(size, 2**60 + 1, 2**60), data)

    def keep(self, kept: KeepsRows, rows: Sequence[KeptRow], gone: Sequence[Ref] = ()) -> None:
        """Keep rows as a catalog does: by writing all anew where that is due."""
        if not kept.keep(rows, gone):
            all_rows = self.stored(kept) | {row.ref: row for row in rows}
            kept.rewrite({ref: row for ref, row in all_rows.items() if ref not in gone}, may_create=True)

    def stored(self, kept: KeepsRows) -> dict[Ref, KeptRow]:
        """Return all rows, and assert that none is damaged."""
        contents = kept.rows()
        if contents is None:
            return {}
        assert contents.damaged == ()
        return contents.rows if contents.usable else {}

    async def test_at_first_no_rows_are_kept(self, store: Store) -> None:
        assert self.stored(self.capable(store, KeepsRows)) == {}

    async def test_rows_are_kept_byte_for_byte_with_their_stamps(self, store: Store) -> None:
        kept = self.capable(store, KeepsRows)
        rows = [
            self.row("a"),
            self.row("b", b'{"name":"s\xc3\xbc\xc3\x9f \\u0000 \xf0\x9f\xa6\x8a","n":[1,null]}'),
            self.row("c", b'{"long":"' + b"x" * 100_000 + b'"}', size=0),
        ]
        self.keep(kept, rows)
        assert self.stored(kept) == {row.ref: row for row in rows}

    async def test_a_later_row_takes_the_place_of_an_earlier_one(self, store: Store) -> None:
        kept = self.capable(store, KeepsRows)
        self.keep(kept, [self.row("a"), self.row("b")])
        for size in range(2, 5):
            self.keep(kept, [self.row("a", b'{"a":%d}' % size, size)])
        assert self.stored(kept) == {row.ref: row for row in (self.row("a", b'{"a":4}', 4), self.row("b"))}

    async def test_rows_of_logs_that_are_gone_are_dropped(self, store: Store) -> None:
        kept = self.capable(store, KeepsRows)
        self.keep(kept, [self.row("a"), self.row("b"), self.row("c")])
        self.keep(kept, [self.row("d")], [self.ref("b"), self.ref("never")])
        assert self.stored(kept).keys() == {self.ref(name) for name in "acd"}

    async def test_a_rewrite_keeps_these_rows_and_no_others(self, store: Store) -> None:
        kept = self.capable(store, KeepsRows)
        self.keep(kept, [self.row("a"), self.row("b")])
        kept.rewrite({row.ref: row for row in (self.row("b", size=7), self.row("c"))}, may_create=False)
        assert self.stored(kept) == {row.ref: row for row in (self.row("b", size=7), self.row("c"))}

    async def test_another_host_sees_the_rows(self, store: Store, elsewhere: Store) -> None:
        self.keep(self.capable(store, KeepsRows), [self.row("a")])
        theirs = self.capable(elsewhere, KeepsRows)
        assert self.stored(theirs) == {self.ref("a"): self.row("a")}
        self.keep(theirs, [self.row("b")])
        assert self.stored(self.capable(store, KeepsRows)).keys() == {self.ref("a"), self.ref("b")}

    async def test_a_project_has_a_current_log_until_it_is_cleared_or_removed(self, store: Store) -> None:
        kept = self.capable(store, KeepsRows)
        writers = {name: await self.writer(store, name) for name in "ab"}
        for writer in writers.values():
            await writer.append(line(1))
        a, b = self.ref("a"), self.ref("b")
        assert kept.current("p1") is None
        for project, ref in (("p1", a), ("p1", b), ("p2", a), ("p3", a)):
            kept.set_current(project, ref)
        assert (kept.current("p1"), kept.current("p2"), kept.current("p4")) == (b, a, None)
        assert dict(kept.currents()) == {"p1": b, "p2": a, "p3": a}
        assert kept.current_among([a, self.ref("c")]) == {a}
        kept.set_current("p1", None)
        kept.set_current("p1", None)
        assert kept.current_among([a, b]) == {a}
        await store.remove(writers["a"].lease)
        kept.forget(a)
        assert (dict(kept.currents()), kept.current("p2"), kept.current_among([a, b])) == ({}, None, frozenset())


class KeepingSearch(StoreCase):
    """The promises of `KeepsSearch`."""

    @pytest.fixture
    async def index(self, store: Store) -> AsyncIterator[KeepsSearch]:
        """The index of a store that holds a log, which is not indexed yet."""
        index = self.capable(store, KeepsSearch)
        await (await self.writer(store, "a")).append(line(1))
        yield index
        index.close()

    def portion(
        self, name: str, *texts: str, after: Checkpoint | None = None, stamp: str = "1", role: str = "user"
    ) -> Portion:
        """Return a portion of a log: one text for each seq, from the one after the checkpoint on."""
        first = 1 if after is None else after.seq + 1
        entries = [
            EntryText(seq, f"{name}{seq}", role, ("grep",) * (seq % 2), TIME + timedelta(seconds=seq), text)
            for seq, text in enumerate(texts, first)
        ]
        return Portion(self.ref(name), stamp, after, Checkpoint("g", first + len(texts) - 1, 7), entries)

    def found(self, index: KeepsSearch, text: str, filters: Filters = NONE, *, after: int = 0) -> list[str]:
        """Return the ids of all matching entries, looked up in two ways that have to agree."""
        query, found = Query(text), list[str]()
        candidates = index.candidates(query)
        for _, log in sorted(index.known().items()):
            texts = index.find(query, filters, log.number, after=after, limit=1000)
            assert all(filters.accept(each) and query.matches(each.text) for each in texts)
            if candidates is not None:
                chosen = candidates.get(log.number, [])
                assert index.find(query, filters, log.number, chosen, after=after, limit=1000) == texts
            found += [each.entry_id for each in texts]
        return found

    async def test_there_is_an_index_once_it_was_updated(self, store: Store, index: KeepsSearch) -> None:
        assert not index.exists()
        assert index.can_be_created()
        index.update([self.portion("a", "needle")])
        assert index.exists()

    async def test_texts_are_found_by_what_they_contain(self, store: Store, index: KeepsSearch) -> None:
        index.update(
            [self.portion("a", "A Needle", "in the haystack", "no\0thing", "STRASSE 中文字"), self.portion("b", "hay")]
        )
        assert self.found(index, "needle") == ["a1"]
        assert self.found(index, "hay") == ["a2", "b1"]
        assert self.found(index, "straße") == ["a4"]
        assert self.found(index, "中文") == ["a4"]  # too short for trigrams
        assert self.found(index, 'in "the hay"') == ["a2"]
        assert self.found(index, "pebble") == []

    async def test_filters_after_and_limit_narrow_a_search_down(self, store: Store, index: KeepsSearch) -> None:
        index.update([self.portion("a", *["needle"] * 600)])
        assert self.found(index, "needle", Filters(role="assistant")) == []
        assert self.found(index, "needle", Filters(tool="grep"))[:2] == ["a1", "a3"]
        since, until = TIME + timedelta(seconds=300), TIME + timedelta(seconds=302)
        assert self.found(index, "needle", Filters(after=since, before=until)) == ["a300", "a301"]
        assert self.found(index, "needle", after=598) == ["a599", "a600"]
        (number,) = (log.number for log in index.known().values())
        assert len(index.find(Query("needle"), NONE, number, after=10, limit=7)) == 7

    async def test_it_is_known_how_far_a_log_is_indexed(self, store: Store, index: KeepsSearch) -> None:
        assert index.known() == {}
        first = self.portion("a", "one", stamp=UNFINISHED)
        second = self.portion("a", "two", after=first.after)
        for portion in (first, second):
            changes = index.changes
            index.update([portion])
            known = index.known()[self.ref("a")]
            assert (known.stamp, known.checkpoint) == (portion.stamp, portion.after)
            assert index.changes > changes
        assert self.found(index, "one") == ["a1"]
        assert self.found(index, "two") == ["a2"]

    async def test_a_portion_that_does_not_follow_is_skipped(self, store: Store, index: KeepsSearch) -> None:
        first = self.portion("a", "one")
        index.update([first])
        index.update([self.portion("a", "never", after=Checkpoint("g", 9, 9)), self.portion("b", "two")])
        assert self.found(index, "never") == []
        assert self.found(index, "two") == ["b1"]
        index.update([self.portion("a", "begun anew")])
        assert (self.found(index, "one"), self.found(index, "anew")) == ([], ["a1"])

    async def test_logs_that_are_gone_are_forgotten(self, store: Store, index: KeepsSearch) -> None:
        index.update([self.portion(name, "needle") for name in "abc"])
        index.update([], [self.ref("a"), self.ref("never")])
        index.forget(self.ref("b"))
        assert index.known().keys() == {self.ref("c")}
        assert self.found(index, "needle") == ["c1"]

    async def test_an_index_that_was_closed_is_of_no_use(self, store: Store, index: KeepsSearch) -> None:
        index.update([self.portion("a", "needle")])
        index.close()
        with pytest.raises(IndexUnavailable):
            index.known()


class FindingTexts(KeepingSearch):
    """The promises of `FindsTexts`, beside those of `KeepsSearch`."""

    @pytest.fixture
    async def texts(self, store: Store, index: KeepsSearch) -> AsyncIterator[FindsTexts]:
        """Another index of the store that holds a log."""
        texts = self.capable(store, FindsTexts)
        yield texts
        texts.close()

    async def test_a_log_is_unindexed_until_it_is_indexed_and_again_when_it_grows(
        self, store: Store, texts: FindsTexts
    ) -> None:
        writers = {name: await self.writer(store, name) for name in "bc"}
        for writer in writers.values():
            await writer.append(line(1))
        refs = [self.ref(name) for name in "abc"]
        missing = texts.unindexed()
        assert [(log.ref, log.known) for log in missing] == [(ref, None) for ref in refs]
        assert [log.ref for log in texts.unindexed(after=refs[0], limit=1)] == refs[1:2]
        first = self.portion("b", "needle", stamp=missing[1].stamp)
        texts.update([first, self.portion("c", "hay", stamp=UNFINISHED)])
        assert [log.ref for log in texts.unindexed()] == [refs[0], refs[2]]
        numbers = texts.numbers([*refs, self.ref("never")])
        assert numbers == {refs[1]: texts.known()[refs[1]].number}
        assert texts.names([*numbers.values(), 2**40]) == {number: ref for ref, number in numbers.items()}
        await writers["b"].append(line(2))
        assert texts.numbers(refs) == {}
        [again] = [log for log in texts.unindexed() if log.ref == refs[1]]
        assert (again.known, again.stamp == first.stamp) == (texts.known()[refs[1]], False)

    async def test_the_texts_of_a_log_go_with_it(self, store: Store, texts: FindsTexts) -> None:
        writer = await self.writer(store, "b")
        await writer.append(line(1))
        texts.update([self.portion("b", "needle")])
        await store.remove(writer.lease)
        assert (self.found(texts, "needle"), texts.candidates(Query("needle"))) == ([], {})
        assert [log.ref for log in texts.unindexed()] == [self.ref("a")]

    async def test_a_portion_of_an_earlier_state_leaves_a_log_unindexed(self, store: Store, texts: FindsTexts) -> None:
        [early] = texts.unindexed()
        texts.update([self.portion("a", "needle", stamp=text_of(Stamp(1, 2, 3)))])
        assert [log.ref for log in texts.unindexed()] == [early.ref]
        assert texts.numbers([early.ref]) == {}
