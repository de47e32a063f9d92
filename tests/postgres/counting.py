"""Counts what a server did: statements by `pg_stat_statements`, commits that wrote something by its log of writes."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from msgspec import Struct, field

PRELOADED = "pg_stat_statements"
EXTENSIONS = ("pg_stat_statements", "pg_walinspect")
"""What a server needs to be counted."""

_STATEMENTS = """
SELECT query, calls FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query NOT LIKE '%pg\\_stat\\_%'
"""
_COMMITS = """
SELECT count(*) FROM pg_get_wal_records_info(%s, %s)
WHERE resource_manager = 'Transaction' AND record_type LIKE 'COMMIT%%'
"""


class Counts(Struct):
    """What a server did while a block ran. It is filled in at the end of the block.

    Attributes:
        statements: How often each statement was executed, by its text; constants in it are `$1`, `$2`, ...
        commits: How many transactions were committed that wrote something.
    """

    statements: Counter[str] = field(default_factory=Counter)
    commits: int = 0

    def of(self, *words: str) -> int:
        """Return how many statements were executed whose text has all the words, in any case."""
        return sum(
            count
            for text, count in self.statements.items()
            if all(word.casefold() in text.casefold() for word in words)
        )


@contextmanager
def counted(url: str) -> Iterator[Counts]:
    """Count what the server does as long as the block runs, whoever asks for it.

    Args:
        url: An address of libpq, without parameters of a store.
    """
    counts = Counts()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_statements_reset()")
        before = _position(connection)
        yield counts
        after = _position(connection)
        counts.statements.update(dict(connection.execute(_STATEMENTS).fetchall()))
        if after != before:
            row = connection.execute(_COMMITS, (before, after)).fetchone()
            assert row is not None
            counts.commits = row[0]


def _position(connection: psycopg.Connection[tuple[object, ...]]) -> str:
    row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])
