"""Tests for a store that finds the rows of its logs by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from operator import attrgetter

import msgspec
import pytest
from msgspec.structs import replace

from ...events.stores.base import Stamp, Store
from ...events.stores.capabilities import KeptRow
from ...events.stores.finding import Among, FindsRows, RowColumns, RowOrder, RowQuery, RowState
from .case import TIME, StoreCase, Writer, line

ORDERS: tuple[RowOrder, ...] = ("used", "created", "modified", "last_entry", "title")
NAMES = "abcdefghij"

_WORD = attrgetter("word")


class FindingRows(StoreCase):
    """The promises of `FindsRows`: what it finds is what `RowQuery.select` selects from all rows."""

    def columns(self, log: str, at: int = 0, **fields: object) -> RowColumns:
        """Return the columns of a row of a log."""
        time = TIME + timedelta(seconds=at, microseconds=at)
        row = RowColumns(
            id=f"id-{log}", ref=self.ref(log), created=TIME, modified=time, last_entry=time, state=RowState("idle")
        )
        return replace(row, **fields)

    def kept_row(self, columns: RowColumns, stamp: Stamp) -> KeptRow:
        """Return a row as a catalog keeps it."""
        return KeptRow(columns.ref, stamp, msgspec.json.encode(columns))

    async def written(self, store: Store, names: str) -> dict[str, Writer]:
        """Write logs of one line."""
        writers = {name: await self.writer(store, name) for name in names}
        for writer in writers.values():
            await writer.append(line(1))
        return writers

    def keep_all(self, finds: FindsRows, rows: Sequence[RowColumns]) -> None:
        """Keep rows with the present stamps of their logs."""
        stamps = {each.ref: each.stamp for each in finds.outdated([row.ref for row in rows])}
        assert finds.keep([self.kept_row(row, stamps[row.ref]) for row in rows], ())

    async def many_rows(self, store: Store, finds: FindsRows) -> list[RowColumns]:
        """Keep rows that differ in every column."""
        await self.written(store, NAMES)
        later = TIME + timedelta(days=1)
        rows = [
            self.columns("a", 5, title="Fix the_bug", name="Fix the_bug", key="telegram:1", status="active"),
            self.columns("b", 5, title="100% of 'it'\\", key="telegram:2", status="active", archived=True),
            self.columns("c", 1, title="no\0thing", project="/work", project_hash="h1", last_accessed=later),
            self.columns("d", 2, project="/work", project_hash="h1", status="done", state=RowState("done")),
            self.columns("e", 3, project="/links/work", project_hash="h1", parent_session="id-a"),
            self.columns("f", 4, project="/work", project_hash="h2", id="id-a", title="STRASSE 中文字"),
            self.columns("g", 9, state=None, status="corrupted"),
            self.columns("h", 8, state=RowState("working"), created=later, key="tele\0gram", title="Zoë"),
            self.columns("i", 7, state=RowState("waits"), created=later, name="\N{FOX FACE}", title="\N{FOX FACE}"),
            self.columns("j", 6, state=RowState("error"), modified=later, title="\uffff", project="/STRASSE/x"),
        ]
        self.keep_all(finds, rows)
        return rows

    def conditions(self) -> list[RowQuery]:
        """Return a query for each condition, and some for several together."""
        live = [self.ref(name) for name in "dh"]
        since, until = (TIME + timedelta(seconds=at, microseconds=at) for at in (5, 8))
        texts = ("THE_bug", "_", "%", "\\", "'it'", "straße", "中文", "/WORK", "telegram", "ë", "O\0T")
        projects = (("/work", "h1"), ("/work", "h2"), ("/nowhere", "h3"))
        return [
            RowQuery(),
            *(RowQuery(archived=archived) for archived in (True, False)),
            *(RowQuery(status=status) for status in ("active", "done", "corrupted", "")),
            RowQuery(without_status="corrupted", archived=False),
            *(RowQuery(project=project) for project in projects),
            *(RowQuery(id=text, id_prefix=text) for text in ("id-a", "id-", "")),
            *(RowQuery(id_prefix=text) for text in ("id-", "id-a", "i%", "id_", "\N{FOX FACE}")),
            *(RowQuery(key=text) for text in ("telegram:1", "tele\0gram", "telegram:")),
            *(RowQuery(key_prefix=text) for text in ("telegram:", "tele", "tele\0", "")),
            *(RowQuery(name=text) for text in ("Fix the_bug", "\N{FOX FACE}")),
            *(RowQuery(title=text) for text in ("no\0thing", "Zoë", "Zoe", "\uffff")),
            RowQuery(parent="id-a"),
            *(RowQuery(text=text) for text in texts),
            RowQuery(since=since, until=until),
            RowQuery(among=(Among(refs=live),)),
            RowQuery(among=(Among(words=("", "error")), Among(words=("working", "done"), refs=live))),
            RowQuery(among=(Among(words=("working", "idle", "done"), without=live), Among(words=("waits",)))),
            RowQuery(among=(Among(refs=()),)),
            RowQuery(text="e", archived=False, project=("/work", "h1"), status=""),
        ]

    async def test_a_row_is_outdated_until_it_is_kept_and_again_when_its_log_changes(self, store: Store) -> None:
        finds = self.capable(store, FindsRows)
        writers = await self.written(store, "abc")
        refs = [self.ref(name) for name in "abc"]
        outdated = finds.outdated()
        assert [each.ref for each in outdated] == refs
        assert [each.head for each in outdated] == [writer.head for writer in writers.values()]
        assert [each.before for each in outdated] == [None] * 3
        assert [each.ref for each in finds.outdated(after=refs[0], limit=1)] == refs[1:2]
        assert [each.ref for each in finds.outdated([refs[2], self.ref("never")])] == refs[2:]
        assert finds.find_current(RowQuery()) is None
        self.keep_all(finds, [self.columns(name) for name in "ab"])
        assert [each.ref for each in finds.outdated()] == refs[2:]
        assert finds.find_current(RowQuery()) is None
        assert finds.find_current(RowQuery(limit=0)) is None
        assert finds.find_current(RowQuery(), refs[:2]) == finds.find(RowQuery())
        await writers["a"].append(line(2))
        assert finds.find_current(RowQuery(), refs[:2]) is None
        [again] = finds.outdated(refs[:2])
        assert (again.ref, again.head) == (refs[0], writers["a"].head)
        assert again.before == self.kept_row(self.columns("a"), outdated[0].stamp)
        assert again.stamp != outdated[0].stamp

    async def test_a_row_of_an_earlier_state_does_not_count_as_current(self, store: Store) -> None:
        finds = self.capable(store, FindsRows)
        writers = await self.written(store, "a")
        [early] = finds.outdated()
        await writers["a"].append(line(2))
        finds.keep([self.kept_row(self.columns("a", title="early"), early.stamp)], ())
        [each] = finds.outdated()
        assert (each.head, each.before) == (
            writers["a"].head,
            self.kept_row(self.columns("a", title="early"), early.stamp),
        )
        assert [row.ref for row in finds.find(RowQuery(title="early"))] == [self.ref("a")]

    async def test_a_row_without_columns_is_kept_but_not_found(self, store: Store) -> None:
        finds = self.capable(store, FindsRows)
        await self.written(store, "a")
        [each] = finds.outdated()
        finds.keep([KeptRow(each.ref, each.stamp, b'{"id":7}')], ())
        assert (finds.outdated(), finds.find(RowQuery()), dict(finds.count(RowQuery()))) == ([], [], {})

    async def test_each_condition_finds_what_it_selects_from_all_rows(self, store: Store) -> None:
        finds = self.capable(store, FindsRows)
        rows = await self.many_rows(store, finds)
        for query in self.conditions():
            expected = query.select(rows, _WORD)
            assert [row.ref for row in finds.find(query)] == [row.ref for row in expected], query
            assert dict(finds.count(replace(query, limit=1))) == dict(Counter(map(_WORD, expected))), query

    @pytest.mark.parametrize("order", ORDERS)
    async def test_rows_come_in_order_page_by_page(self, store: Store, order: RowOrder) -> None:
        finds = self.capable(store, FindsRows)
        rows = await self.many_rows(store, finds)
        query = RowQuery(order=order)
        expected = [row.ref for row in query.select(rows, _WORD)]
        assert [row.ref for row in finds.find(query)] == expected
        assert [row.ref for row in finds.find(replace(query, offset=3, limit=4))] == expected[3:7]
        assert finds.find(replace(query, limit=0)) == []
        columns, paged = {row.ref: row for row in rows}, list[str]()
        page = finds.find(replace(query, limit=3))
        while page:
            paged += [row.ref for row in page]
            page = finds.find(replace(query, limit=3, after=query.place_of(columns[paged[-1]])))
        assert paged == expected
        some = replace(query, project=("/work", "h1"), among=(Among(words=("idle",)), Among(words=("done",))), limit=2)
        first = finds.find(some)
        rest = finds.find(replace(some, after=query.place_of(columns[first[-1].ref])))
        assert [row.ref for row in [*first, *rest]] == [row.ref for row in replace(some, limit=4).select(rows, _WORD)]

    async def test_logs_that_are_gone_are_not_found(self, store: Store) -> None:
        finds = self.capable(store, FindsRows)
        writers = await self.written(store, "abc")
        self.keep_all(finds, [self.columns(name) for name in "ab"])
        for name in "ac":
            await store.remove(writers[name].lease)
        assert [row.ref for row in finds.find(RowQuery())] == [self.ref("b")]
        assert dict(finds.count(RowQuery())) == {"idle": 1}
        assert finds.outdated() == []

    async def test_another_host_finds_what_is_kept(self, store: Store, elsewhere: Store) -> None:
        finds, theirs = self.capable(store, FindsRows), self.capable(elsewhere, FindsRows)
        await self.written(store, "a")
        self.keep_all(theirs, [self.columns("a", title="theirs")])
        assert finds.outdated() == []
        assert [row.ref for row in finds.find(RowQuery(title="theirs"))] == [self.ref("a")]
