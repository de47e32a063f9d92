"""Messages in the format of chat completions, as other programs store them: less strict than what the API accepts.

    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_1", "function": {"name": "read_file", "arguments": {"path": "main.go"}}}]}
    {"role": "tool", "tool_call_id": "call_1", "name": "read_file", "content": "package main"}

Arguments may be an object or a string that holds one, and a call's name may be in its `function` or beside it. A call
that Google signed has its signature in `extra_content`, as in Google's own form of chat completions. Images may be in
`content_parts`, which repeats the text.
"""

from __future__ import annotations

from ..events.content import JSON, Content, ImagePart, TextPart, ToolUse, ToolUsePart, text, thinking, tool_result
from ..events.entries import Message
from ..events.providers.reading import image_at
from .json_lines import Notes
from .values import Object, as_arguments, as_list, as_object, as_objects, as_text

_CALL_FIELDS = frozenset({"arguments", "extra_content", "function", "id", "index", "name", "type"})
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system", "tool": "tool"}


def read_message(source: Object, notes: Notes | None = None) -> Message | None:
    """Read a message; return None if it has no known role, or is a tool result without a call id.

    Args:
        source: The message as stored.
        notes: Gets the parts and calls that are left out.
    """
    role = _ROLES.get(as_text(source.get("role")))
    content_parts = _content_parts(source, notes)
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
    calls: list[ToolUsePart] = []
    for each in as_list(source.get("tool_calls")):
        call = read_call(as_object(each))
        if call is not None:
            calls.append(call)
            if notes is not None:
                notes.check_fields("call", as_object(each), _CALL_FIELDS)
        elif notes is not None:
            notes.leave_out("call without a name", each)
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


def _content_parts(source: Object, notes: Notes | None) -> list[TextPart | ImagePart]:
    content = source.get("content")
    content_parts: list[TextPart | ImagePart] = []
    for each in content if isinstance(content, list) else [] if content is None else [content]:
        part = _part(each)
        if part is not None:
            content_parts.append(part)
        elif notes is not None:
            notes.leave_out(f"part of kind {as_text(as_object(each).get('type')) or 'unknown'}", each)
    more_parts = as_objects(source.get("content_parts")) if "media" not in source else ()
    addresses = (as_text(as_object(each.get("image_url")).get("url")) for each in more_parts)
    content_parts += [image_at(address) for address in addresses if address]
    for address in as_list(source.get("media")):
        if isinstance(address, str) and address:
            content_parts.append(image_at(address))
        elif address and notes is not None:
            notes.leave_out("message field media", address)
    return content_parts


def _part(value: JSON) -> TextPart | ImagePart | None:
    """Read a part of the content: a string, a text or an image; return None if it is none of these."""
    fields = as_object(value)
    url, words = fields.get("image_url"), value if isinstance(value, str) else fields.get("text")
    address = as_text(as_object(url).get("url")) or as_text(url)
    if address:
        return image_at(address)
    return text(words) if isinstance(words, str) else None


def _joined_text(content_parts: list[TextPart | ImagePart]) -> str:
    return "\n".join(part.text.content for part in content_parts if isinstance(part, TextPart))
