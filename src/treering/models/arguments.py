"""What a model wrote as the arguments of a call, which it ought to write as a JSON object and sometimes does not."""

from __future__ import annotations

from typing import Any

import msgspec

from ..actors.agents.model import MALFORMED_ARGUMENTS


def arguments_of(written: str, *, cut: bool) -> str:
    """Return arguments as a JSON object: those that a model wrote, or what says that it wrote none.

    Args:
        written: The arguments, all their fragments together; nothing at all stands for an empty object.
        cut: The answer was cut at its bound, so that nothing at all stands for arguments that never came.
    """
    if not written.strip() and not cut:
        return "{}"
    try:
        msgspec.json.decode(written, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return msgspec.json.encode({MALFORMED_ARGUMENTS: written}).decode()
    return written
