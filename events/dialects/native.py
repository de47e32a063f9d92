r"""The native dialect: snake_case keys, nested payloads, uuid4 ids, RFC 3339 times in UTC.

A file of three entries::

    {"type":"session","id":"9b2e...","version":1,"timestamp":"2026-01-01T10:00:00Z","cwd":"/work/project"}
    {"type":"message","id":"5f0c...","parent_id":null,"timestamp":"2026-01-01T10:00:01Z","seq":1,"message":{"role":"user","content":[{"type":"text","text":{"content":"Hello"}}]}}
    {"type":"message","id":"c1d9...","parent_id":"5f0c...","timestamp":"2026-01-01T10:00:02Z","seq":2,"message":{"role":"assistant","content":[{"type":"text","text":{"content":"Hi!"}}]}}
    {"type":"label","id":"77aa...","parent_id":"c1d9...","timestamp":"2026-01-01T10:00:03Z","seq":3,"label":{"target_id":"5f0c...","label":"greeting"}}

Lines that this dialect wrote decode in one step. Whatever differs (a payload flattened into the entry, content given as
a string, `{"type":"text","text":"..."}`, unknown keys, a time without a zone) takes a second, slower way that straightens
it first; what cannot be straightened becomes an opaque entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias, cast, get_type_hints

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from ..block import Block
from ..characters import whole, why_unwritable
from ..content import JSON, Text, TextPart, plain_str
from ..entries import (
    ENTRY_TYPES,
    EPOCH,
    NATIVE_VERSION,
    Batch,
    Entry,
    Header,
    KnownEntry,
    Message,
    MessageEntry,
    OpaqueEntry,
)
from ..errors import InvalidEntry, NotASession, UnsupportedVersion, Where
from ..undecodable import UNDECODABLE
from .as_given import check_as_given

Fields: TypeAlias = dict[str, JSON]

_ENVELOPE = frozenset({"type", "id", "parent_id", "timestamp", "seq", "aside", "command_id", "batch"})
_ALIASES = {"thinking_level_change": "thinking_level"}
_PAYLOADS = {name: get_type_hints(entry)[name] for name, entry in ENTRY_TYPES.items()}
_BATCH_TYPES = (str, str, int, int)
_NOTHING_MORE = (None,) * (len(Message.__struct_fields__) - 2)  # of a message that has a role and content
_CONTENT = frozenset({"content", "replacement"})
_PARTS = ("text", "image", "tool_use", "tool_result", "thinking")

_encoder = msgspec.json.Encoder(enc_hook=plain_str)
_decode_known: Callable[[bytes], KnownEntry] = msgspec.json.Decoder(KnownEntry).decode
_decode_lines: Callable[[bytes], list[KnownEntry]] = msgspec.json.Decoder(KnownEntry).decode_lines
_decode_object: Callable[[bytes], Fields] = msgspec.json.Decoder(dict).decode
_decode_shallow = msgspec.json.Decoder(dict[str, Raw]).decode


class _HeaderLine(Header, frozen=True, omit_defaults=True, kw_only=True, tag="session"):
    """A header with its tag, as the line has it."""

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

    @staticmethod
    def decode_header(line: bytes, where: Where) -> Header:
        """Decode a header line.

        Raises:
            NotASession: The line is no native header.
            UnsupportedVersion: A newer program wrote it.
        """
        try:
            header = _decode_header(line)
        except UNDECODABLE as error:
            raise NotASession(
                f"this is no session header ({error}); the file was left as it is", where=where
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
        return _encoder.encode(_HeaderLine(**fields)) + b"\n"

    def encode(self, entry: KnownEntry) -> bytes:
        """Return the entry's line, newline included; see `Dialect.encode`."""
        return self.write(entry)[0]

    def write(self, entry: KnownEntry) -> tuple[bytes, KnownEntry]:
        """Return the entry's line and the entry as it will be read back; see `Dialect.write`."""
        entry = _checked(entry)
        try:
            line = _encoder.encode(entry)
            read = entry if _reads_as_it_is(entry) else _decode_known(line)
        except msgspec.ValidationError as error:
            raise InvalidEntry(f"{error} of a {entry.type} entry") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidEntry(f"this {entry.type} entry cannot be written as JSON: {why_unwritable(error)}") from error
        if read is not entry and read != entry:
            check_as_given(entry, read)
        if b"\n" in line:  # raw JSON that came with line breaks
            line = msgspec.json.format(line, indent=-1)
        return line + b"\n", read

    def decode(self, line: bytes, seq: int) -> Entry | None:
        """Return the entry of a line; see `Dialect.decode`."""
        try:
            entry = _decode_known(line)
        except UNDECODABLE:
            return _decode_slowly(line, seq)
        return entry if entry.seq == seq else msgspec.structs.replace(entry, seq=seq)

    def decode_all(self, lines: Sequence[bytes], first: int) -> list[Entry | None]:
        """Return the entries of lines, in one go where all of them are as this dialect writes them."""
        if isinstance(lines, Block):
            try:
                entries = _decode_lines(lines.data)
            except UNDECODABLE:
                pass  # some line is not: each is looked at by itself
            else:
                if [entry.seq for entry in entries] == list(range(first, first + len(lines))):
                    return [*entries]
        return [self.decode(line, seq) for seq, line in enumerate(lines, first)]

    def new_id(self, uuid: str, taken: Callable[[str], bool]) -> str:
        """Return the uuid itself; see `Dialect.new_id`."""
        if taken(uuid):
            raise InvalidEntry(f"the id source gave {uuid!r} twice: it must give a fresh id each time")
        return uuid

    def migrated(self, line: bytes, seq: int) -> bytes:
        """Return the line as it is: there is no older native version."""
        return line + b"\n"

    def migrated_header(self, block: bytes) -> bytes:
        """Return the block as it is: there is no older native version."""
        return block


