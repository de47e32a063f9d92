"""pi's own dialect, version 3, and its versions 1 and 2 for reading.

Version 3 is what `camel` shows. Version 2 differs in one name: the role "hookMessage" is "custom" since. Version 1 has
no tree, its lines have neither ids nor parents::

    {"type":"session","id":"d703a1a9-...","timestamp":"2025-11-20T23:33:50.805Z","cwd":"/work/project"}
    {"type":"message","timestamp":"2025-11-20T23:33:51.550Z","message":{"role":"user","content":"Hello"}}
    {"type":"compaction","timestamp":"2025-11-20T23:34:50.804Z","summary":"...","firstKeptEntryIndex":1,"tokensBefore":10}

Its entries get ids that follow from the session's id and the line's ordinal, so that everyone who reads the file finds
the same ids in it, and its migration has them too.
"""

from __future__ import annotations

import re
from zlib import crc32

from msgspec import Raw

from ..entries import Entry, Header
from .camel import VERSION, CamelDialect, line_decoder, types_of
from .camel_lines import PI_LINES
from .camel_values import RawFields, as_int, as_object, as_string, attempt, encode_json, iso, object_of, well_formed
from .camel_writers import PI_WRITERS

_BOM = b"\xef\xbb\xbf"

# any odd number spreads the ordinals over all ids without two of them meeting; this one is 2**32 over the golden ratio
_SPREAD = 0x9E3779B1


def pi_directory_name(cwd: str) -> str:
    """Return the name of the folder in which pi keeps the sessions of a working directory."""
    return "--" + re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", cwd)) + "--"


def pi_file_name(header: Header) -> str:
    """Return the name of the file in which pi keeps a session."""
    return f"{re.sub('[:.]', '-', iso(header.timestamp))}_{header.id}.jsonl"


class PiDialect(CamelDialect):
    """Reads and writes pi's version 3, as pi 0.73 to 1.5.2 do; where they differ, 1.5.2 is followed."""

    name = "pi"
    types = types_of(PI_LINES)
    writers = PI_WRITERS
    _read = staticmethod(line_decoder(PI_LINES))


class PiOldDialect(PiDialect):
    """Reads pi's versions 1 and 2 as version 3, without changing them, and says how they are migrated.

    It remembers which lines are not part of the chain of version 1. It learns of them as it is asked for lines in
    order; after that, lines can be asked for in any order.
    """

    old = True

    def __init__(self, header: Header) -> None:
        self._linear = header.version < 2
        self._offset = crc32(header.id.encode("utf-8", "surrogatepass"))
        self._damaged: set[int] = set()
        self._headers: set[int] = set()

    def decode(self, line: bytes, seq: int) -> Entry | None:
        """Return the entry of a line as it is after the migration; see `Dialect.decode`."""
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
        changed = name == "message" and _renamed(fields)
        if self._linear:
            self._chain(fields, name, seq)
            changed = True
        return (encode_json(fields) if changed else line) + b"\n"

    def migrated_header(self, block: bytes) -> bytes:
        """Return the header in version 3, what else it says kept; see `Dialect.migrated_header`."""
        fields = object_of(well_formed(block.removeprefix(_BOM).strip())) or {}
        fields["version"] = Raw(b"%d" % VERSION)
        return encode_json(fields) + b"\n"

    def _chain(self, fields: RawFields, name: str | None, seq: int) -> None:
        """Give a line of version 1 its id and its parent, and its compaction the id of the first kept entry."""
        parent = seq - 1
        while parent in self._damaged or parent in self._headers:
            parent -= 1
        fields["id"] = self._id(seq)
        fields["parentId"] = self._id(parent) if parent > 0 else Raw(b"null")
        index = attempt(as_int, fields.pop("firstKeptEntryIndex", None)) if name == "compaction" else None
        if index is not None and index > 0:
            first_kept = self._seq_at(index)
            if first_kept not in self._headers:
                fields["firstKeptEntryId"] = self._id(first_kept)

    def _seq_at(self, index: int) -> int:
        """Return the ordinal of the record at an index, which counts the lines that are JSON, the header as 0."""
        seq = index
        for damaged in sorted(self._damaged):
            if damaged > seq:
                break
            seq += 1
        return seq

    def _id(self, seq: int) -> Raw:
        return Raw(b'"%08x"' % ((seq * _SPREAD + self._offset) % 2**32))


def _renamed(fields: RawFields) -> bool:
    """Call a message's role by its name of version 3; tell whether it had another."""
    message = attempt(as_object, fields.get("message"))
    if message is None or attempt(as_string, message.get("role")) != "hookMessage":
        return False
    message["role"] = Raw(b'"custom"')
    fields["message"] = Raw(encode_json(message))
    return True
