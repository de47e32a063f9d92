"""Sessions and entries in a line each, for people.

A session has its name, when it was used, its size, its id and its project; an entry its role or type, and a preview.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise

import click

from ..events.entries import ARCHIVED, Entry, MessageEntry, OpaqueEntry, payload_of
from ..events.stores.base import Ref
from ..events.texts import TITLE_CHARS_MAX, counted, preview
from ..projections.summary import ACTIVE, CORRUPTED, SessionSummary
from .columns import GAP, aligned
from .home import Home
from .output import clean, columns, line, short_line, shows_colors


def in_zone(moment: datetime, zone: tzinfo | None = None) -> datetime:
    """Return a time in a zone, by default the system's; return it unchanged if Python has no such time."""
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):  # at the first and last representable hours; a whole day from UTC or more
        return moment


def when(moment: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """Return a time relative to now: "Today 2:30 PM", "Yesterday", "Dec 23", "Dec 23, 2024".

    Args:
        moment: The time to describe.
        now: The current time.
        zone: The time zone; by default the system's.
    """
    then, today = in_zone(moment, zone), _day_of(now, zone)
    day = then.date()
    if day == today:
        return f"Today {then.hour % 12 or 12}:{then.minute:02} {'AM' if then.hour < 12 else 'PM'}"
    if today - day == timedelta(days=1):
        return "Yesterday"
    return _date(day) if day.year == today.year else f"{_date(day)}, {day.year}"


@lru_cache(maxsize=1)
def _day_of(now: datetime, zone: tzinfo | None) -> date:
    """Return the day of the present, which all rows of a table share."""
    return in_zone(now, zone).date()


@lru_cache
def _date(day: date) -> str:
    return f"{day:%b} {day.day}"


_LEAST = 8  # of the characters of an id
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class Prefixes:
    """Shortens the ids of sessions for display.

    A version 7 uuid begins with the time, so two sessions of the same minute share their first digits.

    Args:
        ids: The ids of all sessions that a prefix may refer to.
        longest: The length beyond which an id that is not a uuid is shortened as well, to this length if that prefix is
            unique; None if it never is.
    """

    def __init__(self, ids: Iterable[str], longest: int | None = None) -> None:
        self._longest = longest
        self._common_chars: dict[str, int] = {}
        for one, other in pairwise(sorted(ids)):
            common_chars = len(os.path.commonprefix([one, other]))  # noqa: RUF071  # of texts, not paths
            for each in (one, other):
                self._common_chars[each] = max(self._common_chars.get(each, 0), common_chars)

    def of(self, session_id: str) -> str:
        """Return the shortest unique prefix of a uuid or of an id that is too long; return any other id unchanged."""
        least = _LEAST if _UUID.fullmatch(session_id) else self._longest
        if least is None or len(session_id) <= least:
            return clean(session_id)
        end = max(least, self._common_chars.get(session_id, 0) + 1)
        if session_id[end - 1 : end] == "-":
            end += 1  # a prefix that ends in a hyphen looks cut off
        return clean(session_id[:end])


NAMELESS = "(no text by the user yet)"
"""The placeholder for a session without a name and without a text by the user."""


_STATUS_CHARS_MAX = 40


def named(row: SessionSummary) -> dict[str, str | None]:
    """Return the id of a session that a command changed, and the path of its file, which may be gone, for `--json`."""
    return {"id": row.id, "path": row.path}


def name_of(row: SessionSummary) -> str:
    """Return the name of a session, or the beginning of its first message; of a file that cannot be read, its name.

    A long name is cut.
    """
    if row.problem is not None:
        return short_line(os.path.basename(row.path or row.ref))
    return short_line(row.title or "") or NAMELESS


def used(row: SessionSummary, now: datetime, zone: tzinfo | None = None) -> str:
    """Return when a session was last used, the key by which lists are sorted."""
    return when(row.used, now, zone)


def size_of(row: SessionSummary) -> str:
    """Return how many messages a session has, or that it cannot be read."""
    return counted(row.message_count, "message") if row.problem is None else "cannot be read"


def place_of(row: SessionSummary, chars_max: int | None = None) -> str:
    """Return the directory of a session's project, with the home directory as `~`.

    Args:
        row: The session's row.
        chars_max: The maximum length; of a longer path the end is shown.
    """
    return "-" if row.project is None else shown_place(row.project, chars_max)


def shown_place(folder: str, chars_max: int | None = None) -> str:
    """Return a directory, with the home directory as `~`; see `place_of`."""
    mine = os.path.expanduser("~")
    inside = folder == mine or folder.startswith(mine.rstrip(os.sep) + os.sep)
    place = line("~" + folder[len(mine.rstrip(os.sep)) :] if inside else folder)
    return place if chars_max is None or len(place) <= chars_max else f"…{place[-chars_max + 1 :]}"


def status_of(row: SessionSummary) -> str:
    """Return a session's status and whether it is archived, or "" if it is active."""
    status = "" if row.status == ACTIVE else short_line(row.status, _STATUS_CHARS_MAX)
    return f"{status}, {ARCHIVED}" if row.archived and row.status != ARCHIVED else status


_PLACE_CHARS_MAX = 1000
_USED, _SIZE, _PLACE = 1, 2, 4  # column numbers

WIDTH_OF_PIPES = 10_000
"""The width of a table that is not printed to a terminal: its columns are bounded one by one."""


def table_of(
    rows: Sequence[SessionSummary], *, among: Iterable[SessionSummary], places: bool, current: Ref | None = None
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
    now = datetime.now(UTC)
    in_terminal, in_color = sys.stdout.isatty(), shows_colors()
    width = columns() if in_terminal else WIDTH_OF_PIPES
    prefixes = Prefixes((row.id for row in among), longest=max(_LEAST, width // 3))
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
        rest = GAP.join(others).rstrip()
        if in_color:
            name = click.style(name, bold=row.ref == current, fg="red" if row.status == CORRUPTED else None)
            rest = click.style(rest, dim=True)
        yield f"{mark}{name}{GAP}{rest}".rstrip()


async def listed(home: Home, everywhere: bool) -> list[str]:
    """Return a line for each session of the project, or of all projects."""
    async with home.opened() as host:
        among = await host.list_sessions(status="any")
        of_project = among if everywhere else await host.list_sessions(project=home.project)
        current = await host.current_session(home.project)
    rows = [row for row in of_project if not row.archived]
    return list(table_of(rows, among=among, places=everywhere, current=None if current is None else current.ref))


# -- entries


_PREVIEW_CHARS = 90
"""The maximum length of the preview of an entry."""

LABEL_CHARS_MAX = 80
"""The maximum length of a label."""

ROLE_CHARS_MAX = 40
"""The maximum length of a role, or of an unknown type of entries."""

_OWN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[45][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_COLORS = {"user": "cyan", "assistant": "green", "tool": "yellow", "compaction": "magenta", "branch_summary": "magenta"}


def short(entry_id: str | None) -> str:
    """Return an id for display: the first 8 digits of a uuid, which `--leaf` accepts too; any other id whole."""
    if entry_id is None:
        return "-"
    return entry_id[:8] if _OWN_ID.fullmatch(entry_id) else clean(entry_id)


def role_of(entry: Entry) -> str:
    """Return the role of a message, or the type of any other entry."""
    if isinstance(entry, MessageEntry):
        return _short_role(entry.message.role)
    return _short_role(entry.type)


@lru_cache
def _short_role(role: str) -> str:
    return short_line(role, ROLE_CHARS_MAX)


def colored(name: str) -> str:
    """Return a role or entry type in its color."""
    color = _COLORS.get(name)
    return click.style(name, fg=color) if color else click.style(name, dim=True)


def preview_of(entry: Entry, chars_max: int = _PREVIEW_CHARS) -> str:
    """Return a one-line preview of what an entry says."""
    if isinstance(entry, OpaqueEntry):
        return short_line("" if entry.reason == "unknown type" else entry.reason, chars_max)
    return short_line(payload_of(entry).preview(short), chars_max)


def line_of(entry: Entry) -> str:
    """Return the line of an entry in a list of entries; the time is in the system's zone."""
    name = role_of(entry)
    time = f"{in_zone(entry.timestamp):%Y-%m-%d %H:%M:%S}"
    aside = " (aside)" if entry.aside else ""
    what = preview_of(entry)
    return f"{entry.seq:>5}  {time}  {short(entry.id)}  {colored(name)}{aside}{': ' if what else ''}{what}"
