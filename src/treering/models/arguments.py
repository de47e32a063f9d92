"""What a model wrote as the arguments of a call, which it ought to write as a JSON object and sometimes does not."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from ..actors.agents.model import MALFORMED_ARGUMENTS
from ..events.characters import whole_json
from ..events.content import raw_json


def arguments_of(written: str, *, cut: bool) -> str:
    """Return arguments as a JSON object: those that a model wrote, or what says that it wrote none.

    Args:
        written: The arguments, all their fragments together; nothing at all stands for an empty object.
        cut: The answer was cut at its bound, so that nothing at all stands for arguments that never came.
    """
    if not written.strip() and not cut:
        return "{}"
    for reading in (str.encode, _mended):
        try:
            read = reading(written)
            msgspec.json.decode(read, type=dict[str, Any])
            raw_json(Raw(read))  # refuses what is nested too deep to be kept
        except (ValueError, RecursionError):
            continue
        return read.decode()
    return msgspec.json.encode({MALFORMED_ARGUMENTS: written}).decode()


def _mended(written: str) -> bytes:
    """Return arguments with U+FFFD for half of a surrogate pair, as left by cutting a string."""
    return whole_json(written.encode())
