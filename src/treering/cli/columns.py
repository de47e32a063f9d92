"""Rows in columns: the first takes what the others leave, and the last ones go where there is no room for them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

GAP = "  "

_FIRST_LEAST = 16


def aligned(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Return rows whose cells are padded to the widths of their columns; joined by `GAP`, they fit the width.

    Args:
        rows: The cells of each row, of every row as many; clean text without styles. A column without any text is left out.
        width: How many columns of the terminal there are.
    """
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    if not columns:
        return [[] for _ in rows]
    sizes = [max(map(cell_len, column)) for column in columns]
    while len(sizes) > 1 and width - _taken(sizes) < min(sizes[0], _FIRST_LEAST):
        sizes.pop()
    sizes[0] = min(sizes[0], max(1, width - _taken(sizes)))
    shown = zip(columns, sizes, strict=False)  # the last columns may be left out
    padded = [[set_cell_size(cut(cell, size), size) for cell in column] for column, size in shown]
    return [list(row) for row in zip(*padded, strict=True)]


def cut(text: str, width: int) -> str:
    """Return as much of a text as fits, marked where it was cut."""
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)).rstrip() + "…"


def _taken(sizes: Sequence[int]) -> int:
    """Return what all columns but the first take."""
    return sum(sizes[1:]) + len(GAP) * (len(sizes) - 1)
