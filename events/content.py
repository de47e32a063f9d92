"""What a message is made of: text, images, tool calls, tool results, thinking.

Each part carries its payload under the name of its type, which is also how it stands in a native line::

    {"type":"text","text":{"content":"Hello"}}
    {"type":"tool_use","tool_use":{"id":"call_1","name":"read_file","input":{"path":"main.go"}}}

The classes are frozen and hold free JSON as raw bytes that are decoded anew for every caller, so a part can be shared
between views without anyone being able to change it. `text`, `image`, `tool_use`, `tool_result` and `thinking` build
parts in one call. Nothing here knows of entries, files or providers.

Such values cannot refer to themselves, so the garbage collector is told to leave them alone: a host that keeps a
million of them does not stop to walk through them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Meta, Raw, Struct, field

from .characters import why_unwritable
from .errors import InvalidEntry
from .showing import shown

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"
"""Any JSON value, as the standard library decodes it."""

if TYPE_CHECKING:
    MaybeRaw: TypeAlias = Raw | None
else:
    MaybeRaw = Raw  # msgspec lets a union of Raw and None hold null alone, and never checks a default
"""Raw JSON that may be absent, as the type of a field whose default is None."""


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    return plain_str(value)


def plain_str(value: object) -> str:
    """Return the characters of a string of a class of its own, which encoders hand over as something unknown.

    Raises:
        TypeError: It is no string.
    """
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"a value of type `{type(value).__name__}` is none")


_encode_quickly = msgspec.json.Encoder(enc_hook=_plain).encode
_encode_strictly = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode


NESTING_MAX = 256
"""How deep a JSON value may be nested. Decoders give up where the stack ends, wherever their caller stands on it."""

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]").finditer


def raw_json(value: object) -> Raw:
    """Encode a JSON value once, so that it can be kept and shared without being changed.

    Tuples are written as lists; raw JSON is taken as it is.

    Raises:
        InvalidEntry: The value is no JSON (a set, an object, a NaN), or nested deeper than `NESTING_MAX`.
    """
    if isinstance(value, Raw):
        _check_nesting(bytes(value))
        return value
    try:
        encoded = _encode_quickly(value)
        # msgspec writes a set as a list, bytes as base64, a NaN as null: what is read would not be what was written.
        if msgspec.json.decode(encoded) != value:
            encoded = _encode_strictly(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEntry(f"this value cannot be written as JSON: {why_unwritable(error)}") from error
    _check_nesting(encoded)
    return Raw(encoded)


def raw_object(value: object, name: str) -> Raw:
    """Encode a JSON object once; see `raw_json`.

    Args:
        value: A mapping, or the raw JSON of an object.
        name: What it is, for the error.

    Raises:
        InvalidEntry: It is something else, or holds what is no JSON.
    """
    if isinstance(value, Raw):
        _require_object(value, name)
    elif not isinstance(value, Mapping):
        raise InvalidEntry(f"Expected `object`, got `{type(value).__name__}` - as {name}: give a dict with str keys")
    return raw_json(cast("object", value))


def _check_nesting(encoded: bytes) -> None:
    """Refuse JSON that a reader with a deep stack of its own could not decode.

    Raises:
        InvalidEntry: It is nested deeper than `NESTING_MAX`.
    """
    if encoded.count(b"[") + encoded.count(b"{") <= NESTING_MAX:
        return
    depth = 0
    for found in _BRACKETS(_STRINGS.sub(b"", encoded)):
        depth += 1 if found[0] in b"[{" else -1
        if depth > NESTING_MAX:
            raise InvalidEntry(f"this value is nested deeper than {NESTING_MAX} levels: flatten it, or keep it as text")


def json_value(raw: Raw) -> JSON:
    """Decode raw JSON afresh: what is returned is the caller's own."""
    try:
        value: JSON = msgspec.json.decode(raw)
    except ValueError:  # a number beyond every float, or bytes that are no UTF-8: a line is not searched for these
        value = json.loads(bytes(raw).decode(errors="replace"))
    return value


def json_object(raw: Raw) -> dict[str, JSON]:
    """Decode a raw JSON object afresh; what is no object is taken for an empty one."""
    value = json_value(raw)
    return value if isinstance(value, dict) else {}


def _require_object(raw: Raw, name: str) -> None:
    if not bytes(raw).lstrip().startswith(b"{"):
        raise InvalidEntry(f"Expected `object` at `{name}`")


