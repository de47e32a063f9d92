"""Times as people say them: today's by the clock, yesterday's as such, older ones by their date."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def in_zone(moment: datetime, zone: tzinfo | None = None) -> datetime:
    """Return a time in a zone, the system's where it is None; where the zone has no such year, as it is."""
    try:
        return moment.astimezone(zone)
    except OverflowError:  # the first and the last hours that there are
        return moment


def when(moment: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """Say when something was: "Today 2:30 PM", "Yesterday", "Dec 23", "Dec 23, 2024".

    Args:
        moment: The time that is told.
        now: The present time.
        zone: Whose days they are; the system's where it is None.
    """
    then, present = in_zone(moment, zone), in_zone(now, zone)
    day, today = then.date(), present.date()
    if day == today:
        return f"Today {then.hour % 12 or 12}:{then.minute:02} {'AM' if then.hour < 12 else 'PM'}"
    if today - day == timedelta(days=1):
        return "Yesterday"
    date = f"{_MONTHS[day.month - 1]} {day.day}"
    return date if day.year == today.year else f"{date}, {day.year}"
