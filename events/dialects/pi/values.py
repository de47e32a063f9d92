"""The small values of pi's and omp's lines: times, usage, leniently read raw JSON, and the mark `treering`.

pi validates nothing that it loads, so a reader that is to show what pi shows must use every value as far as it makes
sense. Values that do not make sense remain only in the line; nothing here decides what an entry is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder

from ...entries import EPOCH, Batch, KnownEntry, Payload, Usage, entry_class
from ...json_values import MaybeRaw, json_value
from ..base import as_object, attempt, encode_json, in_utc

T = TypeVar("T")

ABSENT = Raw(b"")
"""The value of a key that the line does not have; compare by identity."""

READ_ERRORS = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
"""The errors that reading a line of arbitrary content can raise."""

as_flag: Callable[[bytes | Raw], bool] = Decoder(bool).decode
as_number: Callable[[bytes | Raw], float] = Decoder(float).decode
as_list: Callable[[bytes | Raw], list[Raw]] = Decoder(list[Raw]).decode
_as_datetime: Callable[[bytes | Raw], datetime] = Decoder(datetime).decode


_MILLISECOND = timedelta(milliseconds=1)


def is_null(raw: Raw) -> bool:
    """Return whether a value is absent or null."""
    return raw is ABSENT or bytes(raw) == b"null"


def none_if_absent(raw: Raw) -> Raw | None:
    """Return a value as entries hold it: None if the line does not have the key."""
    return None if raw is ABSENT else raw


# -- times


def moment(raw: Raw | None) -> datetime:
    """Read a time, ISO text or milliseconds, as UTC; anything else is the epoch."""
    time = attempt(_as_datetime, raw)
    if time is not None:
        return in_utc(time)
    try:
        return EPOCH + timedelta(milliseconds=attempt(as_number, raw) or 0)
    except OverflowError:
        return EPOCH


def iso(time: datetime) -> str:
    """Format a time as JavaScript does: with milliseconds and a Z."""
    return in_utc(time).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def milliseconds(time: datetime) -> int:
    """Return the milliseconds from the epoch to a time."""
    return (time - EPOCH) // _MILLISECOND


# -- usage


class _Cost(Struct, forbid_unknown_fields=True, rename="camel"):
    input: float
    output: float
    cache_read: float
    cache_write: float
    total: float


class _Usage(Struct, forbid_unknown_fields=True, rename="camel"):
    input: int
    output: int
    cache_read: int
    cache_write: int
    total_tokens: int
    cost: _Cost


_as_usage = Decoder(_Usage).decode


def read_usage(raw: Raw) -> tuple[Usage | None, bool]:
    """Read pi's usage; the second value tells whether `write_usage` would reproduce it.

    The total cost does not suffice to reproduce its breakdown.
    """
    try:
        read = _as_usage(raw)
    except msgspec.MsgspecError:
        return _read_odd_usage(raw)
    cost = read.cost
    usage = Usage(read.input, read.output, read.cache_read, read.cache_write, read.total_tokens, cost.total)
    return usage, not (cost.input or cost.output or cost.cache_read or cost.cache_write)


def _read_odd_usage(raw: Raw) -> tuple[Usage | None, bool]:
    fields = attempt(as_object, raw)
    if fields is None:
        return None, is_null(raw)
    sent, received, read, written = (
        int(attempt(as_number, fields.get(key)) or 0) for key in ("input", "output", "cacheRead", "cacheWrite")
    )
    total = attempt(as_number, fields.get("totalTokens"))
    cost = attempt(as_object, fields.get("cost"))
    total_cost = attempt(as_number, cost.get("total") if cost else fields.get("cost"))
    tokens = sent + received + read + written if total is None else int(total)
    return Usage(sent, received, read, written, tokens, total_cost or 0.0), False


def write_usage(usage: Usage) -> dict[str, object]:
    """Return usage in pi's form; the breakdown of the cost is unknown and left at 0."""
    cost = int(usage.cost) if float(usage.cost).is_integer() else usage.cost
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cacheRead": usage.cache_read_tokens,
        "cacheWrite": usage.cache_write_tokens,
        "totalTokens": usage.total_tokens,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": cost},
    }


def written_usage(usage: Usage | None) -> dict[str, object] | None:
    """Return usage in pi's form, or None if there is none."""
    return None if usage is None else write_usage(usage)


# -- the value of the key "treering"


class Mark(Struct, frozen=True, omit_defaults=True):
    """The fields that treering adds to a line in another program's format, under the one key `treering`.

    `fields` holds fields of the entry's payload, in native form, that the line cannot represent or represents
    differently: they override the line's own. null stands for a field that is not set.
    """

    command_id: str | None = None
    batch: Batch | None = None
    fields: MaybeRaw = None


as_mark: Callable[[bytes | Raw], Mark] = Decoder(Mark).decode


def with_fields(payload: Payload, raw: Raw) -> Payload:
    """Override the fields of a payload by those of a mark; if the result is invalid, return the payload unchanged."""
    kind = type(payload)
    try:
        fields = as_object(raw)
        merged = {**as_object(encode_json(payload)), **fields}
        for _, key, optional in _fields(kind):
            if optional and key in fields and is_null(fields[key]):
                del merged[key]
        changed: Payload = msgspec.json.decode(encode_json(merged), type=kind)
    except READ_ERRORS:
        return payload
    return changed


def unrepresented(payload: Payload, read_back: Payload) -> dict[str, object]:
    """Return the fields of a payload, in native form, that differ in the payload that was read back."""
    return {
        key: mine
        for name, key, _ in _fields(type(payload))
        if (mine := getattr(payload, name)) != (theirs := getattr(read_back, name))
        and not (name.startswith("raw_") and _same_json(mine, theirs))
    }


@cache
def _fields(kind: type[Payload]) -> list[tuple[str, str, bool]]:
    """Return the name of each field, its key, and whether it is optional, so that null means it is not set."""
    return [(field.name, field.encode_name, field.default is None) for field in msgspec.structs.fields(kind)]


def _same_json(mine: Raw | None, theirs: Raw | None) -> bool:
    """Return whether free-form JSON is equal by value; an empty object equals an absent one."""
    values = [{} if raw is None else json_value(raw) for raw in (mine, theirs)]
    return values[0] == values[1]


def entry_of(
    payload: Payload, seq: int, entry_id: str, parent_id: str | None, time: datetime, mark: Mark | None
) -> KnownEntry:
    """Make an entry from a line's payload and the fields that its mark adds."""
    if mark is not None and mark.fields is not None:
        payload = with_fields(payload, mark.fields)
    kind = entry_class(payload)
    fields: dict[str, Any] = {
        "id": entry_id,
        "parent_id": parent_id,
        "timestamp": time,
        "seq": seq,
        "command_id": mark.command_id if mark else None,
        "batch": mark.batch if mark else None,
        kind.type: payload,
    }
    return kind(**fields)


def name_on_one_line(name: str) -> str:
    """Return a session's name in pi's form: line breaks become a space, the ends are trimmed."""
    return re.sub(r"[\r\n]+", " ", name).strip()
