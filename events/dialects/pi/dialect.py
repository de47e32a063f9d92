"""The base of pi's dialect and its descendants: flat camelCase lines, 8-hex ids, times in milliseconds.

A file of three entries::

    {"type":"session","version":3,"id":"01a1ffe4-...","timestamp":"2026-01-01T10:00:00.000Z","cwd":"/work/project"}
    {"type":"message","id":"9e9abd18","parentId":null,"timestamp":"2026-01-01T10:00:01.000Z","message":{"role":"user","content":"Hello","timestamp":1767261601000}}
    {"type":"model_change","id":"07444024","parentId":"9e9abd18","timestamp":"2026-01-01T10:00:02.000Z","provider":"anthropic","modelId":"claude-x"}
    {"type":"custom","customType":"ext","data":{"n":1},"id":"39ea2594","parentId":"07444024","timestamp":"2026-01-01T10:00:03.000Z"}

Fields of an entry that such a line cannot represent go under the key `treering` at its end (see `values.Mark`),
so that the entry reads back unchanged, and the other program can still open the file. `seq` is not written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Union, cast
from zlib import crc32

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder

from ...entries import (
    ENTRY_TYPES,
    Batch,
    Entry,
    Header,
    KnownEntry,
    MessageEntry,
    OpaqueEntry,
    Payload,
    SessionInfo,
    payload_of,
)
from ...errors import DialectCannot, InvalidEntry, NotASession, UnsupportedVersion, Where
from ...kinds import RESET_TYPE
from ..base import RawFields, as_int, as_object, as_string, attempt, encode_json, object_of, well_formed, with_key
from ..native import NativeDialect, one_line, opaque
from .lines import PI_LINES, PI_WRITERS, Line, Writer, write_own
from .messages import name_model, read_message
from .values import ABSENT, READ_ERRORS, Mark, as_mark, entry_of, iso, milliseconds, moment, unrepresented

VERSION = 3
"""The version that pi 0.50 to 1.5 and oh-my-pi write."""

_BEFORE_ENVELOPE = frozenset({"custom", "custom_message"})
_ID_LENGTH = 8

_native = NativeDialect()


class HeaderMark(Struct, frozen=True, omit_defaults=True):
    """The fields that treering adds to a header, under the key `treering`."""

    parent_entry: str | None = None
    key: str | None = None
    title: str | None = None


_as_header_mark: Callable[[bytes | Raw], HeaderMark] = Decoder(HeaderMark).decode


def line_decoder(lines: tuple[type[Line], ...]) -> Callable[[bytes | Raw], Line]:
    """Return a function that decodes any line of a dialect."""
    return Decoder(Union[lines]).decode  # noqa: UP007  # the classes are known only at run time


def read_header(line: bytes, where: Where) -> Header:
    """Decode a header line of any version up to 3; a header without a version has version 1.

    Raises:
        NotASession: The line is not a header.
        UnsupportedVersion: A newer program wrote it.
    """
    fields = object_of(well_formed(line)) or {}
    session_id = attempt(as_string, fields.get("id"))
    version = _version(fields.get("version", Raw(b"1")))
    if attempt(as_string, fields.get("type")) != "session" or session_id is None or version is None:
        raise NotASession("this is not a session header; the file was left as it is", where=where)
    if version > VERSION:
        raise UnsupportedVersion(
            f"the session has version {version}, this program reads up to {VERSION}: upgrade treering to open it",
            where=where,
        )
    mark = attempt(_as_header_mark, fields.get("treering")) or HeaderMark()
    return Header(
        id=session_id,
        version=max(1, version),
        timestamp=moment(fields.get("timestamp")),
        cwd=attempt(as_string, fields.get("cwd")),
        parent_session=attempt(as_string, fields.get("parentSession")),
        parent_entry=mark.parent_entry,
        key=mark.key,
        title=mark.title,
    )


def _version(raw: Raw) -> int | None:
    """Return a version, which may be a string of digits.

    JavaScript compares such a string as a number, so pi opens the file.
    """
    if bytes(raw) == b"null":
        return 1
    digits = attempt(as_string, raw) or ""
    return int(digits) if re.fullmatch("[0-9]{1,9}", digits) else attempt(as_int, raw)


class CamelDialect:
    """Reads and writes the common format of pi and its descendants; a subclass sets its lines and its writers."""

    name: str
    version = VERSION
    shared = True
    can_append_aside = False
    model_changes_win = False
    old = False
    states_seq = False
    answers_apart = True
    parent_by_path = False
    types: ClassVar[frozenset[str]]
    writers: ClassVar[Mapping[str, Writer]]
    _read: Callable[[bytes | Raw], Line]

    # -- the header

    @staticmethod
    def decode_header(line: bytes, where: Where) -> Header:
        """Decode a header line; see `read_header`."""
        return read_header(line, where)

    def file_name(self, header: Header) -> str:
        """Return the name under which pi keeps a session, in the folder of its working directory."""
        name = pi_file_name(header)
        return name if header.cwd is None else f"{pi_directory_name(header.cwd)}/{name}"

    def may_copy(self, entry_type: str) -> bool:
        """Return whether treering does not know the type either; see `Dialect.may_copy`."""
        return entry_type not in ENTRY_TYPES

    def encode_header(self, header: Header) -> bytes:
        """Return the header line, newline included."""
        return self._header_line(header, HeaderMark(header.parent_entry, header.key, header.title))

    def _header_line(self, header: Header, mark: HeaderMark) -> bytes:
        fields: dict[str, object] = {
            "type": "session",
            "version": VERSION,
            "id": header.id,
            "timestamp": iso(header.timestamp),
        }
        if header.cwd is not None:
            fields["cwd"] = header.cwd
        if header.parent_session is not None:
            fields["parentSession"] = header.parent_session
        if mark != HeaderMark():
            fields["treering"] = mark
        return encode_json(fields) + b"\n"

    # -- reading

    def write(self, entry: KnownEntry) -> tuple[bytes, Entry]:
        """Return the entry's line and the entry as it will be read back; see `Dialect.write`."""
        return self._written(entry, None)

    def decode_all(self, lines: Sequence[bytes], first: int) -> list[Entry | None]:
        """Return the entries of consecutive lines; see `Dialect.decode_all`."""
        return [self.decode(line, seq) for seq, line in enumerate(lines, first)]

    def decode(self, line: bytes, seq: int) -> Entry | None:
        """Return the entry of a line; see `Dialect.decode`."""
        if not line.isascii():
            line = well_formed(line)
        try:
            return self._read(line).entry(seq)
        except READ_ERRORS:
            return self._decode_slowly(line, seq)

    def _decode_slowly(self, line: bytes, seq: int) -> Entry | None:
        """Decode an irregular line, keeping as much of it as makes sense."""
        fields = object_of(line)
        if fields is None:
            return None
        name = attempt(as_string, fields.get("type"))
        entry_id = attempt(as_string, fields.get("id")) or None
        parent_id = attempt(as_string, fields.get("parentId"))
        time = moment(fields.get("timestamp"))
        mark = attempt(as_mark, fields.get("treering"))
        normalized: dict[str, object] = {**fields, "parentId": parent_id, "timestamp": iso(time), "treering": mark}
        try:
            if name == "session":
                entry_id = None
                raise ValueError("a second header")
            if entry_id is None:
                raise ValueError("the line has no id")
            if name not in self.types:
                raise ValueError("unknown type")
            if name == "message":
                message = read_message(fields.get("message", ABSENT), milliseconds(time))
                return entry_of(message, seq, entry_id, parent_id, time, mark)
            return self._read(encode_json(normalized)).entry(seq)
        except READ_ERRORS as error:
            entry = opaque(
                {"type": name or "unknown", "id": entry_id, "parent_id": parent_id, "timestamp": iso(time)},
                encode_json(fields),
                seq,
                str(error),
            )
            return entry if mark is None else _with_mark(entry, mark)

    # -- writing

    def encode(self, entry: KnownEntry, model: tuple[str, str] | None = None) -> bytes:
        """Return the entry's line, newline included; see `Dialect.encode`."""
        return self._written(entry, model)[0]

    def _written(self, entry: KnownEntry, model: tuple[str, str] | None) -> tuple[bytes, KnownEntry]:
        if entry.aside:
            raise DialectCannot(
                f"a {self.name} file cannot state that an entry does not become the leaf: move the leaf to its parent, "
                "append it there and move the leaf back, or use a native session"
            )
        _native.encode(entry)  # refuses fields of the wrong type, with their paths
        name, keys = self.writers.get(entry.type, write_own)(entry)
        if model is not None and isinstance(entry, MessageEntry):
            name_model(cast("dict[str, object]", keys["message"]), entry.message, *model)
        line = self._line(entry, name, keys, Mark(entry.command_id, entry.batch))
        read = self._read_back(entry, line)
        missing = _missing(payload_of(entry), payload_of(read))
        if missing:
            line = self._line(entry, name, keys, Mark(entry.command_id, entry.batch, Raw(encode_json(missing))))
            read = self._read_back(entry, line)
        return line + b"\n", read

    def _line(self, entry: KnownEntry, name: str, keys: dict[str, object], mark: Mark) -> bytes:
        envelope = {"id": entry.id, "parentId": entry.parent_id, "timestamp": iso(entry.timestamp)}
        own = {"treering": mark} if mark != _UNMARKED else {}
        if name in _BEFORE_ENVELOPE:
            line = encode_json({"type": name, **keys, **envelope, **own})
        else:
            line = encode_json({"type": name, **envelope, **keys, **own})
        # free-form JSON is written verbatim and may contain line breaks
        return one_line(line) if b"\n" in line or b"\r" in line else line

    def _read_back(self, entry: KnownEntry, line: bytes) -> KnownEntry:
        """Return the entry that a line is read as.

        Raises:
            DialectCannot: The line would be read as an entry of another type.
        """
        read = self.decode(line, entry.seq)
        if read is None or isinstance(read, OpaqueEntry) or type(read) is not type(entry):
            raise DialectCannot(
                f"a {self.name} file would read this {entry.type} entry back as another type: use a native session"
            )
        return read

    def new_id(self, uuid: str, taken: Callable[[str], object]) -> str:
        """Return the first 8 hex digits of the uuid, or a later group if they are taken; see `Dialect.new_id`."""
        digits = uuid.replace("-", "")
        for start in range(0, len(digits), _ID_LENGTH):
            short = digits[start : start + _ID_LENGTH]
            if len(short) == _ID_LENGTH and not taken(short):
                return short
        if taken(uuid):
            raise InvalidEntry(f"the id source returned {uuid!r} twice: it must return a fresh id each time")
        return uuid

    def with_batch(self, line: bytes, batch: Batch | None) -> bytes:
        """Return a line with another batch mark or without one; see `Dialect.with_batch`."""
        fields = object_of(well_formed(line)) or {}
        own = with_key(object_of(bytes(fields.get("treering", b"{}"))) or {}, "batch", batch)
        return encode_json(with_key(fields, "treering", own or None))

    def migrated(self, line: bytes, seq: int) -> bytes:
        """Return the line unchanged: it has the current version."""
        return line + b"\n"

    def migrated_header(self, block: bytes) -> bytes:
        """Return the block unchanged: it has the current version."""
        return block


