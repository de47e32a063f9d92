"""The beginning of a text on one line, for listings and for titles made from the first message."""

from __future__ import annotations

import unicodedata

PREVIEW_CHARS_MAX = 200
"""The greatest length of a preview of the first message."""

TITLE_CHARS_MAX = 80
"""The greatest length of a title made from the first message."""

_JOINER = "\u200d"


def preview(text: str, chars_max: int = PREVIEW_CHARS_MAX) -> str:
    """Return the beginning of a text on one line; a cut is marked by an ellipsis and never splits a grapheme."""
    # Long pastes are common, so only a small multiple of the preview's length is processed.
    line = " ".join(text[: 8 * chars_max].split())
    if len(line) <= chars_max:
        return line if len(text) <= 8 * chars_max else f"{line}…"
    end = chars_max - 1
    while end > 0 and (_continues(line[end]) or line[end - 1] == _JOINER):
        end -= 1
    return f"{line[:end].rstrip()}…"


def _continues(char: str) -> bool:
    """Return whether a character is displayed as part of the one before it."""
    return char == _JOINER or unicodedata.category(char).startswith("M") or "\U0001f3fb" <= char <= "\U0001f3ff"
