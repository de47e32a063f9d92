"""One-line descriptions of entries for people: the role or type, and a preview of the content."""

from __future__ import annotations

import re
from functools import lru_cache

import click

from ..events.entries import Entry, MessageEntry, OpaqueEntry, payload_of
from .output import clean, short_line
from .rows import in_zone

_PREVIEW_CHARS = 90
"""The maximum length of the preview of an entry."""

LABEL_CHARS_MAX = 80
"""The maximum length of a label."""

ROLE_CHARS_MAX = 40
"""The maximum length of a role, or of an unknown type of entries."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[45][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_COLORS = {"user": "cyan", "assistant": "green", "tool": "yellow", "compaction": "magenta", "branch_summary": "magenta"}


def short(entry_id: str | None) -> str:
    """Return an id for display: the first 8 digits of a uuid, which `--leaf` accepts too; any other id whole."""
    if entry_id is None:
        return "-"
    return entry_id[:8] if _UUID.fullmatch(entry_id) else clean(entry_id)


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
