"""The part of a host that finds sessions: by id, name, path or project, and in the listing.

The catalog knows all sessions together; the host delegates to it, and opens what was found.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from ...events.arguments import check_count
from ...events.errors import AmbiguousSession, HostClosed, InvalidInput, InvalidSessionId, LogError, SessionNotFound
from ...events.stores.base import Ref, Store
from ...events.stores.capabilities import NamesFiles, ScansChanges
from ...events.stores.finding import RowQuery
from ...projections.summary import CORRUPTED, SessionSummary
from ..search.hits import Search
from ..session.session import Session
from .core import HostCore
from .listing import ListPosition, SessionsSubscription
from .names import SUFFIX, checked_id, checked_path

if TYPE_CHECKING:
    from ..catalog.catalog import Catalog
    from ..search.searching import Searching


SessionLike: TypeAlias = Session | SessionSummary | str | os.PathLike[str]
"""What identifies a session: its handle, its row, or a text or path that `SessionHost.resolve` accepts."""


class SessionLookup:
    """The calls of a host that find sessions; the first base of `SessionHost`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files = store.capability(NamesFiles)
        self._scans = store.capability(ScansChanges)
        self._core: HostCore | None = None
        self._catalog: Catalog | None = None
        self._searching: Searching | None = None

    @property
    def core(self) -> HostCore:
        """The internal part of the host, for its handles; not for programs.

        Raises:
            HostClosed: The host was not entered.
        """
        if self._core is None:
            raise HostClosed("the host is not open: use it as `async with SessionHost(...) as host`")
        return self._core

    @property
    def catalog(self) -> Catalog:
        """The catalog of all sessions, for the host and for what serves it; not for programs.

        Raises:
            HostClosed: The host was not entered, or is closed.
        """
        self.core.check()
        assert self._catalog is not None
        return self._catalog

    # -- the listing

    async def list_sessions(
        self,
        *,
        project: str | os.PathLike[str] | None = None,
        status: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        after: SessionSummary | None = None,
    ) -> list[SessionSummary]:
        """Return a row for each session, the most recently loaded or appended to first.

        Files that cannot be read have the status "corrupted". Only files that changed since their row was made are
        read.

        Args:
            project: Only sessions of this folder, however its path is written.
            status: "active", "corrupted", or a status that a program set with `SessionInfo(status=...)`: only sessions
                of this status that are not archived. "archived": those that are, whatever their status. "any": all.
                By default those that are not archived.
            limit: The maximum number of rows.
            offset: How many rows to skip; a database reads them, too.
            after: Only rows after this one: the last one of the page before, of which a database reads nothing.

        Raises:
            InvalidInput: `limit` or `offset` is not a whole number of 0 or more, `after` is no row, the project is not
                a path, or the status is not a string, or one that is written for "any", such as "all".
        """
        if limit is not None:
            check_count("limit", limit)
        check_count("offset", offset)
        # Callers without a type checker pass anything.
        if not isinstance(after, SessionSummary | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"`after` is {after!r}: give a row of the listing, such as the last one of a page")
        return await self.catalog.rows(project=project, status=status, limit=limit, offset=offset, after=after)

    def subscribe_sessions(self, *, after: ListPosition | None = None) -> SessionsSubscription:
        """Follow the listing: first all rows, then each row that changes through this host.

        A row also counts as changed when its session is activated or passivated.

        Args:
            after: Begin with the changes after this position, without the rows, if the host still has them.

        Raises:
            InvalidInput: `after` is no position.
        """
        sessions = self.catalog
        return SessionsSubscription(sessions.listing, sessions.feed, after=after)

    def sessions_position(self) -> ListPosition:
        """Return the present position of the listing: ask for it before `list_sessions`, and subscribe after it."""
        return self.catalog.feed.position()

    async def resolve(self, session: SessionLike) -> SessionSummary:
        """Return the row of the session that a person means by a text, independent of the current directory.

        A text may be, in this order: the path of a file, an id, a name that a person gave, "last" (the session that was
        used last), and here alone a unique prefix of an id: where programs name sessions, one that is gone must not
        mean another, whose id begins with it. A handle or a row means its own session, whose row is read again if the
        file changed.

        Raises:
            SessionNotFound: No session matches.
            AmbiguousSession: Several sessions match; the error names them.
            InvalidSessionId: The text cannot be an id, and is not a name.
        """
        return await self._row(session, begun=True)

    async def get_session(self, session: SessionLike) -> SessionSummary | None:
        """Return a session's row, or None if there is no such session; its file is read only if it changed.

        Raises:
            AmbiguousSession: Several sessions have this name.
        """
        try:
            return await self._row(session)
        except (SessionNotFound, InvalidSessionId):
            return None

    async def _row(self, session: SessionLike, *, begun: bool = False) -> SessionSummary:
        """Return a session's row; see `resolve`, and `Catalog.resolve` for `begun`."""
        ref = await self._find(session, begun=begun)
        row = await self.catalog.listing.row(ref)
        if row is None:
            raise SessionNotFound(await self._why_missing(ref, session if isinstance(session, str) else ref))
        return row

    # -- the current session of a project

    async def current_session(self, project: str | os.PathLike[str]) -> SessionSummary | None:
        """Return the row of a project's current session; None if none is set, or if it no longer exists.

        One that is archived or damaged counts as missing meanwhile: `find_recent` then returns another session.
        """
        return await self.catalog.current(project)

    async def set_current_session(self, project: str | os.PathLike[str], session: SessionLike | None) -> None:
        """Make a session the current one of a project: the one that `find_recent` and `continue_recent` open there.

        Args:
            project: The project's folder.
            session: The session, its row, or a text or path that means one; None clears the pointer.

        Raises:
            SessionNotFound: There is no such session.
            AmbiguousSession: The text matches several sessions.
            LogError: The session cannot be read, so it could not be resumed; the pointer is unchanged.
            InvalidInput: No directory can be created there; the pointer is unchanged.
            ReadOnly: This process may not write to the root.
            OSError: The pointer cannot be written for another reason.
        """
        ref = session.ref if isinstance(session, Session) else None
        if session is not None and ref is None:
            row = await self._row(session)
            if row.status == CORRUPTED:
                raise LogError(row.problem or f"{row.ref} cannot be read: give another session")
            ref = row.ref
        await self.catalog.set_current(project, ref)

    # -- searching

    def search(
        self,
        query: str,
        *,
        project: str | os.PathLike[str] | None = None,
        role: str | None = None,
        tool: str | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        index: bool | None = None,
    ) -> Search:
        """Find entries in all sessions, including archived ones: `async for hit in host.search("timeout"): ...`.

        An entry matches when its text contains all words and "phrases" of the query, also inside longer words and
        regardless of case; see docs/search.md. The most recently used session comes first.

        Args:
            query: Words and phrases.
            project: Only sessions of this folder.
            role: Only messages of this role, also of a program's own; or "compaction", "branch_summary",
                "custom_message", "context_edit", "label" or "session_info", for entries of this type.
            tool: Only messages that call this tool, and its results.
            after: Only entries appended at this time or later.
            before: Only entries appended before this time.
            limit: The maximum number of hits.
            offset: How many hits to skip.
            index: Whether to answer from the root's index, which is brought up to date first: True creates it if it is
                missing, None uses it if it exists, False reads the logs. The hits are the same.

        Raises:
            InvalidInput: The query contains nothing to search for, the role or the tool is empty, `limit` or `offset`
                is not a whole number of 0 or more, or a time has no time zone.
        """
        self.core.check()
        return self._searching_of().search(
            query,
            project=project,
            role=role,
            tool=tool,
            after=after,
            before=before,
            limit=limit,
            offset=offset,
            index=index,
        )

    # -- finding

    def _searching_of(self) -> Searching:
        """Return the search of this host, loading it on first use."""
        if self._searching is None:
            from ..search.searching import Searching

            self._searching = Searching(self.core.runtime, self.catalog.listing)
        return self._searching

    async def _exists(self, ref: Ref) -> bool:
        """Return whether there is something to open; a file whose first write was cut short counts, unread."""
        if await self.core.registry.present(ref) is not None:
            return True
        if self._scans is None:
            return await self._store.exists(ref)
        stamp = self._scans.look_at(ref)
        return stamp is not None and stamp.size > 0

    async def _exact(self, session_id: str) -> Ref | None:
        """Return the name of the log of the session with exactly this id, or None."""
        if await self._exists(session_id + SUFFIX):
            return session_id + SUFFIX
        found = await (await self.catalog.listing.now()).find(RowQuery(id=session_id, limit=1))
        return found[0].ref if found else None

    async def _find(self, session: SessionLike, *, begun: bool = False) -> Ref:
        """Return the name of a session's log; see `resolve`, and `Catalog.resolve` for `begun`."""
        if isinstance(session, Session):
            return session.ref
        if isinstance(session, SessionSummary):
            return session.ref if session.path is None else self._ref_of_path(session.path)
        if isinstance(session, os.PathLike):
            return self._ref_of_path(session)
        if not isinstance(session, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"{session!r} does not name a session: give an id, a name, the path of a file, or a row")
        is_path = os.sep in session or session.endswith(SUFFIX)
        if is_path and await self._exists(self._ref_of_path(session)):
            return self._ref_of_path(session)
        invalid: InvalidSessionId | None = None
        try:
            if not is_path and await self._exists(checked_id(session) + SUFFIX):
                return session + SUFFIX
        except InvalidSessionId as error:
            invalid = error  # it may still be a name
        try:
            return (await self.catalog.resolve(session, begun=begun)).ref
        except (SessionNotFound, AmbiguousSession) as error:
            if is_path and isinstance(error, SessionNotFound):
                return self._ref_of_path(session)  # opening it reports that it does not exist
            if invalid is not None:
                raise invalid from None
            raise

    async def _find_to_write(self, session: SessionLike) -> Ref:
        """Return the name of a session's log before it is locked, refusing other files; see `_refuse_others`."""
        ref = await self._find(session)
        await self._refuse_others(ref)
        return ref

    async def _why_missing(self, ref: Ref, shown: str) -> str:
        """Return the message of an error about a log that has no row."""
        if self._files is not None:
            there = await self.core.runtime.offload(self._files.what_is_there, ref)
            if there == "directory":
                return f"{shown} is a directory: give the path of a session's file, or an id"
            if there is not None:
                return f"{shown} is an empty file: give a session to which something was appended"
        return f"there is no session {shown!r}: list the sessions and give one of those"

    async def _refuse_others(self, ref: Ref) -> None:
        """Refuse a file outside the root that is not a session, before its folder would get a folder of locks for it.

        Raises:
            SessionNotFound: There is no such file, or it is empty.
            NotASession: It does not begin with a header.
            UnsupportedVersion: A newer program wrote it.
            OSError: It cannot be read.
        """
        core = self.core
        if self._files is None or not self._files.is_outside(ref) or core.registry.live(ref) is not None:
            return
        if core.recovers is not None and await core.runtime.offload(core.recovers.may_be_restored, ref):
            return  # its header may be in the journal only
        try:
            await self._store.open(ref)
        except SessionNotFound as error:
            raise SessionNotFound(
                f"there is no session at {ref}, or its file is empty: give the path of a session's file, or an id"
            ) from error

    def _ref_of_path(self, path: str | os.PathLike[str]) -> Ref:
        if self._files is not None:
            return self._files.ref_of(checked_path(path))
        return os.fspath(path)
