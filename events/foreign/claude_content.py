"""Reading the parts of Claude Code's messages: text, images, calls, results, and thinking with its signatures."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from ..content import (
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
    json_value,
)
from ..entries import Usage
from . import claude_lines as lines
from .claude_scan import missing_id
from .json_lines import Notes
from .values import as_arguments

_BOOKKEEPING = re.compile(
    r"""\s*(?:
    <(?:command-(?:name|message|args)|local-command-(?:stdout|stderr|caveat)|bash-(?:input|stdout|stderr))>
    |<task-notification>
    |\[Request\ interrupted\ by\ user
    |<(ide_opened_file|ide_selection|system-reminder)>.*</\1>\s*\Z
    )""",
    re.DOTALL | re.VERBOSE,
)
"""Texts that Claude Code writes in the user's role: slash and shell commands with their output, notices, interruptions.
The last kind of notice counts only if nothing follows it, since the user's own text may."""

_encode = msgspec.json.Encoder().encode
_STOP_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}


class Reading:
    """Reader of message content.

    Args:
        notes: Gets the parts that are left out.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def parts(self, content: str | list[lines.Part] | None, uuid: str, unnamed: Sequence[str] = ()) -> list[Content]:
        """Return the parts of a message.

        Args:
            content: The content of the line's message.
            uuid: The line's id, from which the ids of calls without one are derived.
            unnamed: The ids of the calls that results without an id answer, in order.
        """
        if isinstance(content, str):
            return [TextPart(Text(content))]
        if content is None:
            self._notes.leave_out("message without content", uuid)
            return []
        parts: list[Content] = []
        unnamed_calls = iter(unnamed)
        for position, part in enumerate(content):
            kind = part.type
            if kind == "text" and part.text is not None:
                parts.append(TextPart(Text(part.text)))
            elif kind == "tool_use":
                parts.append(_call(part, uuid, position))
            elif kind == "tool_result":
                call = part.tool_use_id or next(unnamed_calls, "")
                parts.append(ToolResultPart(ToolResult(call, self._result(part.content), part.is_error is True)))
            elif kind == "thinking" and part.thinking is not None:
                parts.append(ThinkingPart(Thinking(part.thinking, part.signature)))
            elif kind == "redacted_thinking":
                parts.append(ThinkingPart(Thinking("", part.data, redacted=True)))
            elif kind == "image" and part.source is not None and (image := _image(part.source)) is not None:
                parts.append(image)
            elif kind == "document":
                parts.append(_document(part))
            else:
                self._leave_out(part)
        return parts

    def _result(self, content: str | list[lines.Part] | None) -> str | tuple[TextPart | ImagePart, ...]:
        if isinstance(content, str):
            return content
        parts: list[TextPart | ImagePart] = []
        for part in content or ():
            if part.text is not None:
                parts.append(TextPart(Text(part.text)))
            elif part.source is not None and (image := _image(part.source)) is not None:
                parts.append(image)
            elif part.type == "document":
                parts.append(_document(part))
            else:
                self._leave_out(part)
        return tuple(parts)

    def _leave_out(self, part: lines.Part) -> None:
        self._notes.leave_out(f"part of kind {part.type or 'unknown'}", json_value(Raw(_encode(part))))


def text_of(content: str | list[lines.Part] | None) -> str:
    """Return the text of a message."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text is not None)


def is_bookkeeping(parts: Sequence[Content]) -> bool:
    """Return whether a message with the role `user` has only texts in which Claude Code noted what happened."""
    return bool(parts) and all(
        isinstance(part, TextPart) and _BOOKKEEPING.match(part.text.content) is not None for part in parts
    )


def usage_of(tokens: lines.Tokens) -> Usage:
    """Return the usage that the provider reported."""
    sent, answered = max(tokens.input_tokens or 0, 0), max(tokens.output_tokens or 0, 0)
    read, written = max(tokens.cache_read_input_tokens or 0, 0), max(tokens.cache_creation_input_tokens or 0, 0)
    return Usage(sent, answered, read, written, sent + answered + read + written)


def stop_reason_of(reason: str | None) -> str | None:
    """Return why an answer ended, in treering's term if there is one."""
    return None if reason is None else _STOP_REASONS.get(reason, reason)


def _call(part: lines.Part, uuid: str, position: int) -> ToolUsePart:
    arguments = part.input
    first = bytes(memoryview(arguments)[:1])
    if first != b"{":
        arguments = as_arguments(json_value(arguments) if first else None)
    return ToolUsePart(ToolUse(part.id or missing_id(uuid, position), part.name or "unknown", arguments))


def _image(source: lines.ImageSource) -> ImagePart | None:
    if source.type == "base64" and source.media_type.startswith("image/"):
        return ImagePart(Image(ImageSource("base64", source.media_type, source.data)))
    if source.type == "url" and source.url:
        return ImagePart(Image(ImageSource("url", source.media_type or "image/*", source.url)))
    return None


def _document(part: lines.Part) -> TextPart:
    """Return a document's text; for a document that is not text, return a placeholder with its name."""
    source = part.source or lines.ImageSource()
    if source.type == "text" and source.data:
        return TextPart(Text(source.data))
    return TextPart(Text(f"[file: {part.title or source.url or source.media_type or 'unknown'}]"))