class Text(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The payload of a text part; `signature` is what a provider wants back verbatim with the text."""

    content: str
    signature: str | None = None


class ImageSource(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """Where an image's bytes are: inline as base64 text, or at a URL.

    `data` is the base64 text or the URL, kept as it was given. `media_type` is a MIME type.
    """

    type: Literal["base64", "url"]
    media_type: str
    data: str


class Image(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """The payload of an image part."""

    source: ImageSource


class ToolUse(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The payload of a tool call: its id, the tool's name, its input (a JSON object).

    `signature` is what a provider wants back verbatim with the call.
    """

    id: str
    name: str
    raw_input: Raw = field(name="input")
    signature: str | None = None

    __repr__ = shown

    def __post_init__(self) -> None:
        _require_object(self.raw_input, "$.tool_use.input")

    @property
    def input(self) -> dict[str, JSON]:
        """The call's arguments, decoded afresh for this caller."""
        return json_object(self.raw_input)


class Thinking(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The payload of a thinking part; `signature` is what the provider wants back verbatim."""

    content: str
    signature: str | None = None
    redacted: bool = False


class TextPart(Struct, frozen=True, gc=False, forbid_unknown_fields=True, repr_omit_defaults=True, tag="text"):
    """A piece of text."""

    text: Text


class ImagePart(Struct, frozen=True, gc=False, forbid_unknown_fields=True, repr_omit_defaults=True, tag="image"):
    """An image."""

    image: Image


class ToolResult(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The payload of a tool's answer to the call `tool_use_id`: a string, or text and image parts."""

    tool_use_id: str
    content: str | tuple[TextPart | ImagePart, ...] = ""
    is_error: bool = False

    @property
    def text(self) -> str:
        """The textual content, the parts of a list joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text.content for part in self.content if isinstance(part, TextPart))


class ToolUsePart(Struct, frozen=True, gc=False, forbid_unknown_fields=True, repr_omit_defaults=True, tag="tool_use"):
    """A call of a tool by the model."""

    tool_use: ToolUse


class ToolResultPart(
    Struct, frozen=True, gc=False, forbid_unknown_fields=True, repr_omit_defaults=True, tag="tool_result"
):
    """The answer to a tool call."""

    tool_result: ToolResult


class ThinkingPart(Struct, frozen=True, gc=False, forbid_unknown_fields=True, repr_omit_defaults=True, tag="thinking"):
    """What the model thought before it answered."""

    thinking: Thinking


Content: TypeAlias = TextPart | ImagePart | ToolUsePart | ToolResultPart | ThinkingPart
"""One part of a message."""

ContentLike: TypeAlias = str | Content | Sequence[Content | str]
"""What the append calls take as content: a string, one part, or a sequence of strings and parts."""

NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1)]


def text(content: str) -> TextPart:
    """Make a text part."""
    return TextPart(Text(content))


def image(data: str, media_type: str, *, kind: Literal["base64", "url"] = "base64") -> ImagePart:
    """Make an image part.

    Args:
        data: Base64 text, or the URL where `kind` is "url".
        media_type: The image's MIME type, such as "image/png".
        kind: Which of the two `data` is.
    """
    return ImagePart(Image(ImageSource(kind, media_type, data)))


def tool_use(id: str, name: str, input: Mapping[str, object] | Raw | None = None) -> ToolUsePart:
    """Make a tool call.

    Args:
        id: The call's id, which the result repeats.
        name: The tool's name.
        input: The call's arguments, a JSON object.

    Raises:
        InvalidEntry: The input is no JSON object.
    """
    return ToolUsePart(ToolUse(id, name, raw_object({} if input is None else input, "the call's input")))


def tool_result(
    tool_use_id: str, content: str | Sequence[TextPart | ImagePart] = "", *, is_error: bool = False
) -> ToolResultPart:
    """Make the answer to the call `tool_use_id`: a string, or text and image parts.

    Raises:
        InvalidEntry: The content is neither.
    """
    body = content if isinstance(content, str) else tuple(_ordered(content))
    return ToolResultPart(ToolResult(tool_use_id, body, is_error))


def thinking(content: str, *, signature: str | None = None) -> ThinkingPart:
    """Make a thinking part."""
    return ThinkingPart(Thinking(content, signature))


def file_text(name: str, content: str) -> TextPart:
    """Make a text part that shows a file to a model, wrapped as `<file name="...">`."""
    quoted = name.replace("&", "&amp;").replace('"', "&quot;")
    return text(f'<file name="{quoted}">\n{content}</file>')


def as_content(content: ContentLike) -> tuple[Content, ...]:
    """Make a tuple of parts of whatever the append calls take.

    Raises:
        InvalidEntry: Something in it is neither a string nor a part.
    """
    if isinstance(content, str):
        return (TextPart(Text(content)),)
    if isinstance(content, Content):
        return (content,)
    parts = tuple(TextPart(Text(part)) if isinstance(part, str) else part for part in _ordered(content))
    for position, part in enumerate(parts):
        if not isinstance(part, Content):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _no_content(f"content[{position}]", part)
    return parts


_Part = TypeVar("_Part")


def _ordered(content: Iterable[_Part]) -> Iterable[_Part]:
    """Return what is a sequence of strings and parts as far as can be told without looking into it.

    Raises:
        InvalidEntry: It is a part of another kind, a mapping, a set, bytes, or nothing that can be walked through.
    """
    given = cast("object", content)  # whatever it is declared to be
    if not isinstance(given, Iterable) or isinstance(given, (Mapping, AbstractSet, bytes, bytearray, memoryview)):
        raise _no_content("the content", content)
    return content


def _no_content(name: str, value: object) -> InvalidEntry:
    told = f"{name} is of type `{type(value).__name__}`: give a string, a part such as `text(...)`, or a list of both"
    if isinstance(value, Mapping):
        told += "; whole messages of a provider are read by `from_openai` and the like in `treering.events.providers`"
    elif isinstance(value, (bytes, bytearray, memoryview)):
        told += "; decode bytes first"
    return InvalidEntry(told)


def plain_text(content: Sequence[Content]) -> str:
    """Join the text of the text parts by newlines, leaving out everything else."""
    return "\n".join(part.text.content for part in content if isinstance(part, TextPart))
