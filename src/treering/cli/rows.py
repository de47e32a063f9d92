"""What of a session is told in one row: its name first, then when it was used, how much was said, where it belongs."""

from __future__ import annotations

import os
from datetime import datetime, tzinfo

from msgspec import Struct

from ..events.wording import counted
from ..projections.summary import ACTIVE, SessionSummary
from .output import line
from .when import when

NAMELESS = "(no user spoke yet)"
"""What stands for the name of a session that has none and in which no user has spoken."""


class Named(Struct, frozen=True):
    """Which session something was done to, for programs.

    Attributes:
        id: Its id.
        path: Where its file is, or was.
    """

    id: str
    path: str | None


def named(row: SessionSummary) -> Named:
    """Tell programs which session it is."""
    return Named(row.id, row.path)


def name_of(row: SessionSummary) -> str:
    """Return the name of a session, or how its first message begins."""
    return line(row.title or "") or NAMELESS


def used(row: SessionSummary, now: datetime, zone: tzinfo | None = None) -> str:
    """Say when a session was used last, which is what lists are sorted by."""
    return when(row.used, now, zone)


def size_of(row: SessionSummary) -> str:
    """Say how many messages a session has, or that it cannot be read."""
    return counted(row.message_count, "message") if row.problem is None else "cannot be read"


def place_of(row: SessionSummary, chars_max: int | None = None) -> str:
    """Return the folder that a session belongs to, the user's own written as `~`.

    Args:
        row: The session's row.
        chars_max: About how long it may be; of a longer path the end is told.
    """
    if row.project is None:
        return "-"
    mine = os.path.expanduser("~")
    inside = row.project == mine or row.project.startswith(mine.rstrip(os.sep) + os.sep)
    place = line("~" + row.project[len(mine.rstrip(os.sep)) :] if inside else row.project)
    return place if chars_max is None or len(place) <= chars_max else f"…{place[-chars_max + 1 :]}"


def status_of(row: SessionSummary) -> str:
    """Return a session's status where it is not the usual one."""
    return "" if row.status == ACTIVE else line(row.status)
