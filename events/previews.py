"""How a text begins, on one line: what lists show of a message, and what a title is made of."""

from __future__ import annotations

import unicodedata

PREVIEW_CHARS_MAX = 200
"""How long a preview of the first message is."""

TITLE_CHARS_MAX = 80
"""How long a title is that is made of the first message."""

_JOINER = "\u200d"


def preview(text: str, chars_max: int = PREVIEW_CHARS_MAX) -> str:
    """Return how a text begins, on one line; a cut is marked by an ellipsis and does not tear a character apart."""
    # Long pastes are common: only as much is looked at as a preview can hold.
    line = " ".join(text[: 8 * chars_max].split())
    if len(line) <= chars_max:
        return line if len(text) <= 8 * chars_max else f"{line}…"
    end = chars_max - 1
    while end > 0 and (_continues(line[end]) or line[end - 1] == _JOINER):
        end -= 1
    return f"{line[:end].rstrip()}…"


def _continues(char: str) -> bool:
    """Tell whether a character is drawn as a part of the one before it."""
    return char == _JOINER or unicodedata.category(char).startswith("M") or "\U0001f3fb" <= char <= "\U0001f3ff"
