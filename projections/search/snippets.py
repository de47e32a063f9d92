"""A snippet: the piece of a text around its first match, on one line, with the places to highlight."""

from __future__ import annotations

from msgspec import Struct

from .query import QUERY_CHARS_MAX, Query

BEFORE_CHARS = 48
"""How much of the text stands before the match, at most."""

SNIPPET_CHARS = 160
"""How long a snippet is, at most; a longer match is shown whole."""

_CUT = "…"
_REACH = 16


class Snippet(Struct, frozen=True):
    """A piece of a text.

    Attributes:
        text: The piece, on one line; where the text goes on before or after it stands an ellipsis.
        ranges: Where in it the query's words are: where each begins and ends, in order, without overlaps.
    """

    text: str
    ranges: tuple[tuple[int, int], ...]


def snippet(text: str, query: Query) -> Snippet:
    """Cut a snippet out of a text that matches a query."""
    start, stop = _first(text, query)
    begin = max(0, start - BEFORE_CHARS)
    end = max(stop, begin + SNIPPET_CHARS)
    if begin and (space := _space(text, begin, start)) >= 0:
        begin = space + 1  # at a word's beginning, where one is near
    if end < len(text) and (space := _space(text, end, stop)) >= 0:
        end = space
    line = " ".join(text[begin:end].split())
    before = _CUT if text[:begin].strip() else ""
    after = _CUT if text[end:].strip() else ""
    line = f"{before}{line}{after}"
    return Snippet(line, tuple(query.find_all(line)))


def _first(text: str, query: Query) -> tuple[int, int]:
    """Return where the first match is. Texts may be long and most matches come early: it is looked for in pieces."""
    size = 4 * QUERY_CHARS_MAX
    while size < len(text):
        found = query.find_all(text[:size])
        if found and found[0][1] < size // 2:
            return found[0]
        size *= 4
    found = query.find_all(text)
    return found[0] if found else (0, 0)


def _space(text: str, near: int, limit: int) -> int:
    """Return the space next to an offset, on the way to a limit; -1 where there is none within some characters."""
    forwards = range(near, min(near + _REACH, limit))
    steps = forwards if limit >= near else range(near, max(near - _REACH, limit - 1), -1)
    return next((at for at in steps if text[at].isspace()), -1)
