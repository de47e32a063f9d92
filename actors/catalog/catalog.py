"""The catalog of one host: the rows of its sessions, what a text means, and the current session of each project.

It stands on a listing, which differs by store, and for file stores on an index and pointers under the root. The host's
methods are thin and ask here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...events.errors import AmbiguousSession, SessionNotFound
from ...events.offload import carried_out
from ...events.projects import project_hash
from ...events.stores.base import Ref
from ...events.stores.files import FileStore
from ...events.telemetry import failure_of, logger
from ...projections.summary import ARCHIVED, CORRUPTED, SessionSummary
from ..inner_roots import inner_roots
from ..listing import Listing
from ..naming import checked_path
from .current import Pointers
from .file_listing import FileListing
from .index_file import IndexFile
from .index_writer import IndexWriter
from .paged_listing import PagedListing
from .settings import Settings

if TYPE_CHECKING:
    from ..core import HostCore

ANY = "any"
"""The status that asks for rows of every status."""

LAST = "last"
"""The word that means the session that was used last."""

_SHOWN_MAX = 5


class Catalog:
    """What a host knows of finding its sessions.

    Args:
        core: The host's inside.
        settings: When the index is written.

    Attributes:
        listing: The rows.
    """

    def __init__(self, core: HostCore, settings: Settings) -> None:
        self._core = core
        self._runtime = core.runtime
        self._pointed: dict[str, Ref] = {}
        self._pointers: Pointers | None = None
        self._writer: IndexWriter | None = None
        self.listing: Listing
        store = core.runtime.store
        if isinstance(store, FileStore):
            index = IndexFile(store.disk, store.root)
            listing = self.listing = FileListing(core.runtime, core.registry, store, index)
            self._writer = IndexWriter(core.runtime, core.registry, store, index, listing, settings)
            self._pointers = Pointers(store)
            core.runtime.touched.listeners.append(listing.unsaved)
            core.registry.parting = listing.let_go
        else:
            self.listing = PagedListing(core.runtime, core.registry)

    # -- the index

    async def run(self) -> None:
        """Keep the index, where there is one, until the host closes."""
        if self._writer is not None:
            await self._writer.run()

    async def flush(self) -> None:
        """Write to the index what is not there yet."""
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
    ) -> list[SessionSummary]:
        """Return rows, the most recently used first; see `SessionHost.list_sessions`."""
        rows = await self.listing.rows()
        if status is None:
            rows = [row for row in rows if row.status != ARCHIVED]
        elif status != ANY:
            rows = [row for row in rows if row.status == status]
        if project is not None:
            written, wanted = checked_path(project), await self.hash_of(project)
            rows = [row for row in rows if row.project_hash == wanted or row.project == written]
        return rows[offset:] if limit is None else rows[offset : offset + limit]

    async def hash_of(self, project: str | os.PathLike[str]) -> str:
        """Return what stands for a project's folder."""
        return await self._runtime.offload(project_hash, checked_path(project))

    # -- what a text means

    async def meant(self, text: str) -> SessionSummary:
        """Return the row of the session that a text means: an id, a name, "last", or how one id begins.

        Raises:
            SessionNotFound: It means none.
            AmbiguousSession: It means several.
        """
        rows = await self.listing.rows()
        usable = (row for row in rows if row.status not in (CORRUPTED, ARCHIVED))
        for found in (
            [row for row in rows if row.id == text],
            [row for row in rows if row.name == text] if text else [],
            [row for row in [next(usable, None)] if row is not None] if text == LAST else [],
            [row for row in rows if row.id.startswith(text)] if text else [],
        ):
            if len(found) > 1:
                raise AmbiguousSession(_several(text, found), candidates=tuple(row.id for row in found))
            if found:
                return found[0]
        if not rows:
            raise SessionNotFound(f"there are no sessions yet, and so none that {text!r} means")
        if text == LAST:
            raise SessionNotFound("no session is the last one, since all are archived or cannot be read: give an id")
        titled = next((row.id for row in rows if row.title == text), None)  # a listing shows it where a name would be
        remedy = "list the sessions and give one of those" if titled is None else f"{titled!r} begins so, give that id"
        raise SessionNotFound(f"no session has the id or the name {text!r}: {remedy}")

    # -- the current session of a project

    async def current(self, project: str | os.PathLike[str]) -> SessionSummary | None:
        """Return the row of a project's current session, or None where it has none that can be gone on with."""
        hashed = await self.hash_of(project)
        if self._pointers is None:
            ref = self._pointed.get(hashed)
        else:
            ref = await self._runtime.offload(self._pointers.get, hashed)
        row = None if ref is None else await self.listing.row(ref)
        return None if row is None or row.status in (CORRUPTED, ARCHIVED) else row

    async def set_current(self, project: str | os.PathLike[str], ref: Ref | None) -> None:
        """Let a session, or none, be the current one of a project."""
        hashed = await self.hash_of(project)
        if ref is None:
            self._pointed.pop(hashed, None)
        else:
            self._pointed[hashed] = ref
        if self._pointers is not None and ref is None:
            await self._runtime.offload(self._pointers.clear, hashed)
        elif self._pointers is not None and ref is not None:
            await self._runtime.offload(self._pointers.set, hashed, ref)

    # -- what becomes of sessions

    def accessed(self, ref: Ref) -> None:
        """Note that a session was loaded just now."""
        self.listing.accessed(ref)

    async def removed(self, ref: Ref) -> None:
        """Know nothing of a session any more: its row, its line in the index and the pointers to it go."""
        self.listing.forget([ref])
        self._pointed = {project: each for project, each in self._pointed.items() if each != ref}
        if self._pointers is not None:
            await self._runtime.offload(self._pointers.forget, ref)
        store = self._runtime.store
        if isinstance(store, FileStore):
            await carried_out(self._runtime.offload, _forget_below, store, ref)


def _forget_below(store: FileStore, ref: Ref) -> None:
    """Take a session that is gone out of the indexes of the folders in the root, which were roots of others."""
    for folder, inner in inner_roots(store, ref):
        try:
            IndexFile(store.disk, folder).forget(inner)
        except OSError as error:
            logger().debug("index_not_written", **failure_of(error))


def _several(text: str, rows: list[SessionSummary]) -> str:
    if len({row.id for row in rows}) < len(rows):  # as when a session is here in two formats
        what, told = "path", [f"{row.path or row.ref} ({row.dialect})" for row in rows[:_SHOWN_MAX]]
    else:
        what, told = "id", [f"{row.id} ({row.title})" if row.title else row.id for row in rows[:_SHOWN_MAX]]
    more = f" and {len(rows) - _SHOWN_MAX} more" if len(rows) > _SHOWN_MAX else ""
    return f"{len(rows)} sessions are meant by {text!r}: {', '.join(told)}{more}; give one {what}"
