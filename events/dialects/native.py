r"""The native dialect: snake_case keys, nested payloads, uuid4 ids, RFC 3339 times in UTC.

A file of three entries::

    {"type":"session","id":"9b2e...","version":1,"timestamp":"2026-01-01T10:00:00Z","cwd":"/work/project"}
    {"type":"message","id":"5f0c...","parent_id":null,"timestamp":"2026-01-01T10:00:01Z","seq":1,"message":{"role":"user","content":[{"type":"text","text":{"content":"Hello"}}]}}
    {"type":"message","id":"c1d9...","parent_id":"5f0c...","timestamp":"2026-01-01T10:00:02Z","seq":2,"message":{"role":"assistant","content":[{"type":"text","text":{"content":"Hi!"}}]}}
    {"type":"label","id":"77aa...","parent_id":"c1d9...","timestamp":"2026-01-01T10:00:03Z","seq":3,"label":{"target_id":"5f0c...","label":"greeting"}}

Lines that this dialect wrote decode in one step. Whatever differs (a payload flattened into the entry, content given as
a string, `{"type":"text","text":"..."}`, unknown keys) takes a second, slower way that straightens it first; what
cannot be straightened becomes an opaque entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ..content import JSON
from ..entries import (
    ENTRY_TYPES,
    EPOCH,
    NATIVE_VERSION,
    Entry,
    Header,
    KnownEntry,
    OpaqueEntry,
)
from ..errors import InvalidEntry, NotASession, UnsupportedVersion, Where

Fields: TypeAlias = dict[str, JSON]

_ENVELOPE = frozenset({"type", "id", "parent_id", "timestamp", "seq", "aside", "command_id", "batch"})
_ALIASES = {"thinking_level_change": "thinking_level"}

_encoder = msgspec.json.Encoder()
_decode_known = msgspec.json.Decoder(KnownEntry).decode
_decode_object: Callable[[bytes], Fields] = msgspec.json.Decoder(dict).decode


class _HeaderLine(Header, frozen=True, omit_defaults=True, kw_only=True, tag="session"):
    """A header with its tag, as the line has it."""


_decode_header = msgspec.json.Decoder(_HeaderLine).decode


class NativeDialect:
    """Reads and writes the native format."""

    name = "native"
    version = NATIVE_VERSION
    shared = False
    can_append_aside = True
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
        except msgspec.MsgspecError as error:
            raise NotASession(f"this is no session header ({error}); the file was left as it is", where=where) from error
        if header.version > NATIVE_VERSION:
            raise UnsupportedVersion(
                f"the session has version {header.version}, this program reads up to {NATIVE_VERSION}: "
                "upgrade treering to open it",
                where=where,
            )
        fields = {name: getattr(header, name) for name in Header.__struct_fields__}
        return Header(**fields)

    def encode_header(self, header: Header) -> bytes:
        """Return the header line, newline included."""
        fields = {name: getattr(header, name) for name in Header.__struct_fields__}
        return _encoder.encode(_HeaderLine(**fields)) + b"\n"

    def encode(self, entry: KnownEntry) -> bytes:
        """Return the entry's line, newline included; see `Dialect.encode`."""
        try:
            line = _encoder.encode(entry)
            _decode_known(line)
        except msgspec.ValidationError as error:
            raise InvalidEntry(f"{error} of a {entry.type} entry") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidEntry(f"this {entry.type} entry cannot be written as JSON: {error}") from error
        return line + b"\n"

    def decode(self, line: bytes, seq: int) -> Entry | None:
        """Return the entry of a line; see `Dialect.decode`."""
        try:
            entry = _decode_known(line)
        except (msgspec.MsgspecError, RecursionError):
            return _decode_slowly(line, seq)
        return entry if entry.seq == seq else msgspec.structs.replace(entry, seq=seq)

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


def _decode_slowly(line: bytes, seq: int) -> Entry | None:
    """Decode a line that this dialect did not write itself."""
    try:
        fields = _decode_object(line)
    except (msgspec.MsgspecError, RecursionError):
        return None
    try:
        straightened = _straightened(fields)
        entry = msgspec.convert(straightened, KnownEntry)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        return opaque(fields, line, seq, str(error))
    return msgspec.structs.replace(entry, seq=seq)


def opaque(fields: Mapping[str, JSON], line: bytes, seq: int, reason: str) -> OpaqueEntry:
    """Keep a line whose type or shape is unknown as a valid parent that contributes nothing."""
    entry_id, parent_id = fields.get("id"), fields.get("parent_id", fields.get("parentId"))
    return OpaqueEntry(
        type=str(fields.get("type", "unknown")),
        id=entry_id if isinstance(entry_id, str) else None,
        parent_id=parent_id if isinstance(parent_id, str) else None,
        timestamp=time_of(fields.get("timestamp")),
        raw=Raw(line),
        seq=seq,
        aside=fields.get("aside") is True,
        reason=reason,
    )


def time_of(value: JSON) -> datetime:
    """Read a timestamp as it stands in a line, or the epoch where it is none."""
    try:
        return msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return EPOCH


def _straightened(fields: Fields) -> Fields:
    """Bring an entry into the nested shape, without the keys that the format does not know.

    Raises:
        ValueError: The type is unknown, or the line has two payloads, or none.
    """
    named = fields.get("type")
    name = _ALIASES.get(named, named) if isinstance(named, str) else None
    if name not in ENTRY_TYPES:
        raise ValueError("unknown type")
    payloads = [key for key in fields if key in ENTRY_TYPES and isinstance(fields[key], dict)]
    if payloads and payloads != [name]:
        raise ValueError(f"a {name} entry must have its payload under {name!r} alone, not {payloads}")
    envelope: Fields = {key: fields[key] for key in _ENVELOPE if key in fields}
    payload = fields[name] if payloads else {key: value for key, value in fields.items() if key not in _ENVELOPE}
    if not isinstance(payload, dict):
        raise ValueError(f"the payload of a {name} entry must be an object")
    return {**envelope, "type": name, "parent_id": fields.get("parent_id"), name: _straight_payload(payload)}


def _straight_payload(payload: Fields) -> Fields:
    content = payload.get("content")
    if isinstance(content, str):
        return {**payload, "content": [_text_part(content)]}
    if isinstance(content, list):
        return {**payload, "content": [_straight_part(part) for part in content]}
    return payload


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
    kind = part.get("type")
    if not isinstance(kind, str):
        return part
    members = [key for key in ("text", "image", "tool_use", "tool_result", "thinking") if part.get(key) is not None]
    if len(members) > 1:
        raise ValueError(f"a content part must have one member set, not {members}")
    member = part.get(kind)
    if isinstance(member, str):
        return {"type": kind, kind: {"content": member}}
    if members:
        return {"type": kind, kind: member}
    return {"type": kind, kind: {key: value for key, value in part.items() if key != "type"}}
