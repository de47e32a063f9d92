"""pi's own dialect, version 3, and its versions 1 and 2 for reading.

`camel` shows version 3. Version 2 differs in one name: its role "hookMessage" was renamed to "custom". Version 1 has no
tree, and its lines have neither ids nor parents::

    {"type":"session","id":"d703a1a9-...","timestamp":"2025-11-20T23:33:50.805Z","cwd":"/work/project"}
    {"type":"message","timestamp":"2025-11-20T23:33:51.550Z","message":{"role":"user","content":"Hello"}}
    {"type":"compaction","timestamp":"2025-11-20T23:34:50.804Z","summary":"...","firstKeptEntryIndex":1,"tokensBefore":10}

The ids of its entries are derived from the session's id and the line's seq, so that all readers of the file, and its
migration, arrive at the same ids.
"""

from __future__ import annotations

from zlib import crc32

from msgspec import Raw

from ...entries import Entry, Header
from ...errors import Where
from ...kinds import RESET_TYPE
from ..base import RawFields, as_int, as_object, as_string, attempt, encode_json, object_of, well_formed
from .camel import VERSION, CamelDialect, line_decoder, types_of
from .lines import PI_LINES, PI_WRITERS

_BOM = b"\xef\xbb\xbf"

# any odd number spreads the seqs over all ids without collisions; this one is 2**32 divided by the golden ratio
_SPREAD = 0x9E3779B1


class PiDialect(CamelDialect):
    """Reads and writes pi's version 3 like pi 0.73 to 1.5.2; where they differ, like 1.5.2."""

    name = "pi"
    parent_by_path = True
    types = types_of(PI_LINES)
    writers = PI_WRITERS
    _read = staticmethod(line_decoder(PI_LINES))

    @classmethod
    def opened(cls, line: bytes, where: Where, slot: object) -> tuple[Header, PiDialect]:
        """Decode a header line, and make the dialect of its log; see `DialectClass.opened`."""
        header = cls.decode_header(line, where)
        return header, cls() if header.version == cls.version else PiOldDialect(header)

    def may_copy(self, entry_type: str) -> bool:
        """Return whether treering does not know the type; nor may a reset, which pi would show as nothing."""
        return entry_type != RESET_TYPE and super().may_copy(entry_type)


class PiOldDialect(PiDialect):
    """Reads pi's versions 1 and 2 as version 3 without changing the file, and migrates their lines.

    It records which lines are not part of the chain of version 1. For that, lines must first be read in order;
    afterwards they can be read in any order.
    """

    old = True

    def __init__(self, header: Header) -> None:
        self._linear = header.version < 2
        self._offset = crc32(header.id.encode("utf-8", "surrogatepass"))
        self._damaged: set[int] = set()
        self._headers: set[int] = set()

    def decode(self, line: bytes, seq: int) -> Entry | None:
        """Return the entry of a line as the migration would leave it; see `Dialect.decode`."""
        return super().decode(self.migrated(line, seq)[:-1], seq)

    def migrated(self, line: bytes, seq: int) -> bytes:
        """Return the line in version 3; see `Dialect.migrated`."""
        fields = object_of(well_formed(line))
        if fields is None:
            self._damaged.add(seq)
            return line + b"\n"
        name = attempt(as_string, fields.get("type"))
        if name == "session":
            self._headers.add(seq)
            return line + b"\n"
        changed = name == "message" and _rename_role(fields)
        if self._linear:
            self._chain(fields, name, seq)
            changed = True
        return (encode_json(fields) if changed else line) + b"\n"

    def migrated_header(self, block: bytes) -> bytes:
        """Return the header in version 3, with its other fields unchanged; see `Dialect.migrated_header`."""
        fields = object_of(well_formed(block.removeprefix(_BOM).strip())) or {}
        fields["version"] = Raw(b"%d" % VERSION)
        return encode_json(fields) + b"\n"

    def _chain(self, fields: RawFields, name: str | None, seq: int) -> None:
        """Add the id and the parent to a line of version 1, and to a compaction the id of the first kept entry."""
        earlier = range(seq - 1, 0, -1)
        parent = next((each for each in earlier if each not in self._damaged and each not in self._headers), None)
        fields["id"] = self._id(seq)
        fields["parentId"] = Raw(b"null") if parent is None else self._id(parent)
        index = attempt(as_int, fields.pop("firstKeptEntryIndex", None)) if name == "compaction" else None
        if index is not None and index > 0:
            first_kept = self._seq_at(index)
            if first_kept not in self._headers:
                fields["firstKeptEntryId"] = self._id(first_kept)

    def _seq_at(self, index: int) -> int:
        """Return the seq of the record at an index; the index counts only lines that are JSON, the header as 0."""
        seq = index
        for damaged in sorted(self._damaged):
            if damaged > seq:
                break
            seq += 1
        return seq

    def _id(self, seq: int) -> Raw:
        return Raw(b'"%08x"' % ((seq * _SPREAD + self._offset) % 2**32))


def _rename_role(fields: RawFields) -> bool:
    """Rename a message's role to its name in version 3; return whether it had another name."""
    message = attempt(as_object, fields.get("message"))
    if message is None or attempt(as_string, message.get("role")) != "hookMessage":
        return False
    message["role"] = Raw(b'"custom"')
    fields["message"] = Raw(encode_json(message))
    return True
