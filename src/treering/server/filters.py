"""Which sessions a listing shows: its filters, its order, and how many of them are in which state.

The rows are those that the index of the host holds in memory; no log is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from ..events.entries import Moment
from ..projections.summary import SessionSummary
from .http.fields import Folder, Name
from .principals import Principal
from .service import Service

Group: TypeAlias = Literal["error", "waits", "working", "idle", "asleep"]
"""What a person looks for among agents: those that failed, wait, work, have nothing to do, or are not loaded."""

GROUPS: tuple[Group, ...] = ("error", "waits", "working", "idle", "asleep")

Order: TypeAlias = Literal["used", "created", "modified", "title", "attention"]


class SessionFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to list.

    Attributes:
        project: Those of a folder.
        status: Those of a status; "archived", "any"; by default those that are not archived.
        key: The one of a key.
        key_prefix: Those whose key begins so.
        parent: Those that were copied from, or spawned by, a session.
        text: Those whose title, id, key or folder holds a text, whatever its case.
        since: Those with an entry at this time or later.
        until: Those whose last entry is before this time.
        groups: Those in these states, among which "asleep" holds what is neither failed nor waiting nor loaded.
    """

    project: Folder | None = None
    status: Name | None = None
    key: Name | None = None
    key_prefix: Name | None = None
    parent: Name | None = None
    text: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    groups: tuple[Group, ...] = ()


async def filtered(service: Service, principal: Principal, wanted: SessionFilter) -> list[SessionSummary]:
    """Return the rows that a filter lets through and a principal may see, in whatever state they are."""
    rows = await service.host.list_sessions(project=wanted.project, status=wanted.status)
    if principal.prefix is None and not _looks_at_rows(wanted):
        return rows
    return [row for row in rows if principal.sees(row.key) and passes(row, wanted)]


def _looks_at_rows(wanted: SessionFilter) -> bool:
    """Return whether a filter asks more than the index answers by itself."""
    asked = (wanted.key, wanted.key_prefix, wanted.parent, wanted.text, wanted.since, wanted.until)
    return any(each is not None for each in asked)


def passes(row: SessionSummary, wanted: SessionFilter) -> bool:
    """Return whether a filter lets a row through, whatever its project and its status."""
    if wanted.key is not None and row.key != wanted.key:
        return False
    if wanted.key_prefix is not None and not (row.key or "").startswith(wanted.key_prefix):
        return False
    if wanted.parent is not None and row.parent_session != wanted.parent:
        return False
    if wanted.since is not None and row.last_entry < wanted.since:
        return False
    if wanted.until is not None and row.last_entry >= wanted.until:
        return False
    if wanted.text is None:
        return True
    text = wanted.text.casefold()
    return any(text in (each or "").casefold() for each in (row.title, row.id, row.key, row.project))


def group_of(service: Service, row: SessionSummary) -> Group:
    """Return the group of a row: a session that cannot be read is in error."""
    if row.state is None:
        return "error"
    word = row.state.state
    if word in ("error", "waits"):
        return "error" if word == "error" else "waits"
    if not service.is_live(row.ref):
        return "asleep"
    return "working" if word == "working" else "idle"


def in_groups(service: Service, rows: list[SessionSummary], groups: tuple[Group, ...]) -> list[SessionSummary]:
    """Return the rows that are in some groups; all, if none is named."""
    return rows if not groups else [row for row in rows if group_of(service, row) in groups]


def counts_of(service: Service, rows: list[SessionSummary]) -> dict[str, int]:
    """Return how many rows are in each group."""
    counted = Counter(group_of(service, row) for row in rows)
    return {group: counted[group] for group in GROUPS}


def ordered(service: Service, rows: list[SessionSummary], order: Order) -> list[SessionSummary]:
    """Return rows in an order; they come by their last use.

    "attention" puts errors first, then what waits, works, is idle, is asleep; in each group what changed last.
    """
    if order == "created":
        return sorted(rows, key=lambda row: row.created, reverse=True)
    if order == "modified":
        return sorted(rows, key=lambda row: row.modified, reverse=True)
    if order == "title":
        return sorted(rows, key=lambda row: row.title or "")
    if order == "attention":
        return list(_by_attention(service, rows))
    return rows


def _by_attention(service: Service, rows: list[SessionSummary]) -> Iterator[SessionSummary]:
    places: dict[Group, list[SessionSummary]] = {group: [] for group in GROUPS}
    for row in sorted(rows, key=lambda row: row.last_entry, reverse=True):
        places[group_of(service, row)].append(row)
    for group in GROUPS:
        yield from places[group]
