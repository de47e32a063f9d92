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
from ..base import as_int, as_string, attempt, encode_json, object_of, well_formed, with_key
from ..native import NativeDialect, one_line, opaque
from .lines import Line, Writer, write_own
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


def pi_directory_name(cwd: str) -> str:
    """Return the name of the folder in which pi keeps the sessions of a working directory."""
    return "--" + re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", cwd)) + "--"


def pi_file_name(header: Header) -> str:
    """Return the name of the file in which pi keeps a session."""
    return f"{re.sub('[:.]', '-', iso(header.timestamp))}_{header.id}.jsonl"


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
