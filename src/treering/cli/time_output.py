"""Times for people: a clock time for today, "Yesterday", otherwise a date."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def in_zone(moment: datetime, zone: tzinfo | None = None) -> datetime:
    """Return a time in a zone, by default the system's; return it unchanged if the result is out of range."""
    try:
        return moment.astimezone(zone)
    except OverflowError:  # at the first and last representable hours
        return moment


def when(moment: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """Return a time relative to now: "Today 2:30 PM", "Yesterday", "Dec 23", "Dec 23, 2024".

    Args:
        moment: The time to describe.
        now: The current time.
        zone: The time zone; by default the system's.
    """
    then, present = in_zone(moment, zone), in_zone(now, zone)
    day, today = then.date(), present.date()
    if day == today:
        return f"Today {then.hour % 12 or 12}:{then.minute:02} {'AM' if then.hour < 12 else 'PM'}"
    if today - day == timedelta(days=1):
        return "Yesterday"
    date = f"{_MONTHS[day.month - 1]} {day.day}"
    return date if day.year == today.year else f"{date}, {day.year}"
