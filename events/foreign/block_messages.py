"""Messages in the shape of Anthropic's interface, as other programs keep them: more loosely than the interface takes them.

    {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "t1", ...}]}

A part that a message here cannot hold (a document, a call of a tool that the server runs) does not cost the others: it is
kept in the message's metadata under `left_out`, and written from there.
"""

from __future__ import annotations

from ..content import JSON, Content, ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart
from ..entries import Message
from ..errors import InvalidEntry
from ..providers.anthropic import from_anthropic
from .values import Object, as_list, as_text, kept_json, shallow

LEFT_OUT = "left_out"
"""The member of a message's metadata that keeps what it cannot hold."""

_ROLES = frozenset({"user", "assistant", "system"})


def read_message(given: Object) -> Message | None:
    """Read a message; None where it has no role."""
    role = as_text(given.get("role"))
    if role not in _ROLES:
        return None
    said: Object = {"role": role, "content": given.get("content") or ""}
    try:
        return from_anthropic(said)
    except InvalidEntry:
        return _patiently(role, as_list(given.get("content")))


def _patiently(role: str, blocks: list[JSON]) -> Message:
    parts: list[Content] = []
    left_out: list[JSON] = []
    for block in blocks:
        try:
            parts += from_anthropic({"role": role, "content": [shallow(block, 2)]}).content
        except InvalidEntry:
            left_out.append(block)
    only_results = bool(parts) and all(isinstance(part, ToolResultPart) for part in parts)
    shown_role = "tool" if role == "user" and only_results else role
    return Message(shown_role, tuple(parts), raw_metadata=kept_json({LEFT_OUT: left_out}, 3) if left_out else None)


def write_message(message: Message) -> Object:
    """Write a message: what a model was told, part by part, tools' results as a user's."""
    content: list[JSON] = [_block(part) for part in message.content]
    content += as_list(message.metadata.get(LEFT_OUT))
    return {"role": "user" if message.role == "tool" else message.role, "content": content}


def _block(part: Content) -> Object:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text.content}
        case ImagePart():
            return _image(part)
        case ToolUsePart():
            call = part.tool_use
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
        case ToolResultPart():
            return _result(part)
        case ThinkingPart():
            return _thought(part)


def _image(part: ImagePart) -> Object:
    source = part.image.source
    if source.type == "url":
        return {"type": "image", "source": {"type": "url", "url": source.data}}
    return {"type": "image", "source": {"type": "base64", "media_type": source.media_type, "data": source.data}}


def _result(part: ToolResultPart) -> Object:
    result = part.tool_result
    content: JSON = result.content if isinstance(result.content, str) else [_block(each) for each in result.content]
    block: Object = {"type": "tool_result", "tool_use_id": result.tool_use_id, "content": content}
    if result.is_error:
        block["is_error"] = True
    return block


def _thought(part: ThinkingPart) -> Object:
    thought = part.thinking
    if thought.redacted:
        return {"type": "redacted_thinking", "data": thought.signature or ""}
    block: Object = {"type": "thinking", "thinking": thought.content}
    if thought.signature is not None:
        block["signature"] = thought.signature
    return block
