"""The usage by hour and model: what a session cost when, so that days of any time zone can be added up.

It is the fold of `UsageProjection`, kept apart by the hour of each entry. Zones whose offset is not a whole number of
hours get the hour that their day begins in.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..events.entries import Entry, Header, Usage
from .base import OWN
from .usage import UsageProjection, UsageTotals


class HourlyUsage(Struct, frozen=True, omit_defaults=True):
    """The usage of one model in one hour; the names are None for entries that do not name a model."""

    hour: datetime
    provider: str | None
    model: str | None
    usage: Usage


class UsageByHour(Struct, frozen=True, omit_defaults=True):
    """The usage so far: hours in the order in which they were counted, and what the fold of totals needs."""

    hours: tuple[HourlyUsage, ...] = ()
    totals: UsageTotals = UsageTotals()


class UsageByHourProjection:
    """The fold of usage by hour; a change is the hour that an entry added to, as it is then."""

    name = OWN + "usage-by-hour"

    def __init__(self) -> None:
        self._totals = UsageProjection()

    def initial(self, header: Header) -> UsageByHour:
        """Return no usage."""
        return UsageByHour()

    def apply(self, value: UsageByHour, entry: Entry) -> tuple[UsageByHour, HourlyUsage | None]:
        """Fold an entry; see `Projection.apply`."""
        totals, added = self._totals.apply(value.totals, entry)
        if added is None:
            return (value if totals is value.totals else replace(value, totals=totals)), None
        hour = entry.timestamp.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        hours = list(value.hours)
        place = _place_of(hours, hour, added.provider, added.model)
        if place is None:
            changed = HourlyUsage(hour, added.provider, added.model, added.usage)
            hours.append(changed)
        else:
            changed = hours[place] = replace(hours[place], usage=hours[place].usage + added.usage)
        return UsageByHour(tuple(hours), totals), changed

    def dump(self, value: UsageByHour) -> bytes:
        """Return the usage as bytes for a checkpoint."""
        return msgspec.json.encode(value)

    def load(self, blob: bytes) -> UsageByHour:
        """Return the usage that was dumped."""
        return msgspec.json.decode(blob, type=UsageByHour)


def _place_of(hours: list[HourlyUsage], hour: datetime, provider: str | None, model: str | None) -> int | None:
    """Return where a model's hour is: among the last ones, since timestamps never decrease."""
    for place in range(len(hours) - 1, -1, -1):
        each = hours[place]
        if each.hour != hour:
            return None
        if (each.provider, each.model) == (provider, model):
            return place
    return None
