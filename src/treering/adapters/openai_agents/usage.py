"""The usage of a run, in the SDK's fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...events.json_values import JSON, json_object, raw_object
from ...formats.openai_agents.records import usage_count

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
    return {name: sum(usage_count(usage, name) for usage in runs) for name in _COUNTS} | {"total_turns": len(runs)}


def _details(value: Any) -> JSON:  # noqa: ANN401  # a model of the SDK's, which has grown from release to release
    return json_object(raw_object(value.model_dump(exclude_none=True), "the details")) if value is not None else None
