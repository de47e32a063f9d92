"""What a client may reach: which sessions there are for it, and whether it may write to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from msgspec import Struct

from ..actors.host.host import SessionHost
from ..actors.host.names import checked_id
from ..actors.session.session import Session
from ..events.errors import InvalidInput, InvalidSessionId, NotFound, ReadOnly, SessionNotFound
from ..projections.summary import SessionSummary


class Wanted(Struct, frozen=True, kw_only=True):
    """Which sessions to list; see `SessionHost.list_sessions`."""

    project: str | None = None
    status: str | None = None
    page: str | None = None
    limit: int


class Reach(Protocol):
    """The sessions that a client may see.

    Attributes:
        host: The host of all sessions.
        may_write: Whether the client may label entries.
    """

    @property
    def host(self) -> SessionHost: ...
    @property
    def may_write(self) -> bool: ...

    async def rows(self, wanted: Wanted) -> tuple[Sequence[SessionSummary], str | None]:
        """Return a page of rows, and the word for the next page.

        Raises:
            TreeringError: There is no such page, or nothing can be wanted so.
        """
        ...

    async def own(self) -> frozenset[str] | None:
        """Return the ids of the sessions that the client may see; None for all."""
        ...

    async def row(self, session_id: str) -> SessionSummary:
        """Return the row of the session with exactly this id.

        Raises:
            SessionNotFound: There is none, or the client may not see it.
        """
        ...

    async def reading(self, session_id: str) -> Session:
        """Return a handle of a session to read from, caught up with its log.

        Raises:
            SessionNotFound: See `row`.
        """
        ...

    def writing(self, session_id: str) -> AbstractAsyncContextManager[Session]:
        """Return a handle of a session to write to as long as a block runs.

        Raises:
            SessionNotFound: See `row`.
            ReadOnly: The client may not write.
            SessionLocked: Another process owns the session.
        """
        ...

    def shown(self, text: str) -> str:
        """Return the text of an error as the client may read it."""
        ...


class HostReach:
    """All sessions of a host: those of a root, or what a server shows to the token of a remote host.

    A session is read without its lock, since the program that talks in it owns it; it is locked while it is labelled.

    Args:
        host: The host, which is open.
        may_write: Whether entries may be labelled.
    """

    def __init__(self, host: SessionHost, *, may_write: bool = True) -> None:
        self.host = host
        self.may_write = may_write

    async def rows(self, wanted: Wanted) -> tuple[Sequence[SessionSummary], str | None]:
        """Return a page of rows, the most recently used first; see `Reach.rows`."""
        start = place_of(wanted.page)
        rows = await self.host.list_sessions(
            project=wanted.project, status=wanted.status, limit=wanted.limit + 1, offset=start
        )
        return rows[: wanted.limit], str(start + wanted.limit) if len(rows) > wanted.limit else None

    async def own(self) -> frozenset[str] | None:
        """Return None: all sessions are theirs."""
        return None

    async def row(self, session_id: str) -> SessionSummary:
        """Return the row of a session; see `Reach.row`. A name, the beginning of an id or a path is none."""
        try:
            row = await self.host.resolve(checked_id(session_id))
        except (NotFound, InvalidSessionId):
            raise unknown(session_id) from None
        if row.id != session_id:
            raise unknown(session_id)
        return row

    async def reading(self, session_id: str) -> Session:
        """Return a handle of a session to read from; see `Reach.reading`."""
        session = await self.host.load(await self.row(session_id), read_only=True)
        await session.refresh()
        return session

    @asynccontextmanager
    async def writing(self, session_id: str) -> AsyncGenerator[Session]:
        """Return a handle of a session to write to; see `Reach.writing`. Its lock is let go afterwards."""
        if not self.may_write:
            raise ReadOnly("this was started with --read-only: it labels nothing")
        session = await self.host.load(await self.row(session_id))
        try:
            yield session
        finally:
            await session.passivate()

    def shown(self, text: str) -> str:
        """Return the text of an error without the folder of the sessions."""
        files = self.host.core.runtime.files
        return text if files is None else text.replace(f"{files.root.rstrip('/')}/", "")


def place_of(word: str | None) -> int:
    """Return the place at which a page begins whose word is a number.

    Raises:
        InvalidInput: It is none.
    """
    if word is None:
        return 0
    if not (word.isascii() and word.isdigit() and len(word) <= _DIGITS_MAX):
        raise InvalidInput(f"there is no page {word[:40]!r}: give what `next` of a page said")
    return int(word)


_DIGITS_MAX = 12


def unknown(session_id: str) -> SessionNotFound:
    """Return the error for a session that does not exist, or that the client may not see: they look the same."""
    return SessionNotFound(f"no session has the id {session_id[:200]!r}: `list_sessions` and `search` tell ids")
