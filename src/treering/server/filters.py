"""Which sessions a listing shows: its filters, its order, its pages, and how many of them are in which state.

What a client asks is turned into queries of rows, which the host's catalog answers: from the rows that it holds in
memory, or by its store. No log is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from ..actors.catalog.catalog import query_of_status
from ..actors.catalog.core import HeldRows, word_of
from ..actors.host.listing import CurrentRows
from ..events.entries import Moment
from ..events.stores.finding import NO_WORD, Among, RowQuery
from ..projections.session_state import Word
from ..projections.summary import SessionSummary
from ..wire import Page
from .http.fields import Folder, Name
from .http.pages import page_word, read_page
from .principals import Principal
from .service import Service

Group: TypeAlias = Literal["error", "waits", "working", "idle", "asleep"]
"""What a person looks for among agents: those that failed, wait, work, have nothing to do, or are not loaded."""

GROUPS: tuple[Group, ...] = ("error", "waits", "working", "idle", "asleep")

Order: TypeAlias = Literal["used", "created", "modified", "title", "attention"]

_FAILED = ("error", NO_WORD)
_QUIET = tuple(word for word in get_args(Word) if word not in ("error", "waits"))


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


class Filtered:
    """The rows that a filter lets through and a principal may see.

    Args:
        service: The server.
        rows: All rows.
        query: The filter, whatever the state of a session.
        groups: The states.
    """

    def __init__(self, service: Service, rows: CurrentRows, query: RowQuery, groups: Sequence[Group]) -> None:
        self._rows = rows
        self._query = query
        self._live = service.live_refs()
        self.groups: tuple[Group, ...] = tuple(group for group in GROUPS if group in groups)
        self.query = replace(query, among=tuple(map(self._among, self.groups)))

    def _among(self, group: Group) -> Among:
        if group == "error":
            return Among(words=_FAILED)
        if group == "waits":
            return Among(words=("waits",))
        if group == "asleep":
            return Among(words=_QUIET, without=self._live)
        return Among(words=("working",) if group == "working" else ("idle", "done"), refs=self._live)

    async def page(self, order: Order, word: str | None, start: int, limit: int) -> Page[SessionSummary]:
        """Return one page of the rows.

        A page begins after the last row of the one before, wherever that row is now; if it is gone, at its old place.
        "attention" puts errors first, then what waits, works, is idle, is asleep; in each group what changed last.

        Args:
            order: The order.
            word: The word of the page before; None for the first page.
            start: How many rows to skip instead.
            limit: The maximum number of rows.

        Raises:
            NotFound: `word` is no word of a page.
        """
        place, last = (start, None) if word is None else read_page(word)
        if order == "attention":
            parts = [
                replace(self._query, among=(self._among(group),), order="last_entry") for group in self.groups or GROUPS
            ]
        else:
            parts = [replace(self.query, order=order)]
        to_skip = place
        found = [] if last is None else await self._rows.find(replace(self._query, among=(Among(refs=(last,)),)))
        for row in found:
            at = next((at for at, part in enumerate(parts) if part.filtered([row], word_of)), None)
            if at is not None:
                parts = [replace(parts[at], after=parts[at].place_of(row)), *parts[at + 1 :]]
                to_skip = 0
        rows: list[SessionSummary] = []
        for part in parts:
            if to_skip and len(parts) > 1 and to_skip >= (many := sum((await self._rows.count(part)).values())):
                to_skip -= many
                continue
            rows += await self._rows.find(replace(part, offset=to_skip, limit=limit + 1 - len(rows)))
            to_skip = 0
            if len(rows) > limit:
                return Page(rows[:limit], page_word(place + limit, rows[limit - 1].ref))
        return Page(rows, None)

    async def counts(self) -> dict[str, int]:
        """Return how many rows are in each group, whichever groups are wanted."""
        words = await self._rows.count(self._query)
        counts: dict[str, int] = dict.fromkeys(GROUPS, 0)
        counts["error"] = sum(words.get(word, 0) for word in _FAILED)
        counts["waits"] = words.get("waits", 0)
        counts["asleep"] = sum(words.values()) - counts["error"] - counts["waits"]
        if self._live:
            live = await self._rows.count(replace(self._query, among=(Among(words=_QUIET, refs=self._live),)))
            counts["working"] = live.get("working", 0)
            counts["idle"] = sum(live.values()) - counts["working"]
            counts["asleep"] -= sum(live.values())
        return counts

    def total(self, counts: dict[str, int]) -> int:
        """Return how many rows there are, given how many are in each group."""
        return sum(counts[group] for group in self.groups or GROUPS)

    async def find(self, query: RowQuery) -> list[SessionSummary]:
        """Return rows of a query that was made from `query`."""
        return await self._rows.find(query)

    async def count(self, query: RowQuery) -> int:
        """Return how many rows there are of a query that was made from `query`."""
        return sum((await self._rows.count(query)).values())


async def filtered(service: Service, principal: Principal, wanted: SessionFilter) -> Filtered:
    """Return what a filter lets through and a principal may see."""
    query = replace(
        query_of_status(wanted.status),
        key=wanted.key,
        key_prefix=wanted.key_prefix,
        parent=wanted.parent,
        text=wanted.text,
        since=wanted.since,
        until=wanted.until,
    )
    if wanted.project is not None:
        query = replace(query, project=(wanted.project, await service.host.catalog.hash_of(wanted.project)))
    rows: CurrentRows = await service.host.catalog.listing.now()
    prefix, asked = principal.prefix, wanted.key_prefix or ""
    if prefix is not None and not asked.startswith(prefix):
        if prefix.startswith(asked):
            query = replace(query, key_prefix=prefix)
        else:
            rows = HeldRows([])
    return Filtered(service, rows, query, wanted.groups)
