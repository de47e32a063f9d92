"""The formats that can be imported, and the bytes by which a file is recognized.

Files are offered to the formats in the order of `format_names`: first ours, beginning with those that can be recognized
with certainty, then those of installed packages. A format's module is imported on first use. Packages add formats under
the entry point group `treering.formats`: the name is the format's, and the object, called without arguments, returns a
`Format`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from msgspec import Struct

from ..events.arguments import check_word
from ..events.errors import ForeignFormatError
from .base import Format
from .opening import beginning_of, cannot_read
from .own import KeptFormat

GROUP = "treering.formats"
"""The entry point group of formats that other packages add."""

HEAD_MAX = 256 * 1024
"""The number of bytes by which a format recognizes a file; a first line may be long."""


class Place(Struct, frozen=True):
    """The module in this package and the class that implement a format."""

    module: str
    name: str


FORMATS: Mapping[str, Place] = {
    "native": Place("own_dialects", "NativeFormat"),
    "omp": Place("own_dialects", "OmpFormat"),
    "pi": Place("own_dialects", "PiFormat"),
    "treering-json": Place("treering_json", "TreeringJsonFormat"),
    "dive": Place("dive.format", "DiveFormat"),
    "codex": Place("codex.format", "CodexFormat"),
    "claude-code": Place("claude_code.format", "ClaudeCodeFormat"),
    "gemini": Place("gemini.format", "GeminiFormat"),
    "opencode": Place("opencode.format", "OpencodeFormat"),
    "nanocoder": Place("nanocoder.format", "NanocoderFormat"),
    "picoclaw": Place("picoclaw", "PicoclawFormat"),
}
"""The formats that come with treering, by their names on the command line."""


def format_names() -> tuple[str, ...]:
    """Return the names of all formats that can be imported: ours, then those of installed packages.

    A package cannot take the name of one of ours.
    """
    return (*FORMATS, *sorted(entry_points(group=GROUP).names - FORMATS.keys()))


def format_named(name: str) -> Format | KeptFormat:
    """Return the format with a name.

    Raises:
        ForeignFormatError: There is no such format, or the package that adds it cannot be imported.
    """
    place = FORMATS.get(name)
    if place is not None:
        module = import_module(f".{place.module}", __package__)
        return cast("Format | KeptFormat", getattr(module, place.name)())
    check_word("format", name, format_names(), error=ForeignFormatError)
    (entry_point, *_) = entry_points(group=GROUP, name=name)
    try:
        return cast("Format", entry_point.load()())
    except Exception as error:  # whatever the code of another package raises
        raise ForeignFormatError(
            f"the format {name!r} of {entry_point.value} cannot be used ({error!r}): mend or remove its package"
        ) from error


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed if it is compressed; b"" for a folder.

    Raises:
        ForeignFormatError: It does not exist or cannot be read.
    """
    try:
        if path.is_dir():
            return b""
        return beginning_of(path, HEAD_MAX)
    except OSError as error:
        raise cannot_read(error, path) from error
