"""The resources: each session, as the end of its conversation; and the sessions that a client follows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote, unquote

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import Struct

from ..events.errors import TreeringError
from ..events.redaction import Redaction
from ..events.stores.base import Cursor
from ..projections.feed_events import LeafMove
from .messages import INVALID_PARAMS, Refused
from .reach import Reach, Wanted
from .reading import PathPage, ReadSession, read_path
from .shown import session_shown

_SCHEME = "treering://session/"
_PAGE = 50
_FOLLOWED_MAX = 64
_TOLD_EVERY_S = 0.25

TEMPLATE: dict[str, object] = {
    "uriTemplate": f"{_SCHEME}{{session}}",
    "name": "session",
    "description": "The end of a session's conversation, as `read_session` shows it.",
    "mimeType": "application/json",
}
"""How the address of a session is made from its id."""

Tell = Callable[[str], Awaitable[None]]
"""Tells a client that the resource at an address changed."""


class ResourcePage(Struct, frozen=True):
    """A page of resources, and the word for the next one."""

    resources: list[dict[str, object]]
    next: str | None


def uri_of(session_id: str) -> str:
    """Return the address of a session."""
    return _SCHEME + quote(session_id, safe="")


def session_of(uri: str) -> str:
    """Return the session that an address means.

    Raises:
        Refused: It is no address of a session.
    """
    if not uri.startswith(_SCHEME) or not (session_id := unquote(uri.removeprefix(_SCHEME))):
        raise Refused(INVALID_PARAMS, f"{uri[:200]!r} is no resource here: their form is {_SCHEME}ID")
    return session_id


async def list_resources(reach: Reach, redaction: Redaction, page: str | None) -> ResourcePage:
    """Return a page of the sessions that are not archived, the most recently used first."""
    rows, next_ = await reach.rows(Wanted(page=page, limit=_PAGE))
    resources: list[dict[str, object]] = []
    for row in rows:
        shown = session_shown(row, redaction)
        resources.append(
            {
                "uri": uri_of(row.id),
                "name": row.id,
                **({} if shown.title is None else {"title": shown.title}),
                "mimeType": "application/json",
                "annotations": {"lastModified": row.last_entry},
            }
        )
    return ResourcePage(resources, next_)


async def read_resource(reach: Reach, redaction: Redaction, uri: str) -> PathPage:
    """Return the end of the conversation of a session.

    Raises:
        Refused: It is no address of a session.
        SessionNotFound: There is no such session.
    """
    return await read_path(reach, redaction, ReadSession(session=session_of(uri)))


class Following:
    """The sessions that one client follows, and how far it has been told of each."""

    def __init__(self) -> None:
        self._told: dict[str, Cursor] = {}  # by session: the end of its log when the client was told last
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._changed = anyio.Event()
        self._running = anyio.CancelScope()
        self.is_run = False

    async def add(self, reach: Reach, uri: str) -> None:
        """Follow the session at an address from now on.

        Raises:
            Refused: It is no address of a session, or the client follows too many.
            SessionNotFound: There is no such session.
        """
        session_id = session_of(uri)
        if session_id not in self._told and len(self._told) >= _FOLLOWED_MAX:
            raise Refused(
                INVALID_PARAMS, f"you follow {_FOLLOWED_MAX} sessions, as many as you may: unsubscribe from one"
            )
        self._told.setdefault(session_id, (await reach.reading(session_id)).cursor)
        self._changed.set()

    def remove(self, uri: str) -> None:
        """Follow the session at an address no longer."""
        session_id = session_of(uri)
        self._told.pop(session_id, None)
        if (scope := self._scopes.pop(session_id, None)) is not None:
            scope.cancel()

    def end(self) -> None:
        """Follow nothing any longer: the client has left."""
        self._told.clear()
        self._running.cancel()

    async def run(self, reach: Reach, tell: Tell) -> None:
        """Tell of changes until it is cancelled or ended; of each session at most some times a second."""
        self.is_run = True
        try:
            async with anyio.create_task_group() as tasks:
                self._running = tasks.cancel_scope
                while True:
                    for session_id in self._told.keys() - self._scopes.keys():
                        scope = self._scopes[session_id] = anyio.CancelScope()
                        tasks.start_soon(self._follow, scope, reach, session_id, tell)
                    self._changed = anyio.Event()
                    await self._changed.wait()
        finally:
            self.is_run = False
            self._scopes.clear()

    async def _follow(self, scope: anyio.CancelScope, reach: Reach, session_id: str, tell: Tell) -> None:
        with scope:
            try:
                session = await reach.reading(session_id)
                await checkpoint_if_cancelled()  # the client may have left the session meanwhile
                async with session.subscribe(after=self._told[session_id], leaf=True) as items:
                    is_new = True  # the first move says where the leaf is
                    while True:
                        batch = await items.receive_many()
                        await checkpoint_if_cancelled()
                        moves = sum(isinstance(item, LeafMove) for item in batch)
                        if len(batch) > (1 if is_new and moves else 0):
                            self._told[session_id] = items.cursor
                            await tell(uri_of(session_id))
                            await anyio.sleep(_TOLD_EVERY_S)
                        is_new = is_new and not moves
            except (StopAsyncIteration, TreeringError):  # it is gone, or cannot be read: whoever reads it is told why
                self._told.pop(session_id, None)
                self._scopes.pop(session_id, None)
                await tell(uri_of(session_id))