def _checked(entry: KnownEntry) -> KnownEntry:
    """Return the entry with its time in UTC, when its time and its payload are what they must be.

    A decoder cannot tell: another payload, a dictionary, or a string for a time would look alike in the line.
    """
    name = entry.type
    as_declared = type(getattr(entry, name, None)) is _PAYLOADS.get(name) and type(entry.timestamp) is datetime
    if as_declared and entry.timestamp.tzinfo is UTC:
        return entry
    timestamp = cast(object, entry.timestamp)  # whatever it is declared to be
    if ENTRY_TYPES.get(name) is not type(entry):
        raise InvalidEntry(f"{type(entry).__name__} is not written anew: copy the line that it was read from")
    payload = getattr(entry, name)
    if type(payload) is not _PAYLOADS[name]:
        raise InvalidEntry(
            f"Expected `{_PAYLOADS[name].__name__}`, got `{type(payload).__name__}` - at `$.{name}` of a {name} entry"
        )
    if not isinstance(timestamp, datetime):
        raise InvalidEntry(
            f"Expected `datetime`, got `{type(timestamp).__name__}` - at `$.timestamp` of a {name} entry"
        )
    if timestamp.tzinfo is UTC or timestamp.tzinfo is None:
        return entry
    return msgspec.structs.replace(entry, timestamp=in_utc(timestamp))


def _reads_as_it_is(entry: KnownEntry) -> bool:
    """Tell whether an entry is a message of plain text, all of it of the very types that decoding gives: most messages are.

    Its line need not be decoded then. Text beyond ASCII is, since encoding leaves a second copy in the caller's string,
    which would be kept with it.
    """
    if type(entry) is not MessageEntry or entry.aside is not False or entry.command_id is not None:
        return False
    message, batch, above = entry.message, entry.batch, entry.parent_id
    if not (type(entry.id) is type(message.role) is str and entry.id and message.role):
        return False
    if type(entry.seq) is not int or entry.timestamp.tzinfo is not UTC:
        return False
    if above is not None and type(above) is not str:
        return False
    if batch is not None and (type(batch) is not Batch or tuple(map(type, astuple(batch))) != _BATCH_TYPES):
        return False
    if type(message.content) is not tuple or astuple(message)[2:] != _NOTHING_MORE:
        return False
    for part in message.content:
        if type(part) is not TextPart or type(text := part.text) is not Text:
            return False
        if type(text.content) is not str or not text.content.isascii() or text.signature is not None:
            return False
    return True


def _decode_slowly(line: bytes, seq: int) -> Entry | None:
    """Decode a line that this dialect did not write itself."""
    fields = read_object(line)
    if fields is None:
        return None
    try:
        # Through bytes once more, since msgspec does not convert a decoded value into a raw one.
        entry = _decode_known(_encoder.encode(_straightened(fields)))
    except (ValueError, TypeError, RecursionError) as error:
        # whoever decodes what is kept could not read half of a character either
        return opaque(fields, bytes(whole(Raw(line))), seq, str(error))
    return msgspec.structs.replace(entry, seq=seq)


def read_object(line: bytes) -> Fields | None:
    """Read a line that must be a JSON object, or return None where it is damaged.

    JavaScript writes half of a surrogate pair, as left by cutting a string, as an escape that is JSON but no Unicode:
    it becomes U+FFFD.
    """
    try:
        return _decode_object(line)
    except UNDECODABLE:
        if b"\\u" not in line:
            return None
    try:
        halves = json.dumps(json.loads(line.decode()), ensure_ascii=False)
        return _decode_object(halves.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode())
    except (ValueError, RecursionError):
        return None


