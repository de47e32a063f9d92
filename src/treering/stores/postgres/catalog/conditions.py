"""What is asked of a listing, as SQL: the conditions of a `RowQuery`, its order, and the place in it.

Texts may be longer than what an index holds, so indexes have their beginnings, and each condition names both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import LiteralString

from ....events.errors import InvalidInput
from ....events.stores.base import Ref
from ....events.stores.finding import Among, RowOrder, RowPlace, RowQuery
from .escaping import after_prefix, escaped, like_containing

BEGINNING = 200
"""How many characters of a text an index has."""

_TITLE = "coalesce(r.title, '')"

_BY: Mapping[RowOrder, tuple[str, ...]] = {
    "used": ("r.used", "r.ref"),
    "created": ("r.created", "r.ref"),
    "modified": ("r.modified", "r.ref"),
    "last_entry": ("r.last_entry", "r.ref"),
    "title": (f"left({_TITLE}, {BEGINNING})", _TITLE, "r.ref"),
}
"""What rows are ordered by."""


class RowConditions:
    """The SQL of a query.

    Args:
        query: The query.

    Attributes:
        where: The conditions.
        parameters: The values of its parameters, and of those of `page`.
    """

    def __init__(self, query: RowQuery) -> None:
        self.parameters: dict[str, object] = {}
        self._query = query
        self._conditions = ["r.log is not null"]
        self._compared()
        self._dated()
        if query.among:
            self._add(" or ".join(self._among(some) for some in query.among))
        self.where = " and ".join(self._conditions)

    def page(self) -> str:
        """Return the rest of the statement: the place after which rows are wanted, their order, and how many."""
        query = self._query
        columns, after = _BY[query.order], ""
        if query.after is not None:
            sign = "<" if query.is_descending else ">"
            after = f" and ({', '.join(columns)}) {sign} ({self._place(query.after)})"
        direction = " desc" if query.is_descending else ""
        order = ", ".join(each + direction for each in columns)
        return f"{after} order by {order} limit {self._value(query.limit)} offset {self._value(query.offset)}"

    def _add(self, condition: str) -> None:
        self._conditions.append(f"({condition})")

    def _value(self, value: object) -> str:
        """Return the place of a value, which may be named several times."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f"%({name})s"

    def _compared(self) -> None:
        """Add what texts have to be."""
        query = self._query
        texts: tuple[tuple[LiteralString, str | None], ...] = (
            ("r.id", query.id),
            ("r.key", query.key),
            ("r.name", query.name),
            ("r.title", query.title),
            ("r.parent", query.parent),
        )
        for column, text in texts:
            if text is not None:
                self._add(self._equal(column, text))
        for column, prefix in (("r.id", query.id_prefix), ("r.key", query.key_prefix)):
            if prefix is not None:
                self._begins(column, escaped(prefix))
        if query.archived is not None:
            self._add(f"r.archived = {self._value(query.archived)}")
        if query.status is not None:
            self._add(f"r.status = {self._value(escaped(query.status))}")
        if query.without_status is not None:
            self._add(f"r.status <> {self._value(escaped(query.without_status))}")
        if query.project is not None:
            path, path_hash = query.project
            self._add(f"{self._equal('r.project_hash', path_hash)} or {self._equal('r.project', path)}")
        if query.text is not None:
            self._add(f"r.looked like {self._value(like_containing(query.text.casefold()))}")

    def _dated(self) -> None:
        """Add when the last entries have to be from."""
        if self._query.since is not None:
            self._add(f"r.last_entry >= {self._value(self._query.since)}")
        if self._query.until is not None:
            self._add(f"r.last_entry < {self._value(self._query.until)}")

    def _equal(self, column: str, text: str) -> str:
        value = self._value(escaped(text))
        # An index of titles serves for their order, too, where none is as good as an empty one.
        held = _TITLE if column == "r.title" else column
        return f"left({held}, {BEGINNING}) = left({value}::text, {BEGINNING}) and {column} = {value}"

    def _begins(self, column: str, prefix: str) -> None:
        if not prefix:
            self._add(f"{column} is not null")
            return
        value, end = self._value(prefix), after_prefix(prefix)
        self._add(f"left({column}, {BEGINNING}) >= left({value}::text, {BEGINNING}) and starts_with({column}, {value})")
        if end is not None:
            self._add(f"left({column}, {BEGINNING}) <= left({self._value(end)}::text, {BEGINNING})")

    def _among(self, some: Among) -> str:
        conditions = list[str]()
        if some.words is not None:
            conditions.append(f"r.word = any({self._value([*map(escaped, some.words)])}::text[])")
        if some.refs is not None:
            conditions.append(f"r.ref = any({self._value(names_of(some.refs))}::text[])")
        if some.without:
            conditions.append(f"r.ref <> all({self._value(names_of(some.without))}::text[])")
        return f"({' and '.join(conditions) or 'true'})"

    def _place(self, place: RowPlace) -> str:
        if not is_name(place.ref):
            raise InvalidInput(f"{place.ref!r} is no name of a log: give a place that a listing has returned")
        value = self._value(escaped(place.value) if isinstance(place.value, str) else place.value)
        ref = self._value(place.ref)
        return (
            f"left({value}::text, {BEGINNING}), {value}, {ref}" if self._query.order == "title" else f"{value}, {ref}"
        )


def is_name(ref: Ref) -> bool:
    """Return whether a log may have a name: the database holds neither NUL nor half a character."""
    return "\0" not in ref and (ref.isascii() or not any("\ud800" <= each <= "\udfff" for each in ref))


def names_of(refs: Iterable[Ref]) -> list[Ref]:
    """Return those of some names that a log may have."""
    return [ref for ref in refs if is_name(ref)]
