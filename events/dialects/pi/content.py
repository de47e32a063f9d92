"""Conversion between pi's content blocks and treering's content parts.

A block carries its payload beside its type::

    {"type":"text","text":"Hello"}
    {"type":"toolCall","id":"call_1","name":"read","arguments":{"path":"main.go"}}

Content may also be one string, or null. In pi, a tool's result is not a block but a message of its own, see
`messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder

from ...content import (
    Content,
    Image,
    ImagePart,
    ImageSource,
    Text,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolResult,
    ToolResultPart,
    ToolUse,
    ToolUsePart,
)
from ...errors import DialectCannot
from ..base import as_object, as_string, attempt, encode_json
from .values import as_list, is_null


class _Block(Struct, tag_field="type", forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """The base of the blocks: an unknown key makes decoding fail, and the lenient reader takes over."""


class TextBlock(_Block, tag="text"):
    """A piece of text."""

    text: str
    text_signature: str | None = None


class ThinkingBlock(_Block, tag="thinking"):
    """The model's reasoning."""

    thinking: str
    thinking_signature: str | None = None
    redacted: bool = False


class ImageBlock(_Block, tag="image"):
    """An image, inline as base64 text."""

    data: str
    mime_type: str


class ToolCallBlock(_Block, tag="toolCall"):
    """A call of a tool."""

    id: str
    name: str
    arguments: Raw
    thought_signature: str | None = None


Block: TypeAlias = TextBlock | ThinkingBlock | ImageBlock | ToolCallBlock
Blocks: TypeAlias = str | list[Block]

_as_block: Callable[[bytes | Raw], Block] = Decoder(Block).decode
_as_blocks: Callable[[bytes | Raw], Blocks] = Decoder(Blocks).decode
_KEYS = {
    str(block.__struct_config__.tag): {"type", *block.__struct_encode_fields__}
    for block in (TextBlock, ThinkingBlock, ImageBlock, ToolCallBlock)
}


def parts_of(blocks: str | Sequence[Block]) -> tuple[Content, ...]:
    """Convert decoded content to parts.

    Raises:
        ValueError: A tool call's arguments are not an object.
    """
    if isinstance(blocks, str):
        return (TextPart(Text(blocks)),)
    return tuple([_part_of(block) for block in blocks])


def _part_of(block: Block) -> Content:
    if isinstance(block, TextBlock):
        return TextPart(Text(block.text, block.text_signature))
    if isinstance(block, ToolCallBlock):
        return ToolUsePart(ToolUse(block.id, block.name, block.arguments, block.thought_signature))
    if isinstance(block, ThinkingBlock):
        return ThinkingPart(Thinking(block.thinking, block.thinking_signature, block.redacted))
    return ImagePart(Image(ImageSource("base64", block.mime_type, block.data)))


def read_content(raw: Raw) -> tuple[tuple[Content, ...], bool]:
    """Read content of any shape; the second value tells whether the parts represent all of it."""
    try:
        return parts_of(_as_blocks(raw)), True
    except (msgspec.MsgspecError, ValueError):
        blocks = attempt(as_list, raw)
    if blocks is None:
        return (), is_null(raw)
    return tuple([part for block in blocks if (part := _read_odd_block(block)) is not None]), False


def _read_odd_block(raw: Raw) -> Content | None:
    """Read the known fields of a block, or return None if its type is unknown."""
    fields = attempt(as_object, raw)
    if fields is None:
        return None
    kind = attempt(as_string, fields.get("type"))
    known = {key: value for key, value in fields.items() if key in _KEYS.get(kind or "", ())}
    if kind == "toolCall" and attempt(as_object, fields.get("arguments")) is None:
        known["arguments"] = Raw(b"{}")  # the call is kept, since its result elsewhere refers to it
    try:
        return _part_of(_as_block(encode_json(known)))
    except (msgspec.MsgspecError, ValueError):
        pass
    return None


def only(parts: Sequence[Content]) -> Content | None:
    """Return the part of content that has just one."""
    match parts:
        case [part]:
            return part
        case _:
            pass
    return None


def _only_text(parts: Sequence[Content]) -> str | None:
    """Return the text of content that is a single text without a signature."""
    match parts:
        case [TextPart(Text(content=content, signature=None))]:
            return content
        case _:
            pass
    return None


def answer_of(call_id: str, parts: Sequence[Content], is_error: bool) -> ToolResultPart:
    """Make a tool result from the content of pi's message; a single text without a signature becomes a string."""
    content = tuple([part for part in parts if isinstance(part, TextPart | ImagePart)])
    string = _only_text(content)
    return ToolResultPart(ToolResult(call_id, content if string is None else string, is_error))


def write_content(parts: Sequence[Content], *, as_text: bool) -> Blocks:
    """Convert parts to blocks; with `as_text`, a single text without a signature becomes a string.

    Raises:
        DialectCannot: A part has no equivalent block.
    """
    string = _only_text(parts) if as_text else None
    return [_block_of(part) for part in parts] if string is None else string


def _block_of(part: Content) -> Block:
    if isinstance(part, TextPart):
        return TextBlock(part.text.content, part.text.signature)
    if isinstance(part, ToolUsePart):
        call = part.tool_use
        return ToolCallBlock(call.id, call.name, call.raw_input, call.signature)
    if isinstance(part, ThinkingPart):
        return ThinkingBlock(part.thinking.content, part.thinking.signature, part.thinking.redacted)
    if isinstance(part, ToolResultPart):
        raise DialectCannot(
            "this file's dialect keeps a tool's result as a message of its own: append one message per result, "
            "with no other parts"
        )
    source = part.image.source
    if source.type == "url":
        raise DialectCannot("this file's dialect keeps images inline: give the image's bytes as base64, not its URL")
    return ImageBlock(source.data, source.media_type)
