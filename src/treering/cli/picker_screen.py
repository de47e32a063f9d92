"""The layout of the session picker, as lines of a given width. Pure: the same state gives the same lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

import click
from rich.cells import cell_len, set_cell_size

from ..events.texts import counted
from ..projections.summary import SessionSummary
from .columns import GAP, aligned, cut
from .output import clean, line
from .picking import Picking
from .rows import name_of, place_of, size_of, used

_TITLE = "Select a session to resume:"
_KEYS = "[Enter] Resume  [n] New session  [/] Filter  [Tab] {other}  [q] Quit"
_FILTER_KEYS = "[Enter] Resume  [Esc] No filter  [Tab] {other}"
_AROUND = 5  # the title, a line above and below the preview, the note, the keys
_PREVIEW_MAX = 8
_ROWS_LEAST = 3
_PLACE_MAX = 24


class Layout:
    """The division of the screen into parts.

    Args:
        width: The number of columns.
        height: The number of lines.

    Attributes:
        width: The number of columns.
        height: The number of lines.
        preview: The number of lines of the preview.
        rows: The number of sessions shown at once.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
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
    """Draw the state of the picker.

    Args:
        picking: The state.
        preview: The last messages of the selected session, one per line.
        layout: The division of the screen.
        now: The current time.
        zone: The time zone; by default the system's.
        marker: The mark before the selected session.
    """
    width = layout.width
    other = "This project" if picking.everywhere else "All projects"
    where = "all projects" if picking.everywhere else "this project"
    summary = f"{counted(len(picking.shown), 'session')} in {where}"
    heading = f"{_TITLE}  {click.style(summary, dim=True)}"
    lines = [heading if cell_len(click.unstyle(heading)) <= width else cut(_TITLE, width)]
    if picking.filtering or picking.filter:
        lines.append(cut(f"/{clean(picking.filter)}{'_' if picking.filtering else ''}", width))
    room = layout.rows - len(lines) + 1
    first = max(0, min(picking.selected - room // 2, len(picking.shown) - room))
    shown = picking.shown[first : first + room]
    if not shown:
        lines.append(click.style(cut(_nothing(picking), width), dim=True))
    cells = [_cells(row, now, zone, places=picking.everywhere) for row in shown]
    for at, row in enumerate(aligned(cells, width - 2), first):
        selected = at == picking.selected
        text = set_cell_size(f"{marker if selected else ' '} {GAP.join(row)}", width)
        lines.append(click.style(text, reverse=True, bold=True) if selected else text)
    if layout.preview and preview:
        lines += ["", *(click.style(cut(each, width), dim=True) for each in preview[-layout.preview :])]
    lines.append(click.style(cut(line(picking.note), width), fg="yellow") if picking.note else "")
    keys = (_FILTER_KEYS if picking.filtering else _KEYS).format(other=other)
    lines.append(click.style(cut(keys, width), dim=True))
    return lines[: layout.height]


def _nothing(picking: Picking) -> str:
    if picking.filter:
        return "  No session contains these words."
    return "  There are no sessions yet." if picking.everywhere else "  There are no sessions in this project yet."


def _cells(row: SessionSummary, now: datetime, zone: tzinfo | None, *, places: bool) -> list[str]:
    cells = [name_of(row), used(row, now, zone), size_of(row)]
    return [*cells, place_of(row, _PLACE_MAX)] if places else cells
