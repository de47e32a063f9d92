"""The lines of a log as a server sends them: in the native form, whatever the dialect of the session's file.

Entries that treering does not know come with their whole line; lines that nobody can read are left out, so that their
seqs are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Raw, Struct

from ..events.dialects.base import Dialect
from ..events.dialects.native import NativeDialect
from ..events.entries import Entry, OpaqueEntry
from ..events.stores.base import Cursor
from ..wire import EntryPage


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


def lines_of(page: EntryPage, after: int, through: int | None = None) -> list[bytes]:
    """Return the lines of a page, one for each seq after `after`; those that nobody can read are `DAMAGED`."""
    lines: list[bytes] = []
    for item in page.items:
        line = bytes(item)
        lines += [DAMAGED] * (_seq_decoder.decode(line).seq - after - 1 - len(lines))
        lines.append(line)
    lines += [DAMAGED] * (Cursor.parse(page.cursor).seq - after - len(lines))
    return lines if through is None else lines[: through - after]


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
