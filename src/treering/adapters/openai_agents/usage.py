"""The usage of a run: the SDK's fields, and treering's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...events.entries import Usage
from ...events.json_values import JSON, json_object, raw_object

if TYPE_CHECKING:
    from agents.usage import Usage as RunUsage

_COUNTS = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS = ("input_tokens_details", "output_tokens_details")


def usage_data(used: RunUsage) -> dict[str, JSON]:
    """Return the SDK's usage as JSON."""
    data: dict[str, JSON] = {name: getattr(used, name) or 0 for name in _COUNTS}
    return data | {name: _details(getattr(used, name, None)) for name in _DETAILS}


def sum_of(runs: Sequence[Mapping[str, JSON]]) -> dict[str, int]:
    """Return what several turns used together, and how many they are."""
    return {name: sum(_count(usage, name) for usage in runs) for name in _COUNTS} | {"total_turns": len(runs)}


def _details(value: Any) -> JSON:  # noqa: ANN401  # a model of the SDK's, which has grown from release to release
    return json_object(raw_object(value.model_dump(exclude_none=True), "the details")) if value is not None else None


def _count(usage: Mapping[str, JSON], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0


def usage_of(data: Mapping[str, JSON]) -> Usage:
    """Return usage in treering's fields, which tell cached tokens from others."""
    details = data.get("input_tokens_details")
    known = details if isinstance(details, dict) else {}
    read, written = _count(known, "cached_tokens"), _count(known, "cache_write_tokens")
    return Usage(
        max(_count(data, "input_tokens") - read - written, 0),
        _count(data, "output_tokens"),
        read,
        written,
        _count(data, "total_tokens"),
    )
