"""What the providers have in common: decoding with errors that name the place, images, and the messages they take.

A message for which providers have no role is rendered as a user's text. The texts are those that pi sends, so that a
session used by both programs looks the same to the model. They must not change: a change would invalidate providers'
prompt caches.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from ..content import (
    Content,
    Image,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResult,
    ToolResultPart,
    ToolUsePart,
    image,
    plain_text,
    text,
)
from ..entries import BashExecution, Message
from ..errors import InvalidEntry
from ..json_values import JSON

Block: TypeAlias = dict[str, JSON]
"""A part of a provider's message, or the whole of it."""

_T = TypeVar("_T")

_BY_SUFFIX = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
}

_BY_BEGINNING = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))

ANY_IMAGE = "image/*"
"""The media type of an image whose URL does not reveal it."""


def read(message: Mapping[str, object], shape: type[_T], provider: str) -> _T:
    """Read a provider's message.

    Raises:
        InvalidEntry: The message has another shape; the error names the place as a JSON path.
    """
    try:
        if isinstance(cast("object", message), list):  # callers without a type checker pass anything
            raise InvalidEntry(f"a list is not a message of {provider}: read its messages one by one")
        return msgspec.convert(message, shape)
    except msgspec.ValidationError as error:
        raise InvalidEntry(f"{error} of a message of {provider}") from error


def image_at(url: str, media_type: str | None = None) -> ImagePart:
    """Make an image part from a URL, which may be a data URL; without a `media_type`, guess it from the URL."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:"):
        stated_type = head.removeprefix("data:")
        if stated_type.endswith(";base64"):
            return image(data, stated_type.removesuffix(";base64"))
        return image(url, stated_type or ANY_IMAGE, kind="url")
    suffix = url.partition("?")[0].partition("#")[0].rpartition(".")[2].lower()
    return image(url, media_type or _BY_SUFFIX.get(suffix, ANY_IMAGE), kind="url")


def with_true_type(part: ImagePart) -> ImagePart:
    """Return an image with the media type of its data, as far as the data's beginning reveals it.

    Providers refuse a request with an image whose media type is wrong or a wildcard, and so every later one. The data
    of a data URL becomes the image's own: most providers fetch no such URL.
    """
    if part.image.source.data.startswith("data:"):
        part = image_at(part.image.source.data)
    source = part.image.source
    media_type = _type_of(source.data) if source.type == "base64" else None
    if media_type is None or media_type == source.media_type:
        return part
    return ImagePart(Image(replace(source, media_type=media_type)))


def _type_of(data: str) -> str | None:
    """Return the media type of base64 data; None if it is not a common type of image."""
    try:
        beginning = b64decode(data[:16])
    except ValueError:
        return None
    if beginning[:4] == b"RIFF" and beginning[8:] == b"WEBP":
        return "image/webp"
    return next((media_type for start, media_type in _BY_BEGINNING if beginning.startswith(start)), None)


def url_of(part: ImagePart) -> str:
    """Return the URL of an image: its own, or a data URL."""
    source = part.image.source
    return source.data if source.type == "url" else f"data:{source.media_type};base64,{source.data}"


def result_text(result: ToolResult) -> str:
    """Return the text of a tool's result, for a provider whose results cannot hold images."""
    if result.text or not images_of(result):
        return result.text
    return "(The result is an image, which follows.)"


def images_of(result: ToolResult) -> list[ImagePart]:
    """Return the images of a tool's result."""
    parts = () if isinstance(result.content, str) else result.content
    return [part for part in parts if isinstance(part, ImagePart)]


_SPOKEN = frozenset({"user", "assistant", "tool", "system"})

OPENING = "(The conversation begins with an answer.)"
"""The user's text before an assistant's first turn: providers refuse a conversation that begins with the assistant."""

_BLOB_PREFIX = "blob:sha256:"  # oh-my-pi's reference to a separate file that holds an image

_BRANCH = ("The following is a summary of a branch that this conversation came back from:\n\n<summary>\n", "</summary>")
_COMPACTION = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
    "\n</summary>",
)


