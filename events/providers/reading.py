"""What the three providers have in common: refusals that name the place, and what is known of an image's address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar, cast

import msgspec

from ..content import JSON, ImagePart, TextPart, ToolResult, image
from ..errors import InvalidEntry

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

ANY_IMAGE = "image/*"
"""The media type of an image whose address does not show it."""


def read(message: Mapping[str, object], shape: type[_T], provider: str) -> _T:
    """Read a provider's message.

    Raises:
        InvalidEntry: It has another shape; the error names the place as a JSON path.
    """
    try:
        if isinstance(cast("object", message), list):  # whatever it is declared to be
            raise InvalidEntry(f"a list is no message of {provider}: read its messages one by one")
        return msgspec.convert(message, shape)
    except msgspec.ValidationError as error:
        raise InvalidEntry(f"{error} of a message of {provider}") from error


def image_at(url: str, media_type: str | None = None) -> ImagePart:
    """Make an image part of an address, which may be a data URL; the media type is guessed from the address."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:"):
        found = head.removeprefix("data:")
        if found.endswith(";base64"):
            return image(data, found.removesuffix(";base64"))
        return image(url, found or ANY_IMAGE, kind="url")
    suffix = url.partition("?")[0].partition("#")[0].rpartition(".")[2].lower()
    return image(url, media_type or _BY_SUFFIX.get(suffix, ANY_IMAGE), kind="url")


def url_of(part: ImagePart) -> str:
    """Return the address of an image: its own, or a data URL."""
    source = part.image.source
    return source.data if source.type == "url" else f"data:{source.media_type};base64,{source.data}"


def result_text(result: ToolResult) -> str:
    """Return what a tool's answer says in words, for a provider that takes no images there."""
    if result.text or not images_of(result):
        return result.text
    return "(The result is an image, which follows.)"


def images_of(result: ToolResult) -> list[ImagePart]:
    """Return the images of a tool's answer."""
    return (
        [] if isinstance(result.content, str) else [part for part in result.content if not isinstance(part, TextPart)]
    )
