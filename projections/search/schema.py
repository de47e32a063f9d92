"""The tables of the index, and the statements that read and write them.

    settings   what the index was made by; made anew where it was made by anything else
    logs       a row for each log: how its file looked, and the checkpoint up to which its lines are in
    blocks     which log's entries have which numbers
    entries    a row for each entry with something to be searched, with its text as it is
    grams      which entries hold which three characters, of the text as it is compared

The entries of a log are numbered in blocks of `SPAN`, so that they lie together: a common term is looked up log by log, the
most recently used first, and only until there are enough. And numbers that are close take little room.

`grams` is an FTS5 table that keeps no text and no positions (`content=''`, `detail=none`): it says which entries hold
all the runs of three characters of a query, and the texts themselves tell which of those really match. So the
index finds what a plain scan finds, whatever FTS5 takes for a word, and no text reaches its query language but in
pieces of three characters.

All of it is derived. There is no migration: an index of an older version is made anew.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from ...events.entries import EPOCH
from .query import Query, folded
from .texts import Filters, Said

APPLICATION_ID: Final = 0x54524E47
"""How SQLite files are told apart: this one is ours."""

VERSION: Final = (2, *map(int, unicodedata.unidata_version.split(".")))
"""What an index is made by: these tables, and the letters of a version of Unicode, which fold as they do there."""

SPAN: Final = 256
"""How many ordinals of a log have their entries in one block."""

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
"""Makes the tables of an empty file."""

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
"""The numbers of entries that may match, in whatever log."""


def logs_of(numbers: Iterable[int]) -> str:
    """Return the statement that tells whose entries have some numbers."""
    return f"SELECT DISTINCT log FROM blocks WHERE block IN ({','.join({str(number // SPAN) for number in numbers})})"


def gram_text(text: str) -> str:
    """Return a text as `grams` is given it. FTS5 ends a text at a NUL, of which a text may have any number."""
    return folded(text).replace("\0", "\1")


def match(query: Query) -> str | None:
    """Return what FTS5 is asked for; None where all that the query asks for is too short for it."""
    grams = dict.fromkeys(gram.replace("\0", "\1") for gram in query.trigrams)
    quoted = (gram.replace('"', '""') for gram in grams)
    return " AND ".join(f'"{gram}"' for gram in quoted) or None


def select(filters: Filters, *, matched: bool) -> str:
    """Return the statement that reads the entries between two numbers, or of those only the ones that hold all of some grams.

    Its parameters are, by name: `first` and `last`, the two numbers; `match`; `role`, `after` and `before`.
    """
    conditions = ["number BETWEEN :first AND :last"]
    if matched:
        conditions = ["number IN (SELECT rowid FROM grams WHERE grams MATCH :match AND rowid BETWEEN :first AND :last)"]
    if filters.role is not None:
        conditions.append("role=:role")
    if filters.tool is not None:
        conditions.append("tools<>'[]'")  # which of them, the filters tell
    if filters.after is not None:
        conditions.append("time>=:after")
    if filters.before is not None:
        conditions.append("time<:before")
    return f"SELECT number, entry_id, role, tools, time, text FROM entries WHERE {' AND '.join(conditions)} ORDER BY number"


def row_of(block: int, said: Said) -> tuple[int, str, str, str, int, str]:
    """Return the row of `entries` of a text that belongs into a block."""
    time = (said.timestamp - EPOCH) // _MICROSECOND
    return (block * SPAN + said.seq % SPAN, said.entry_id, said.role, _encode(said.tools).decode(), time, said.text)


def said_of(part: int, number: int, entry_id: str, role: str, tools: str, time: int, text: str) -> Said:
    """Return the text of a row of `entries` whose block is a part of its log."""
    return Said(part * SPAN + number % SPAN, entry_id, role, _decode_tools(tools), EPOCH + time * _MICROSECOND, text)


def moment(time: datetime | None) -> int | None:
    """Return a time as `entries` has it."""
    return None if time is None else (time - EPOCH) // _MICROSECOND
