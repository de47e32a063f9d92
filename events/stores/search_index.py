"""A search index in SQLite: which entries of which logs contain which characters, and how far each log was indexed.

The entries of a log are numbered in blocks of `_SPAN`, so that they lie together: a common term is looked up log by
log, the most recently used first, and only until there are enough hits. Also, numbers that are close take little space.

All of it is derived data, and safe to delete. Several processes may use it at once: each write first checks how far the
log is indexed now, and each read sees the index at a single _moment.

Everything here blocks and belongs in worker threads; concurrent calls wait for one another.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from ..arguments import is_text
from ..entries import EPOCH
from .base import Ref
from .search import UNFINISHED, Checkpoint, EntryText, Filters, IndexedLog, Portion, Wanted, folded
from .search_database import WAIT_S, SearchDatabase

_SPAN = 256
"""The number of seqs of a log whose entries share one block."""

_CANDIDATES_MAX = 4096

_LOGS = "SELECT ref, number, looked, generation, seq, crc FROM logs"
_LOG = "SELECT number, generation, seq, crc FROM logs WHERE ref=?"
_ADD_LOG = "INSERT INTO logs(ref, looked, generation, seq, crc) VALUES(?, ?, ?, 0, 0)"
_SET_LOG = "UPDATE logs SET looked=?, generation=?, seq=?, crc=? WHERE number=?"
_DROP_LOG = "DELETE FROM logs WHERE number=?"

_BLOCK = "SELECT block FROM blocks WHERE log=? AND part=?"
_BLOCKS = "SELECT block, part FROM blocks WHERE log=? AND part>=? ORDER BY part"
_ADD_BLOCK = "INSERT INTO blocks(log, part) VALUES(?, ?)"
_DROP_BLOCKS = "DELETE FROM blocks WHERE log=?"

_ADD_ENTRY = "INSERT INTO entries VALUES(?, ?, ?, ?, ?, ?)"
_ADD_GRAMS = "INSERT INTO grams(rowid, text) VALUES(?, ?)"
_ENTRIES = "SELECT number, text FROM entries WHERE number BETWEEN ? AND ?"
_DROP_GRAMS = "INSERT INTO grams(grams, rowid, text) VALUES('delete', ?, ?)"
_DROP_ENTRIES = "DELETE FROM entries WHERE number BETWEEN ? AND ?"

_MICROSECOND = timedelta(microseconds=1)
_encode = msgspec.json.encode
_decode_tools = msgspec.json.Decoder(tuple[str, ...]).decode

_CANDIDATES = "SELECT rowid FROM grams WHERE grams MATCH ? LIMIT ?"
"""The numbers of entries that may match, in any log."""


def _logs_of(numbers: Iterable[int]) -> str:
    """Return the statement that selects the blocks of the entries with these numbers, and the log of each block."""
    return f"SELECT block, log FROM blocks WHERE block IN ({','.join({str(number // _SPAN) for number in numbers})})"


def _gram_text(text: str) -> str:
    """Return a text as it is inserted into `grams`, without NUL characters, since FTS5 ends a text at the first one."""
    return folded(text).replace("\0", "\1")


def match(query: Wanted) -> str | None:
    """Return the FTS5 expression for a query; None if all of its terms are too short for FTS5."""
    grams = dict.fromkeys(gram.replace("\0", "\1") for gram in query.trigrams)
    quoted = (gram.replace('"', '""') for gram in grams)
    return " AND ".join(f'"{gram}"' for gram in quoted) or None


def _select(filters: Filters, candidates: Iterable[int] | None = None, *, matched: bool) -> str:
    """Return the statement that selects entries between two numbers.

    Its named parameters are `first` and `last`, the two numbers; `match`; `role`, `after` and `before`.

    Args:
        filters: What narrows a search down.
        candidates: The numbers of the only entries that can match, if they are known.
        matched: Otherwise, _select only those that match a query.
    """
    conditions = ["number BETWEEN :first AND :last"]
    if candidates is not None:
        conditions.append(f"number IN ({','.join(map(str, candidates))})")
    elif matched:
        conditions = ["number IN (SELECT rowid FROM grams WHERE grams MATCH :match AND rowid BETWEEN :first AND :last)"]
    if filters.role is not None:
        conditions.append("role=:role")
    if filters.tool is not None:
        conditions.append("tools<>'[]'")  # `Filters.accept` compares the names
    if filters.after is not None:
        conditions.append("time>=:after")
    if filters.before is not None:
        conditions.append("time<:before")
    return (
        "SELECT number, entry_id, role, tools, time, text FROM entries "
        f"WHERE {' AND '.join(conditions)} ORDER BY number"
    )


def _row_of(block: int, entry: EntryText) -> tuple[int, str, str, str, int, str]:
    """Return the `entries` row for a text in a block."""
    time = (entry.timestamp - EPOCH) // _MICROSECOND
    return (
        block * _SPAN + entry.seq % _SPAN,
        entry.entry_id,
        entry.role,
        _encode(entry.tools).decode(),
        time,
        entry.text,
    )


def _entry_text_of(part: int, number: int, entry_id: str, role: str, tools: str, time: int, text: str) -> EntryText:
    """Return the text of an `entries` row, given the part of the log that its block holds."""
    return EntryText(
        part * _SPAN + number % _SPAN, entry_id, role, _decode_tools(tools), EPOCH + time * _MICROSECOND, text
    )


def _moment(time: datetime | None) -> int | None:
    """Return a time in the form stored in `entries`."""
    return None if time is None else (time - EPOCH) // _MICROSECOND


class SearchIndex:
    """An index in one database; see `KeepsSearch`.

    Args:
        database: The database, in which nothing else is.

    Attributes:
        changes: Increases with each change of what `known` returns.
    """

    def __init__(self, database: SearchDatabase) -> None:
        self.changes = 0
        self._database = database
        self._known: dict[Ref, IndexedLog] = {}
        self._version = (0, 0)

    def exists(self) -> bool:
        """Return whether there is an index."""
        return self._database.exists()

    def can_be_created(self) -> bool:
        """Return whether there is a place for an index."""
        return self._database.can_be_created()

    def close(self) -> None:
        """Close the database for good."""
        self._database.close()

    # -- content

    def known(self) -> dict[Ref, IndexedLog]:
        """Return what the index knows of all logs.

        Raises:
            IndexUnavailable: There is no usable index here.
        """
        with self._database.opened() as db:
            (written,) = db.execute("PRAGMA data_version").fetchone()
            version = (self._database.openings, written)
            if version != self._version:  # another process wrote to the file, or it was replaced
                self._known = {
                    ref: IndexedLog(number, stamp, Checkpoint(generation, seq, crc))
                    for ref, number, stamp, generation, seq, crc in db.execute(_LOGS)
                }
                self._version = version
                self.changes += 1
            return dict(self._known)

    def update(self, portions: Sequence[Portion], gone: Sequence[Ref] = ()) -> None:
        """Index texts, and remove logs that no longer exist; all of it or nothing.

        A portion that does not follow the stored checkpoint is skipped: another process was quicker.

        Raises:
            IndexUnavailable: There is no usable index here, or the disk refuses.
        """
        changed: dict[Ref, IndexedLog | None] = {}
        with self._database.opened() as db:
            with _transaction(db, "IMMEDIATE"):
                for ref in filter(is_text, gone):
                    _forget(db, ref)
                    changed[ref] = None
                for portion in portions:
                    known = _index_portion(db, portion)
                    if known is not None:
                        changed[portion.ref] = known
            self.changes += 1
            for ref, known in changed.items():
                if known is None:
                    self._known.pop(ref, None)
                else:
                    self._known[ref] = known
            if gone:
                _empty_write_ahead_log(db)

    def forget(self, ref: Ref) -> None:
        """Remove the texts of a log that was removed; see `KeepsSearch.forget`.

        Raises:
            IndexUnavailable: There is no usable index here, or the disk refuses.
        """
        if self.exists():
            self.update((), (ref,))

    # -- searching

    def candidates(self, query: Wanted) -> dict[int, list[int]] | None:
        """Return the numbers of the entries that may match a query, by log; None if there are too many.

        Raises:
            IndexUnavailable: There is no usable index here.
        """
        expression = match(query)
        if expression is None:
            return None
        with self._database.opened() as db, _transaction(db):
            rows = db.execute(_CANDIDATES, (expression, _CANDIDATES_MAX)).fetchall()
            if len(rows) == _CANDIDATES_MAX:
                return None
            numbers = [number for (number,) in rows]
            log_by_block: dict[int, int] = dict(db.execute(_logs_of(numbers)))
        by_log: dict[int, list[int]] = {}
        for number in numbers:
            log = log_by_block.get(number // _SPAN)
            if log is not None:
                by_log.setdefault(log, []).append(number)
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
        """Return the texts of one log that match, in order; see `KeepsSearch.find`.

        Raises:
            IndexUnavailable: There is no usable index here.
        """
        expression = match(query)
        statement = _select(filters, candidates, matched=expression is not None)
        parameters = {
            "match": expression,
            "role": filters.role,
            "after": _moment(filters.after),
            "before": _moment(filters.before),
        }
        with (
            self._database.opened() as db,
            _transaction(db),  # a block must not be given to another log meanwhile
            closing(_selected(db, statement, parameters, log, after)) as texts,
        ):
            matches = (text for text in texts if filters.accept(text) and query.matches(text.text))
            return list(islice(matches, limit))


def _selected(
    db: sqlite3.Connection, statement: str, parameters: Mapping[str, object], log: int, after: int
) -> Generator[EntryText]:
    """Yield the texts of one log after a seq that a statement selects, in order."""
    for block, part in db.execute(_BLOCKS, (log, (after + 1) // _SPAN)).fetchall():
        skipped = max(0, after + 1 - part * _SPAN)
        bounds = {"first": block * _SPAN + skipped, "last": (block + 1) * _SPAN - 1}
        for row in db.execute(statement, {**parameters, **bounds}):
            yield _entry_text_of(part, *row)


@contextmanager
def _transaction(db: sqlite3.Connection, kind: str = "DEFERRED") -> Generator[None]:
    """Write everything in the block or nothing; its reads see the index at a single _moment."""
    db.execute(f"BEGIN {kind}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def _empty_write_ahead_log(db: sqlite3.Connection) -> None:
    """Empty the write-ahead log, unless it is being read: deleted text would stay there until it is overwritten."""
    db.execute("PRAGMA busy_timeout = 0").fetchall()  # do not wait for readers
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(WAIT_S * 1000)}").fetchall()


def _index_portion(db: sqlite3.Connection, portion: Portion) -> IndexedLog | None:
    """Index one portion; return what is known of its log then, None if another process was quicker."""
    row = db.execute(_LOG, (portion.ref,)).fetchone()
    if row is None:
        if portion.before is not None:
            return None
        number = db.execute(_ADD_LOG, (portion.ref, UNFINISHED, "")).lastrowid
        assert number is not None
    else:
        number = row[0]
        if portion.before is None:
            _drop_entries(db, number)
        elif Checkpoint(*row[1:]) != portion.before:
            return None
    blocks: dict[int, int] = {}
    rows: list[tuple[int, str, str, str, int, str]] = []
    for text in portion.texts:
        part = text.seq // _SPAN
        if part not in blocks:
            blocks[part] = _block(db, number, part)
        rows.append(_row_of(blocks[part], text))
    db.executemany(_ADD_ENTRY, rows)
    db.executemany(_ADD_GRAMS, ((each[0], _gram_text(each[-1])) for each in rows))
    after = portion.after
    db.execute(_SET_LOG, (portion.stamp, after.generation, after.seq, after.crc, number))
    return IndexedLog(number, portion.stamp, after)


def _forget(db: sqlite3.Connection, ref: Ref) -> None:
    row = db.execute(_LOG, (ref,)).fetchone()
    if row is not None:
        _drop_entries(db, row[0])
        db.execute(_DROP_LOG, (row[0],))


def _block(db: sqlite3.Connection, log: int, part: int) -> int:
    """Return the block of a part of a log, allocating one if it has none."""
    row = db.execute(_BLOCK, (log, part)).fetchone()
    block: int | None = row[0] if row is not None else db.execute(_ADD_BLOCK, (log, part)).lastrowid
    assert block is not None
    return block


def _drop_entries(db: sqlite3.Connection, log: int) -> None:
    for block, _ in db.execute(_BLOCKS, (log, 0)).fetchall():
        bounds = (block * _SPAN, (block + 1) * _SPAN - 1)
        texts = db.execute(_ENTRIES, bounds)
        db.executemany(_DROP_GRAMS, ((number, _gram_text(text)) for number, text in texts))
        db.execute(_DROP_ENTRIES, bounds)
    db.execute(_DROP_BLOCKS, (log,))
