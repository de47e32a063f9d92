"""The catalog of one host: rows of its sessions, session lookup by a string, and each project's current session.

It is based on a listing, and on what the store keeps for it. The host's methods delegate to it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from msgspec.structs import replace

from ...events.arguments import check_text
from ...events.entries import ARCHIVED
from ...events.errors import AmbiguousSession, InvalidInput, SessionNotFound
from ...events.offload import carried_out
from ...events.projects import project_hash
from ...events.stores.base import Ref
from ...events.stores.capabilities import KeepsRows
from ...events.stores.finding import FindsRows, RowQuery
from ...events.stores.shelf import MemoryRows
from ...events.texts import TITLE_CHARS_MAX, preview
from ...projections.summary import CORRUPTED, SessionSummary
from ..host.listing import ListingFeed
from ..host.names import checked_path
from .listing import SessionListing
from .settings import Settings
from .stored import StoredListing
from .writing import IndexWriter, StoredRowWriter

if TYPE_CHECKING:
    from ..host.core import HostCore

Status: TypeAlias = Literal["active", "archived", "corrupted", "any"]
"""The words by which every listing can be filtered, besides those that programs gave its sessions."""

ANY = "any"
"""The status filter that matches every session."""

_MISTAKEN_FOR_ANY = ("", "*", "all")
"""What callers of other libraries give for `ANY`; a list without a session would not tell them."""

LAST = "last"
"""The word that refers to the most recently used session."""

_SHOWN_MAX = 5
_CANDIDATES_MAX = 1000


class Catalog:
    """The catalog of a host's sessions.

    Args:
        core: The core of the host.
        settings: The settings for writing the index.

    Attributes:
        listing: The rows.
        feed: Their recent changes.
    """

    def __init__(self, core: HostCore, settings: Settings) -> None:
        self._runtime = core.runtime
        store = core.runtime.store
        finds = store.capability(FindsRows)
        kept = store.capability(KeepsRows) if finds is None else finds
        self._kept: KeepsRows = MemoryRows() if kept is None else kept
        self._writer: StoredRowWriter | IndexWriter | None = None
        self.listing: SessionListing | StoredListing
        if finds is not None:
            self.listing = listing = StoredListing(core.runtime, core.registry, finds)
            self._writer = StoredRowWriter(core.runtime, core.registry, listing, settings)
        else:
            self.listing = held = SessionListing(core.runtime, core.registry, kept)
            if kept is not None:
                self._writer = IndexWriter(core.runtime, core.registry, kept, held, settings)
        self.feed = ListingFeed(self.listing, core.runtime.touched)
        if self._writer is not None:
            core.runtime.touched.listeners.append(self.listing.unsaved)
            core.registry.before_passivation = self.listing.keep_passivated_row

    # -- the index

    async def run(self) -> None:
        """Keep the index up to date, if there is one, until the host closes."""
        if self._writer is not None:
            await self._writer.run()

    async def flush(self) -> None:
        """Write all pending changes to the index."""
        if self._writer is not None:
            await self._writer.save(at_once=True)

    # -- rows

    async def rows(
        self,
        *,
        project: str | os.PathLike[str] | None = None,
        status: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        after: SessionSummary | None = None,
    ) -> list[SessionSummary]:
        """Return rows, the most recently used first; see `SessionHost.list_sessions`."""
        query = replace(query_of_status(status), limit=limit, offset=offset)
        if after is not None:
            query = replace(query, after=query.place_of(after))
        if project is not None:
            query = replace(query, project=(checked_path(project), await self.hash_of(project)))
        return await (await self.listing.now()).find(query)

    async def hash_of(self, project: str | os.PathLike[str]) -> str:
        """Return the hash of a project's folder."""
        return await self._runtime.offload(project_hash, checked_path(project))

    # -- resolving a string

    async def resolve(self, text: str, *, begun: bool) -> SessionSummary:
        """Return the row of the session to which a string refers: an id, a name, "last", or the beginning of one id.

        Args:
            text: The string.
            begun: Whether the beginning of an id will do.

        Raises:
            SessionNotFound: It matches no session.
            AmbiguousSession: It matches several sessions.
        """
        rows = await self.listing.now()
        first = RowQuery(archived=False, without_status=CORRUPTED, limit=1)
        for query in (
            RowQuery(id=text),
            RowQuery(name=text) if text else None,
            first if text == LAST else None,
            RowQuery(id_prefix=text) if text and begun else None,
        ):
            matches = [] if query is None else await rows.find(replace(query, limit=query.limit or _CANDIDATES_MAX))
            if query is not None and len(matches) > 1:
                many = len(matches) if len(matches) < _CANDIDATES_MAX else sum((await rows.count(query)).values())
                raise AmbiguousSession(_ambiguity(text, matches, many), candidates=tuple(row.id for row in matches))
            if matches:
                return matches[0]
        if not await rows.find(RowQuery(limit=1)):
            raise SessionNotFound(f"no session matches {text!r}: there are no sessions yet")
        if text == LAST:
            raise SessionNotFound("there is no last session, since all are archived or cannot be read: give an id")
        titled = next(iter(await rows.find(RowQuery(title=text, limit=1))), None)  # a listing shows it for a name
        remedy = (
            "list the sessions and give one of those" if titled is None else f"{titled.id!r} begins so, give that id"
        )
        raise SessionNotFound(f"no session has the id or the name {text!r}: {remedy}")

    async def latest(self, project: str | os.PathLike[str] | None) -> SessionSummary | None:
        """Return the row of the session of a project with the latest message, among those that can be resumed."""
        query = RowQuery(archived=False, without_status=CORRUPTED, order="modified", limit=1)
        if project is not None:
            query = replace(query, project=(checked_path(project), await self.hash_of(project)))
        return next(iter(await (await self.listing.now()).find(query)), None)

    # -- the current session of a project

    async def current(self, project: str | os.PathLike[str]) -> SessionSummary | None:
        """Return the row of a project's current session, or None if it has none that can be resumed."""
        ref = await self._runtime.blocking(self._kept.current, await self.hash_of(project))
        row = None if ref is None else await self.listing.row(ref)
        return None if row is None or row.archived or row.status == CORRUPTED else row

    async def current_among(self, refs: Collection[Ref]) -> frozenset[Ref]:
        """Return those of the sessions that are the current session of some project."""
        return await self._runtime.blocking(self._kept.current_among, refs)

    async def set_current(self, project: str | os.PathLike[str], ref: Ref | None) -> None:
        """Set or clear the current session of a project."""
        await self._runtime.blocking(self._kept.set_current, await self.hash_of(project), ref)

    async def removed(self, ref: Ref) -> None:
        """Remove a deleted session: its row, and the pointers to it."""
        self.listing.forget([ref])
        await carried_out(self._runtime.blocking, self._kept.forget, ref)


