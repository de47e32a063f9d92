"""How a choice of sessions looks: lines of a given width, at most so many. Pure: the same state gives the same lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

import click
from rich.cells import cell_len, set_cell_size

from ..events.wording import counted
from ..projections.summary import SessionSummary
from .columns import GAP, aligned, cut
from .output import clean, line
from .picking import Picking
from .rows import name_of, place_of, size_of, used

_TITLE = "Select a session to resume:"
_KEYS = "[Enter] Resume  [n] New session  [/] Filter  [Tab] {other}  [q] Quit"
_FILTER_KEYS = "[Enter] Resume  [Esc] No filter  [Tab] {other}"
_AROUND = 5  # the title, a line above and below the preview, what is to be said, the keys
_PREVIEW_MAX = 8
_ROWS_LEAST = 3
_PLACE_MAX = 24


class Layout:
    """How the lines of a screen are shared out.

    Args:
        width: How many columns there are.
        height: How many lines there are.

    Attributes:
        width: How many columns there are.
        height: How many lines there are.
        preview: How many lines show what was said last.
        rows: How many sessions are seen at once.
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
    lines = [told if cell_len(click.unstyle(told)) <= width else cut(_TITLE, width)]
    if picking.filtering or picking.filter:
        lines.append(cut(f"/{clean(picking.filter)}{'_' if picking.filtering else ''}", width))
    room = layout.rows - len(lines) + 1
    first = max(0, min(picking.selected - room // 2, len(picking.shown) - room))
    shown = picking.shown[first : first + room]
    if not shown:
        lines.append(click.style(cut(_nothing(picking), width), dim=True))
    cells = [_cells(row, now, zone, places=picking.everywhere) for row in shown]
    for at, row in enumerate(aligned(cells, width - 2), first):
        here = at == picking.selected
        told = set_cell_size(f"{marker if here else ' '} {GAP.join(row)}", width)
        lines.append(click.style(told, reverse=True, bold=True) if here else told)
    if layout.preview and preview:
        lines += ["", *(click.style(cut(each, width), dim=True) for each in preview[-layout.preview :])]
    lines.append(click.style(cut(line(picking.note), width), fg="yellow") if picking.note else "")
    keys = (_FILTER_KEYS if picking.filtering else _KEYS).format(other=other)
    lines.append(click.style(cut(keys, width), dim=True))
    return lines[: layout.height]


def _nothing(picking: Picking) -> str:
    if picking.filter:
        return "  No session holds these words."
    return "  There are no sessions yet." if picking.everywhere else "  There are no sessions in this project yet."


def _cells(row: SessionSummary, now: datetime, zone: tzinfo | None, *, places: bool) -> list[str]:
    cells = [name_of(row), used(row, now, zone), size_of(row)]
    return [*cells, place_of(row, _PLACE_MAX)] if places else cells
