"""Times as people give them: dates, dates with a time, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_AGO = re.compile(r"(\d+)([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Moment(click.ParamType[datetime]):
    """A time: `2026-01-31`, `2026-01-31T14:30`, or `90m`, `12h`, `7d`, `2w` ago; the system's zone where none is given."""

    name = "time"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the time that is meant."""
        if isinstance(value, datetime):
            return value
        try:
            if ago := _AGO.fullmatch(value):
                return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            return datetime.fromisoformat(value).astimezone()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time: give one like 2026-01-31, 2026-01-31T14:30 or 7d", param, ctx)
