"""Helpers to find the tool of a result, and to replace results in a message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from ...events.content import ToolResult, ToolResultPart, ToolUsePart
from ..context import ContextMessage


def tool_names(messages: Sequence[ContextMessage]) -> Mapping[str, str]:
    """Return the tool names by call id; for two calls with the same id, the later one's."""
    return {
        part.tool_use.id: part.tool_use.name
        for each in messages
        for part in each.content
        if isinstance(part, ToolUsePart)
    }


def with_results(
    each: ContextMessage, names: Mapping[str, str], change: Callable[[ToolResult, str], ToolResult]
) -> ContextMessage:
    """Return a message with its results changed, or the message itself if none changed.

    Args:
        each: The message.
        names: The tool names by call id.
        change: Takes a result and its tool name, and returns a new result, or the same one to keep it.
    """
    changed = False
    parts = list(each.content)
    for place, part in enumerate(parts):
        if isinstance(part, ToolResultPart):
            result = part.tool_result
            name = each.message.tool_name or names.get(result.tool_use_id, "")
            new_result = change(result, name)
            if new_result is not result:
                parts[place] = ToolResultPart(new_result)
                changed = True
    return ContextMessage(each.entry_id, replace(each.message, content=tuple(parts))) if changed else each
