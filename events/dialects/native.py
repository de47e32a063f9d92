r"""The native dialect: snake_case keys, nested payloads, uuid4 ids, RFC 3339 times in UTC.

A file of three entries::

    {"type":"session","id":"9b2e...","version":1,"timestamp":"2026-01-01T10:00:00Z","cwd":"/work/project"}
    {"type":"message","id":"5f0c...","parent_id":null,"timestamp":"2026-01-01T10:00:01Z","seq":1,"message":{"role":"user","content":[{"type":"text","text":{"content":"Hello"}}]}}
    {"type":"message","id":"c1d9...","parent_id":"5f0c...","timestamp":"2026-01-01T10:00:02Z","seq":2,"message":{"role":"assistant","content":[{"type":"text","text":{"content":"Hi!"}}]}}
    {"type":"label","id":"77aa...","parent_id":"c1d9...","timestamp":"2026-01-01T10:00:03Z","seq":3,"label":{"target_id":"5f0c...","label":"greeting"}}

Lines that this dialect wrote decode in one step. Lines in another shape (a payload flattened into the entry, content
as a string, `{"type":"text","text":"..."}`, unknown keys, a time without a zone) take a second, slower path that
normalizes them first; a line that cannot be normalized becomes an opaque entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from ..content import Text, TextPart
from ..entries import (
    ENTRY_TYPES,
    EPOCH,
    NATIVE_VERSION,
    PAYLOADS,
    Batch,
    Entry,
    Header,
    KnownEntry,
    Message,
    MessageEntry,
    OpaqueEntry,
)
from ..errors import InvalidEntry, NotASession, UnsupportedVersion, Where
from ..json_values import JSON, UNDECODABLE
from ..texts import whole, whole_json, why_unwritable
from .base import Block, check_as_given, encode_json, in_utc, object_of, time_of, well_formed, with_key

Fields: TypeAlias = dict[str, JSON]

_ENVELOPE = frozenset({"type", "id", "parent_id", "timestamp", "seq", "aside", "command_id", "batch"})
_ALIASES = {"thinking_level_change": "thinking_level"}
_ALL_UNSET = (None,) * (
    len(Message.__struct_fields__) - 2
)  # the other fields of a message with a role and content only
_CONTENT = frozenset({"content", "replacement"})
_NO_LINE_BREAKS = -1  # the indent for `msgspec.json.format`
_PARTS = ("text", "image", "tool_use", "tool_result", "thinking")

_decode_known: Callable[[bytes], KnownEntry] = msgspec.json.Decoder(KnownEntry).decode
_decode_lines: Callable[[bytes], list[KnownEntry]] = msgspec.json.Decoder(KnownEntry).decode_lines
_decode_object: Callable[[bytes], Fields] = msgspec.json.Decoder(dict[str, Any]).decode
_decode_shallow = msgspec.json.Decoder(dict[str, Raw]).decode


class _HeaderLine(Header, frozen=True, omit_defaults=True, kw_only=True, tag="session"):
    """A header with its tag, in the shape of its line."""

    timestamp: datetime


_decode_header = msgspec.json.Decoder(_HeaderLine).decode


class NativeDialect:
    """Reads and writes the native format."""

    name = "native"
    version = NATIVE_VERSION
    shared = False
    can_append_aside = True
    model_changes_win = False
    old = False
    states_seq = True
    answers_apart = False
    parent_by_path = False

    @classmethod
    def opened(cls, line: bytes, where: Where, slot: object) -> tuple[Header, NativeDialect]:
        """Decode a header line, and make the dialect of its log; see `DialectClass.opened`."""
        return cls.decode_header(line, where), cls()

    def file_name(self, header: Header) -> str:
        """Return the id with the suffix of logs; see `Dialect.file_name`."""
        return f"{header.id}.jsonl"

    def may_copy(self, entry_type: str) -> bool:
        """Return True: a line of an unknown type stays one; see `Dialect.may_copy`."""
        return True

    @staticmethod
    def decode_header(line: bytes, where: Where) -> Header:
        """Decode a header line.

        Raises:
            NotASession: The line is not a native header.
            UnsupportedVersion: A newer program wrote it.
        """
        try:
            header = _decode_header(line)
        except UNDECODABLE as error:
            raise NotASession(
                f"this is not a session header ({error}); the file was left as it is", where=where
            ) from error
        if header.version > NATIVE_VERSION:
            raise UnsupportedVersion(
                f"the session has version {header.version}, this program reads up to {NATIVE_VERSION}: "
                "upgrade treering to open it",
                where=where,
            )
        fields = msgspec.structs.asdict(header)
        fields["timestamp"] = in_utc(header.timestamp)
        return Header(**fields)

    def encode_header(self, header: Header) -> bytes:
        """Return the header line, newline included."""
        fields = msgspec.structs.asdict(header)
        fields["timestamp"] = in_utc(header.timestamp)
        return encode_json(_HeaderLine(**fields)) + b"\n"

    def encode(self, entry: KnownEntry, model: tuple[str, str] | None = None) -> bytes:
        """Return the entry's line, newline included; see `Dialect.encode`."""
        return self.write(entry)[0]

    def write(self, entry: KnownEntry) -> tuple[bytes, KnownEntry]:
        """Return the entry's line and the entry as it will be read back; see `Dialect.write`."""
        is_plain = _is_plain(entry)
        if not is_plain:
            entry = _checked(entry)
        try:
            line = encode_json(entry)
            read = entry if is_plain else _decode_known(line)
        except msgspec.ValidationError as error:
            advice = ": make it with `message(role, content)`" if isinstance(entry, MessageEntry) else ""
            raise InvalidEntry(f"{error} of a {entry.type} entry{advice}") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidEntry(f"this {entry.type} entry cannot be written as JSON: {why_unwritable(error)}") from error
        if is_plain:
            return line + b"\n", entry
        if read != entry:
            check_as_given(entry, read)
        if b"\n" in line:  # from raw JSON with line breaks
            line = one_line(line)
        return line + b"\n", read

    def decode(self, line: bytes, seq: int) -> Entry | None:
        """Return the entry of a line; see `Dialect.decode`."""
        try:
            entry = _decode_known(line)
        except UNDECODABLE:
            return _decode_slowly(line, seq)
        return entry if entry.seq == seq else msgspec.structs.replace(entry, seq=seq)

    def decode_all(self, lines: Sequence[bytes], first: int) -> list[Entry | None]:
        """Return the entries of lines, decoded in one go if this dialect could have written all of them."""
        together: list[KnownEntry] = []
        if isinstance(lines, Block):
            with suppress(*UNDECODABLE):  # at least one line differs: each is decoded by itself
                together = _decode_lines(lines.data)
        is_whole = [entry.seq for entry in together] == [*range(first, first + len(lines))]
        return [*together] if is_whole else [self.decode(line, seq) for seq, line in enumerate(lines, first)]

    def new_id(self, uuid: str, taken: Callable[[str], object]) -> str:
        """Return the uuid itself; see `Dialect.new_id`."""
        if taken(uuid):
            raise InvalidEntry(f"the id source returned {uuid!r} twice: it must return a fresh id each time")
        return uuid

    def with_batch(self, line: bytes, batch: Batch | None) -> bytes:
        """Return a line with another batch mark or without one; see `Dialect.with_batch`."""
        return encode_json(with_key(object_of(well_formed(line)) or {}, "batch", batch))

    def migrated(self, line: bytes, seq: int) -> bytes:
        """Return the line unchanged: there is no older native version."""
        return line + b"\n"

    def migrated_header(self, block: bytes) -> bytes:
        """Return the block unchanged: there is no older native version."""
        return block


