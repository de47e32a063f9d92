"""The route of usage: what sessions cost in tokens and money, by day, project, session and model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from ...events.entries import Usage
from ...projections.summary import CORRUPTED, SessionSummary
from ...projections.usage import NOTHING, HourlyUsage, UsageByHour, UsageByHourProjection
from ..filters import SessionFilter, filtered
from ..routing import Call, Routes
from ..service import Service

routes = Routes()

READ_MAX = 1000
"""How many sessions one reply adds up: those with the latest entries."""

_HOUR = timedelta(hours=1)
_EVER = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


class UsageQuery(SessionFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to add up, and how.

    Attributes:
        by: What a row is of.
        tz_minutes: Where a day begins: the minutes that local time is ahead of UTC.
    """

    by: Literal["day", "project", "session", "model"] = "day"
    tz_minutes: Annotated[int, Meta(gt=-24 * 60, lt=24 * 60)] = 0


class UsageRow(Struct, frozen=True, kw_only=True):
    """The usage of a day, a project, a session or a model.

    Attributes:
        name: The day as YYYY-MM-DD, the folder, the session's id, or the model; null where none is named.
        title: The session's title.
        sessions: Of how many sessions it is.
        usage: The tokens and the cost.
    """

    name: str | None
    title: str | None
    sessions: int
    usage: Usage


class UsageSums(Struct, frozen=True, kw_only=True):
    """The usage of sessions.

    Attributes:
        rows: The parts, days in their order, all others the largest first.
        total: Their sum.
        sessions: How many sessions were added up.
        left_out: How many sessions were not, since there are too many: those with the oldest entries.
        partial: How many sessions of other programs were not, since they are not here whole: nobody has opened them.
        unreadable: How many sessions cannot be read.
        counted: Whether providers counted anything; the numbers are 0 otherwise.
        priced: Whether anything has a cost.
    """

    rows: list[UsageRow]
    total: Usage
    sessions: int
    left_out: int
    partial: int
    unreadable: int
    counted: bool
    priced: bool


class _Sum:
    def __init__(self) -> None:
        self.usage = NOTHING
        self.sessions: set[str] = set()

    def add(self, session_id: str, usage: Usage) -> None:
        self.usage += usage
        self.sessions.add(session_id)


@routes.add("GET", "/v1/usage", right="read", query=UsageQuery, reply=UsageSums)
async def get_usage_sums(call: Call[UsageQuery, None]) -> UsageSums:
    """Add up what sessions cost, by day, project, session or model; entries outside a given time do not count."""
    service, query = call.service, call.query
    wanted = replace(query, until=None)  # a session may have entries after `until` and before it
    found = await filtered(service, call.principal, wanted)
    readable = replace(found.query, without_status=CORRUPTED)
    rows = await found.find(replace(readable, order="last_entry", limit=READ_MAX))
    many = len(rows) if len(rows) < READ_MAX else await found.count(readable)
    sums: dict[str | None, _Sum] = {}
    name_of = _namer(query)
    begins, ends = query.since or _EVER[0], query.until or _EVER[1]
    partial = 0
    for row in rows:
        usage = await _usage_of(service, row)
        if usage is None:
            partial += 1
            continue
        for hour in usage.hours:
            if begins - hour.hour >= _HOUR or hour.hour >= ends:
                continue
            sums.setdefault(name_of(row, hour), _Sum()).add(row.id, hour.usage)
    titles = {row.id: row.title for row in rows} if query.by == "session" else {}
    parts = [
        UsageRow(name=name, title=titles.get(name or ""), sessions=len(each.sessions), usage=each.usage)
        for name, each in sums.items()
    ]
    total = _total(part.usage for part in parts)
    return UsageSums(
        rows=sorted(parts, key=_by_name if query.by == "day" else _by_size),
        total=total,
        sessions=len(rows) - partial,
        left_out=many - len(rows),
        partial=partial,
        unreadable=await found.count(found.query) - many,
        counted=total != NOTHING,
        priced=total.cost > 0,
    )


def _by_name(part: UsageRow) -> str:
    return part.name or ""


def _by_size(part: UsageRow) -> tuple[float, int, str]:
    return -part.usage.cost, -part.usage.total_tokens, part.name or ""


def _namer(query: UsageQuery) -> Callable[[SessionSummary, HourlyUsage], str | None]:
    zone = timezone(timedelta(minutes=query.tz_minutes))
    names: dict[str, Callable[[SessionSummary, HourlyUsage], str | None]] = {
        "day": lambda row, hour: hour.hour.astimezone(zone).date().isoformat(),
        "project": lambda row, hour: row.project,
        "session": lambda row, hour: row.id,
        "model": lambda row, hour: f"{hour.provider}/{hour.model}" if hour.provider and hour.model else hour.model,
    }
    return names[query.by]


async def _usage_of(service: Service, row: SessionSummary) -> UsageByHour | None:
    """Return the usage of a session, or None if only a part of it is here; one that is asleep stays asleep."""
    if service.is_partial(row.id):
        return None
    usage = await _read(service, row)
    return None if service.is_partial(row.id) else usage  # the rest may have gone meanwhile


async def _read(service: Service, row: SessionSummary) -> UsageByHour:
    if service.is_live(row.ref):
        return await (await service.reading_row(row)).view(UsageByHourProjection())
    async with await service.host.load(row, read_only=True) as session:
        await session.refresh()
        return await session.view(UsageByHourProjection())


def _total(usages: Iterable[Usage]) -> Usage:
    total = NOTHING
    for usage in usages:
        total += usage
    return total
