"""What treering itself writes: files of its dialects (native, pi, oh-my-pi), and a session as one JSON document.

A file of lines is copied byte for byte: it keeps its dialect, and content that treering does not know survives. Only an
incomplete last line without a newline cannot be copied; it is reported.

The document is independent of the session's dialect. Its entries have the form of native lines, one entry per line::

    {"format":"treering-session","version":1,
    "header":{"type":"session","id":"9b2e...","version":1,"timestamp":"2026-01-01T10:00:00Z"},
    "leaf_id":"c1d9...",
    "entries":[
    {"type":"message","id":"5f0c...","parent_id":null,"timestamp":"2026-01-01T10:00:01Z","seq":1,"message":{...}}
    ]}

Other programs may reformat it. A document from which secrets were removed has `"redacted":true` and is refused,
since an incomplete conversation is only fit for reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from ..events.dialects.detect import HEADER_MAX, detect, header_size
from ..events.dialects.native import NativeDialect, is_object
from ..events.entries import Entry, Header, OpaqueEntry
from ..events.errors import ForeignFormatError, NotASession, RedactedSession, UnsupportedVersion, Where
from ..events.json_values import UNDECODABLE
from .base import Format, KeptSession
from .dialect_conversion import kept, own_line
from .json_lines import Notes
from .opening import opened

_CHUNK = 64 * 1024

FORMAT = "treering-session"
"""The value of the document's `format` field."""

VERSION = 1
"""The document version that is written."""

_HEAD_PATTERN = re.compile(rb'\s*\{[^{}\[\]]{0,200}"format"\s*:\s*"' + FORMAT.encode() + rb'"')
_native = NativeDialect()


