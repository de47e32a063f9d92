"""A table of sessions for people: one row per session, the name first, the current session marked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import click

from ..events.stores.base import Ref
from ..events.texts import TITLE_CHARS_MAX, preview
from ..projections.summary import CORRUPTED, SessionSummary
from .output import columns
from .prefixes import LEAST, Prefixes
from .rows import name_of, place_of, size_of, status_of, used

WIDTH_OF_PIPES = 10_000
"""The width of a table that is not printed to a terminal: its columns are bounded one by one."""

_PLACE_CHARS_MAX = 1000

_USED, _SIZE, _PLACE = 1, 2, 4  # column numbers


def table_of(
    rows: Sequence[SessionSummary],
    *,
    among: Iterable[SessionSummary],
    places: bool,
    current: Ref | None = None,
) -> Iterator[str]:
    """Yield a line for each session: its name, when it was used, its size, its id; with a `*` before the current one.

    A name is cut to fit the terminal, and to 80 characters elsewhere. In a narrow terminal, the directory is shortened,
    and the size and the time are dropped, but never the id. Of an id that takes more than a third of the terminal, a
    unique prefix is shown.

    Args:
        rows: The sessions.
        among: All sessions, among which each shown prefix of an id is unique.
        places: Also show the directory of each session.
        current: The log of the current session.
    """
    from .columns import GAP, aligned

    now = datetime.now(UTC)
    in_terminal = sys.stdout.isatty()
    width = columns() if in_terminal else WIDTH_OF_PIPES
    prefixes = Prefixes((row.id for row in among), longest=max(LEAST, width // 3))
    cells = [
        [
            name_of(row) if in_terminal else preview(name_of(row), TITLE_CHARS_MAX),
            used(row, now),
            size_of(row),
            prefixes.of(row.id),
            place_of(row, _PLACE_CHARS_MAX) if places else "",
            status_of(row),
        ]
        for row in rows
    ]
    for row, (name, *others) in zip(
        rows, aligned(cells, width - 2, droppable=(_SIZE, _USED), shortened=_PLACE), strict=True
    ):
        mark = "* " if row.ref == current else "  "
        color = "red" if row.status == CORRUPTED else None
        rest = click.style(GAP.join(others).rstrip(), dim=True)
        yield f"{mark}{click.style(name, bold=row.ref == current, fg=color)}{GAP}{rest}".rstrip()
