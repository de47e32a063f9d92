"""JSON of requests and replies: strict when it is read, the native form of an entry when it is written.

Whatever dialect a log has, an entry is written in the native form, so that a client needs to know one. What a client
sends is refused if it has a field, a repeated key, a number or half a character that would be dropped or changed.
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Raw, Struct, UnsetType, structs

from ...events.content import text
from ...events.entries import ENTRY_CLASSES, Entry, OpaqueEntry, Payload, checked_usage
from ...events.errors import InvalidEntry
from ...events.json_values import JSON, plain_str
from .fields import in_words
from .problems import Malformed

T = TypeVar("T")

_encoder = msgspec.json.Encoder(enc_hook=plain_str)
_BREAKS = {"\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029", "\u0085".encode(): b"\\u0085"}
"""Characters at which some clients split lines, which JSON allows unescaped."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string of a JSON text, or the rest of the text if it does not end."""
_NO_BRACKETS = bytes({*range(256)} - {*b"[{}]"})


def encode(value: object) -> bytes:
    """Return the JSON of a reply."""
    return _encoder.encode(value)


def entry_json(entry: Entry) -> bytes:
    """Return the JSON of an entry, on one line."""
    if isinstance(entry, OpaqueEntry):
        line = _encoder.encode(
            {
                "type": entry.type,
                "id": entry.id,
                "parent_id": entry.parent_id,
                "timestamp": entry.timestamp,
                "seq": entry.seq,
                "opaque": True,
                "line": entry.raw,
                "reason": entry.reason,
            }
        )
    else:
        line = _encoder.encode(entry)
    return one_line(line)


def one_line(line: bytes) -> bytes:
    """Return JSON without line breaks, and without characters that some clients take for line breaks."""
    if b"\n" in line or b"\r" in line:
        line = msgspec.json.format(line, indent=-1)
    if not line.isascii():
        for character, escape in _BREAKS.items():
            line = line.replace(character, escape)
    return line


def entry_raw(entry: Entry) -> Raw:
    """Return an entry as a part of a reply."""
    return Raw(entry_json(entry))


# -- reading


def parse(body: bytes, depth_max: int) -> JSON:
    """Return the value of a JSON text, of which nothing is dropped or changed.

    Raises:
        Malformed: It is no JSON, is nested too deeply, repeats a key, or holds half a character or no finite number.
    """
    if not body:
        raise Malformed("the request has no body: send JSON")
    _check_depth(body, depth_max)
    if (found := _parsed_as_written(body)) is not UNSET:
        return found
    try:
        value: JSON = _parser.decode(body.decode())
    except UnicodeDecodeError as error:
        raise Malformed(f"the body is not UTF-8 at byte {error.start}: send JSON in UTF-8") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, Malformed):
            raise
        raise Malformed(f"the body is not JSON: {error}") from error
    if b"\\u" in body:  # nothing else in UTF-8 can be half a character
        _check_values(value)
    return value


def _parsed_as_written(body: bytes) -> JSON | UnsetType:
    """Return the value of a JSON text, if it is the very one that is written as this text, but for white space.

    Nothing can have been dropped or changed then. `UNSET` says nothing about the text: this is only quick.
    """
    try:
        found: JSON = _quick_parser.decode(body)
        written = _encoder.encode(found)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UNSET
    return found if written == body or written == msgspec.json.format(body, indent=-1) else UNSET


def _check_depth(body: bytes, depth_max: int) -> None:
    """Refuse a body that is nested too deeply, before anything recurses into it."""
    if body.count(b"[") + body.count(b"{") <= depth_max:
        return
    depth = 0
    for byte in _STRING.sub(b"", body).translate(None, _NO_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        if depth > depth_max:
            raise Malformed(f"the body is nested more than {depth_max} deep")


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise Malformed(f"the key {twice!r} stands twice in one object: send it once")
    return value


def _no_number(word: str) -> JSON:
    raise Malformed(f"{word} is not JSON: send a finite number or null")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Malformed("a number of the body is too large for a double")
    return number


_quick_parser = msgspec.json.Decoder[JSON](Any)
_parser = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite)


def _check_values(value: JSON) -> None:
    """Refuse half of a surrogate pair."""
    waiting: list[JSON] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            _check_str(each)
        elif isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, dict):
            for key, inner in each.items():
                _check_str(key)
                waiting.append(inner)


