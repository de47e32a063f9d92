"""The tables of the index, and the statements that read and write them.

    settings   the version of the index, which is rebuilt if the version differs
    logs       a row for each log: the state of its file, and the checkpoint up to which its lines are indexed
    blocks     which numbers belong to the entries of which log
    entries    a row for each searchable entry, with its original text
    grams      the trigrams of each entry's folded text

The entries of a log are numbered in blocks of `SPAN`, so that they lie together: a common term is looked up log by log,
the most recently used first, and only until there are enough hits. Also, numbers that are close take little space.

`grams` is an FTS5 table that stores neither text nor positions (`content=''`, `detail=none`): it finds the entries that
contain all trigrams of a query, and the texts themselves decide which of those really match. So the index finds exactly
what a plain scan finds, regardless of FTS5's idea of a word, and text reaches the FTS5 query language only as trigrams.

All of it is derived. There is no migration: an index of an older version is rebuilt.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from ...events.entries import EPOCH
from .query import Query, folded
from .texts import EntryText, Filters

APPLICATION_ID: Final = 0x54524E47
"""The SQLite application id of an index."""

VERSION: Final = (2, *map(int, unicodedata.unidata_version.split(".")))
"""The version of an index: that of these tables, and that of Unicode, on which case folding depends."""

SPAN: Final = 256
"""The number of seqs of a log whose entries share one block."""

MAKE: Final = (
    f"PRAGMA application_id={APPLICATION_ID}",
    "CREATE TABLE settings(version TEXT NOT NULL)",
    """CREATE TABLE logs(
        number INTEGER PRIMARY KEY AUTOINCREMENT, ref TEXT NOT NULL UNIQUE, looked TEXT NOT NULL,
        generation TEXT NOT NULL, seq INTEGER NOT NULL, crc INTEGER NOT NULL
    )""",
    "CREATE TABLE blocks(block INTEGER PRIMARY KEY, log INTEGER NOT NULL, part INTEGER NOT NULL, UNIQUE(log, part))",
    """CREATE TABLE entries(
        number INTEGER PRIMARY KEY, entry_id TEXT NOT NULL, role TEXT NOT NULL, tools TEXT NOT NULL,
        time INTEGER NOT NULL, text TEXT NOT NULL
    )""",
    """CREATE VIRTUAL TABLE grams USING fts5(
        text, content='', columnsize=0, detail=none, tokenize='trigram case_sensitive 1'
    )""",
)
"""The statements that create the tables in an empty file."""

PUT_VERSION: Final = "INSERT INTO settings VALUES(?)"
GET_VERSION: Final = "SELECT version FROM settings"

LOGS: Final = "SELECT ref, number, looked, generation, seq, crc FROM logs"
LOG: Final = "SELECT number, generation, seq, crc FROM logs WHERE ref=?"
ADD_LOG: Final = "INSERT INTO logs(ref, looked, generation, seq, crc) VALUES(?, ?, ?, 0, 0)"
SET_LOG: Final = "UPDATE logs SET looked=?, generation=?, seq=?, crc=? WHERE number=?"
DROP_LOG: Final = "DELETE FROM logs WHERE number=?"

BLOCK: Final = "SELECT block FROM blocks WHERE log=? AND part=?"
BLOCKS: Final = "SELECT block, part FROM blocks WHERE log=? AND part>=? ORDER BY part"
ADD_BLOCK: Final = "INSERT INTO blocks(log, part) VALUES(?, ?)"
DROP_BLOCKS: Final = "DELETE FROM blocks WHERE log=?"

ADD_ENTRY: Final = "INSERT INTO entries VALUES(?, ?, ?, ?, ?, ?)"
ADD_GRAMS: Final = "INSERT INTO grams(rowid, text) VALUES(?, ?)"
ENTRIES: Final = "SELECT number, text FROM entries WHERE number BETWEEN ? AND ?"
DROP_GRAMS: Final = "INSERT INTO grams(grams, rowid, text) VALUES('delete', ?, ?)"
DROP_ENTRIES: Final = "DELETE FROM entries WHERE number BETWEEN ? AND ?"

_MICROSECOND = timedelta(microseconds=1)
_encode = msgspec.json.encode
_decode_tools = msgspec.json.Decoder(tuple[str, ...]).decode

CANDIDATES: Final = "SELECT rowid FROM grams WHERE grams MATCH ? LIMIT ?"
"""The numbers of entries that may match, in any log."""


def logs_of(numbers: Iterable[int]) -> str:
    """Return the statement that selects the blocks of the entries with these numbers, and the log of each block."""
    return f"SELECT block, log FROM blocks WHERE block IN ({','.join({str(number // SPAN) for number in numbers})})"


def gram_text(text: str) -> str:
    """Return a text as it is inserted into `grams`, without NUL characters, since FTS5 ends a text at the first one."""
    return folded(text).replace("\0", "\1")


def match(query: Query) -> str | None:
    """Return the FTS5 expression for a query; None if all of its terms are too short for FTS5."""
    grams = dict.fromkeys(gram.replace("\0", "\1") for gram in query.trigrams)
    quoted = (gram.replace('"', '""') for gram in grams)
    return " AND ".join(f'"{gram}"' for gram in quoted) or None


def select(filters: Filters, candidates: Iterable[int] | None = None, *, matched: bool) -> str:
    """Return the statement that selects entries between two numbers.

    Its named parameters are `first` and `last`, the two numbers; `match`; `role`, `after` and `before`.

    Args:
        filters: What narrows a search down.
        candidates: The numbers of the only entries that can match, if they are known.
        matched: Otherwise, select only those that match a query.
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


def row_of(block: int, entry: EntryText) -> tuple[int, str, str, str, int, str]:
    """Return the `entries` row for a text in a block."""
    time = (entry.timestamp - EPOCH) // _MICROSECOND
    return (
        block * SPAN + entry.seq % SPAN,
        entry.entry_id,
        entry.role,
        _encode(entry.tools).decode(),
        time,
        entry.text,
    )


def entry_text_of(part: int, number: int, entry_id: str, role: str, tools: str, time: int, text: str) -> EntryText:
    """Return the text of an `entries` row, given the part of the log that its block holds."""
    return EntryText(
        part * SPAN + number % SPAN, entry_id, role, _decode_tools(tools), EPOCH + time * _MICROSECOND, text
    )


def moment(time: datetime | None) -> int | None:
    """Return a time in the form stored in `entries`."""
    return None if time is None else (time - EPOCH) // _MICROSECOND
