"""The formats, and what a file shows to be recognized as one of them.

The formats are looked through in the order of `FORMATS`, in which those that can be told for certain stand first. A
format's module is loaded when it is first asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from msgspec import Struct

from ..errors import ForeignFormatError
from .base import Format
from .kept import KeptFormat
from .opened import beginning_of, cannot_read

HEAD_MAX = 256 * 1024
"""How many bytes of a file a format is shown to recognize it; a first line may be long."""


class Place(Struct, frozen=True):
    """Where a format is: its module in this package, and its class."""

    module: str
    name: str


FORMATS: Mapping[str, Place] = {
    "native": Place("kept", "NativeFormat"),
    "omp": Place("kept", "OmpFormat"),
    "pi": Place("kept", "PiFormat"),
    "treering-json": Place("treering_json", "TreeringJsonFormat"),
    "dive": Place("dive", "DiveFormat"),
    "codex": Place("codex", "CodexFormat"),
    "claude-code": Place("claude_code", "ClaudeCodeFormat"),
    "gemini": Place("gemini", "GeminiFormat"),
    "opencode": Place("opencode", "OpencodeFormat"),
    "nanocoder": Place("nanocoder", "NanocoderFormat"),
    "picoclaw": Place("picoclaw", "PicoclawFormat"),
}
"""The formats that can be imported, by the names that they have on the command line."""


def format_named(name: str) -> Format | KeptFormat:
    """Return a format by its name.

    Raises:
        ForeignFormatError: There is no such format.
    """
    place = FORMATS.get(name)
    if place is None:
        raise ForeignFormatError(f"there is no format {name!r} to import: choose one of {', '.join(FORMATS)}")
    module = import_module(f".{place.module}", __package__)
    return cast("Format | KeptFormat", getattr(module, place.name)())  # what stands in the table


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked where it is packed; none of a folder.

    Raises:
        ForeignFormatError: It is not there, or cannot be read.
    """
    try:
        if path.is_dir():
            return b""
        return beginning_of(path, HEAD_MAX)
    except OSError as error:
        raise cannot_read(error, path) from error