def _checked(entry: KnownEntry) -> KnownEntry:
    """Return the entry with its time in UTC, after checking the types of its time and its payload.

    Decoding the line would not reveal a wrong type: another payload, a dictionary, or a string as the time could
    encode to the same line.

    Raises:
        InvalidEntry: The entry is opaque, or its payload or its time has the wrong type.
    """
    name = entry.type
    if ENTRY_TYPES.get(name) is not type(entry):
        raise InvalidEntry(f"{type(entry).__name__} cannot be encoded: copy the line that it was read from")
    payload = getattr(entry, name)
    if type(payload) is not PAYLOADS[name]:
        raise InvalidEntry(
            f"Expected `{PAYLOADS[name].__name__}`, got `{type(payload).__name__}` - at `$.{name}` of a {name} entry"
        )
    timestamp = cast(object, entry.timestamp)  # callers without a type checker pass anything
    if not isinstance(timestamp, datetime):
        raise InvalidEntry(
            f"Expected `datetime`, got `{type(timestamp).__name__}` - at `$.timestamp` of a {name} entry"
        )
    if timestamp.tzinfo is UTC or timestamp.tzinfo is None:
        return entry
    return msgspec.structs.replace(entry, timestamp=in_utc(timestamp))


def _is_plain(entry: KnownEntry) -> bool:
    """Tell whether an entry is a plain-text message with exactly the types that decoding gives, as most messages are.

    The line of such an entry has no line break, and need not be decoded. A line with text beyond ASCII is decoded
    anyway, since encoding caches a UTF-8 copy inside the caller's string, which would be kept in memory with the entry.
    """
    if type(entry) is not MessageEntry or entry.aside is not False or entry.command_id is not None:
        return False
    if type(entry.id) is not str or type(entry.seq) is not int or type(entry.timestamp) is not datetime:
        return False
    above, batch, message = entry.parent_id, entry.batch, entry.message
    if (above is not None and type(above) is not str) or (batch is not None and not _is_plain_batch(batch)):
        return False
    if type(message) is not Message or astuple(message)[2:] != _ALL_UNSET:
        return False
    if type(message.role) is not str or type(message.content) is not tuple:
        return False
    for part in message.content:
        if type(part) is not TextPart or type(text := part.text) is not Text:
            return False
        if type(text.content) is not str or not text.content.isascii() or text.signature is not None:
            return False
    return bool(entry.id and message.role) and entry.timestamp.tzinfo is UTC