_UNMARKED = Mark()


def _missing(payload: Payload, read: Payload) -> dict[str, object]:
    """Return the fields of a payload that its line lacks or represents differently."""
    missing = {} if payload == read else unrepresented(payload, read)
    if isinstance(payload, SessionInfo) and payload.name is not None:
        missing.pop("name", None)  # the name is deliberately written in pi's own form
    return missing


def _with_mark(entry: OpaqueEntry, mark: Mark) -> OpaqueEntry:
    return msgspec.structs.replace(entry, command_id=mark.command_id, batch=mark.batch)


def types_of(lines: tuple[type[Line], ...]) -> frozenset[str]:
    """Return the type names of line structs."""
    return frozenset(str(line.__struct_config__.tag) for line in lines)


_BOM = b"\xef\xbb\xbf"

# any odd number spreads the seqs over all ids without collisions; this one is 2**32 divided by the golden ratio
_SPREAD = 0x9E3779B1


def pi_directory_name(cwd: str) -> str:
    """Return the name of the folder in which pi keeps the sessions of a working directory."""
    return "--" + re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", cwd)) + "--"


def pi_file_name(header: Header) -> str:
    """Return the name of the file in which pi keeps a session."""
    return f"{re.sub('[:.]', '-', iso(header.timestamp))}_{header.id}.jsonl"


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
