"""Messages in the format of chat completions, as other programs store them: less strict than what the API accepts.

    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_1", "function": {"name": "read_file", "arguments": {"path": "main.go"}}}]}
    {"role": "tool", "tool_call_id": "call_1", "name": "read_file", "content": "package main"}

Arguments may be an object or a string that holds one, and a call's name may be in its `function` or beside it. A call
that Google signed has its signature in `extra_content`, as in Google's own form of chat completions. Images may be in
`content_parts`, which repeats the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events.content import Content, ImagePart, TextPart, ToolUse, ToolUsePart, text, thinking, tool_result
from ..events.entries import Message
from ..events.json_values import JSON
from ..events.providers.common import image_at
from .json_lines import Notes
from .values import Object, as_arguments, as_items, as_list, as_object, as_text, as_words

_CALL_FIELDS = frozenset({"arguments", "extra_content", "function", "id", "index", "name", "type"})
_FUNCTION_FIELDS = frozenset({"arguments", "name", "thought_signature"})
_PART_FIELDS = frozenset({"cache_control", "image_url", "text", "type"})
_ATTACHMENT_FIELDS = frozenset({"content_type", "filename", "ref", "type", "url"})
_UNREAD_OF_RESULT = ("reasoning_content", "tool_calls")
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
        for name in _UNREAD_OF_RESULT if notes is not None else ():
            if source.get(name) and notes is not None:
                notes.leave_out(f"result field {name}", source[name])
        body = (
            content_parts if any(isinstance(part, ImagePart) for part in content_parts) else _joined_text(content_parts)
        )
        return Message("tool", (tool_result(call_id, body),), tool_name=as_text(source.get("name")) or None)
    if role is None:
        return None
    calls: list[ToolUsePart] = []
    for each in as_items(source.get("tool_calls")):
        call = read_call(as_object(each))
        if call is not None:
            calls.append(call)
            if notes is not None:
                check_call(as_object(each), notes)
        elif notes is not None:
            notes.leave_out("call without a name", each)
    parts: list[Content] = []
    if reasoning := as_words(source.get("reasoning_content")):
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


def check_call(source: Object, notes: Notes) -> None:
    """Note the fields of a tool call that carry text and that are not read."""
    notes.check_fields("call", source, _CALL_FIELDS)
    notes.check_fields("call", as_object(source.get("function")), _FUNCTION_FIELDS)


def _content_parts(source: Object, notes: Notes | None) -> list[TextPart | ImagePart]:
    content_parts: list[TextPart | ImagePart] = []
    content = source.get("content")
    for each in content if isinstance(content, list) else [] if content is None else [content]:
        content_parts += _noted_parts(each, notes)
    content_parts += _repeated_parts(source, content_parts, notes)
    addresses = as_list(source.get("media"))
    for address in addresses:
        if isinstance(address, str) and address:
            content_parts.append(image_at(address))
        elif address and notes is not None:
            notes.leave_out("message field media", address)
    for attachment in as_items(source.get("attachments")):
        if isinstance(attachment, dict):
            content_parts += _attached(attachment, addresses)
        if notes is not None:
            notes.check_items("message field attachments", [attachment])
            notes.check_fields("attachment", as_object(attachment), _ATTACHMENT_FIELDS)
    return content_parts


def _noted_parts(value: JSON, notes: Notes | None) -> list[TextPart | ImagePart]:
    """Read a part, and note what of it is not read."""
    found = _parts(value)
    if notes is not None and found:
        notes.check_fields("part", as_object(value), _PART_FIELDS)
        notes.check_strings("part", as_object(value), "text")
    elif notes is not None:
        notes.leave_out(f"part of kind {as_text(as_object(value).get('type')) or 'unknown'}", value)
    return found


def _repeated_parts(
    source: Object, content: list[TextPart | ImagePart], notes: Notes | None
) -> Iterator[TextPart | ImagePart]:
    """Yield what the fields that repeat the content hold beyond it: texts, and images unless they are in `media`."""
    said = _joined_text(content)
    for name in ("system_parts", "content_parts"):
        for each in as_items(source.get(name)):
            for part in _noted_parts(each, notes):
                if part.text.content not in said if isinstance(part, TextPart) else "media" not in source:
                    yield part


def _attached(attachment: Object, shown: list[JSON]) -> list[TextPart | ImagePart]:
    """Read a file sent along with a message: an image, or a text that names it; [] if `media` has its address."""
    address, reference = as_text(attachment.get("url")), as_text(attachment.get("ref"))
    media_type, name = as_text(attachment.get("content_type")), as_text(attachment.get("filename"))
    if any(each and each in shown for each in (address, reference)):
        return []
    if address and (media_type.startswith("image/") or attachment.get("type") == "image"):
        return [image_at(address, media_type or None)]
    return [text(f"[file: {name or address or reference or media_type or 'unknown'}]")]


def _parts(value: JSON) -> list[TextPart | ImagePart]:
    """Read a part of the content: a string, a text, an image, or a text with an image; [] if it is none of these."""
    fields = as_object(value)
    url, words = fields.get("image_url"), value if isinstance(value, str) else fields.get("text")
    address = as_text(as_object(url).get("url")) or as_text(url)
    found: list[TextPart | ImagePart] = [text(words)] if isinstance(words, str) else []
    return [*found, image_at(address)] if address else found


def _joined_text(content_parts: list[TextPart | ImagePart]) -> str:
    return "\n".join(part.text.content for part in content_parts if isinstance(part, TextPart))