def _check_str(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Malformed("a string of the body holds half of a surrogate pair: send whole characters") from error


def read(body: bytes, kind: type[T], depth_max: int) -> T:
    """Return the body of a request, of which every field is known.

    Raises:
        Malformed: See `parse`; or a field is unknown, missing or of a wrong type.
    """
    return convert(parse(body, depth_max), kind)


def convert(value: JSON, kind: type[T]) -> T:
    """Return a parsed value as a type; see `read`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if "got `float`" in str(error):
            with suppress(msgspec.ValidationError):
                return msgspec.convert(_with_whole_numbers(value), kind)
        raise Malformed(in_words(error)) from error


def _with_whole_numbers(value: JSON) -> JSON:
    """Return a value whose whole numbers are integers, as some JSON writers do not write them: 8.0 for 8."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_whole_numbers(each) for each in value]
    if isinstance(value, dict):
        return {key: _with_whole_numbers(each) for key, each in value.items()}
    return value


def read_query(fields: Mapping[str, Sequence[str]], kind: type[T]) -> T:
    """Return the query of a request, of which every name is known and stands once, but for lists called "name[]".

    Raises:
        Malformed: A name is unknown or stands twice, or a value has a wrong type.
    """
    value: dict[str, str | list[str]] = {}
    lists = _lists_of(kind)  # type: ignore[arg-type]  # a class is hashable
    for name, given in fields.items():
        if len(given) > 1 and not name.endswith("[]"):
            raise Malformed(f"{name!r} stands {len(given)} times in the query: give it once")
        for each in given:
            _check_str(each)
        if given[0].lower() == "null" and name in _without_text(kind):  # type: ignore[arg-type]  # a class is hashable
            raise Malformed(f"Expected a value, got `null` - at `$.{name}`: leave it out")
        if name in _times_of(kind) and "T" not in given[0].upper():  # type: ignore[arg-type]  # a class is hashable
            raise Malformed(f"Expected a time such as 2026-01-31T12:00:00Z - at `$.{name}`")
        value[name] = [part for each in given for part in each.split(",") if part] if name in lists else given[0]
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Malformed(in_words(error).replace("Object contains", "the query has")) from error


@cache
def _without_text(kind: type) -> frozenset[str]:
    """Return the names of the query that hold no free text, so that `null` is not a value of theirs."""
    found: set[str] = set()
    for name, hint in get_type_hints(kind).items():
        if not {str, tuple} & {get_origin(each) or each for each in (hint, *get_args(hint))}:
            found.add(name)
    return frozenset(found)


@cache
def _times_of(kind: type) -> frozenset[str]:
    """Return the names of the query that hold times, which msgspec would also take as numbers of seconds."""
    hints = get_type_hints(kind).items()
    return frozenset(name for name, hint in hints if datetime in (hint, *get_args(hint)))


@cache
def _lists_of(kind: type) -> frozenset[str]:
    """Return the names of the query that hold lists, which are written with commas."""
    found: set[str] = set()
    hints = get_type_hints(kind)
    for each in structs.fields(kind):
        hint = hints[each.name]
        if any(get_origin(part) is tuple for part in (hint, *get_args(hint))):
            found.add(each.encode_name)
    return frozenset(found)


# -- payloads


def read_payloads(values: Sequence[JSON]) -> list[Payload]:
    """Return the payloads of new entries: `{"type": "message", "message": {"role": "user", "content": "Hello"}}`.

    A content may be a string.

    Raises:
        InvalidEntry: An entry has an unknown type or field, lacks one, has one of a wrong type, or negative usage.
    """
    payloads: list[Payload] = []
    for index, value in enumerate(values):
        try:
            strict = _strict_decoder().decode(line := _encoder.encode(with_parts(value)))
            payload: Payload = getattr(_decoder().decode(line), strict.__struct_config__.tag)
            if (usage := getattr(payload, "usage", None)) is not None:
                checked_usage(usage)
            payloads.append(payload)
        except (msgspec.ValidationError, InvalidEntry) as error:
            at = f" (entry {index} of {len(values)})" if len(values) > 1 else ""
            raise InvalidEntry(f"{error}{at}") from error
    return payloads


def with_parts(value: JSON) -> JSON:
    """Return a new entry whose contents that are strings are parts."""
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    payload = value.get(kind) if isinstance(kind, str) else None
    if not isinstance(kind, str) or not isinstance(payload, dict):
        return value
    changed: dict[str, JSON] = {}
    for name in ("content", "replacement"):
        if isinstance(content := payload.get(name), str):
            changed[name] = [msgspec.to_builtins(text(content))] if content else []
    return {**value, kind: {**payload, **changed}} if changed else value


@cache
def new_entry_type() -> Any:  # noqa: ANN401  # a union that is made at run time
    """Return the strict type of a new entry, by which requests are checked and the schema is made."""
    return Union[tuple(_new_entry(payload, entry.type, strict=True) for payload, entry in _classes())]  # noqa: UP007


@cache
def _strict_decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(new_entry_type())


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(
        Union[tuple(_new_entry(payload, entry.type, strict=False) for payload, entry in _classes())]  # noqa: UP007
    )


def _classes() -> list[tuple[Any, Any]]:
    return list(ENTRY_CLASSES.items())


def _new_entry(payload: type, tag: str, *, strict: bool) -> type[Struct]:
    kind = strict_type(payload) if strict else payload
    return msgspec.defstruct(f"New{payload.__name__}", [(tag, kind)], tag=tag, forbid_unknown_fields=True)


@cache
def strict_type(hint: Any) -> Any:  # noqa: ANN401  # any annotation
    """Return a type like another one, whose structs refuse unknown fields, and which has no raw JSON."""
    if hint is Raw:
        return Any
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(strict_type(arguments[0]), *arguments[1:])]
    if origin in (Union, types.UnionType):
        return Union[tuple(strict_type(each) for each in arguments)]  # noqa: UP007
    if origin is not None and arguments:
        return origin[tuple(each if each is ... else strict_type(each) for each in arguments)]
    if isinstance(hint, type) and issubclass(hint, Struct):
        hints = get_type_hints(hint, include_extras=True)
        fields = [(each.encode_name, strict_type(hints[each.name]), _default_of(each)) for each in structs.fields(hint)]
        config = hint.__struct_config__
        return msgspec.defstruct(
            hint.__name__,
            [field if field[2] is not NODEFAULT else field[:2] for field in fields],
            kw_only=True,
            tag=config.tag,
            tag_field=config.tag_field,
            forbid_unknown_fields=True,
        )
    return cast("Any", hint)  # what it is narrowed to here says nothing


def _default_of(field: structs.FieldInfo) -> object:
    if isinstance(raw := field.default, Raw):
        return msgspec.field(default_factory=lambda: msgspec.json.decode(raw))
    return field.default if field.default_factory is NODEFAULT else msgspec.field(default_factory=field.default_factory)
