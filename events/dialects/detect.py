"""The table of dialects, and the detection of a file's dialect from its first bytes.

Every dialect begins with a header line; oh-my-pi has a slot for the title before it. A store reads some bytes, checks
with `header_size` whether they suffice, and passes the block to `detect`::

    while (size := header_size(data, at_end=at_end)) is None:
        data += more()
    detected = detect(data[:size], path)

A byte order mark, CRLF and blank lines before the header are accepted. A file that begins with anything else is not a
session; nothing here changes files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Literal, Protocol, TypeAlias, get_args

from msgspec import Struct

from ..arguments import check_word
from ..entries import Header
from ..errors import NotASession, Where
from .base import Dialect, RawFields, as_int, as_string, attempt, object_of, well_formed
from .header import NATIVE_FORM, OMP_FORM, PI_FORM, HeaderForm, TitleSlot, read_slot

HEADER_MAX = 16 * 1024 * 1024
"""The most bytes up to the end of the header line; a file whose header does not end by then is not a session."""

_BOM = b"\xef\xbb\xbf"
_NO_SLOT = b'{"type":"session"'  # the beginning of nearly all headers, which is none of a title slot
_OMP_KEYS = frozenset({"titleSource", "additionalDirectories", "previousSessionFiles", "providerPromptCacheKey"})


class DialectClass(Protocol):
    """The class of a dialect: called, it makes the dialect of a new session."""

    def __call__(self) -> Dialect:
        """Make the dialect of a new session, in the version that is written."""
        ...

    def opened(self, line: bytes, where: Where, slot: TitleSlot | None) -> tuple[Header, Dialect]:
        """Decode a header line, and make the dialect of its log.

        Args:
            line: The line.
            where: Its place, for errors.
            slot: The title slot before it, if there is one.

        Raises:
            NotASession: The line is not a header.
            UnsupportedVersion: A newer program wrote it.
        """
        ...


class Row(Struct, frozen=True):
    """A dialect in the table.

    Attributes:
        place: Its module below this package, and its class. Modules of other programs' dialects are imported on first
            use, which would take longer than everything else that a program with native sessions imports of them.
        form: How its headers begin, to recognize one that a crash left torn.
        recognizes: Tells whether a header is of this dialect, from its fields and the title slot before it.
    """

    place: str
    form: HeaderForm
    recognizes: Callable[[RawFields, TitleSlot | None], bool]

    def load(self) -> DialectClass:
        """Return its class."""
        module, _, name = self.place.partition(":")
        loaded: DialectClass = getattr(import_module(f"{__package__}.{module}"), name)
        return loaded


DialectName: TypeAlias = Literal["native", "pi", "omp"]
"""The dialects in which a host can write new sessions."""

DIALECTS: Mapping[str, Row] = {
    "omp": Row("omp:OmpDialect", OMP_FORM, lambda fields, slot: slot is not None or not _OMP_KEYS.isdisjoint(fields)),
    "native": Row("native:NativeDialect", NATIVE_FORM, lambda fields, _: attempt(as_int, fields.get("version")) == 1),
    "pi": Row("pi.dialect:PiDialect", PI_FORM, lambda fields, slot: True),
}
"""All dialects, in the order in which a header is held against them. The version 1 of pi has no version key."""


class Detected(Struct, frozen=True):
    """The result of reading a file's first bytes.

    Attributes:
        header: The session's header.
        dialect: The dialect, an object for this one log.
        size: The size of the header block in bytes, with everything before it and its newline, if it has one.
    """

    header: Header
    dialect: Dialect
    size: int


class _Head(Struct):
    """The first lines that are not blank: the title slot, if there is one, and the line that should be the header."""

    line: bytes
    number: int
    byte: int
    size: int
    slot: TitleSlot | None = None


def header_size(data: bytes, *, at_end: bool = False) -> int | None:
    """Return the size of the header block in bytes, or None if more bytes are needed to tell.

    If the bytes clearly do not begin a session, no more are needed: `detect` then raises with the reason.

    Args:
        data: The first bytes of a file.
        at_end: Whether `data` is the whole file.
    """
    head = _scan(data, at_end=at_end)
    return None if head is None else head.size


def detect(block: bytes, path: str) -> Detected:
    """Detect a file's dialect and read its header.

    Args:
        block: The first bytes of the file: its header block, as `header_size` measured it, or more.
        path: The file's name, for errors.

    Raises:
        NotASession: The file does not begin with a header.
        UnsupportedVersion: A newer program wrote it.
    """
    head = _scan(block, at_end=True)
    if head is None or not head.line:
        raise NotASession("the file has no session header; it was left as it is", where=Where(path))
    where = Where(path, head.number, head.byte)
    line = well_formed(head.line)
    fields = object_of(line)
    if fields is None or attempt(as_string, fields.get("type")) != "session":
        raise NotASession("this is not a session header; the file was left as it is", where=where)
    chosen = next(each for each in DIALECTS.values() if each.recognizes(fields, head.slot))
    header, dialect = chosen.load().opened(line, where, head.slot)
    return Detected(header, dialect, head.size)


def dialect_named(name: str) -> Dialect:
    """Return a dialect, in its current version, by its name.

    Raises:
        InvalidInput: There is no such dialect.
    """
    check_word("dialect", name, get_args(DialectName))
    return DIALECTS[name].load()()


def is_torn_header(data: bytes) -> bool:
    """Tell whether a file's content is the beginning of a header as treering writes it, and nothing else.

    A file system may leave zeros after it.
    """
    begun = data.rstrip(b"\0")
    return bool(begun) and any(each.form.is_begun_by(begun) for each in DIALECTS.values())


def _scan(data: bytes, *, at_end: bool) -> _Head | None:
    """Find the first line that is neither blank nor a title slot; None if it does not end within `data`."""
    if not at_end and len(data) < len(_BOM):
        return None
    start = len(_BOM) if data.startswith(_BOM) else 0
    number, slot = 1, None
    while True:
        newline = data.find(b"\n", start)
        end = len(data) if newline < 0 else newline + 1
        line = data[start:end].strip()
        if newline < 0 and not at_end and _may_be_header(line, len(data)):
            return None
        if line and slot is None and not line.startswith(_NO_SLOT) and (slot := read_slot(line)) is not None:
            line = b""
        if line or newline < 0:
            return _Head(line, number, start, end, slot)
        start, number = end, number + 1


def _may_be_header(line: bytes, size: int) -> bool:
    """Return whether an unfinished line may still become a header as more bytes arrive."""
    return size < HEADER_MAX and (not line or line.startswith(b"{"))
