"""Helpers shared by the three providers: decoding with errors that name the place, and image URLs."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from ..content import Image, ImagePart, TextPart, ToolResult, image
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

    Providers refuse a request with an image whose media type is wrong or a wildcard, and so every later one.
    """
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
    return (
        [] if isinstance(result.content, str) else [part for part in result.content if not isinstance(part, TextPart)]
    )
