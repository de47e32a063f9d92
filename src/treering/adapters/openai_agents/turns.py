"""The turns of a branch and what they used, in the words of the SDK's AdvancedSQLiteSession."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...events.json_values import JSON, json_object, raw_object
from ...formats.openai_agents.records import usage_count
from .branches import Branches, Node

if TYPE_CHECKING:
    from agents.usage import Usage as RunUsage

_CALLS = frozenset(
    {
        *("tool_call", "function_call", "computer_call", "file_search_call", "web_search_call", "mcp_call"),
        *("code_interpreter_call", "tool_search_call", "custom_tool_call", "mcp_approval_request", "shell_call"),
        "apply_patch_call",
    }
)
_COUNTS = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS = ("input_tokens_details", "output_tokens_details")
PREVIEW_CHARS_MAX = 100
"""The length of the beginning of what a user said."""


def by_turns(branches: Branches, branch: str) -> dict[int, list[dict[str, str | None]]]:
    """Return the type and the tool of each item of a branch, by turn."""
    turns: dict[int, list[dict[str, str | None]]] = {}
    for turn, node in branches.turns(branch):
        for kind, tool in node.items:
            turns.setdefault(turn, []).append({"type": kind, "tool_name": tool})
    return turns


def tool_usage(turns: Mapping[int, Sequence[Mapping[str, str | None]]]) -> list[tuple[str, int, int]]:
    """Return which tool was called how often in which turn."""
    counts = Counter[tuple[int, str]]()
    for turn, items in turns.items():
        kinds = {item["type"] for item in items}
        for item in items:
            kind, tool = item["type"], item["tool_name"]
            is_call = kind in _CALLS or (kind == "tool_search_output" and "tool_search_call" not in kinds)
            if is_call and tool is not None:
                counts[turn, tool] += 1
    return [(tool, count, turn) for (turn, tool), count in sorted(counts.items())]


def turn_row(turn: int, node: Node, content: JSON, chars_max: int | None) -> dict[str, Any]:
    """Return what a turn of the user is listed as, with so much of what was said."""
    words = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    if chars_max is not None and len(words) > chars_max:
        words = words[:chars_max] + "..."
    return {"turn": turn, "content": words, "full_content": content, "timestamp": when(node.at), "can_branch": True}


def texts_of(content: JSON) -> list[str]:
    """Return the texts of an item's content."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    found = [part.get("text") for part in parts if isinstance(part, dict)]
    return [words for words in found if isinstance(words, str)]


def when(at: datetime) -> str:
    """Return a time as SQLite writes it."""
    return at.strftime("%Y-%m-%d %H:%M:%S")


# -- what a run used


def usage_data(used: RunUsage) -> dict[str, JSON]:
    """Return the SDK's usage as JSON."""
    data: dict[str, JSON] = {name: getattr(used, name) or 0 for name in _COUNTS}
    return data | {name: _details(getattr(used, name, None)) for name in _DETAILS}


def sum_of(runs: Sequence[Mapping[str, JSON]]) -> dict[str, int]:
    """Return what several turns used together, and how many they are."""
    return {name: sum(usage_count(usage, name) for usage in runs) for name in _COUNTS} | {"total_turns": len(runs)}


def _details(value: Any) -> JSON:  # noqa: ANN401  # a model of the SDK's, which has grown from release to release
    return json_object(raw_object(value.model_dump(exclude_none=True), "the details")) if value is not None else None