def rendered(message: Message) -> Message | None:
    """Return the message in a role that providers have.

    Returns:
        The message itself if providers have its role, a system message for a developer's, a user's message for any
        other of `ROLES`. None if the model must not see it: a bash execution excluded from the context, or a role that
        is a program's own.
    """
    if message.role in _SPOKEN:
        return message
    if message.role == "developer":
        return replace(message, role="system")
    if message.role == "bashExecution":
        return _rendered_bash(message)
    if message.role == "custom":
        return Message("user", message.content)
    if message.role == "branchSummary":
        return Message("user", _wrapped(message.content, _BRANCH))
    if message.role == "compactionSummary":
        return Message("user", _wrapped(message.content, _COMPACTION))
    return None


def with_sections(message: Message, *, leads: bool) -> Message:
    """Return a system message of pi with the text of its sections, which pi stores beside the content.

    Args:
        message: The message.
        leads: Whether it is the first of a context: its sections are then the prompt, and later ones change them.
    """
    sections = message.metadata.get("sections") if message.raw_metadata is not None else None
    if message.role != "system" or not isinstance(sections, dict):
        return message
    written = [_section(name, body, leads=leads) for name, body in sections.items()]
    shown = "\n\n".join(filter(None, written))
    words = plain_text(message.content)
    if not shown or words.endswith(shown):  # a message of a context may be stored again
        return message
    others = [part for part in message.content if not isinstance(part, TextPart)]
    return replace(message, content=(text("\n\n".join(filter(None, (words, shown)))), *others))


def _section(name: str, body: JSON, *, leads: bool) -> str:
    if body is None:
        return "" if leads else f'Removed system prompt section "{name}".'
    if not isinstance(body, str):
        return ""
    return body if leads else f'Updated system prompt section "{name}":\n\n{body}'


def sendable(message: Message) -> Message | None:
    """Return the rendered message, with a text in place of each image that is stored outside the session.

    A request with a file name in place of image data would be refused, and so would every later one.
    """
    provider_message = rendered(message)
    if provider_message is None or not any(map(_is_external, provider_message.content)):
        return provider_message
    return replace(provider_message, content=tuple(map(_without_external, provider_message.content)))


def _is_external(part: Content) -> bool:
    if isinstance(part, ToolResultPart):
        return not isinstance(part.tool_result.content, str) and any(map(_is_external, part.tool_result.content))
    return isinstance(part, ImagePart) and part.image.source.data.startswith(_BLOB_PREFIX)


def _without_external(part: Content) -> Content:
    if isinstance(part, ToolResultPart) and not isinstance(part.tool_result.content, str):
        return ToolResultPart(replace(part.tool_result, content=tuple(map(_image_as_text, part.tool_result.content))))
    return _image_as_text(part) if isinstance(part, ImagePart) else part


def _image_as_text(part: TextPart | ImagePart) -> TextPart | ImagePart:
    return named_image(part) if isinstance(part, ImagePart) and _is_external(part) else part


def named_image(part: ImagePart) -> TextPart:
    """Return the text that stands for an image which cannot be sent."""
    return text(f"[image: {part.image.source.media_type}]")


def bash_text(bash: BashExecution) -> str:
    """Return the text in which a model sees a command that a person ran."""
    description = f"Ran `{bash.command}`\n" + (f"```\n{bash.output}\n```" if bash.output else "(no output)")
    if bash.cancelled:
        description += "\n\n(command cancelled)"
    elif bash.exit_code:
        description += f"\n\nCommand exited with code {bash.exit_code}"
    if bash.truncated and bash.full_output_path:
        description += f"\n\n[Output truncated. Full output: {bash.full_output_path}]"
    return description


def readable_by(message: Message, provider: str) -> Message:
    """Return an answer without what only another provider can read: its thinking, and the signatures of other parts.

    A provider rejects a request with a signature that it did not make. An answer that names no provider is kept as it
    is.
    """
    if message.role != "assistant" or message.provider in {None, provider}:
        return message
    parts = (part for part in message.content if not isinstance(part, ThinkingPart))
    return replace(message, content=tuple(map(_unsigned, parts)))


