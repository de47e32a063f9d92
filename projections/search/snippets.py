"""A snippet: the piece of a text around its first match, on one line, with the places to highlight."""

from __future__ import annotations

from msgspec import Struct

from .query import QUERY_CHARS_MAX, Query

BEFORE_CHARS = 48
"""The maximum length of the text before the match."""

SNIPPET_CHARS = 160
"""The maximum length of a snippet, unless the match itself is longer."""

_CUT = "…"
_REACH = 16


class Snippet(Struct, frozen=True):
    """A piece of a text.

    Attributes:
        text: The piece, on one line, with an ellipsis where text was cut off.
        ranges: The spans of the query's terms in it, in order and without overlaps.
    """

    text: str
    ranges: tuple[tuple[int, int], ...]


def snippet(text: str, query: Query) -> Snippet:
    """Cut a snippet out of a text that matches a query."""
    start, stop = _first(text, query)
    begin = max(0, start - BEFORE_CHARS)
    end = max(stop, begin + SNIPPET_CHARS)
    if begin and (space := _space(text, begin, start)) >= 0:
        begin = space + 1  # begin at a word boundary if one is near
    if end < len(text) and (space := _space(text, end, stop)) >= 0:
        end = space
    line = " ".join(text[begin:end].split())
    before = _CUT if text[:begin].strip() else ""
    after = _CUT if text[end:].strip() else ""
    line = f"{before}{line}{after}"
    return Snippet(line, tuple(query.find_all(line)))


def _first(text: str, query: Query) -> tuple[int, int]:
    """Return the span of the first match, searching growing prefixes, since texts may be long and most matches early."""
    size = 4 * QUERY_CHARS_MAX
    while size < len(text):
        spans = query.find_all(text[:size])
        if spans and spans[0][1] < size // 2:
            return spans[0]
        size *= 4
    spans = query.find_all(text)
    return spans[0] if spans else (0, 0)


def _space(text: str, near: int, limit: int) -> int:
    """Return the nearest whitespace from an offset towards a limit; -1 if there is none within `_REACH` characters."""
    forwards = range(near, min(near + _REACH, limit))
    steps = forwards if limit >= near else range(near, max(near - _REACH, limit - 1), -1)
    return next((at for at in steps if text[at].isspace()), -1)