def checked_status(status: str) -> str:
    """Return a status to filter by.

    Raises:
        InvalidInput: It is no text, or one that is written for "any".
    """
    # Callers without a type checker pass anything.
    if not isinstance(status, str) or status in _MISTAKEN_FOR_ANY:  # pyright: ignore[reportUnnecessaryIsInstance]
        words = ", ".join(map(repr, get_args(Status)))
        raise InvalidInput(f"there is no status {status!r}: choose {words}, or the word of a program's own status")
    check_text("the status", status)
    return status


def query_of_status(status: str | None) -> RowQuery:
    """Return the query for the sessions of a status; see `SessionHost.list_sessions`.

    Raises:
        InvalidInput: It is no text, or one that is written for "any".
    """
    if status is None:
        return RowQuery(archived=False)
    if checked_status(status) == ARCHIVED:
        return RowQuery(archived=True)
    return RowQuery() if status == ANY else RowQuery(archived=False, status=status)


def _shown(row: SessionSummary) -> str:
    return f"{row.id} ({preview(row.title, TITLE_CHARS_MAX)})" if row.title else row.id


def _ambiguity(text: str, rows: list[SessionSummary], many: int) -> str:
    """Return the error message for a string that matches so many sessions, of which some are given."""
    if len({row.id for row in rows}) < len(rows):  # such as one session in two formats
        what, candidates = "path", [f"{row.path or row.ref} ({row.dialect})" for row in rows[:_SHOWN_MAX]]
    else:
        what, candidates = "id", [_shown(row) for row in rows[:_SHOWN_MAX]]
    more = f" and {many - _SHOWN_MAX} more" if many > _SHOWN_MAX else ""
    return f"{many} sessions match {text!r}: {', '.join(candidates)}{more}; give one {what}"
