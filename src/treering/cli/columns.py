"""Rows in columns: the first takes what the others leave; where there is no room, one is shortened and others go."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

GAP = "  "

_FIRST_LEAST = 16
_SHORTENED_LEAST = 12


def aligned(
    rows: Sequence[Sequence[str]], width: int, *, going: Sequence[int] | None = None, shortened: int | None = None
) -> list[list[str]]:
    """Return rows whose cells are padded to the widths of their columns; joined by `GAP`, they fit the width.

    Args:
        rows: The cells of each row, of every row as many; clean text without styles. A column without any text is left out.
        width: How many columns of the terminal there are.
        going: The columns that may be left out where there is no room, in the order in which they go; by default all but
            the first, the last one first. The others stay, and then the lines may be longer.
        shortened: The column that is shortened before any is left out; of its cells the ends are shown.
    """
    columns = {at: column for at, column in enumerate(zip(*rows, strict=True)) if any(column)}
    if not columns:
        return [[] for _ in rows]
    first = min(columns)
    sizes = {at: max(map(cell_len, column)) for at, column in columns.items()}
    least = min(sizes[first], _FIRST_LEAST)
    if shortened in sizes and shortened != first:
        lacking = least - _left(sizes, first, width)
        sizes[shortened] = min(sizes[shortened], max(_SHORTENED_LEAST, sizes[shortened] - max(0, lacking)))
    for at in sorted(sizes, reverse=True) if going is None else going:
        if at in sizes and at != first and _left(sizes, first, width) < least:
            del sizes[at]
    sizes[first] = min(sizes[first], max(1, _left(sizes, first, width)))
    padded = [
        [set_cell_size((cut_start if at == shortened else cut)(cell, size), size) for cell in columns[at]]
        for at, size in sizes.items()
    ]
    return [list(row) for row in zip(*padded, strict=True)]


def cut(text: str, width: int) -> str:
    """Return as much of a text as fits, marked where it was cut."""
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)).rstrip() + "…"


def cut_start(text: str, width: int) -> str:
    """Return as much of the end of a text as fits, marked where it was cut."""
    if cell_len(text) <= width:
        return text
    while cell_len(text) > max(0, width - 1):
        text = text[1:]
    return "…" + text


def _left(sizes: dict[int, int], first: int, width: int) -> int:
    """Return what all other columns leave to the first."""
    return width - sum(size for at, size in sizes.items() if at != first) - len(GAP) * (len(sizes) - 1)
