"""The sessions of the programs of this machine: a list that is drawn in place, or a line for each that changes.

The list is on the screen that a terminal shows instead of its usual one, and is drawn again when something changed, and
every second, since it says how long ago that was.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import anyio
import click
from rich.cells import set_cell_size

from ..actors.programs.sessions import ProgramChange, ProgramSession, ProgramSessions
from ..projections.session_state import SessionState, Word
from .columns import GAP, cut, width_of
from .messages import logs_held_back, logs_on_stderr, warn
from .output import as_json as encoded
from .output import can_write_unicode, ended_by_signals, line, short_line, watch_reader
from .rows import in_zone, shown_place, when

_FOLLOWED_MAX = 200
_PRINTED_AT_FIRST = 20
_DRAWN_EVERY_S = 1.0
_DAYS_MAX = 30
_PLACE_WIDTH = 28
_WITH_LINE, _WITH_PLACE = 56, 96  # columns of a terminal
_TITLE_SHARE, _TITLE_LEAST = 0.4, 16
_FOOT = "Ctrl-C ends. `treering import --from PROGRAM` keeps sessions."
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE = "\x1b[H", "\x1b[K"


class Sign(NamedTuple):
    """How a state is shown: by a character, in ASCII, in a color, and in words."""

    sign: str
    plain: str
    color: str | None
    words: str


SIGNS: dict[Word, Sign] = {
    "working": Sign("●", "*", "green", "working"),
    "waits": Sign("◆", "?", "yellow", "waiting for a person"),
    "error": Sign("✕", "!", "red", "with an error"),
    "idle": Sign("○", "-", None, "idle"),
    "done": Sign("✓", "+", None, "done"),
}


def ago(moment: datetime, now: datetime) -> str:
    """Return how long ago something was, in a few characters; the day, if that was long ago."""
    seconds = int((now - moment).total_seconds())
    if seconds < 60:
        return "now" if seconds < 1 else f"{seconds} s"
    for unit, size, most in (("min", 60, 60), ("h", 3600, 24), ("d", 86400, _DAYS_MAX)):
        if seconds < size * most:
            return f"{seconds // size} {unit}"
    return when(moment, now)


def said(row: ProgramSession) -> str:
    """Return what a session is about to do or said last, or why it cannot be read."""
    if row.state is None:
        return f"cannot be read: {line(row.problem or '')}"
    tool = row.state.tool
    if row.state.state in ("working", "waits") and tool is not None:
        return short_line(f"{tool.name} {tool.argument}".strip())
    return short_line(row.state.error or row.state.line)


def title_of(row: ProgramSession) -> str:
    """Return the title of a session for people, with a mark if something in it cannot be read."""
    title = short_line(row.title or "") or line(row.id)
    return f"{title} (damaged)" if row.problem is not None and row.state is not None else title


def drawn(
    rows: Sequence[ProgramSession], now: datetime, *, width: int, height: int, complete: bool, unicode: bool
) -> list[str]:
    """Return the lines of the list, as many as there is room for.

    Args:
        rows: The sessions, those that changed last first.
        now: The time.
        width: The columns of the terminal.
        height: Its lines.
        complete: Whether all sessions have been looked at.
        unicode: Whether it can show any character.
    """
    counts = Counter(row.doing(now) for row in rows)
    head = ", ".join(f"{counts[word]} {sign.words}" for word, sign in SIGNS.items() if counts[word])
    head = f"Sessions on this machine: {head or 'none'}" + ("" if complete else ", still looking")
    lines = [click.style(cut(head, width), bold=True)]
    if not rows and complete:
        lines.append(cut("They appear here as soon as a program keeps one.", width))
    shown = rows[: max(0, height - 2)]
    lines += _aligned(shown, now, width, unicode=unicode)
    lines += [""] * (height - 1 - len(lines))
    return [*lines[: height - 1], click.style(cut(_FOOT, width), dim=True)]


def _aligned(rows: Sequence[ProgramSession], now: datetime, width: int, *, unicode: bool) -> Iterator[str]:
    """Yield the lines of rows: of a narrow terminal, without the last words, or at least without the folder."""
    places = [shown_place(row.cwd, _PLACE_WIDTH) if row.cwd and width >= _WITH_PLACE else "" for row in rows]
    times = [ago(row.updated, now) for row in rows]
    programs, place_size, time_size = (
        max(map(width_of, texts), default=0) for texts in ([row.program_title for row in rows], places, times)
    )
    left = width - 2 - sum(size + len(GAP) for size in (programs, place_size, time_size) if size)
    has_line = width >= _WITH_LINE
    title_size = max(_TITLE_LEAST, int(left * _TITLE_SHARE)) if has_line else max(1, left)
    line_size = max(1, left - title_size - len(GAP)) if has_line else 0
    for row, place, time in zip(rows, places, times, strict=True):
        word = row.doing(now)
        sign, lively = SIGNS[word], word in ("working", "waits")
        cells = [
            click.style(_filled(row.program_title, programs), dim=True),
            click.style(_filled(title_of(row), title_size), bold=lively),
            click.style(_filled(said(row), line_size), fg="red" if word == "error" else None) if line_size else "",
            click.style(_filled(place, place_size), dim=True) if place_size else "",
            click.style(time.rjust(time_size), dim=not lively),
        ]
        mark = click.style(sign.sign if unicode else sign.plain, fg=sign.color, dim=sign.color is None)
        yield f"{mark} {GAP.join(filter(None, cells))}"


def _filled(text: str, size: int) -> str:
    return set_cell_size(cut(text, size), size)


def printed(row: ProgramSession, now: datetime) -> str:
    """Return the line of a session that is printed when it changed."""
    time = f"{in_zone(row.updated):%Y-%m-%d %H:%M:%S}"
    word = row.doing(now)
    colored = click.style(f"{word:7}", fg=SIGNS[word].color, dim=SIGNS[word].color is None)
    place = shown_place(row.cwd) if row.cwd else "-"
    return GAP.join((time, f"{row.program:11}", colored, title_of(row), place, said(row))).rstrip()


def value_of(change: ProgramChange, now: datetime) -> dict[str, object]:
    """Return a change as JSON."""
    row = change.row
    if row is None:
        program, session_id = change.key
        return {"op": "gone", "program": program, "id": session_id}
    fields = {name: getattr(row, name) for name in ("program", "id", "path", "title", "cwd", "updated", "problem")}
    state = row.state or SessionState(state="error", since=row.updated)
    return {"op": "changed", **fields, "state": row.doing(now), "line": state.line, "tool": state.tool}


async def follow_programs(programs: Sequence[str], as_json: bool) -> None:
    """Show the sessions of programs until Ctrl-C, or until the reader of stdout is gone.

    Args:
        programs: The names of the programs; all if there are none.
        as_json: Print a line of JSON for each change.
    """
    with ProgramSessions(os.environ, programs, sessions_max=_FOLLOWED_MAX) as sessions:
        if not as_json and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            await _Screen(sessions).run()
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch_reader)
            with logs_on_stderr():
                await _print(sessions, as_json)


async def _print(sessions: ProgramSessions, as_json: bool) -> None:
    """Print the sessions that changed last, oldest first, and then each that changes."""
    told: dict[str, str] = {}
    while not sessions.is_complete:
        for each in await sessions.receive_many():
            _warn_of(each.row, told)
    last = sorted(sessions.rows.values(), key=lambda row: row.updated)[-_PRINTED_AT_FIRST:]
    changes = [ProgramChange(row.key, row) for row in last]
    while True:
        now = datetime.now(UTC)
        for each in changes:
            _warn_of(each.row, told)
            if as_json:
                click.echo(encoded(value_of(each, now)))
            elif each.row is not None:
                click.echo(printed(each.row, now))
        sys.stdout.flush()
        changes = await sessions.receive_many()


class _Screen:
    """The list on the screen of a terminal.

    Args:
        sessions: The sessions.
    """

    def __init__(self, sessions: ProgramSessions) -> None:
        self._sessions = sessions
        self._is_colored = click.get_current_context().color is not False
        self._unicode = can_write_unicode()

    async def run(self) -> None:
        """Show it until it is cancelled, as by Ctrl-C.

        Raises:
            SystemExit: A signal ended the program.
        """
        with logs_held_back():
            sys.stdout.write(_ENTER)
            try:
                async with ended_by_signals() as tasks:
                    tasks.start_soon(self._draw_often)
                    while True:
                        await self._sessions.receive_many()
                        self._draw()
            finally:
                sys.stdout.write(_LEAVE)
                sys.stdout.flush()

    async def _draw_often(self) -> None:
        while True:
            self._draw()
            await anyio.sleep(_DRAWN_EVERY_S)

    def _draw(self) -> None:
        size = shutil.get_terminal_size()
        rows = sorted(self._sessions.rows.values(), key=lambda row: row.updated, reverse=True)
        lines = drawn(
            rows,
            datetime.now(UTC),
            width=size.columns,
            height=size.lines,
            complete=self._sessions.is_complete,
            unicode=self._unicode,
        )
        text = f"{_REST_OF_LINE}\r\n".join(lines if self._is_colored else map(click.unstyle, lines))
        sys.stdout.write(f"{_HOME}{text}{_REST_OF_LINE}")
        sys.stdout.flush()


def _warn_of(row: ProgramSession | None, told: dict[str, str]) -> None:
    """Write why a session cannot be read, once."""
    if row is not None and row.problem is not None and told.get(row.path) != row.problem:
        told[row.path] = row.problem
        warn(f"{row.path}: {row.problem}")