class _DialectFormat(Format):
    """A dialect as an import format."""

    is_dialect = True

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether a file begins with a header of this dialect, in a supported or a newer version."""
        if not head:
            return False
        try:
            return detect(head, str(path)).dialect.name == self.name
        except NotASession:
            return False
        except UnsupportedVersion:
            return True

    def read(self, path: Path) -> Iterator[KeptSession]:
        """Read a file, which holds one session.

        Raises:
            ForeignFormatError: The file does not begin with a header of this dialect.
            UnsupportedVersion: A newer program wrote it.
            OSError: The file cannot be read.
        """
        block = _header_block(path)
        try:
            detected = detect(block, str(path))
        except NotASession as error:
            raise ForeignFormatError(error.message, where=error.where) from error
        if detected.dialect.name != self.name:
            raise ForeignFormatError(
                f"this is a {detected.dialect.name} session, not a {self.name} session", where=Where(str(path))
            )
        notes = Notes(path)
        header_block = block[: detected.size]
        yield KeptSession(
            header=detected.header,
            dialect=detected.dialect,
            block=header_block if header_block.endswith(b"\n") else header_block + b"\n",
            lines=_lines(path, detected.size, header_block.count(b"\n"), notes),
            findings=notes.findings,
        )


class NativeFormat(_DialectFormat):
    """Its own files `<session>.jsonl`, also when they are archived (`.jsonl.zst`, `.jsonl.gz`)."""

    name = "native"
    title = "treering"


class PiFormat(_DialectFormat):
    """Its files, versions 1 to 3."""

    name = "pi"
    title = "pi"
    home = "~/.pi/agent/sessions"
    checked = "the program, 0.73.1"
    moved_by = ("PI_CODING_AGENT_DIR", "~/.pi/agent")


class OmpFormat(_DialectFormat):
    """Its files; without the slot for a title and anything else of its own, they count as those of pi."""

    name = "omp"
    title = "oh-my-pi"
    home = "~/.omp/agent/sessions"
    checked = "files of the program"


def _header_block(path: Path) -> bytes:
    data = b""
    with opened(path) as file:
        while (size := header_size(data)) is None and len(data) <= HEADER_MAX:
            more = file.read(_CHUNK)
            if not more:
                size = header_size(data, at_end=True)
                break
            data += more
    return data if size is None else data[:size]


def _lines(path: Path, start: int, line_number: int, notes: Notes) -> Iterator[bytes]:
    with opened(path) as file:
        file.read(start)
        offset = start
        for line in file:
            line_number += 1
            if line.endswith(b"\n"):
                if not line.isspace():
                    yield line
            elif is_object(line):
                yield line + b"\n"
            elif not line.isspace():
                message = "the last line is incomplete, so it is left out"
                notes.add("truncated", "warning", message, line=line_number, byte=offset)
            offset += len(line)


class _Document(Struct):
    format: str
    version: int
    header: Raw
    entries: list[Raw]
    redacted: bool = False
    leaf_id: str | None = None


class _Envelope(Struct):
    format: str
    version: int
    redacted: bool = False


def document_head(header: Header, leaf_id: str | None, *, redacted: bool) -> bytes:
    """Return the beginning of a document, up to its first entry."""
    mark = b'"redacted":true,\n' if redacted else b""
    return b'{"format":"%s","version":%d,\n%s"header":%s,\n"leaf_id":%s,\n"entries":[\n' % (
        FORMAT.encode(),
        VERSION,
        mark,
        _native.encode_header(header).rstrip(),
        msgspec.json.encode(leaf_id),
    )


def document_entry(entry: Entry) -> bytes:
    """Return an entry as encoded in the document, without the separator that follows."""
    line = own_line(_native, entry) if isinstance(entry, OpaqueEntry) else None
    return _native.encode(kept(entry)).rstrip() if line is None else line


def document_tail() -> bytes:
    """Return the end of a document, after its last entry."""
    return b"\n]}\n"


class TreeringJsonFormat(Format):
    """What `treering export --format json` writes; its entries become the lines of a native session, byte for byte."""

    name = "treering-json"
    title = "treering (JSON)"

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether a file begins like such a document."""
        return bool(_HEAD_PATTERN.match(head.removeprefix(b"\xef\xbb\xbf")))

    def read(self, path: Path) -> Iterator[KeptSession]:
        """Read a document, which holds one session.

        Raises:
            RedactedSession: Secrets were removed from the document.
            ForeignFormatError: The file is not such a document, or is incomplete.
            UnsupportedVersion: A newer program wrote it.
            OSError: The file cannot be read.
        """
        where = Where(str(path))
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        document = _document(data, where)
        header_line = bytes(document.header)
        try:
            header = _native.decode_header(header_line, where)
        except NotASession as error:
            raise ForeignFormatError(f"the document's header is invalid: {error.message}", where=where) from error
        notes = Notes(path)
        yield KeptSession(
            header=header,
            dialect=NativeDialect(),
            block=_one_line(header_line),
            lines=_document_lines(document.entries, notes),
            findings=notes.findings,
            leaf_id=document.leaf_id,
        )


def _document(data: bytes, where: Where) -> _Document:
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if envelope.format == FORMAT and envelope.redacted:
            raise RedactedSession(
                "secrets were taken out of this export, so it cannot be imported: export the session again without "
                "`redact`",
                where=where,
            )
        if envelope.format == FORMAT and envelope.version > VERSION:
            raise UnsupportedVersion(
                f"the document has version {envelope.version}, this program reads up to {VERSION}: upgrade treering",
                where=where,
            )
        document = msgspec.json.decode(data, type=_Document)
    except UNDECODABLE as error:
        raise ForeignFormatError(
            f"the file is not a complete JSON document of a session ({error})", where=where
        ) from error
    if document.format != FORMAT:
        raise ForeignFormatError(f"the document has the format {document.format!r}, not {FORMAT!r}", where=where)
    return document


def _document_lines(entries: list[Raw], notes: Notes) -> Iterator[bytes]:
    for number, entry in enumerate(entries, 1):
        line = _one_line(bytes(entry))
        if _native.decode(line[:-1], number) is None:
            message = f"entry {number} of the document is not a JSON object, so it is left out"
            notes.add("not_an_entry", "warning", message)
        else:
            yield line


def _one_line(value: bytes) -> bytes:
    """Return a JSON value as one line that ends with a newline; a value without line breaks is unchanged."""
    if b"\n" in value or b"\r" in value:
        value = msgspec.json.format(value, indent=-1)
    return value + b"\n"
