"""Messages in the format of Anthropic's API, as other programs store them: less strict than what the API accepts.

    {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "t1", ...}]}

A part that a treering message cannot hold (a document, a call of a server-side tool) does not invalidate the others: it
is kept in the message's metadata under `left_out`, and written back from there.
"""

from __future__ import annotations

from ...events.content import JSON, Content, ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart
from ...events.entries import Message
from ...events.errors import InvalidEntry
from ...events.providers.anthropic import from_anthropic
from ..values import Object, as_list, as_text, kept_json, shallow

TURN = "turn"
COMPACTION = "compaction"

LEFT_OUT = "left_out"
"""The metadata field that holds the parts that a message cannot hold."""

_ROLES = frozenset({"user", "assistant", "system"})


def read_message(source: Object) -> Message | None:
    """Read a message; return None if it has no known role."""
    role = as_text(source.get("role"))
    if role not in _ROLES:
        return None
    message: Object = {"role": role, "content": source.get("content") or ""}
    try:
        return from_anthropic(message)
    except InvalidEntry:
        content = source.get("content")
        return _read_blocks(role, content if isinstance(content, list) else [content])


def _read_blocks(role: str, blocks: list[JSON]) -> Message:
    """Read a message block by block, and keep the blocks that cannot be read in its metadata."""
    parts: list[Content] = []
    left_out: list[JSON] = []
    for block in blocks:
        try:
            parts += from_anthropic({"role": role, "content": [shallow(block, 2)]}).content
        except InvalidEntry:
            left_out.append(block)
    only_results = bool(parts) and all(isinstance(part, ToolResultPart) for part in parts)
    message_role = "tool" if role == "user" and only_results else role
    return Message(message_role, tuple(parts), raw_metadata=kept_json({LEFT_OUT: left_out}, 3) if left_out else None)


def write_message(message: Message) -> Object:
    """Encode a message as the model receives it, part by part; tool results get the role `user`."""
    content: list[JSON] = [_block(part) for part in message.content]
    content += as_list(message.metadata.get(LEFT_OUT))
    return {"role": "user" if message.role == "tool" else message.role, "content": content}


def _block(part: Content) -> Object:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text.content}
        case ImagePart():
            return _image_block(part)
        case ToolUsePart():
            call = part.tool_use
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
        case ToolResultPart():
            return _result_block(part)
        case ThinkingPart():
            return _thinking_block(part)


def _image_block(part: ImagePart) -> Object:
    source = part.image.source
    if source.type == "url":
        return {"type": "image", "source": {"type": "url", "url": source.data}}
    return {"type": "image", "source": {"type": "base64", "media_type": source.media_type, "data": source.data}}


def _result_block(part: ToolResultPart) -> Object:
    result = part.tool_result
    content: JSON = result.content if isinstance(result.content, str) else [_block(each) for each in result.content]
    block: Object = {"type": "tool_result", "tool_use_id": result.tool_use_id, "content": content}
    if result.is_error:
        block["is_error"] = True
    return block


def _thinking_block(part: ThinkingPart) -> Object:
    thinking = part.thinking
    if thinking.redacted:
        return {"type": "redacted_thinking", "data": thinking.signature or ""}
    block: Object = {"type": "thinking", "thinking": thinking.content}
    if thinking.signature is not None:
        block["signature"] = thinking.signature
    return block
