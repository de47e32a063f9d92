"""The arguments of a call, which a model should write as a JSON object and sometimes does not."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from ..actors.agents.model import MALFORMED_ARGUMENTS
from ..events.json_values import raw_json
from ..events.texts import whole_json


def arguments_of(written: str, *, cut: bool) -> str:
    """Return arguments as a JSON object: as written, or under a key that marks them as malformed.

    Args:
        written: The joined fragments of the arguments; an empty text means an empty object.
        cut: The answer was cut off at its limit, so an empty text means arguments that never arrived.
    """
    if not written.strip() and not cut:
        return "{}"
    for encode in (str.encode, _with_whole_characters):
        try:
            encoded = encode(written)
            msgspec.json.decode(encoded, type=dict[str, Any])
            raw_json(Raw(encoded))  # rejects arguments that are nested too deep to be stored
        except (ValueError, RecursionError):
            continue
        return encoded.decode()
    return msgspec.json.encode({MALFORMED_ARGUMENTS: written}).decode()


def _with_whole_characters(written: str) -> bytes:
    """Replace lone surrogates, as left by cutting a string, by U+FFFD."""
    return whole_json(written.encode())
