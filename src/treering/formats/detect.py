"""The formats that can be imported, and the bytes by which a file is recognized.

The formats are tried in the order of `FORMATS`, which begins with those that can be recognized with certainty. A
format's module is imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from msgspec import Struct

from ..events.errors import ForeignFormatError
from ..events.words import check_word
from .base import Format
from .opening import beginning_of, cannot_read
from .own_dialects import KeptFormat

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
"""The formats that can be imported, by their names on the command line."""


def format_named(name: str) -> Format | KeptFormat:
    """Return the format with a name.

    Raises:
        ForeignFormatError: There is no such format.
    """
    check_word("format", name, FORMATS, error=ForeignFormatError)
    place = FORMATS[name]
    module = import_module(f".{place.module}", __package__)
    return cast("Format | KeptFormat", getattr(module, place.name)())


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
