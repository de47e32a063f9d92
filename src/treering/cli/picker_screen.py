"""How a choice of sessions looks: lines of a given width, at most so many. Pure: the same state gives the same lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

import click
from rich.cells import cell_len, set_cell_size

from ..events.findings import counted
from ..projections.summary import SessionSummary
from .output import clean
from .picking import Picking
from .rows import name_of, place_of, size_of, used

_TITLE = "Select a session to resume:"
_KEYS = "[Enter] Resume  [n] New session  [/] Filter  [Tab] {other}  [q] Quit"
_FILTER_KEYS = "[Enter] Resume  [Esc] No filter  [Tab] {other}"
_AROUND = 5  # the title, a line above and below the preview, what is to be said, the keys
_PREVIEW_MAX = 8
_ROWS_LEAST = 3
_NAME_LEAST = 16


class Layout:
    """How the lines of a screen are shared out.

    Args:
        width: How many columns there are.
        height: How many lines there are.

    Attributes:
        preview: How many lines show what was said last.
        rows: How many sessions are seen at once.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.preview = max(0, min(_PREVIEW_MAX, (height - _AROUND) // 3))
        self.rows = max(_ROWS_LEAST, height - _AROUND - self.preview)


def draw(
    picking: Picking,
    preview: Sequence[str],
    layout: Layout,
    now: datetime,
    *,
    zone: tzinfo | None = None,
    marker: str = "▸",
) -> list[str]:
    """Draw the state of a choice.

    Args:
        picking: The state.
        preview: The last that was said in the selected session, a line each.
        layout: How much room there is.
        now: The present time.
        zone: Whose days they are; the system's where it is None.
        marker: What stands before the selected session.
    """
    width = layout.width
    other = "This project" if picking.everywhere else "All projects"
    where = "all projects" if picking.everywhere else "this project"
    how_many = f"{counted(len(picking.shown), 'session')} in {where}"
    told = f"{_TITLE}  {click.style(how_many, dim=True)}"
    lines = [told if cell_len(click.unstyle(told)) <= width else _cut(_TITLE, width)]
    if picking.filtering or picking.filter:
        lines.append(_cut(f"/{clean(picking.filter)}{'_' if picking.filtering else ''}", width))
    room = layout.rows - len(lines) + 1
    first = max(0, min(picking.selected - room // 2, len(picking.shown) - room))
    shown = picking.shown[first : first + room]
    if not shown:
        lines.append(click.style(_cut(_nothing(picking), width), dim=True))
    for at, cells in enumerate(_table(shown, now, zone, width - 2, places=picking.everywhere), first):
        here = at == picking.selected
        line = set_cell_size(f"{marker if here else ' '} {cells}", width)
        lines.append(click.style(line, reverse=True, bold=True) if here else line)
    if layout.preview and preview:
        lines += ["", *(click.style(_cut(line, width), dim=True) for line in preview[-layout.preview :])]
    lines.append(click.style(_cut(clean(picking.note), width), fg="yellow") if picking.note else "")
    keys = (_FILTER_KEYS if picking.filtering else _KEYS).format(other=other)
    lines.append(click.style(_cut(keys, width), dim=True))
    return lines


def _nothing(picking: Picking) -> str:
    if picking.filter:
        return "  No session holds these words."
    return "  There are no sessions yet." if picking.everywhere else "  There are no sessions in this project yet."


def _table(
    rows: Sequence[SessionSummary], now: datetime, zone: tzinfo | None, width: int, *, places: bool
) -> list[str]:
    """Lay out rows in columns: the name takes what the others leave, and those that do not fit are left out."""
    columns = [[used(row, now, zone) for row in rows], [size_of(row) for row in rows]]
    if places:
        columns.append([place_of(row) for row in rows])
    widths = [max((cell_len(cell) for cell in column), default=0) for column in columns]
    while widths and width - sum(widths) - 2 * len(widths) < _NAME_LEAST:
        widths.pop()
    for_name = width - sum(widths) - 2 * len(widths)
    names = [_cut(name_of(row), for_name) for row in rows]
    longest = max(map(cell_len, names), default=0)
    return [
        "  ".join(
            [
                set_cell_size(name, longest),
                *(set_cell_size(column[at], size) for column, size in zip(columns, widths, strict=False)),
            ]
        )
        for at, name in enumerate(names)
    ]


def _cut(text: str, width: int) -> str:
    """Return as much of a text as fits, marked where it was cut."""
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)).rstrip() + "…"
