"""The index of a root: which entries of its logs contain which characters, and how far each log was indexed.

All of it is derived data, and safe to delete. Several processes may use it at once: each write first checks how far the
log is indexed now, and each read sees the index at a single moment.

Everything here blocks and belongs in worker threads; concurrent calls wait for one another.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice

from ...events.arguments import is_text
from ...events.stores import search_index as schema
from ...events.stores.base import Ref
from ...events.stores.search import UNFINISHED, Checkpoint, IndexedLog, Portion
from ...events.stores.search_database import WAIT_S, SearchFile
from ...projections.search.query import Query
from ...projections.search.texts import EntryText, Filters

_CANDIDATES_MAX = 4096


class SearchIndex:
    """The index of one root.

    Args:
        root: The root, which must exist.

    Attributes:
        changes: Increases with each change of what `known` returns.
    """

    def __init__(self, root: str) -> None:
        self.changes = 0
        self._file = SearchFile(root)
        self._known: dict[Ref, IndexedLog] = {}
        self._version = (0, 0)

    def exists(self) -> bool:
        """Return whether there is an index."""
        return self._file.exists()

    def can_be_created(self) -> bool:
        """Return whether there is a folder that the index can be created in."""
        return self._file.can_be_created()

    def close(self) -> None:
        """Close the file for good."""
        self._file.close()

    # -- content

    def known(self) -> dict[Ref, IndexedLog]:
        """Return what the index knows of all logs.

        Raises:
            IndexUnavailable: There is no usable index here.
        """
        with self._file.opened() as db:
            (written,) = db.execute("PRAGMA data_version").fetchone()
            version = (self._file.openings, written)
            if version != self._version:  # another process wrote to the file, or it was replaced
                self._known = {
                    ref: IndexedLog(number, stamp, Checkpoint(generation, seq, crc))
                    for ref, number, stamp, generation, seq, crc in db.execute(schema.LOGS)
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
        with self._file.opened() as db:
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

    # -- searching

    def candidates(self, query: Query) -> dict[int, list[int]] | None:
        """Return the numbers of the entries that may match a query, by log; None if there are too many.

        Raises:
            IndexUnavailable: There is no usable index here.
        """
        match = schema.match(query)
        if match is None:
            return None
        with self._file.opened() as db, _transaction(db):
            rows = db.execute(schema.CANDIDATES, (match, _CANDIDATES_MAX)).fetchall()
            if len(rows) == _CANDIDATES_MAX:
                return None
            numbers = [number for (number,) in rows]
            log_by_block: dict[int, int] = dict(db.execute(schema.logs_of(numbers)))
        by_log: dict[int, list[int]] = {}
        for number in numbers:
            log = log_by_block.get(number // schema.SPAN)
            if log is not None:
                by_log.setdefault(log, []).append(number)
        return by_log

    def find(
        self,
        query: Query,
        filters: Filters,
        log: int,
        candidates: Sequence[int] | None = None,
        *,
        after: int = 0,
        limit: int,
    ) -> list[EntryText]:
        """Return the texts of one log that match, in order: those after a seq, at most `limit`.

        Args:
            query: The query.
            filters: What narrows it down.
            log: The number of the log.
            candidates: The numbers of its entries that may match, if they are known; see `candidates`.
            after: The seq.
            limit: The maximum number of texts.

        Raises:
            IndexUnavailable: There is no usable index here.
        """
        match = schema.match(query)
        statement = schema.select(filters, candidates, matched=match is not None)
        parameters = {
            "match": match,
            "role": filters.role,
            "after": schema.moment(filters.after),
            "before": schema.moment(filters.before),
        }
        with (
            self._file.opened() as db,
            _transaction(db),  # a block must not be given to another log meanwhile
            closing(_selected(db, statement, parameters, log, after)) as texts,
        ):
            matches = (text for text in texts if filters.accept(text) and query.matches(text.text))
            return list(islice(matches, limit))


def _selected(
    db: sqlite3.Connection, statement: str, parameters: Mapping[str, object], log: int, after: int
) -> Generator[EntryText]:
    """Yield the texts of one log after a seq that a statement selects, in order."""
    for block, part in db.execute(schema.BLOCKS, (log, (after + 1) // schema.SPAN)).fetchall():
        skipped = max(0, after + 1 - part * schema.SPAN)
        bounds = {"first": block * schema.SPAN + skipped, "last": (block + 1) * schema.SPAN - 1}
        for row in db.execute(statement, {**parameters, **bounds}):
            yield schema.entry_text_of(part, *row)


@contextmanager
def _transaction(db: sqlite3.Connection, kind: str = "DEFERRED") -> Generator[None]:
    """Write everything in the block or nothing; its reads see the index at a single moment."""
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
    row = db.execute(schema.LOG, (portion.ref,)).fetchone()
    if row is None:
        if portion.before is not None:
            return None
        number = db.execute(schema.ADD_LOG, (portion.ref, UNFINISHED, "")).lastrowid
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
        part = text.seq // schema.SPAN
        if part not in blocks:
            blocks[part] = _block(db, number, part)
        rows.append(schema.row_of(blocks[part], text))
    db.executemany(schema.ADD_ENTRY, rows)
    db.executemany(schema.ADD_GRAMS, ((each[0], schema.gram_text(each[-1])) for each in rows))
    after = portion.after
    db.execute(schema.SET_LOG, (portion.stamp, after.generation, after.seq, after.crc, number))
    return IndexedLog(number, portion.stamp, after)


def _forget(db: sqlite3.Connection, ref: Ref) -> None:
    row = db.execute(schema.LOG, (ref,)).fetchone()
    if row is not None:
        _drop_entries(db, row[0])
        db.execute(schema.DROP_LOG, (row[0],))


def _block(db: sqlite3.Connection, log: int, part: int) -> int:
    """Return the block of a part of a log, allocating one if it has none."""
    row = db.execute(schema.BLOCK, (log, part)).fetchone()
    block: int | None = row[0] if row is not None else db.execute(schema.ADD_BLOCK, (log, part)).lastrowid
    assert block is not None
    return block


def _drop_entries(db: sqlite3.Connection, log: int) -> None:
    for block, _ in db.execute(schema.BLOCKS, (log, 0)).fetchall():
        bounds = (block * schema.SPAN, (block + 1) * schema.SPAN - 1)
        texts = db.execute(schema.ENTRIES, bounds)
        db.executemany(schema.DROP_GRAMS, ((number, schema.gram_text(text)) for number, text in texts))
        db.execute(schema.DROP_ENTRIES, bounds)
    db.execute(schema.DROP_BLOCKS, (log,))
