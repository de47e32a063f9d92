"""The parts of a message: text, images, tool calls, tool results, thinking.

Each part carries its payload under the name of its type, in memory as in a native line::

    {"type":"text","text":{"content":"Hello"}}
    {"type":"tool_use","tool_use":{"id":"call_1","name":"read_file","input":{"path":"main.go"}}}

The classes are frozen and hold free-form JSON as raw bytes that are decoded afresh for every caller, so views can share
a part without any of them being able to change it. `text`, `image`, `tool_use`, `tool_result` and `thinking` build
parts in one call. Nothing here knows of entries, files or providers.

These values cannot form reference cycles, so they are excluded from garbage collection (`gc=False`): a host that keeps
a million of them does not pause to traverse them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, ClassVar, Literal, TypeAlias, TypeVar, cast, get_args

from msgspec import Meta, Raw, Struct, field

from .arguments import check_word
from .errors import InvalidEntry
from .json_values import JSON, json_object, raw_object, require_object, shown


class Text(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The payload of a text part; `signature` must go back to the provider verbatim with the text."""

    content: str
    signature: str | None = None


ImageKind: TypeAlias = Literal["base64", "url"]
"""How an image's data is given: inline, or by its address."""


class ImageSource(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The location of an image's bytes: inline as base64 text, or at a URL.

    `data` is the base64 text or the URL, stored unchanged. `media_type` is a MIME type.
    """

    type: ImageKind
    media_type: str
    data: str


class Image(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """The payload of an image part."""

    source: ImageSource


class ToolUse(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The payload of a tool call: its id, the tool's name, its input (a JSON object).

    `signature` must go back to the provider verbatim with the call.
    """

    id: str
    name: str
    raw_input: Raw = field(name="input")
    signature: str | None = None

    __repr__ = shown

    def __post_init__(self) -> None:
        require_object(self.raw_input, "$.tool_use.input")

    @property
    def input(self) -> dict[str, JSON]:
        """The call's arguments, decoded afresh for this caller."""
        return json_object(self.raw_input)

    @property
    def input_text(self) -> str:
        """The call's arguments as JSON text, in which U+FFFD stands for what is not UTF-8."""
        return bytes(self.raw_input).decode(errors="replace")


class Thinking(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The payload of a thinking part; `signature` must go back to the provider verbatim."""

    content: str
    signature: str | None = None
    redacted: bool = False


class TextPart(Struct, frozen=True, gc=False, forbid_unknown_fields=True, repr_omit_defaults=True, tag="text"):
    """A piece of text."""

    type: ClassVar[Literal["text"]] = "text"
    text: Text


class ImagePart(Struct, frozen=True, gc=False, forbid_unknown_fields=True, repr_omit_defaults=True, tag="image"):
    """An image."""

    type: ClassVar[Literal["image"]] = "image"
    image: Image


class ToolResult(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The payload of a tool's result for the call `tool_use_id`: a string, or text and image parts."""

    tool_use_id: str
    content: str | tuple[TextPart | ImagePart, ...] = ""
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text of the result; several text parts are joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text.content for part in self.content if isinstance(part, TextPart))


class ToolUsePart(Struct, frozen=True, gc=False, forbid_unknown_fields=True, repr_omit_defaults=True, tag="tool_use"):
    """The model's call of a tool."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    tool_use: ToolUse


class ToolResultPart(
    Struct, frozen=True, gc=False, forbid_unknown_fields=True, repr_omit_defaults=True, tag="tool_result"
):
    """The result of a tool call."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_result: ToolResult


class ThinkingPart(Struct, frozen=True, gc=False, forbid_unknown_fields=True, repr_omit_defaults=True, tag="thinking"):
    """The model's reasoning before its answer."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    thinking: Thinking


Content: TypeAlias = TextPart | ImagePart | ToolUsePart | ToolResultPart | ThinkingPart
"""One part of a message."""

ContentLike: TypeAlias = str | Content | Sequence[Content | str]
"""The content that the append methods accept: a string, one part, or a sequence of strings and parts."""

NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1)]


def text(content: str) -> TextPart:
    """Make a text part."""
    return TextPart(Text(content))


def image(data: str, media_type: str, *, kind: ImageKind = "base64") -> ImagePart:
    """Make an image part.

    Args:
        data: Base64 text, or the URL where `kind` is "url".
        media_type: The image's MIME type, such as "image/png".
        kind: Whether `data` is base64 text or a URL.

    Raises:
        InvalidEntry: There is no such kind.
    """
    check_word("kind of image", kind, get_args(ImageKind), error=InvalidEntry)
    return ImagePart(Image(ImageSource(kind, media_type, data)))


def tool_use(id: str, name: str, input: Mapping[str, object] | Raw | None = None) -> ToolUsePart:
    """Make a tool call.

    Args:
        id: The call's id, which the result repeats.
        name: The tool's name.
        input: The call's arguments, a JSON object.

    Raises:
        InvalidEntry: The input is not a JSON object.
    """
    return ToolUsePart(ToolUse(id, name, raw_object({} if input is None else input, "the call's input")))


def tool_result(
    tool_use_id: str, content: str | Sequence[TextPart | ImagePart] = "", *, is_error: bool = False
) -> ToolResultPart:
    """Make the result of the call `tool_use_id`: a string, or text and image parts.

    Raises:
        InvalidEntry: The content is neither.
    """
    body = content if isinstance(content, str) else tuple(_ordered(content))
    return ToolResultPart(ToolResult(tool_use_id, body, is_error))


def thinking(content: str, *, signature: str | None = None) -> ThinkingPart:
    """Make a thinking part."""
    return ThinkingPart(Thinking(content, signature))


def file_text(name: str, content: str) -> TextPart:
    """Make a text part that shows a file to a model, wrapped in `<file name="...">`."""
    quoted = name.replace("&", "&amp;").replace('"', "&quot;")
    return text(f'<file name="{quoted}">\n{content}</file>')


def as_content(content: ContentLike) -> tuple[Content, ...]:
    """Convert any content that the append methods accept to a tuple of parts.

    Raises:
        InvalidEntry: The content holds something that is neither a string nor a part.
    """
    if isinstance(content, str):
        return (TextPart(Text(content)),)
    if isinstance(content, Content):
        return (content,)
    parts = tuple(TextPart(Text(part)) if isinstance(part, str) else part for part in _ordered(content))
    for position, part in enumerate(parts):
        if not isinstance(part, Content):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _content_error(f"content[{position}]", part)
    return parts


_Part = TypeVar("_Part")


def _ordered(content: Iterable[_Part]) -> Iterable[_Part]:
    """Return the content if it can be a sequence of strings and parts, without looking at its items.

    Raises:
        InvalidEntry: The content is a part of another kind, a mapping, a set, bytes, or not iterable at all.
    """
    value = cast("object", content)  # callers without a type checker pass anything
    if not isinstance(value, Iterable) or isinstance(value, (Mapping, AbstractSet, bytes, bytearray, memoryview)):
        raise _content_error("the content", content)
    return content


def _content_error(name: str, value: object) -> InvalidEntry:
    message = (
        f"{name} is of type `{type(value).__name__}`: give a string, a part such as `text(...)`, or a list of both"
    )
    if isinstance(value, Mapping):
        message += "; to read a provider's message, use `from_openai` or a sibling in `treering.events.providers`"
    elif isinstance(value, (bytes, bytearray, memoryview)):
        message += "; decode bytes first"
    return InvalidEntry(message)


def shown_text(part: Content) -> str:
    """Return the text that people see for a part."""
    match part:
        case TextPart():
            return part.text.content
        case ThinkingPart():
            return f"(thinking) {part.thinking.content}"
        case ImagePart():
            return f"[image {part.image.source.media_type}]"
        case ToolUsePart():
            arguments = part.tool_use.input_text
            return f"calls {part.tool_use.name}({'' if arguments == '{}' else arguments})"
        case ToolResultPart():
            result = part.tool_result
            body = result.content if isinstance(result.content, str) else "\n".join(map(shown_text, result.content))
            return f"failed: {body}" if result.is_error else body


def searched_texts(content: Sequence[Content]) -> Iterator[str]:
    """Yield the texts by which a search finds parts; images have none."""
    for part in content:
        if isinstance(part, TextPart):
            yield part.text.content
        elif isinstance(part, ThinkingPart):
            yield part.thinking.content
        elif isinstance(part, ToolUsePart):
            yield part.tool_use.name
            yield from _strings(part.tool_use.input)
        elif isinstance(part, ToolResultPart):
            yield part.tool_result.text


def _strings(value: JSON) -> Iterator[str]:
    """Yield the strings in a JSON value, in order, without the keys of objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)


def plain_text(content: Sequence[Content]) -> str:
    """Join the text parts by newlines, leaving out all other parts."""
    return "\n".join(part.text.content for part in content if isinstance(part, TextPart))
