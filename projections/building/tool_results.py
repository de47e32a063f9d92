"""Which tool a result comes from, and how a result is put in the place of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from ...events.content import ToolResult, ToolResultPart, ToolUsePart
from ..context import ContextMessage


def tool_names(messages: Sequence[ContextMessage]) -> Mapping[str, str]:
    """Return the names of the tools by the ids of their calls; of two calls with one id, the later's."""
    return {
        part.tool_use.id: part.tool_use.name
        for each in messages
        for part in each.content
        if isinstance(part, ToolUsePart)
    }


def with_results(
    each: ContextMessage, names: Mapping[str, str], change: Callable[[ToolResult, str], ToolResult]
) -> ContextMessage:
    """Return a message with its results changed; the message itself where none was.

    Args:
        each: The message.
        names: The names of the tools by the ids of their calls.
        change: Makes a new result of a result and the name of its tool; the same one where it stays.
    """
    changed = False
    parts = list(each.content)
    for place, part in enumerate(parts):
        if isinstance(part, ToolResultPart):
            result = part.tool_result
            name = each.message.tool_name or names.get(result.tool_use_id, "")
            made = change(result, name)
            if made is not result:
                parts[place] = ToolResultPart(made)
                changed = True
    return ContextMessage(each.entry_id, replace(each.message, content=tuple(parts))) if changed else each
