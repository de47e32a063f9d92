"""Messages in the format of chat completions, as other programs store them: less strict than what the API accepts.

    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_1", "function": {"name": "read_file", "arguments": {"path": "main.go"}}}]}
    {"role": "tool", "tool_call_id": "call_1", "name": "read_file", "content": "package main"}

Arguments may be an object or a string that holds one, and a call's name may be in its `function` or beside it. A call
that Google signed has its signature in `extra_content`, as in Google's own form of chat completions. Images may be in
`content_parts`, which repeats the text.
"""

from __future__ import annotations

from ..content import Content, ImagePart, TextPart, ToolUse, ToolUsePart, text, thinking, tool_result
from ..entries import Message
from ..providers.reading import image_at
from .values import Object, as_arguments, as_list, as_object, as_objects, as_text

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system", "tool": "tool"}


def read_message(source: Object) -> Message | None:
    """Read a message; return None if it has no known role, or is a tool result without a call id."""
    role = _ROLES.get(as_text(source.get("role")))
    content_parts = _content_parts(source)
    if role == "tool":
        call_id = as_text(source.get("tool_call_id"))
        if not call_id:
            return None
        body = (
            content_parts if any(isinstance(part, ImagePart) for part in content_parts) else _joined_text(content_parts)
        )
        return Message("tool", (tool_result(call_id, body),), tool_name=as_text(source.get("name")) or None)
    if role is None:
        return None
    calls = [call for each in as_objects(source.get("tool_calls")) if (call := read_call(each)) is not None]
    parts: list[Content] = []
    if reasoning := as_text(source.get("reasoning_content")):
        parts.append(thinking(reasoning))
    if not (calls and content_parts == [text("")]):
        parts += content_parts
    parts += calls
    return Message(role, tuple(parts))


def read_call(source: Object) -> ToolUsePart | None:
    """Read a tool call; return None if it does not name a tool."""
    function = as_object(source.get("function"))
    name = as_text(function.get("name")) or as_text(source.get("name"))
    if not name:
        return None
    arguments = function.get("arguments", source.get("arguments"))
    google = as_object(as_object(source.get("extra_content")).get("google"))
    signature = as_text(google.get("thought_signature")) or as_text(function.get("thought_signature"))
    return ToolUsePart(ToolUse(as_text(source.get("id")), name, as_arguments(arguments), signature or None))


def _content_parts(source: Object) -> list[TextPart | ImagePart]:
    content = source.get("content")
    content_parts: list[TextPart | ImagePart] = [text(content)] if isinstance(content, str) else []
    for each in as_objects(content):
        url = each.get("image_url")
        address = as_text(as_object(url).get("url")) or as_text(url)
        content_parts.append(image_at(address) if address else text(as_text(each.get("text"))))
    more_parts = as_objects(source.get("content_parts")) if "media" not in source else ()
    addresses = (as_text(as_object(each.get("image_url")).get("url")) for each in more_parts)
    content_parts += [image_at(address) for address in addresses if address]
    content_parts += [
        image_at(address) for address in as_list(source.get("media")) if isinstance(address, str) and address
    ]
    return content_parts


def _joined_text(content_parts: list[TextPart | ImagePart]) -> str:
    return "\n".join(part.text.content for part in content_parts if isinstance(part, TextPart))
