"""What all dialects share: their interface, consecutive lines as one block, and the check of a line that was written.

A dialect object serves one log, so it may keep what it learned from the header (the session's id, the version). It
opens no files; the lines it decodes come without their newline, and those it encodes include it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from io import BytesIO
from typing import Protocol, TypeAlias, TypeVar, cast, overload

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from ..entries import EPOCH, Batch, Entry, Header, KnownEntry
from ..errors import InvalidEntry
from ..json_values import JSON, plain_str, raw_json
from ..texts import whole_json


class Dialect(Protocol):
    """One on-disk format of sessions.

    Attributes:
        name: "native", "pi" or "omp".
        version: The version that this dialect writes in its headers.
        shared: Other programs append to such files without a lock, so a fragment at the tail may be the beginning of
            their line: it is isolated by a newline and never cut off.
        can_append_aside: Whether a line can state that its entry does not become the leaf.
        model_changes_win: A change of the model stays in force although a later assistant's message names another.
        old: The file has an older version, which is read as it is and migrated before anything is written.
        states_seq: Lines state their seq.
        answers_apart: A message holds the result of one call only, and nothing beside it.
        parent_by_path: A forked session names its parent by the path of its file, if it has one, and not by its id.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def shared(self) -> bool: ...
    @property
    def can_append_aside(self) -> bool: ...
    @property
    def model_changes_win(self) -> bool: ...
    @property
    def old(self) -> bool: ...
    @property
    def states_seq(self) -> bool: ...
    @property
    def answers_apart(self) -> bool: ...
    @property
    def parent_by_path(self) -> bool: ...

    def file_name(self, header: Header) -> str:
        """Return the name of the file of a new session, below the root, in the way of the dialect's own program."""
        ...

    def may_copy(self, entry_type: str) -> bool:
        """Tell whether a line of this type, unknown to treering, may be copied from a file of another dialect.

        Not if the dialect's own program might know another type of the same name.
        """
        ...

    def encode_header(self, header: Header) -> bytes:
        """Return the header block, newline included."""
        ...

    def encode(self, entry: KnownEntry, model: tuple[str, str] | None = None) -> bytes:
        """Return the entry's line, newline included.

        Args:
            entry: The entry.
            model: The provider and the model in effect on the path to it, for an answer that names none.

        Raises:
            InvalidEntry: A field is missing or of the wrong type; the message names it.
            DialectCannot: The dialect cannot represent the entry.
        """
        ...

    def write(self, entry: KnownEntry) -> tuple[bytes, Entry]:
        """Return the entry's line, and the entry as it will be read back; raise what `encode` raises."""
        ...

    def decode(self, line: bytes, seq: int) -> Entry | None:
        """Return the entry of a line: an `OpaqueEntry` if its type or shape is unknown, None if it is damaged.

        Never raises, whatever the line holds. The entry gets the given `seq`, whatever seq the line states.
        """
        ...

    def decode_all(self, lines: Sequence[bytes], first: int) -> list[Entry | None]:
        """Decode consecutive lines, the first of which has the seq `first`; equivalent to decoding each by itself."""
        ...

    def new_id(self, uuid: str, taken: Callable[[str], object]) -> str:
        """Make the id of a new entry from a fresh uuid4, in the dialect's form and unused in this log."""
        ...

    def with_batch(self, line: bytes, batch: Batch | None) -> bytes:
        """Return a line, without its newline, with another batch mark or without one, and otherwise unchanged."""
        ...

    def migrated(self, line: bytes, seq: int) -> bytes:
        """Return a line in the current version, newline included; unchanged if damaged or if the log is not `old`."""
        ...

    def migrated_header(self, block: bytes) -> bytes:
        """Return the header block in the current version, newline included; unchanged if the log is not `old`."""
        ...


def check_as_given(entry: KnownEntry, read: KnownEntry) -> None:
    """Refuse an entry whose line decodes to other values than the program gave.

    Lists may be given for tuples, and mappings for structs.

    Args:
        entry: The entry as the program gave it.
        read: The entry that its line is decoded to.

    Raises:
        InvalidEntry: A value was written as one of another type.
    """
    try:
        _check(entry, read, "$")
    except InvalidEntry as error:
        raise InvalidEntry(f"{error} of a {read.type} entry") from error


def _check(given: object, read: object, place: str) -> None:
    if isinstance(read, Struct):
        for name, key in zip(read.__struct_fields__, read.__struct_encode_fields__, strict=True):
            theirs = cast("object", getattr(read, name))
            if isinstance(given, Mapping):
                ours = cast("Mapping[str, object]", given).get(key, theirs)
            else:
                ours = getattr(given, name, theirs)
            _check(ours, theirs, f"{place}.{key}")
    elif isinstance(read, tuple):
        if not isinstance(given, (list, tuple)):
            raise _wrong("array", given, place)
        parts = cast("Sequence[object]", given)
        for number, theirs in enumerate(cast("tuple[object, ...]", read)):
            _check(parts[number], theirs, f"{place}[{number}]")
    elif isinstance(read, str) and not isinstance(given, str):
        raise _wrong("str", given, place)
    elif isinstance(read, (int, float)) and not isinstance(given, (int, float)):
        raise _wrong(type(read).__name__, given, place)
    elif isinstance(read, Raw) and not isinstance(given, Raw):
        raw_json(given)
    elif read is None and given is not None:
        raise InvalidEntry(f"{given!r} cannot be written: give a finite number, or None - at `{place}`")


