"""Reading and writing of messages in the form of Anthropic's interface.

    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "The file first.", "signature": "EqQB..."},
        {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "main.go"}}]}
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "package main..."}]}

A user's message that holds only tool results is read as one of role tool. Reading leaves out hints such as
`cache_control`, and citations. Writing leaves out what the interface refuses (blank text, thinking without a signature,
and thinking at the end of a turn), and the signatures of text and calls. An assistant's image goes into the user's
message after it. The interface takes only text in a result that is an error: its images go beside it, and one without
text says so. An image of a type that the interface refuses becomes a text that names the type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from ..content import (
    Content,
    ImagePart,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolResult,
    ToolResultPart,
    ToolUsePart,
    image,
    text,
    tool_result,
    tool_use,
)
from ..entries import Message, Usage
from ..errors import InvalidEntry
from ..json_values import JSON
from .common import Block, image_at, images_of, in_turns, named_image, read, result_text, with_true_type

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


class AnthropicPrompt(NamedTuple):
    """The parameters of a request: the system's text blocks, and alternating messages of user and assistant."""

    system: list[Block]
    messages: list[Block]


class _Text(Struct, tag="text"):
    text: str


class _Base64(Struct, tag="base64"):
    media_type: str
    data: str


class _Url(Struct, tag="url"):
    url: str


class _Image(Struct, tag="image"):
    source: _Base64 | _Url


class _ToolUse(Struct, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


class _ToolResult(Struct, tag="tool_result"):
    tool_use_id: str
    content: str | list[_Text | _Image] | None = None
    is_error: bool | None = None


class _Thinking(Struct, tag="thinking"):
    thinking: str
    signature: str | None = None


class _Redacted(Struct, tag="redacted_thinking"):
    data: str


_Part: TypeAlias = _Text | _Image | _ToolUse | _ToolResult | _Thinking | _Redacted


class _Usage(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(Struct):
    role: str
    content: str | list[_Part]
    model: str | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


def from_anthropic(message: Mapping[str, object]) -> Message:
    """Read a message, or a complete answer with its model, stop reason and usage.

    A message of role system, with the content of a request's `system`, is read too.

    Raises:
        InvalidEntry: A block has no equivalent, such as a document; the error names its place as a JSON path.
    """
    decoded = read(message, _Message, "Anthropic")
    if decoded.role not in {"user", "assistant", "system"}:
        raise InvalidEntry(f"Invalid value {decoded.role!r} - at `$.role` of a message of Anthropic")
    parts = (text(decoded.content),) if isinstance(decoded.content, str) else tuple(map(_from_part, decoded.content))
    only_results = bool(parts) and all(isinstance(part, ToolResultPart) for part in parts)
    return Message(
        "tool" if decoded.role == "user" and only_results else decoded.role,
        parts,
        model=decoded.model,
        stop_reason=decoded.stop_reason,
        usage=None if decoded.usage is None else _from_usage(decoded.usage),
    )


def _from_part(part: _Part) -> Content:
    match part:
        case _Text() | _Image():
            return _from_text_or_image(part)
        case _ToolUse():
            return tool_use(part.id, part.name, part.input)
        case _ToolResult():
            content = part.content or ""
            body = content if isinstance(content, str) else [*map(_from_text_or_image, content)]
            return tool_result(part.tool_use_id, body, is_error=bool(part.is_error))
        case _Thinking():
            return ThinkingPart(Thinking(part.thinking, part.signature or None))
        case _Redacted():
            return ThinkingPart(Thinking("", part.data, redacted=True))


def _from_text_or_image(part: _Text | _Image) -> TextPart | ImagePart:
    if isinstance(part, _Text):
        return text(part.text)
    source = part.source
    return image(source.data, source.media_type) if isinstance(source, _Base64) else image_at(source.url)


def _from_usage(usage: _Usage) -> Usage:
    read_tokens, write_tokens = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=read_tokens,
        cache_write_tokens=write_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens + read_tokens + write_tokens,
    )


def to_anthropic(messages: Sequence[Message], *, provider: str = "anthropic") -> AnthropicPrompt:
    """Write messages; roles that no provider has are rendered as a user's text.

    System messages are collected from all places. Adjacent messages of one role are merged, since the interface wants
    the roles to alternate; in a user's message the tool results come first, since it wants them right after the calls.
    If the first message is an assistant's, a user's message that says so comes before it. Thinking in answers of other
    providers is left out, since the interface rejects what it did not sign.

    Args:
        messages: The messages.
        provider: The name that answers of this provider have.
    """
    system, turns = in_turns(messages, provider)
    return AnthropicPrompt([_to_text(part) for part in system], [_to_turn(role, content) for role, content in turns])


def _to_turn(role: str, content: Sequence[Content]) -> Block:
    blocks: list[JSON] = [_to_part(part) for part in content]
    for part in content:
        if isinstance(part, ToolResultPart) and part.tool_result.is_error:
            blocks += map(_to_image, images_of(part.tool_result))
    return {"role": role, "content": blocks}


def _to_part(part: Content) -> Block:
    match part:
        case TextPart() | ImagePart():
            return _to_text_or_image(part)
        case ToolUsePart():
            call = part.tool_use
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
        case ToolResultPart():
            return _to_result(part.tool_result)
        case ThinkingPart():
            thought = part.thinking
            if thought.redacted:
                return {"type": "redacted_thinking", "data": thought.signature}
            return {"type": "thinking", "thinking": thought.content, "signature": thought.signature}


def _to_text_or_image(part: TextPart | ImagePart) -> Block:
    return _to_text(part) if isinstance(part, TextPart) else _to_image(part)


def _to_text(part: TextPart) -> Block:
    return {"type": "text", "text": part.text.content}


def _to_image(part: ImagePart) -> Block:
    source = with_true_type(part).image.source
    if source.type == "url" and not source.data.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": source.data}}
    if source.type == "url" or source.media_type not in _IMAGES:
        return _to_text(named_image(part))
    return {"type": "image", "source": {"type": "base64", "media_type": source.media_type, "data": source.data}}


def _to_result(result: ToolResult) -> Block:
    content: JSON = result.text
    if not isinstance(result.content, str):
        content = [
            _to_text_or_image(part)
            for part in result.content
            if (part.text.content if isinstance(part, TextPart) else not result.is_error)
        ]
    block: Block = {"type": "tool_result", "tool_use_id": result.tool_use_id, "content": content}
    if result.is_error:  # the interface refuses one without text
        words = result_text(result).strip() or "(no output)"
        block |= {"content": content if result.text.strip() else words, "is_error": True}
    return block