def is_object(line: bytes) -> bool:
    """Tell whether a line is a JSON object that `read_object` reads, without reading what is in it where that can be."""
    try:
        _decode_shallow(line)
    except UNDECODABLE:
        return read_object(line) is not None
    return True


def opaque(fields: Mapping[str, JSON], line: bytes, seq: int, reason: str) -> OpaqueEntry:
    """Keep a line whose type or shape is unknown as a valid parent that contributes nothing."""
    entry_id, parent_id = fields.get("id"), fields.get("parent_id", fields.get("parentId"))
    named, command_id = str(fields.get("type", "unknown")), fields.get("command_id")
    return OpaqueEntry(
        type=named,
        # A second header has the session's id, which names no entry.
        id=entry_id if isinstance(entry_id, str) and entry_id and named != "session" else None,
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
    """Read a batch mark: the other lines of its batch count on it, whatever else is wrong with this one."""
    try:
        return msgspec.convert(value, Batch)
    except msgspec.ValidationError:
        return None


def time_of(value: JSON) -> datetime:
    """Read a timestamp as it stands in a line, or the epoch where it is none; without a zone it is taken for UTC."""
    try:
        return in_utc(msgspec.convert(value, datetime))
    except msgspec.ValidationError:
        return EPOCH


def in_utc(time: datetime) -> datetime:
    """Return the time in UTC, the epoch where UTC has no such year; without a zone it is taken for UTC."""
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        return EPOCH


def _straightened(fields: Fields) -> Mapping[str, object]:
    """Bring an entry into the nested shape, without the keys that the format does not know.

    Raises:
        ValueError: The type is unknown, or the line has two payloads, or none.
    """
    named = fields.get("type")
    name = _ALIASES.get(named, named) if isinstance(named, str) else ""
    if name not in ENTRY_TYPES:
        raise ValueError("unknown type")
    timestamp = fields.get("timestamp")
    time = time_of(timestamp) if isinstance(timestamp, str) else EPOCH
    return {
        **{key: fields[key] for key in _ENVELOPE if key in fields},
        "type": name,
        "parent_id": fields.get("parent_id"),
        "timestamp": timestamp if time == EPOCH else time,
        name: _straight_payload(_payload(fields, name)),
    }


def _payload(fields: Fields, name: str) -> Fields:
    """Take the one payload out of an entry, be it nested or laid flat between the other keys."""
    known = _PAYLOADS[name].__struct_encode_fields__
    nested = {_ALIASES.get(key, key): key for key, value in fields.items() if isinstance(value, dict)}
    payloads = [key for key in nested if key in ENTRY_TYPES]
    flat = {key: value for key, value in fields.items() if key not in _ENVELOPE}
    # A flat compaction may have a `usage` of its own, and so may a flat usage entry, which has a `kind` beside it.
    if name not in payloads or (name in known and not flat.keys().isdisjoint({*known} - {name})):
        payloads = [key for key in payloads if key not in known]
        if not payloads and not flat.keys().isdisjoint(known):
            return flat
    if payloads != [name]:
        raise ValueError(f"a {name} entry must have its payload under {name!r} alone, not {payloads}")
    payload = fields[nested[name]]
    return payload if isinstance(payload, dict) else {}


def _straight_payload(payload: Fields) -> Fields:
    return {key: _straight_content(value) if key in _CONTENT else value for key, value in payload.items()}


def _straight_content(content: JSON) -> JSON:
    if isinstance(content, str):
        return [_text_part(content)]
    return [_straight_part(part) for part in content] if isinstance(content, list) else content


def _text_part(content: str) -> Fields:
    return {"type": "text", "text": {"content": content}}


def _straight_part(part: JSON) -> JSON:
    """Bring one content part into the nested shape.

    Raises:
        ValueError: It has two members set.
    """
    if isinstance(part, str):
        return _text_part(part)
    if not isinstance(part, dict):
        return part
    members = [key for key in _PARTS if part.get(key) is not None]
    if len(members) > 1:
        raise ValueError(f"a content part must have one member set, not {members}")
    kind = part.get("type", members[0] if members else None)
    if not isinstance(kind, str):
        return part
    member = part.get(kind)
    if not members or isinstance(member, str):
        member = {key: value for key, value in part.items() if key not in {"type", kind}}
        if members:
            member["content"] = part[kind]
    if kind == "tool_result" and isinstance(member, dict) and isinstance(member.get("content"), list):
        member = {**member, "content": _straight_content(member["content"])}
    return {"type": kind, kind: member}
