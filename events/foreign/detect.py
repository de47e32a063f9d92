"""Which program wrote a file or folder, told by what it holds.

The formats are looked through in the order of `FORMATS`, in which those that can be told for certain stand first. A
format's module is loaded when it is first asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from msgspec import Struct

from ..errors import ForeignFormatError, Where
from .base import Format
from .kept import KeptFormat

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


def recognized(path: Path) -> Format | KeptFormat:
    """Return the format of a file or folder.

    Raises:
        ForeignFormatError: It is of none of them, or cannot be read.
    """
    head = head_of(path)
    for name in FORMATS:
        found = format_named(name)
        if found.recognizes(path, head):
            return found
    what = "the folder holds" if path.is_dir() else "the file is"
    raise ForeignFormatError(
        f"{what} no session of a format that is known ({', '.join(FORMATS)}): name the format if it is one of these",
        where=Where(str(path)),
    )


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file; none of a folder.

    Raises:
        ForeignFormatError: It is not there, or cannot be read.
    """
    try:
        if path.is_dir():
            return b""
        with path.open("rb") as file:
            return file.read(HEAD_MAX)
    except (OSError, ValueError) as error:
        raise ForeignFormatError(f"it cannot be read: {error}", where=Where(str(path))) from error
