"""Which dialect a file is in, told from its first bytes.

Every dialect begins with a header line, oh-my-pi with a slot for the title before it. A store reads some bytes, asks
`header_size` whether they are enough, and hands the block to `detect`::

    while (size := header_size(data, at_end=at_end)) is None:
        data += more()
    found = detect(data[:size], path)

A byte order mark, CRLF and blank lines before the header are read. A file that begins with anything else is no session,
and nothing here would change it.
"""

from __future__ import annotations

from msgspec import Struct

from ..entries import Header
from ..errors import NotASession, Where
from .base import Dialect
from .camel_values import RawFields, as_int, as_string, attempt, object_of, well_formed
from .native import NativeDialect
from .title_slot import TitleSlot, read_slot

HEADER_MAX = 16 * 1024 * 1024
"""How many bytes may stand before the end of the header line; a file with more of them is no session."""

_BOM = b"\xef\xbb\xbf"
_NATIVE_VERSION = 1  # pi wrote no version while it was at its first
_OMP_KEYS = frozenset({"titleSource", "additionalDirectories", "previousSessionFiles", "providerPromptCacheKey"})


class Detected(Struct, frozen=True):
    """What a file's first bytes say.

    Attributes:
        header: The session's header.
        dialect: The dialect, an object for this one log.
        size: How many bytes the header block takes, with all that stands before it and its newline, if it has one.
    """

    header: Header
    dialect: Dialect
    size: int


class _Found(Struct):
    """The first lines that are not blank: the slot, and what has to be the header."""

    line: bytes
    number: int
    byte: int
    size: int
    slot: TitleSlot | None = None


def header_size(data: bytes, *, at_end: bool = False) -> int | None:
    """Return how many bytes the header block takes, or None where more bytes are needed to know.

    Where the bytes clearly begin no session, what there is of them is enough: `detect` then says what is wrong.

    Args:
        data: The first bytes of a file.
        at_end: They are the whole file.
    """
    found = _scan(data, at_end=at_end)
    return None if found is None else found.size


def detect(block: bytes, path: str) -> Detected:
    """Tell a file's dialect and read its header.

    Args:
        block: The first bytes of the file: its header block, as `header_size` measured it, or more.
        path: The file's name, for errors.

    Raises:
        NotASession: The file does not begin with a header.
        UnsupportedVersion: A newer program wrote it.
    """
    found = _scan(block, at_end=True)
    if found is None or not found.line:
        raise NotASession("there is no session header; the file was left as it is", where=Where(path))
    where = Where(path, found.number, found.byte)
    line = well_formed(found.line)
    fields = object_of(line)
    if fields is None or attempt(as_string, fields.get("type")) != "session":
        raise NotASession("this is no session header; the file was left as it is", where=where)
    header, dialect = _choose(line, fields, found.slot, where)
    return Detected(header, dialect, found.size)


def _choose(line: bytes, fields: RawFields, slot: TitleSlot | None, where: Where) -> tuple[Header, Dialect]:
    """Choose the dialect; those of other programs are loaded with their first file."""
    by_omp = slot is not None or not _OMP_KEYS.isdisjoint(fields)
    if not by_omp and attempt(as_int, fields.get("version")) == _NATIVE_VERSION:
        return NativeDialect.decode_header(line, where), NativeDialect()
    if by_omp:
        from .omp import OmpDialect

        return OmpDialect.decode_header(line, where, slot), OmpDialect()
    from .camel import read_header
    from .pi import PiDialect, PiOldDialect

    header = read_header(line, where)
    return header, PiDialect() if header.version == PiDialect.version else PiOldDialect(header)


def _scan(data: bytes, *, at_end: bool) -> _Found | None:
    """Find the first line that is neither blank nor a title's slot; None where it does not end in `data`."""
    if not at_end and len(data) < len(_BOM):
        return None
    start = len(_BOM) if data.startswith(_BOM) else 0
    number, slot = 1, None
    while True:
        newline = data.find(b"\n", start)
        end = len(data) if newline < 0 else newline + 1
        line = data[start:end].strip()
        if newline < 0 and not at_end and _may_go_on(line, len(data)):
            return None
        if line and slot is None and (slot := read_slot(line)) is not None:
            line = b""
        if line or newline < 0:
            return _Found(line, number, start, end, slot)
        start, number = end, number + 1


def _may_go_on(line: bytes, seen: int) -> bool:
    return seen < HEADER_MAX and (not line or line.startswith(b"{"))