def _is_plain_batch(batch: Batch) -> bool:
    return type(batch) is Batch and tuple(map(type, astuple(batch))) == (str, str, int, int)


def _decode_slowly(line: bytes, seq: int) -> Entry | None:
    """Decode a line that this dialect did not write."""
    fields = read_object(line)
    if fields is None:
        return None
    try:
        # Encoded and decoded again, since msgspec cannot convert a decoded value to `Raw`.
        entry = _decode_known(encode_json(_normalized(fields)))
    except (ValueError, TypeError, RecursionError) as error:
        # later readers of the raw line could not decode half of a character either
        return opaque(fields, bytes(whole(Raw(line))), seq, str(error))
    return msgspec.structs.replace(entry, seq=seq)


def read_object(line: bytes) -> Fields | None:
    """Read a line that must be a JSON object, or return None if it is damaged.

    JavaScript writes half of a surrogate pair, which remains when a string is cut, as an escape that is valid JSON but
    not valid Unicode: it becomes U+FFFD.
    """
    try:
        return _decode_object(line)
    except UNDECODABLE:
        return _read_with_halves(line) if b"\\u" in line else None


def _read_with_halves(line: bytes) -> Fields | None:
    with suppress(*UNDECODABLE):
        return _decode_object(whole_json(line))
    return None


def is_object(line: bytes) -> bool:
    """Tell whether a line is a JSON object that `read_object` can read, without decoding its values if possible."""
    try:
        _decode_shallow(line)
    except UNDECODABLE:
        return read_object(line) is not None
    return True


def one_line(value: bytes) -> bytes:
    """Return a JSON value without line breaks between its parts."""
    return msgspec.json.format(value, indent=_NO_LINE_BREAKS)


