"""What a remote host reads of a server's replies; fields that it does not know are passed over.

Entries come as JSON in the native form, whatever the dialect of the session's file. Those that treering does not know
come with their whole line.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from ..events.dialects.base import Dialect
from ..events.dialects.native import NativeDialect
from ..events.entries import Entry, Header, OpaqueEntry, Usage
from ..events.stores.base import Cursor
from ..projections.summary import SessionSummary

T = TypeVar("T")


class Row(Struct, frozen=True, kw_only=True):
    """A session of the listing; see `SessionSummary`."""

    id: str
    key: str | None
    name: str | None
    title: str | None
    created: datetime
    modified: datetime
    last_entry: datetime
    last_accessed: datetime | None
    message_count: int
    user_count: int
    assistant_count: int
    parent_session: str | None
    parent_entry: str | None = None
    cwd: str | None
    project: str | None
    project_hash: str | None = None
    first_message: str
    dialect: str
    status: str
    archived: bool
    problem: str | None
    usage: Usage | None = None

    def summary(self) -> SessionSummary:
        """Return the row as the library has it; its log is named by the session's id."""
        return SessionSummary(ref=self.id, **{name: getattr(self, name) for name in Row.__struct_fields__})


class Detail(Row, frozen=True, kw_only=True):
    """A session: its row, and where its log begins and ends."""

    header: Header
    cursor: str


class Page(Struct, Generic[T], frozen=True):
    """A page of a listing or of a search."""

    items: list[T]
    next: str | None = None


class EntryPage(Struct, frozen=True):
    """A page of a log."""

    items: list[Raw]
    cursor: str
    up_to_date: bool
    leaf: str | None

    def lines(self, after: int, through: int | None = None) -> list[bytes]:
        """Return the lines of the page, one for each seq after `after`; lines that nobody can read are damaged here."""
        lines: list[bytes] = []
        for item in self.items:
            line = bytes(item)
            lines += [DAMAGED] * (_seq_of(line) - after - 1 - len(lines))
            lines.append(line)
        lines += [DAMAGED] * (Cursor.parse(self.cursor).seq - after - len(lines))
        return lines if through is None else lines[: through - after]


class Leaf(Struct, frozen=True):
    """Where a session is."""

    leaf: str | None
    cursor: str


class Appended(Struct, frozen=True):
    """What was appended."""

    seqs: list[int]
    leaf: str | None
    cursor: str
    entries: list[Raw]


class Found(Struct, frozen=True):
    """A hit of a search; see `Hit`."""

    session_id: str
    name: str | None
    entry_id: str
    role: str
    timestamp: datetime
    snippet: str
    ranges: tuple[tuple[int, int], ...]


class Imported(Struct, frozen=True):
    """What became of one session that was imported; see `ImportReport`."""

    id: str
    format: str
    entries: int
    messages: int
    added: int
    existed: bool


class ImportedAll(Struct, frozen=True):
    """What became of the sessions of one file."""

    sessions: list[Imported]


class _Numbered(Struct):
    seq: int


class _Opaque(Struct):
    type: str
    id: str | None
    parent_id: str | None
    timestamp: datetime
    line: Raw
    reason: str


_seq_decoder = msgspec.json.Decoder(_Numbered)
_opaque_decoder = msgspec.json.Decoder(_Opaque)
_OPAQUE = b'"opaque":true'

DAMAGED = b"null"
"""What stands for a line that the server cannot read."""


def _seq_of(line: bytes) -> int:
    return _seq_decoder.decode(line).seq


class WireDialect(NativeDialect):
    """The form in which a server sends the entries of a session, whatever the dialect of its file.

    Args:
        dialect: That dialect.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.name = dialect.name
        self.can_append_aside = dialect.can_append_aside
        self.model_changes_win = dialect.model_changes_win
        self.answers_apart = dialect.answers_apart
        self._is_native = dialect.name == NativeDialect.name

    def decode(self, line: bytes, seq: int) -> Entry | None:
        """Return the entry of a line; see `Dialect.decode`."""
        if line == DAMAGED:
            return None
        if _OPAQUE in line:
            try:
                opaque = _opaque_decoder.decode(line)
            except msgspec.ValidationError:
                return super().decode(line, seq)  # these are words of an entry's own JSON
            if self._is_native:
                return super().decode(bytes(opaque.line), seq)
            return OpaqueEntry(
                type=opaque.type,
                id=opaque.id,
                parent_id=opaque.parent_id,
                timestamp=opaque.timestamp,
                raw=opaque.line,
                seq=seq,
                reason=opaque.reason,
            )
        return super().decode(line, seq)

    def migrated(self, line: bytes, seq: int) -> bytes:
        """Return a line as a native session has it, newline included; see `Dialect.migrated`."""
        if self._is_native and _OPAQUE in line:
            try:
                return bytes(_opaque_decoder.decode(line).line) + b"\n"
            except msgspec.ValidationError:
                pass  # these are words of an entry's own JSON
        return line + b"\n"

    def decode_all(self, lines: Sequence[bytes], first: int) -> list[Entry | None]:
        """Decode consecutive lines; see `Dialect.decode_all`."""
        if all(line != DAMAGED and _OPAQUE not in line for line in lines):
            return super().decode_all(lines, first)
        return [self.decode(line, seq) for seq, line in enumerate(lines, first)]
