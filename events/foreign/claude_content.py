"""What Claude Code's messages say, as parts: text, images, calls, results, thinking with its signatures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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
from .values import as_arguments

_STOP_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}


class Reading:
    """Reads content, and counts what it cannot take over.

    Attributes:
        left_out: How many parts of which kind were left out.
    """

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()

    def parts(self, content: str | list[lines.Part] | None, uuid: str, unnamed: Sequence[str] = ()) -> list[Content]:
        """Return the parts of a message.

        Args:
            content: What the line says.
            uuid: The line's id, of which that of a call is made that has none.
            unnamed: The calls that results without an id answer, in order.
        """
        if isinstance(content, str):
            return [TextPart(Text(content))]
        if content is None:
            self.left_out["unknown"] += 1
            return []
        found: list[Content] = []
        asked = iter(unnamed)
        for at, part in enumerate(content):
            kind = part.type
            if kind == "text" and part.text is not None:
                found.append(TextPart(Text(part.text)))
            elif kind == "tool_use":
                found.append(_call(part, uuid, at))
            elif kind == "tool_result":
                call = part.tool_use_id or next(asked, "")
                found.append(ToolResultPart(ToolResult(call, self._result(part.content), part.is_error is True)))
            elif kind == "thinking" and part.thinking is not None:
                found.append(ThinkingPart(Thinking(part.thinking, part.signature)))
            elif kind == "redacted_thinking":
                found.append(ThinkingPart(Thinking("", part.data, redacted=True)))
            elif kind == "image" and part.source is not None and (image := _image(part.source)) is not None:
                found.append(image)
            elif kind == "document":
                found.append(_document(part))
            else:
                self.left_out[kind or "unknown"] += 1
        return found

    def _result(self, content: str | list[lines.Part] | None) -> str | tuple[TextPart | ImagePart, ...]:
        if isinstance(content, str):
            return content
        found: list[TextPart | ImagePart] = []
        for part in content or ():
            if part.text is not None:
                found.append(TextPart(Text(part.text)))
            elif part.source is not None and (image := _image(part.source)) is not None:
                found.append(image)
            elif part.type == "document":
                found.append(_document(part))
            else:
                self.left_out[part.type or "unknown"] += 1
        return tuple(found)


def text_of(content: str | list[lines.Part] | None) -> str:
    """Return the text of a message."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text is not None)


def usage_of(told: lines.Tokens) -> Usage:
    """Return what the provider counted."""
    sent, said = max(told.input_tokens or 0, 0), max(told.output_tokens or 0, 0)
    read, written = max(told.cache_read_input_tokens or 0, 0), max(told.cache_creation_input_tokens or 0, 0)
    return Usage(sent, said, read, written, sent + said + read + written)


def stop_reason_of(reason: str | None) -> str | None:
    """Return why an answer ended, in treering's words where it has one."""
    return None if reason is None else _STOP_REASONS.get(reason, reason)


def _call(part: lines.Part, uuid: str, at: int) -> ToolUsePart:
    given = part.input
    first = bytes(memoryview(given)[:1])
    if first != b"{":
        given = as_arguments(json_value(given) if first else None)
    return ToolUsePart(ToolUse(part.id or missing_id(uuid, at), part.name or "unknown", given))


def _image(source: lines.ImageSource) -> ImagePart | None:
    if source.type == "base64" and source.media_type.startswith("image/"):
        return ImagePart(Image(ImageSource("base64", source.media_type, source.data)))
    if source.type == "url" and source.url:
        return ImagePart(Image(ImageSource("url", source.media_type or "image/*", source.url)))
    return None


def _document(part: lines.Part) -> TextPart:
    """Return what a document says where it is text; name any other in words, since no model is shown it as text."""
    source = part.source or lines.ImageSource()
    if source.type == "text" and source.data:
        return TextPart(Text(source.data))
    return TextPart(Text(f"[file: {part.title or source.url or source.media_type or 'unknown'}]"))
