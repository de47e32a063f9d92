"""The usage: what a session has cost, in tokens and money, in total and by model.

Usage is reported by assistant messages, by compactions and branch summaries, and by separate usage records: every
payload with a field `usage` counts. The totals are over all branches, since all were paid for; `usage_totals` over the
entries of a path gives that path's usage. Usage does not say how large a context is.

The record of a turn includes the usage of the messages in the same atomic batch, which is subtracted from it.

By the hour of each entry, the usage can be added up to the days of any time zone. Zones whose offset is not a whole
number of hours get the hour that their day begins in.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..events.dialects.base import in_utc
from ..events.entries import Entry, Header, MessageEntry, OpaqueEntry, Usage, UsageEntry, payload_of
from .base import OWN

NOTHING = Usage()
"""No usage."""


class ModelUsage(Struct, frozen=True, omit_defaults=True):
    """The usage of one model; the names are None for entries that do not name a model."""

    provider: str | None
    model: str | None
    usage: Usage


class UsageTotals(Struct, frozen=True, omit_defaults=True):
    """The usage so far.

    `by_model` is in the order in which the models first appeared. `batch` and `batch_usage` hold the usage of the
    messages of the batch that is being folded.
    """

    total: Usage = NOTHING
    by_model: tuple[ModelUsage, ...] = ()
    batch: str | None = None
    batch_usage: Usage = NOTHING

    def of(self, model: str, provider: str | None = None) -> Usage:
        """Return the usage of a model, from one provider or from all."""
        usage = NOTHING
        for each in self.by_model:
            if each.model == model and provider in (None, each.provider):
                usage += each.usage
        return usage


class UsageProjection:
    """The fold of usage; a change is the usage that an entry added, with its model."""

    name = OWN + "usage"

    def initial(self, header: Header) -> UsageTotals:
        """Return totals without usage."""
        return UsageTotals()

    def apply(self, value: UsageTotals, entry: Entry) -> tuple[UsageTotals, ModelUsage | None]:
        """Fold an entry; see `Projection.apply`."""
        batch = entry.batch.id if entry.batch else None
        if batch != value.batch:
            value = replace(value, batch=batch, batch_usage=NOTHING)
        added = usage_of(entry)
        if added is None:
            return value, None
        if isinstance(entry, UsageEntry) and entry.usage.messages is not None:
            added = replace(added, usage=added.usage.beyond(value.batch_usage))
        elif isinstance(entry, MessageEntry) and batch is not None:
            value = replace(value, batch_usage=value.batch_usage + added.usage)
        if added.usage == NOTHING:
            return value, None
        return apply_change(value, added), added

    def dump(self, value: UsageTotals) -> bytes:
        """Return the totals as bytes for a checkpoint."""
        return msgspec.json.encode(value)

    def load(self, blob: bytes) -> UsageTotals:
        """Return the totals that were dumped."""
        return msgspec.json.decode(blob, type=UsageTotals)


def usage_of(entry: Entry) -> ModelUsage | None:
    """Return the usage that an entry reports, or None."""
    payload = None if isinstance(entry, OpaqueEntry) else payload_of(entry)
    usage: object = getattr(payload, "usage", None)
    if not isinstance(usage, Usage):
        return None
    return ModelUsage(getattr(payload, "provider", None), getattr(payload, "model", None), usage)


def apply_change(totals: UsageTotals, added: ModelUsage) -> UsageTotals:
    """Return the totals with some usage added."""
    by_model = list(totals.by_model)
    for place, each in enumerate(by_model):
        if (each.provider, each.model) == (added.provider, added.model):
            by_model[place] = replace(each, usage=each.usage + added.usage)
            break
    else:
        by_model.append(added)
    return replace(totals, total=totals.total + added.usage, by_model=tuple(by_model))


def usage_totals(entries: Iterable[Entry]) -> UsageTotals:
    """Add up the usage that entries report: all of a log, or those of one path."""
    projection, totals = UsageProjection(), UsageTotals()
    for entry in entries:
        totals, _ = projection.apply(totals, entry)
    return totals


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
        hour = in_utc(entry.timestamp).replace(minute=0, second=0, microsecond=0)
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
