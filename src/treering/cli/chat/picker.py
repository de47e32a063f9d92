"""The list for choosing a session: what is shown, what is selected, what a key does.

    ▸ Implement auth system                   Today 2:30 PM    45 messages  shop
      Fix CORS issues                         Today 10:15 AM   12 messages  shop

Enter resumes, n starts a new session, q quits; arrows or j and k move, `/` filters, Tab switches between the sessions
of all projects and those of this one. `Picking` is the state, and `draw` its drawing; neither knows a terminal, which
is `picker_screen`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Literal, TypeAlias

import click
from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from ...events.texts import counted
from ...projections.summary import CORRUPTED, SessionSummary
from ..columns import GAP, aligned, cut
from ..output import clean, line
from ..rows import name_of, place_of, size_of, used

Action: TypeAlias = Literal["resume", "new", "quit", "interrupt"]
"""What a person chose: to resume a session, start a new one, quit, or interrupt the program."""


class Picked(Struct, frozen=True):
    """The choice.

    Attributes:
        action: What to do.
        session: The session to resume; None for every other action.
    """

    action: Action
    session: SessionSummary | None = None


class Picking:
    """The state of the picker.

    Args:
        rows: All sessions, in display order.
        project_hash: The project whose sessions are shown initially.
        everywhere: Show the sessions of all projects from the start.
        current: The log of the session that is selected initially.

    Attributes:
        everywhere: Whether the sessions of all projects are shown.
        filter: The words that a session must contain to be shown.
        filtering: Whether typed characters edit the filter.
        selected: The position of the selected session among those shown.
        note: A message about the last key, or "".
    """

    def __init__(
        self, rows: Sequence[SessionSummary], project_hash: str, *, everywhere: bool = False, current: str | None = None
    ) -> None:
        self._rows = rows
        self._project_hash = project_hash
        self._shown: list[SessionSummary] = []
        self.everywhere = everywhere
        self.filter = ""
        self.filtering = False
        self.selected = 0
        self.note = ""
        self._refilter(current)

    @property
    def shown(self) -> Sequence[SessionSummary]:
        """The sessions shown."""
        return self._shown

    @property
    def session(self) -> SessionSummary | None:
        """The selected session, or None if none is shown."""
        return self._shown[self.selected] if self._shown else None

    def press(self, key: str, page: int) -> Picked | None:
        """Handle a key, and return the choice if it made one.

        Args:
            key: The key; see `Keys`.
            page: The number of sessions on the screen.
        """
        self.note = ""
        if key == "interrupt":
            return Picked("interrupt")
        if key == "enter":
            return self._resume_choice()
        if key == "tab":
            self.everywhere = not self.everywhere
            self._refilter(None if self.session is None else self.session.ref)
        elif key in _MOVES:
            self._move(key, page)
        elif self.filtering:
            self._edit(key)
        else:
            return self._command(key, page)
        return None

    def _resume_choice(self) -> Picked | None:
        session = self.session
        if session is None:
            self.note = "There is nothing to resume: press n for a new session."
            return None
        if session.status == CORRUPTED:
            self.note = f"This session cannot be read: {session.problem}"
            return None
        return Picked("resume", session)

    def _command(self, key: str, page: int) -> Picked | None:
        if key == "n":
            return Picked("new")
        if key in ("q", "end-of-input"):
            return Picked("quit")
        if key == "escape":
            if not self.filter:
                return Picked("quit")
            self.filter = ""
            self._refilter(None if self.session is None else self.session.ref)
        elif key == "/":
            self.filtering = True
        elif key in _LETTER_MOVES:
            self._move(_LETTER_MOVES[key], page)
        return None

    def _edit(self, key: str) -> None:
        if key == "escape":
            self.filtering, self.filter = False, ""
        elif key == "erase":
            self.filter = ""
        elif key == "backspace":
            self.filtering, self.filter = bool(self.filter), self.filter[:-1]
        elif len(key) == 1:
            self.filter += key
        else:
            return
        self._refilter(None if self.session is None else self.session.ref)

    def _move(self, key: str, page: int) -> None:
        count = len(self._shown)
        steps = {"up": -1, "down": 1, "page-up": -page, "page-down": page, "home": -count, "end": count}
        self.selected = max(0, min(self.selected + steps[key], count - 1))

    def _refilter(self, ref: str | None) -> None:
        """Apply project and filter, and select the given session if it is shown, else the first."""
        words = self.filter.casefold().split()
        self._shown = [
            row
            for row in self._rows
            if (self.everywhere or row.project_hash == self._project_hash)
            and all(word in _searched_text(row) for word in words)
        ]
        self.selected = next((at for at, row in enumerate(self._shown) if row.ref == ref), 0)


_MOVES = frozenset({"up", "down", "page-up", "page-down", "home", "end"})
_LETTER_MOVES = {"k": "up", "j": "down", "g": "home", "G": "end"}


def _searched_text(row: SessionSummary) -> str:
    """Return the text that the filter searches."""
    return "\n".join(filter(None, (row.title, row.first_message, row.id, row.project, row.key))).casefold()


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