def _wrong(wanted: str, given: object, place: str) -> InvalidEntry:
    kind = type(given).__name__
    told = " (decode it first)" if isinstance(given, (bytes, bytearray, memoryview)) else ""
    return InvalidEntry(f"Expected `{wanted}`, got `{kind}`{told} - at `{place}`")


_SPACE = 32


class Block(Sequence[bytes]):
    """A sequence of lines, each without its newline.

    Args:
        data: Complete lines with their newlines, none of them blank.
        count: The number of lines in `data`.
    """

    __slots__ = ("_count", "_lines", "data")

    def __init__(self, data: bytes, count: int) -> None:
        self.data = data
        self._count = count
        self._lines: list[bytes] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        return self._split()[at]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._split())

    def __eq__(self, other: object) -> bool:
        return self._split() == other

    __hash__ = None  # type: ignore[assignment]  # it equals lists, which cannot be hashed

    def _split(self) -> list[bytes]:
        if self._lines is None:
            self._lines = self.data.split(b"\n")
            self._lines.pop()
        return self._lines


def lines_of(data: bytes) -> Sequence[bytes]:
    """Return complete lines without their line ends and without blank ones; as a block if nothing has to be left out.

    Args:
        data: Lines that all end in a newline.
    """
    first_bytes = [line[0] for line in BytesIO(data)]  # faster than searching for newlines, and than counting them
    if b"\r" not in data and min(first_bytes, default=_SPACE + 1) > _SPACE:
        return Block(data, len(first_bytes))
    return [line.removesuffix(b"\r") for line in data.split(b"\n") if line and not line.isspace()]


def size_of(lines: Sequence[bytes]) -> int:
    """Return the approximate size of lines in bytes: newlines count in a `Block`, but not in a list."""
    return len(lines.data) if isinstance(lines, Block) else sum(map(len, lines))


RawFields: TypeAlias = dict[str, Raw]

as_string: Callable[[bytes | Raw], str] = Decoder(str).decode
as_int: Callable[[bytes | Raw], int] = Decoder(int).decode
as_object: Callable[[bytes | Raw], RawFields] = Decoder(dict[str, Raw]).decode
encode_json = msgspec.json.Encoder(enc_hook=plain_str).encode


T = TypeVar("T")


def attempt(decode: Callable[[bytes | Raw], T], raw: bytes | Raw | None) -> T | None:
    """Decode a value, or return None if it is absent or of another type."""
    if raw is None:
        return None
    try:
        return decode(raw)
    except (ValueError, RecursionError):
        pass
    return None


def well_formed(line: bytes) -> bytes:
    """Return the line with invalid UTF-8 replaced, as pi sees it."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode(errors="replace").encode()
    return line


def object_of(line: bytes) -> RawFields | None:
    """Return the keys of a line with their raw values, or None if it is not a JSON object.

    JavaScript writes an unpaired half of a surrogate pair as an escape, which is read as U+FFFD.
    """
    fields = attempt(as_object, line)
    if fields is None:
        fields = attempt(as_object, whole_json(well_formed(line)))
    return fields


def with_key(fields: RawFields, key: str, value: object) -> RawFields:
    """Return the keys of a line with another value of a key, in the same place; without the key if it is None."""
    if value is None:
        return {name: raw for name, raw in fields.items() if name != key}
    return {**fields, key: Raw(encode_json(value))}


# A mark of a batch counts only in the session that it names. A line of a batch that was never completed is opaque
# because of it: copied unchanged into a session with another id, the line would be read as a valid entry. A line of a
# complete batch is an entry: copied without the others into another session that is given that id, it would be opaque.


def still_torn(dialect: Dialect, line: bytes, session_id: str) -> bytes:
    """Return a line of a torn batch, changed so that it belongs to a torn batch in another session too.

    Its mark then names that session, and is never that of a batch's first line: without one, no batch becomes complete,
    whatever lines follow in the copy. The rest of the line is unchanged.

    Args:
        dialect: The dialect of the line.
        line: The line, without its newline; it has a batch mark.
        session_id: The id of the session into which the line is copied.
    """
    entry = dialect.decode(line, 0)
    assert entry is not None
    assert entry.batch is not None
    return dialect.with_batch(line, replace(entry.batch, session=session_id, i=max(entry.batch.i, 1)))


def without_marks_of(dialect: Dialect, line: bytes, session_id: str) -> bytes:
    """Return a line of no torn batch, without its newline, and without a mark that names the session it is copied into.

    A path holds only some lines of a batch, and is copied into a session of any id, that of the first one included.
    """
    entry = dialect.decode(line, 0)
    marked = entry is not None and entry.batch is not None and entry.batch.session == session_id
    return dialect.with_batch(line, None) if marked else line


def time_of(value: JSON) -> datetime:
    """Return the timestamp of a line, taken as UTC if it has no zone; anything else is the epoch."""
    try:
        return in_utc(msgspec.convert(value, datetime))
    except msgspec.ValidationError:
        return EPOCH


def in_utc(time: datetime) -> datetime:
    """Return a time in UTC, taken as UTC if it has no zone; the epoch if its year is out of range in UTC."""
    if time.tzinfo is UTC:
        return time
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        return EPOCH