def _unsigned(part: Content) -> Content:
    if isinstance(part, TextPart) and part.text.signature is not None:
        return TextPart(replace(part.text, signature=None))
    if isinstance(part, ToolUsePart) and part.tool_use.signature is not None:
        return ToolUsePart(replace(part.tool_use, signature=None))
    return part


def in_turns(
    messages: Sequence[Message], provider: str, *, for_google: bool = False
) -> tuple[list[TextPart], list[tuple[str, list[Content]]]]:
    """Arrange messages for providers whose conversations alternate between a user and an assistant.

    Args:
        messages: Messages of any role.
        provider: The name of the provider in answers; see `readable_by`.
        for_google: Let an assistant's turn hold images, and empty text that is signed, but no redacted thinking. For
            other providers, an assistant's images go into the user's turn after it.

    Returns:
        The system's texts, and the turns as pairs of role and content. Adjacent messages of one role form one turn. A
        user's turn begins with the results of tools, and has no thinking. The first turn is a user's, see `OPENING`.
        Empty text and thinking without a signature are left out; for other providers than Google, so are text that is
        only whitespace and thinking at the end of a turn.
    """
    system: list[TextPart] = []
    turns: list[tuple[str, list[Content]]] = []
    images: list[Content] = []  # of the assistant's current turn
    for message in filter(None, (sendable(readable_by(each, provider)) for each in messages)):
        content = [part for part in message.content if _is_accepted(part, for_google)]
        if message.role == "system":
            system += [part for part in content if isinstance(part, TextPart)]
        elif message.role == "assistant":
            images += () if for_google else [part for part in content if isinstance(part, ImagePart)]
            _extend_turn(
                turns, "assistant", [part for part in content if for_google or not isinstance(part, ImagePart)]
            )
        else:
            thoughts_aside = (part for part in content if not isinstance(part, ThinkingPart))  # only models think
            _extend_turn(turns, "user", [*images, *thoughts_aside])
            images = []
    _extend_turn(turns, "user", images)
    if not for_google:
        turns = _without_last_thinking(turns)
    if turns and turns[0][0] == "assistant":
        turns.insert(0, ("user", [text(OPENING)]))
    for role, content in turns:
        if role == "user":
            content.sort(key=lambda part: not isinstance(part, ToolResultPart))
    return system, turns


def _is_accepted(part: Content, for_google: bool) -> bool:
    if isinstance(part, TextPart):
        return bool(part.text.content or part.text.signature) if for_google else bool(part.text.content.strip())
    if isinstance(part, ThinkingPart):
        return bool(part.thinking.signature) and not (for_google and part.thinking.redacted)
    return True


def _without_last_thinking(turns: Sequence[tuple[str, list[Content]]]) -> list[tuple[str, list[Content]]]:
    """Return the turns without the thinking after which nothing follows.

    Such an answer was cut off before it began. A provider that refuses it would refuse every later request, too.
    """
    kept: list[tuple[str, list[Content]]] = []
    for role, content in turns:
        end = len(content)
        while end and isinstance(content[end - 1], ThinkingPart):
            end -= 1
        _extend_turn(kept, role, content[:end])
    return kept


def _extend_turn(turns: list[tuple[str, list[Content]]], role: str, content: Sequence[Content]) -> None:
    if content and turns and turns[-1][0] == role:
        turns[-1][1].extend(content)
    elif content:
        turns.append((role, list(content)))


def _rendered_bash(message: Message) -> Message | None:
    if message.bash is None:
        return Message("user", message.content)
    return None if message.bash.exclude_from_context else Message("user", (text(bash_text(message.bash)),))


def _wrapped(content: tuple[Content, ...], around: tuple[str, str]) -> tuple[Content, ...]:
    before, after = around
    others = (part for part in content if not isinstance(part, TextPart))
    return (text(f"{before}{plain_text(content)}{after}"), *others)
