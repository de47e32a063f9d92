"""Times as people enter them: dates, dates with a time, or ages such as `7d`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_AGO = re.compile(r"(\d+)([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Moment(click.ParamType[datetime]):
    """A time: `2026-01-31`, `2026-01-31T14:30`, or `90m`, `12h`, `7d`, `2w` ago; in the system's zone by default."""

    name = "time"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse a time."""
        if isinstance(value, datetime):
            return value
        try:
            if ago := _AGO.fullmatch(value):
                return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            return datetime.fromisoformat(value).astimezone()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time: use a form like 2026-01-31, 2026-01-31T14:30 or 7d", param, ctx)