def opaque(fields: Mapping[str, JSON], line: bytes, seq: int, reason: str) -> OpaqueEntry:
    """Return a line of unknown type or shape as an entry that is a valid parent and contributes nothing."""
    entry_id, parent_id = fields.get("id"), fields.get("parent_id", fields.get("parentId"))
    name, command_id = str(fields.get("type", "unknown")), fields.get("command_id")
    return OpaqueEntry(
        type=name,
        # A second header has the session's id, which does not identify an entry.
        id=entry_id if isinstance(entry_id, str) and entry_id and name != "session" else None,
        parent_id=parent_id if isinstance(parent_id, str) else None,
        timestamp=time_of(fields.get("timestamp")),
        raw=Raw(line),
        seq=seq,
        aside=fields.get("aside") is True,
        command_id=command_id if isinstance(command_id, str) else None,
        batch=_batch_of(fields.get("batch")),
        reason=reason,
    )


def _batch_of(value: JSON) -> Batch | None:
    """Read a batch mark: the other lines of the batch depend on it, whatever else is wrong with this line."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(value, Batch)
    return None


def _normalized(fields: Fields) -> Mapping[str, object]:
    """Return an entry in the nested shape, without unknown keys.

    Raises:
        ValueError: The type is unknown, or the line has several payloads or none.
    """
    line_type = fields.get("type")
    name = _ALIASES.get(line_type, line_type) if isinstance(line_type, str) else ""
    if name not in ENTRY_TYPES:
        raise ValueError("unknown type")
    timestamp = fields.get("timestamp")
    time = time_of(timestamp) if isinstance(timestamp, str) else EPOCH
    return {
        **{key: fields[key] for key in _ENVELOPE if key in fields},
        "type": name,
        "parent_id": fields.get("parent_id"),
        "timestamp": timestamp if time == EPOCH else time,
        name: _normalized_payload(_payload(fields, name)),
    }


def _payload(fields: Fields, name: str) -> Fields:
    """Return the payload of an entry, nested under its type or flattened among the other keys.

    Raises:
        ValueError: The line has several payloads or none.
    """
    known = PAYLOADS[name].__struct_encode_fields__
    nested = {_ALIASES.get(key, key): key for key, value in fields.items() if isinstance(value, dict)}
    payloads = [key for key in nested if key in ENTRY_TYPES]
    flat = {key: value for key, value in fields.items() if key not in _ENVELOPE}
    # A flat compaction may have a `usage` field of its own, and so may a flat usage entry, next to its `kind`.
    if name not in payloads or (name in known and not flat.keys().isdisjoint({*known} - {name})):
        payloads = [key for key in payloads if key not in known]
        if not payloads and not flat.keys().isdisjoint(known):
            return flat
    if payloads != [name]:
        raise ValueError(f"a {name} entry must have its payload under {name!r} alone, not {payloads}")
    payload = fields[nested[name]]
    return payload if isinstance(payload, dict) else {}


def _normalized_payload(payload: Fields) -> Fields:
    return {key: _normalized_content(value) if key in _CONTENT else value for key, value in payload.items()}


def _normalized_content(content: JSON) -> JSON:
    if isinstance(content, str):
        return [_text_part(content)]
    return [_normalized_part(part) for part in content] if isinstance(content, list) else content


def _text_part(content: str) -> Fields:
    return {"type": "text", "text": {"content": content}}


def _normalized_part(part: JSON) -> JSON:
    """Return one content part in the nested shape.

    Raises:
        ValueError: The part has several members set.
    """
    if isinstance(part, str):
        return _text_part(part)
    if not isinstance(part, dict):
        return part
    members = [key for key in _PARTS if part.get(key) is not None]
    if len(members) > 1:
        raise ValueError(f"a content part must have one member set, not {members}")
    kind = part.get("type", next(iter(members), None))
    if not isinstance(kind, str):
        return part
    member = part.get(kind)
    if not members or isinstance(member, str):
        member = {key: value for key, value in part.items() if key not in {"type", kind}}
        if members:
            member["content"] = part[kind]
    if kind == "tool_result" and isinstance(member, dict) and isinstance(member.get("content"), list):
        member = {**member, "content": _normalized_content(member["content"])}
    return {"type": kind, kind: member}
