"""The check that an entry's line holds the values that the program gave.

An encoder writes bytes as base64, a NaN as null, and an identifier or a member of an enumeration as text; a decoder
accepts all of these as what the field expects. The type of the entry, and the declared types of its payload and time,
are checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Raw, Struct
from msgspec.structs import FieldInfo, fields

from ..entries import KnownEntry
from ..errors import InvalidEntry
from ..json_values import raw_json


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
        for field in fields(read):
            theirs = cast("object", getattr(read, field.name))
            _check(_field(given, field, theirs), theirs, f"{place}.{field.encode_name}")
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


def _field(given: object, field: FieldInfo, default: object) -> object:
    """Return what was given for a field, the default where nothing was."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, object]", given).get(field.encode_name, default)
    return getattr(given, field.name, default)


def _wrong(wanted: str, given: object, place: str) -> InvalidEntry:
    kind = type(given).__name__
    told = " (decode it first)" if isinstance(given, (bytes, bytearray, memoryview)) else ""
    return InvalidEntry(f"Expected `{wanted}`, got `{kind}`{told} - at `{place}`")
