"""The cells of a session's row: its name, when it was used, its size, its project."""

from __future__ import annotations

import os
from datetime import datetime, tzinfo

from msgspec import Struct

from ..events.entries import ARCHIVED
from ..events.texts import counted
from ..projections.summary import ACTIVE, SessionSummary
from .output import line, short_line
from .time_output import when

NAMELESS = "(no text by the user yet)"
"""The placeholder for a session without a name and without a text by the user."""


_STATUS_CHARS_MAX = 40


class Named(Struct, frozen=True):
    """The session that a command changed, for `--json`.

    Attributes:
        id: Its id.
        path: The path of its file, which may be gone.
    """

    id: str
    path: str | None


def named(row: SessionSummary) -> Named:
    """Return the id and path of a session."""
    return Named(row.id, row.path)


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
    if row.project is None:
        return "-"
    mine = os.path.expanduser("~")
    inside = row.project == mine or row.project.startswith(mine.rstrip(os.sep) + os.sep)
    place = line("~" + row.project[len(mine.rstrip(os.sep)) :] if inside else row.project)
    return place if chars_max is None or len(place) <= chars_max else f"…{place[-chars_max + 1 :]}"


def status_of(row: SessionSummary) -> str:
    """Return a session's status and whether it is archived, or "" if it is active."""
    status = "" if row.status == ACTIVE else short_line(row.status, _STATUS_CHARS_MAX)
    return f"{status}, {ARCHIVED}" if row.archived and row.status != ARCHIVED else status
