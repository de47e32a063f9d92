"""treering's own JSON document: a session as one JSON value, and back.

One document, whatever dialect the session was in; its entries have the shape of native lines, one line an entry::

    {"format":"treering-session","version":1,
    "header":{"type":"session","id":"9b2e...","version":1,"timestamp":"2026-01-01T10:00:00Z"},
    "leaf_id":"c1d9...",
    "entries":[
    {"type":"message","id":"5f0c...","parent_id":null,"timestamp":"2026-01-01T10:00:01Z","seq":1,"message":{...}}
    ]}

It may be laid out anew by whoever passes it on. A document out of which secrets were taken says `"redacted":true` and is
refused: a conversation with holes in it is for reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from ..dialects.native import NativeDialect
from ..entries import Entry, Header, OpaqueEntry
from ..errors import ForeignFormatError, NotASession, RedactedSession, UnsupportedVersion, Where
from ..findings import Finding
from ..undecodable import UNDECODABLE
from .kept import KeptFormat, KeptSession
from .restated import kept, own_line

FORMAT = "treering-session"
"""What the document calls itself."""

VERSION = 1
"""The version of the document that is written."""

_NAMED = re.compile(rb'\s*\{[^{}\[\]]{0,200}"format"\s*:\s*"' + FORMAT.encode() + rb'"')

_native = NativeDialect()


class _Document(Struct):
    format: str
    version: int
    header: Raw
    entries: list[Raw]
    redacted: bool = False
    leaf_id: str | None = None


class _Named(Struct):
    format: str
    version: int
    redacted: bool = False


def document_head(header: Header, leaf_id: str | None, *, redacted: bool) -> bytes:
    """Return how a document begins, up to its first entry."""
    mark = b'"redacted":true,\n' if redacted else b""
    return b'{"format":"%s","version":%d,\n%s"header":%s,\n"leaf_id":%s,\n"entries":[\n' % (
        FORMAT.encode(),
        VERSION,
        mark,
        _native.encode_header(header).rstrip(),
        msgspec.json.encode(leaf_id),
    )


def document_entry(entry: Entry) -> bytes:
    """Return an entry as it stands in the document, without what separates it from the next."""
    line = own_line(_native, entry) if isinstance(entry, OpaqueEntry) else None
    return _native.encode(kept(entry)).rstrip() if line is None else line


def document_tail() -> bytes:
    """Return how a document ends, after its last entry."""
    return b"\n]}\n"


class TreeringJsonFormat(KeptFormat):
    """The document, as a format to import. Its entries become the lines of a native session, byte for byte."""

    name: ClassVar[str] = "treering-json"
    title: ClassVar[str] = "treering (JSON)"

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Tell whether a file begins as such a document does."""
        return bool(_NAMED.match(head.removeprefix(b"\xef\xbb\xbf")))

    def read(self, path: Path) -> Iterator[KeptSession]:
        """Read a document, which holds one session.

        Raises:
            RedactedSession: Secrets were taken out of it.
            ForeignFormatError: It is no such document, or not whole.
            UnsupportedVersion: A newer program wrote it.
            OSError: It cannot be read.
        """
        where = Where(str(path))
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        document = _document(data, where)
        header_line = bytes(document.header)
        try:
            header = _native.decode_header(header_line, where)
        except NotASession as error:
            raise ForeignFormatError(f"the document's header is none: {error.message}", where=where) from error
        findings: list[Finding] = []
        yield KeptSession(
            header=header,
            dialect=NativeDialect(),
            block=_one_line(header_line),
            lines=_lines(document.entries, path, findings),
            findings=findings,
            leaf_id=document.leaf_id,
        )


def _document(data: bytes, where: Where) -> _Document:
    try:
        named = msgspec.json.decode(data, type=_Named)
        if named.format == FORMAT and named.redacted:
            raise RedactedSession(
                "secrets were taken out of this export, so it is for reading and cannot be imported: export the session "
                "again without `redact`",
                where=where,
            )
        if named.format == FORMAT and named.version > VERSION:
            raise UnsupportedVersion(
                f"the document has version {named.version}, this program reads up to {VERSION}: upgrade treering",
                where=where,
            )
        document = msgspec.json.decode(data, type=_Document)
    except UNDECODABLE as error:
        raise ForeignFormatError(f"this is no whole JSON document of a session ({error})", where=where) from error
    if document.format != FORMAT:
        raise ForeignFormatError(f"this document is of the format {document.format!r}, not {FORMAT!r}", where=where)
    return document


def _lines(entries: list[Raw], path: Path, findings: list[Finding]) -> Iterator[bytes]:
    for number, entry in enumerate(entries, 1):
        line = _one_line(bytes(entry))
        if _native.decode(line[:-1], number) is None:
            told = f"entry {number} of the document is no JSON object; it is left out"
            findings.append(Finding(str(path), None, None, "not_an_entry", "warning", told))
        else:
            yield line


def _one_line(value: bytes) -> bytes:
    """Return a JSON value as one line, newline included, as it was written otherwise."""
    if b"\n" in value or b"\r" in value:
        value = msgspec.json.format(value, indent=-1)
    return value + b"\n"
