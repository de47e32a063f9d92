"""Rows in columns: the first gets the remaining width; if space is short, one is shortened and others are dropped."""

from __future__ import annotations

import re
from collections.abc import Sequence

GAP = "  "

_FIRST_LEAST = 16
_SHORTENED_LEAST = 12
_NARROW = re.compile("[ -~\xa0-\xac\xae-\u02ff•…─-╿]*")
"""Characters that take one cell each. Texts of others alone are measured by rich, which is imported for them."""


def aligned(
    rows: Sequence[Sequence[str]], width: int, *, droppable: Sequence[int] | None = None, shortened: int | None = None
) -> list[list[str]]:
    """Return rows whose cells are padded to the widths of their columns; joined by `GAP`, they fit the width.

    Args:
        rows: The cells of each row, as clean text without styles, the same number in every row. Empty columns are left
            out.
        width: The width of the terminal.
        droppable: The columns that may be dropped if the width is too small, in order; by default all but the first,
            from the last one on. The other columns stay, even if the lines then exceed the width.
        shortened: The column that is shortened before any is dropped; its cells keep their ends.
    """
    columns = {at: column for at, column in enumerate(zip(*rows, strict=True)) if any(column)}
    if not columns:
        return [[] for _ in rows]
    first = min(columns)
    widths = {at: list(map(width_of, column)) for at, column in columns.items()}
    sizes = {at: max(each) for at, each in widths.items()}
    least = min(sizes[first], _FIRST_LEAST)
    if shortened in sizes and shortened != first:
        lacking = least - _remaining_width(sizes, first, width)
        sizes[shortened] = min(sizes[shortened], max(_SHORTENED_LEAST, sizes[shortened] - max(0, lacking)))
    for at in sorted(sizes, reverse=True) if droppable is None else droppable:
        if at in sizes and at != first and _remaining_width(sizes, first, width) < least:
            del sizes[at]
    sizes[first] = min(sizes[first], max(1, _remaining_width(sizes, first, width)))
    padded = [
        [_fitted(cell, taken, size, at == shortened) for cell, taken in zip(columns[at], widths[at], strict=True)]
        for at, size in sizes.items()
    ]
    return [list(row) for row in zip(*padded, strict=True)]


def width_of(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if _is_narrow(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """Truncate a text to the width, with an ellipsis at the cut."""
    if width_of(text) <= width:
        return text
    return _padded(text, max(0, width - 1)).rstrip() + "…"


def _fitted(text: str, taken: int, width: int, from_start: bool) -> str:
    """Return a text that takes so many cells in exactly `width`: filled with spaces, or truncated at an end."""
    if taken <= width:
        return text + " " * (width - taken)
    return _padded(_cut_start(text, width) if from_start else cut(text, width), width)


def _cut_start(text: str, width: int) -> str:
    """Truncate a text that is wider, from its start, with an ellipsis at the cut."""
    while width_of(text) > max(0, width - 1):
        text = text[1:]
    return "…" + text


def _padded(text: str, width: int) -> str:
    """Return a text that takes exactly this many cells: filled with spaces, or without its end."""
    if _is_narrow(text):
        return text[:width].ljust(width)
    from rich.cells import set_cell_size

    return set_cell_size(text, width)


def _is_narrow(text: str) -> bool:
    return (text.isascii() and text.isprintable()) or _NARROW.fullmatch(text) is not None


def _remaining_width(sizes: dict[int, int], first: int, width: int) -> int:
    """Return the width that all other columns leave to the first."""
    return width - sum(size for at, size in sizes.items() if at != first) - len(GAP) * (len(sizes) - 1)
