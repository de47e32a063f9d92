"""The index of a search: the texts of all sessions, found by the runs of three characters that they contain.

What a text contains stands beside it as an array of checksums, one for each run of three characters of its folded form,
and a GIN index over these arrays finds the texts that have all those of a query. So letters of every script are found,
also inside words, whatever the locale of the database is, and no extension is needed. The texts themselves decide which
of them really match, as with every other index.

`logs.unsearched` says which logs are not up to date in it, as `stale` does for the rows of the listing. All of it goes
with its log, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from zlib import crc32

from ....events.errors import TreeringError
from ....events.stores.base import Ref
from ....events.stores.search import (
    UNFINISHED,
    Checkpoint,
    EntryText,
    Filters,
    FindsTexts,
    IndexedLog,
    IndexUnavailable,
    Portion,
    Unindexed,
    Wanted,
    folded,
)
from ..connections import Connections
from ..schema import Connection
from .conditions import is_name, names_of
from .escaping import escaped, unescaped
from .text_statements import TextStatements

CANDIDATES_MAX = 4096
"""From how many matching texts on they are too many to be listed."""

_READ_AT_ONCE = 256
_GRAM = 3


def grams_of(text: str) -> list[int]:
    """Return the checksums of the runs of three characters of a folded text."""
    runs = {text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)}
    return sorted({crc32(run.encode("utf-8", "surrogatepass")) - 2**31 for run in runs})


class TextIndex(FindsTexts):
    """The index of one database. Every method blocks.

    Args:
        connections: The connections.
        statements: The SQL.
    """

    def __init__(self, connections: Connections, statements: TextStatements) -> None:
        self._connections = connections
        self._statements = statements
        self._known: dict[Ref, IndexedLog] = {}
        self._changes = 0
        self._is_closed = False

    @property
    def changes(self) -> int:
        """See `KeepsSearch.changes`."""
        return self._changes

    def exists(self) -> bool:
        """See `KeepsSearch.exists`."""
        return self._tells(self._statements.index_exists)

    def can_be_created(self) -> bool:
        """See `KeepsSearch.can_be_created`."""
        return self._tells(self._statements.index_creatable)

    def close(self) -> None:
        """See `KeepsSearch.close`."""
        self._is_closed = True

    # -- content

    def known(self) -> dict[Ref, IndexedLog]:
        """See `KeepsSearch.known`."""
        with self._opened() as connection:
            rows = connection.execute(self._statements.known, binary=True).fetchall()
        known = {ref: _log(number, *rest) for ref, number, *rest in rows}
        if known != self._known:
            self._known = known
            self._changes += 1
        return known

    def unindexed(self, *, after: Ref = "", limit: int | None = None) -> list[Unindexed]:
        """See `FindsTexts.unindexed`."""
        wanted = {"after": after, "limit": limit}
        with self._opened() as connection:
            rows = connection.execute(self._statements.unindexed, wanted, binary=True, prepare=False).fetchall()
        return [Unindexed(ref, stamp, None if rest[0] is None else _log(*rest)) for ref, stamp, *rest in rows]

    def numbers(self, refs: Collection[Ref]) -> dict[Ref, int]:
        """See `FindsTexts.numbers`."""
        with self._opened() as connection:
            return dict(connection.execute(self._statements.numbers, {"refs": names_of(refs)}).fetchall())

    def names(self, numbers: Collection[int]) -> dict[int, Ref]:
        """See `FindsTexts.names`."""
        with self._opened() as connection:
            return dict(connection.execute(self._statements.number_names, {"numbers": [*numbers]}).fetchall())

    def update(self, portions: Sequence[Portion], gone: Sequence[Ref] = ()) -> None:
        """See `KeepsSearch.update`."""
        stamps: dict[Ref, str | None] = dict.fromkeys(names_of(gone))
        with self._opened() as connection, connection.transaction():
            if stamps:
                connection.execute(self._statements.drop_index, {"refs": sorted(stamps)})
            # In the order of names, in which every host takes them; the portions of one log stay in theirs.
            for portion in sorted(portions, key=lambda portion: portion.ref):
                if is_name(portion.ref) and self._add(connection, portion):
                    stamps[portion.ref] = portion.stamp or None
            refs = sorted(stamps)
            connection.execute(self._statements.mark_searched, {"refs": refs, "stamps": [stamps[ref] for ref in refs]})
        self._changes += 1

    def forget(self, ref: Ref) -> None:
        """See `KeepsSearch.forget`."""
        if is_name(ref):
            with self._opened() as connection:
                connection.execute(self._statements.drop_index, {"refs": [ref]})
            self._changes += 1

    def _add(self, connection: Connection, portion: Portion) -> bool:
        """Add a portion if it follows what is there; another host may have been quicker."""
        row = connection.execute(self._statements.lock_index, {"ref": portion.ref}).fetchone()
        if row is not None and portion.before is None:
            connection.execute(self._statements.drop_index, {"refs": [portion.ref]})
            row = None
        elif portion.before != (None if row is None else Checkpoint(*row[1:])):
            return False
        if row is None:
            row = connection.execute(self._statements.add_index, {"ref": portion.ref}).fetchone()
            if row is None:
                return False
        number, after = row[0], portion.after
        if portion.texts:
            connection.execute(self._statements.add_texts, {"number": number} | _columns(portion.texts))
        wanted = {"number": number, "stamp": portion.stamp or UNFINISHED, "generation": after.generation}
        connection.execute(self._statements.set_index, wanted | {"seq": after.seq, "crc": after.crc})
        return True

    # -- searching

    def candidates(self, query: Wanted) -> dict[int, list[int]] | None:
        """See `KeepsSearch.candidates`."""
        if not query.trigrams:
            return None
        wanted = {"grams": _wanted_grams(query), "most": CANDIDATES_MAX}
        with self._opened() as connection:
            rows = connection.execute(self._statements.candidates, wanted, binary=True, prepare=False).fetchall()
        if len(rows) == CANDIDATES_MAX:
            return None
        by_log: dict[int, list[int]] = {}
        for log, seq in rows:
            by_log.setdefault(log, []).append(seq)
        return by_log

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
        wanted: dict[str, object] = {"log": log, "most": _READ_AT_ONCE}
        statement = self._statements.find(_conditions(query, filters, candidates, wanted))
        found: list[EntryText] = []
        with self._opened() as connection:
            while len(found) < limit:
                rows = connection.execute(statement, wanted | {"after": after}, binary=True, prepare=False).fetchall()
                texts = [_text(*row) for row in rows]
                found += [each for each in texts if filters.accept(each) and query.matches(each.text)]
                if len(rows) < _READ_AT_ONCE:
                    break
                after = texts[-1].seq
        return found[:limit]

    # -- the database

    @contextmanager
    def _opened(self) -> Generator[Connection]:
        """Lend a connection, and say of every failure that there is no usable index: reading the logs will tell why."""
        if self._is_closed:
            raise IndexUnavailable("it is closed")
        try:
            with self._connections.use() as connection:
                yield connection
        except TreeringError as error:
            raise IndexUnavailable(str(error)) from error

    def _tells(self, statement: bytes) -> bool:
        with self._opened() as connection:
            row = connection.execute(statement).fetchone()
        return row is not None and bool(row[0])


def _conditions(query: Wanted, filters: Filters, candidates: Sequence[int] | None, wanted: dict[str, object]) -> str:
    """Return the conditions on the texts of a log, and add their values."""
    conditions = ""
    if candidates is not None:
        conditions, wanted["seqs"] = "and t.seq = any(%(seqs)s::int8[])", [*candidates]
    elif query.trigrams:
        conditions, wanted["grams"] = "and t.grams @> %(grams)s::int4[]", _wanted_grams(query)
    if filters.role is not None:
        conditions, wanted["role"] = f"{conditions} and t.role = %(role)s", escaped(filters.role)
    if filters.tool is not None:
        conditions, wanted["tool"] = f"{conditions} and %(tool)s = any(t.tools)", escaped(filters.tool)
    if filters.after is not None:
        conditions, wanted["since"] = f"{conditions} and t.at >= %(since)s", filters.after
    if filters.before is not None:
        conditions, wanted["until"] = f"{conditions} and t.at < %(until)s", filters.before
    return conditions


def _wanted_grams(query: Wanted) -> list[int]:
    return sorted({gram for run in query.trigrams for gram in grams_of(run)})


def _log(number: int, stamp: str, generation: str, seq: int, crc: int) -> IndexedLog:
    return IndexedLog(number, stamp, Checkpoint(generation, seq, crc))


def _columns(texts: Sequence[EntryText]) -> dict[str, object]:
    """Return the columns of the table, each with the values of all texts; arrays within arrays as PostgreSQL's text."""
    return {
        "seqs": [text.seq for text in texts],
        "entry_ids": [escaped(text.entry_id) for text in texts],
        "roles": [escaped(text.role) for text in texts],
        "tools": [_array(map(escaped, text.tools)) for text in texts],
        "times": [text.timestamp for text in texts],
        "bodies": [text.text.encode("utf-8", "surrogatepass") for text in texts],
        "grams": [f"{{{','.join(map(str, grams_of(folded(text.text))))}}}" for text in texts],
    }


def _array(texts: Iterable[str]) -> str:
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"


def _text(seq: int, entry_id: str, role: str, tools: list[str], at: datetime, body: bytes) -> EntryText:
    texts = tuple(map(unescaped, tools))
    return EntryText(seq, unescaped(entry_id), unescaped(role), texts, at, body.decode("utf-8", "surrogatepass"))
