"""Messages in the shape of chat completions, as other programs keep them: more loosely than the interface takes them.

    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_1", "function": {"name": "read_file", "arguments": {"path": "main.go"}}}]}
    {"role": "tool", "tool_call_id": "call_1", "name": "read_file", "content": "package main"}

Arguments may be an object or a text that holds one, and a call's name may stand beside its function or inside.
"""

from __future__ import annotations

from ..content import Content, ImagePart, TextPart, ToolUse, ToolUsePart, text, thinking, tool_result
from ..entries import Message
from ..providers.reading import image_at
from .values import Object, as_arguments, as_list, as_object, as_objects, as_text

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system", "tool": "tool"}


def read_message(given: Object) -> Message | None:
    """Read a message; None where it has no role, or is a tool's answer to nothing."""
    role = _ROLES.get(as_text(given.get("role")))
    shown = _shown(given)
    if role == "tool":
        call_id = as_text(given.get("tool_call_id"))
        if not call_id:
            return None
        body = shown if any(isinstance(part, ImagePart) for part in shown) else _joined(shown)
        return Message("tool", (tool_result(call_id, body),), tool_name=as_text(given.get("name")) or None)
    if role is None:
        return None
    calls = [call for each in as_objects(given.get("tool_calls")) if (call := read_call(each)) is not None]
    parts: list[Content] = []
    if thought := as_text(given.get("reasoning_content")):
        parts.append(thinking(thought))
    if not (calls and shown == [text("")]):
        parts += shown
    parts += calls
    return Message(role, tuple(parts))


def read_call(given: Object) -> ToolUsePart | None:
    """Read a tool call; None where it names no tool."""
    function = as_object(given.get("function"))
    name = as_text(function.get("name")) or as_text(given.get("name"))
    if not name:
        return None
    arguments = function.get("arguments", given.get("arguments"))
    return ToolUsePart(ToolUse(as_text(given.get("id")), name, as_arguments(arguments)))


def _shown(given: Object) -> list[TextPart | ImagePart]:
    content = given.get("content")
    shown: list[TextPart | ImagePart] = [text(content)] if isinstance(content, str) else []
    for each in as_objects(content):
        url = each.get("image_url")
        address = as_text(as_object(url).get("url")) or as_text(url)
        shown.append(image_at(address) if address else text(as_text(each.get("text"))))
    shown += [image_at(address) for address in as_list(given.get("media")) if isinstance(address, str) and address]
    return shown


def _joined(shown: list[TextPart | ImagePart]) -> str:
    return "\n".join(part.text.content for part in shown if isinstance(part, TextPart))
