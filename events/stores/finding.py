"""The capability of finding rows: what a store is asked for, what it knows a row by, and which rows are outdated.

A store that keeps the rows of very many logs answers the questions of a listing by itself, so that no host holds all
rows in memory. It does not understand entries: it knows a row by the columns that `RowColumns` names, which are part of
the row's data. A host asks for the logs whose rows are outdated, makes those rows, lets the store keep them, and then
asks its question.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec
from msgspec import Struct

from .base import Cursor, Ref, Stamp
from .capabilities import KeepsRows, KeptRow

RowOrder: TypeAlias = Literal["used", "created", "modified", "last_entry", "title"]
"""By what rows are ordered: the latest first, or by title; then by the name of the log in the same direction."""

NO_WORD = ""
"""The word for the state of a row that has none, since its log cannot be read."""


class RowState(Struct, frozen=True):
    """What a session is doing, in one word."""

    state: str = NO_WORD


class RowColumns(Struct, frozen=True, kw_only=True):
    """By what a row is filtered and ordered; the fields mean what those of `SessionSummary` do."""

    id: str
    ref: Ref
    key: str | None = None
    name: str | None = None
    title: str | None = None
    created: datetime
    modified: datetime
    last_entry: datetime
    last_accessed: datetime | None = None
    parent_session: str | None = None
    project: str | None = None
    project_hash: str | None = None
    status: str = ""
    archived: bool = False
    state: RowState | None = None

    @property
    def used(self) -> datetime:
        """When the session was last loaded or appended to."""
        return self.last_accessed or self.last_entry

    @property
    def word(self) -> str:
        """What the session is doing."""
        return NO_WORD if self.state is None else self.state.state


_columns = msgspec.json.Decoder(RowColumns).decode


def columns_of(row: KeptRow) -> RowColumns | None:
    """Return the columns of a row; None if its data have none, so that it is kept, but not found."""
    try:
        return _columns(row.data)
    except (ValueError, RecursionError):
        return None


class HasColumns(Protocol):
    """A row, in whatever form."""

    @property
    def id(self) -> str: ...
    @property
    def ref(self) -> Ref: ...
    @property
    def key(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def created(self) -> datetime: ...
    @property
    def modified(self) -> datetime: ...
    @property
    def last_entry(self) -> datetime: ...
    @property
    def used(self) -> datetime: ...
    @property
    def parent_session(self) -> str | None: ...
    @property
    def project(self) -> str | None: ...
    @property
    def project_hash(self) -> str | None: ...
    @property
    def status(self) -> str: ...
    @property
    def archived(self) -> bool: ...


R = TypeVar("R", bound=HasColumns)


class Among(Struct, frozen=True, kw_only=True):
    """Some rows, by what their sessions are doing and by the names of their logs.

    Attributes:
        words: Only those in one of these states; None for any.
        refs: Only those of these logs; None for all.
        without: None of these logs.
    """

    words: Collection[str] | None = None
    refs: Collection[Ref] | None = None
    without: Collection[Ref] = ()

    def holds(self, ref: Ref, word: str) -> bool:
        """Return whether a row is among them."""
        return (
            (self.words is None or word in self.words)
            and (self.refs is None or ref in self.refs)
            and ref not in self.without
        )


class RowPlace(NamedTuple):
    """A place in an order of rows: what the order goes by, and the name of the log."""

    value: datetime | str
    ref: Ref


class RowQuery(Struct, frozen=True, kw_only=True):
    """Which rows are wanted, and in which order; a condition that is None is none.

    Attributes:
        archived: Those that are archived, or those that are not.
        status: Those of a status.
        without_status: Those of any other status.
        project: Those of a folder, given by its path and its hash: one of the two is enough.
        id: Those with an id.
        id_prefix: Those whose id begins so.
        key: The one of a key.
        key_prefix: Those whose key begins so.
        name: Those with a name that a person gave.
        title: Those with a title.
        parent: Those that were copied from, or spawned by, a session.
        text: Those whose title, id, key or folder holds a text, whatever its case.
        since: Those with an entry at this time or later.
        until: Those whose last entry is before this time.
        among: Those that are in one of these; any, if there are none.
        order: By what they are ordered.
        after: Only those after a place in this order.
        offset: How many to skip.
        limit: The maximum number of rows.
    """

    archived: bool | None = None
    status: str | None = None
    without_status: str | None = None
    project: tuple[str, str] | None = None
    id: str | None = None
    id_prefix: str | None = None
    key: str | None = None
    key_prefix: str | None = None
    name: str | None = None
    title: str | None = None
    parent: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    among: tuple[Among, ...] = ()
    order: RowOrder = "used"
    after: RowPlace | None = None
    offset: int = 0
    limit: int | None = None

    @property
    def is_descending(self) -> bool:
        """Whether the greatest comes first."""
        return self.order != "title"

    def place_of(self, row: HasColumns) -> RowPlace:
        """Return the place of a row in the order."""
        return _PLACES[self.order](row)

    def filtered(self, rows: Iterable[R], word_of: Callable[[R], str]) -> Sequence[R]:
        """Return the rows that meet the conditions, in the order in which they are given; see `select` for the rest.

        Args:
            rows: All rows.
            word_of: Returns what a session is doing.
        """
        chosen = rows if isinstance(rows, list) else list(rows)
        if self.archived is not None:
            chosen = [row for row in chosen if row.archived is self.archived]
        for field, wanted in self._equal():
            chosen = [row for row in chosen if field(row) == wanted]
        if self.without_status is not None:
            chosen = [row for row in chosen if row.status != self.without_status]
        if self.project is not None:
            path, path_hash = self.project
            chosen = [row for row in chosen if row.project_hash == path_hash or row.project == path]
        if self.id_prefix is not None:
            chosen = [row for row in chosen if row.id.startswith(self.id_prefix)]
        if self.key_prefix is not None:
            chosen = [row for row in chosen if row.key is not None and row.key.startswith(self.key_prefix)]
        if self.since is not None:
            chosen = [row for row in chosen if row.last_entry >= self.since]
        if self.until is not None:
            chosen = [row for row in chosen if row.last_entry < self.until]
        if self.text is not None:
            text = self.text.casefold()
            chosen = [row for row in chosen if any(text in each for each in looked_through(row))]
        if self.among:
            chosen = [row for row in chosen if any(some.holds(row.ref, word_of(row)) for some in self.among)]
        return chosen

    def select(self, rows: Iterable[R], word_of: Callable[[R], str], *, is_ordered: bool = False) -> list[R]:
        """Return what is wanted of all rows: what every store answers in its own way.

        Args:
            rows: All rows.
            word_of: Returns what a session is doing.
            is_ordered: Whether they are given in the order that is wanted.
        """
        chosen = self.filtered(rows, word_of)
        if not is_ordered:
            chosen = sorted(chosen, key=self.place_of, reverse=self.is_descending)
        if self.after is not None:
            after, is_later = self.after, self.is_descending
            chosen = [row for row in chosen if (self.place_of(row) < after if is_later else self.place_of(row) > after)]
        return list(chosen[self.offset : None if self.limit is None else self.offset + self.limit])

    def _equal(self) -> Iterable[tuple[Callable[[Any], object], object]]:
        """Return the conditions by which a field has to equal something, those that leave the fewest rows first."""
        wanted = (self.id, self.key, self.name, self.title, self.parent, self.status)
        return [each for each in zip(_FIELDS, wanted, strict=True) if each[1] is not None]


_FIELDS = tuple(map(attrgetter, ("id", "key", "name", "title", "parent_session", "status")))

_PLACES: Mapping[RowOrder, Callable[[HasColumns], RowPlace]] = {
    "used": lambda row: RowPlace(row.used, row.ref),
    "created": lambda row: RowPlace(row.created, row.ref),
    "modified": lambda row: RowPlace(row.modified, row.ref),
    "last_entry": lambda row: RowPlace(row.last_entry, row.ref),
    "title": lambda row: RowPlace(row.title or "", row.ref),
}


def looked_through(row: HasColumns) -> list[str]:
    """Return the texts of a row in which a text is looked for, in the form in which they are compared."""
    return [each.casefold() for each in (row.title, row.id, row.key, row.project) if each is not None]


class Outdated(Struct, frozen=True):
    """A log whose row is missing, or was made from an earlier state of it.

    Attributes:
        ref: The log.
        stamp: Its stamp; a row that is kept with it counts as current for as long as the log has it.
        head: Its end at that time.
        before: The row that is kept, if any.
    """

    ref: Ref
    stamp: Stamp
    head: Cursor
    before: KeptRow | None = None


@runtime_checkable
class FindsRows(KeepsRows, Protocol):
    """A store that keeps rows and finds them by itself, for so many logs that a host cannot hold all rows.

    Several hosts may ask and keep at the same time. Rows of logs that are gone are not found. Every call blocks.
    Without this capability, a host takes up all rows when it first lists them, and answers from memory.
    """

    def outdated(
        self, refs: Collection[Ref] | None = None, *, after: Ref = "", limit: int | None = None
    ) -> list[Outdated]:
        """Return logs whose rows are outdated, in the order of their names.

        Args:
            refs: Only these logs; None for all.
            after: Only logs whose name comes later.
            limit: The maximum number of logs.
        """
        ...

    def find(self, query: RowQuery) -> list[KeptRow]:
        """Return the rows that are wanted, in order, as they are kept: also those that are outdated."""
        ...

    def find_current(self, query: RowQuery, refs: Collection[Ref] | None = None) -> list[KeptRow] | None:
        """Return the rows that are wanted, in order; None if a row is outdated, so that it has to be made before.

        Args:
            query: The rows.
            refs: Only the rows of these logs have to be current; None for all.
        """
        return None if self.outdated(refs, limit=1) else self.find(query)

    def count(self, query: RowQuery) -> Mapping[str, int]:
        """Return how many rows meet the conditions, for each state; order, place, offset and limit do not matter."""
        ...
