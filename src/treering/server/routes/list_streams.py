"""The stream of the listing: the rows of sessions and what each is doing, as they change.

A stream begins with all rows, or after a position, which a page of the listing and every event say. What changes is
told at most a few times a second for each session, each time as it is then.
"""

from __future__ import annotations

from typing import Literal

import anyio
import anyio.to_thread
from msgspec import Struct

from ...actors.host.listing import ListPosition, SessionChanged
from ...events.entries import ARCHIVED
from ...events.projects import project_hash
from ...projections.summary import SessionSummary
from ...wire import SessionRow, StateReply
from ..event_stream import Bye, EventStream, Push
from ..filters import SessionFilter, passes
from ..http.blocks import block
from ..http.fields import Count, Folder, Name, Position
from ..http.wire import encode
from ..principals import Principal
from ..routing import Call, Routes
from ..service import Service
from .sessions import row_of
from .states import state_of_row

routes = Routes()

ListKind = Literal["session", "state"]
"""The events of the listing that a reader can ask for."""

_ANY = "any"


class ListStreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to follow, and from where.

    Attributes:
        since: The position to begin after; Last-Event-ID takes precedence. By default all rows come first.
        kinds: "session" for rows, with what each session is doing; "state" for that alone.
        project: The sessions of a project.
        status: Those of a status, as for the listing.
        key: The one with this key.
        key_prefix: Those whose key begins so.
        parent: Those that come from this session.
        live: Whether to go on after the reader has caught up.
    """

    since: Position | None = None
    kinds: tuple[ListKind, ...] = ("session",)
    project: Folder | None = None
    status: Name | None = None
    key: Name | None = None
    key_prefix: Name | None = None
    parent: Name | None = None
    live: bool = True


class ListReset(Struct, frozen=True):
    """The rows of all sessions follow: a reader drops those that it has."""

    epoch: str


class ListReady(Struct, frozen=True):
    """The reader has everything up to a position."""

    n: Count
    up_to_date: bool = True


class SessionEvent(Struct, frozen=True):
    """A session of the listing is new or changed, or is gone from it."""

    op: Literal["changed", "deleted"]
    id: str
    row: SessionRow | None
    n: Count


class ListStream:
    """The events of the listing for one reader.

    Args:
        service: The server.
        principal: Who follows.
        query: What to follow.
        since: The position to begin after, if any.
        push: Sends events.
    """

    def __init__(
        self, service: Service, principal: Principal, query: ListStreamQuery, since: ListPosition | None, push: Push
    ) -> None:
        self._service = service
        self._principal = principal
        self._query = query
        self._since = since
        self._push = push
        self._filter = SessionFilter(key=query.key, key_prefix=query.key_prefix, parent=query.parent)
        self._hash: str | None = None
        self._shown: set[str] = set()
        self._states: dict[str, StateReply | None] = {}
        self._is_new = since is None  # otherwise the reader may have rows that this stream did not send

    async def run(self) -> Bye | None:
        """Send events until the host closes, or until the reader has caught up, if it only wants that."""
        query, every_s = self._query, self._service.limits.listed_every_s
        if query.project is not None:
            self._hash = await anyio.to_thread.run_sync(project_hash, query.project)
        async with self._service.host.subscribe_sessions(after=self._since) as changes:
            is_told = self._since is not None and not changes.waiting
            if is_told:
                await self._push(_ready(changes.position))
            while query.live or not is_told:
                begun = anyio.current_time()
                try:
                    batch = await changes.receive_many()
                except StopAsyncIteration:
                    return None
                blocks: list[bytes] = []
                for item in batch:
                    if isinstance(item, SessionChanged):
                        blocks += self._changed(item)
                    else:
                        blocks += self._all(item, changes.position)
                        is_told = True
                if blocks:
                    await self._push(b"".join(blocks))
                if not is_told and not changes.waiting:
                    is_told = True
                    await self._push(_ready(changes.position))
                await anyio.sleep(max(0.0, begun + every_s - anyio.current_time()))
        return None

    def _all(self, rows: list[SessionSummary], position: ListPosition) -> list[bytes]:
        self._shown.clear()
        self._states.clear()
        self._is_new = True
        blocks = [block("reset", encode(ListReset(position.epoch)), str(position))]
        for row in rows:
            if self._is_followed(row):
                blocks += self._told(row.ref, row, position)
        return [*blocks, _ready(position)]

    def _changed(self, change: SessionChanged) -> list[bytes]:
        row, position = change.summary, change.position
        if row is not None and self._is_followed(row):
            return self._told(change.ref, row, position)
        known = row or change.gone
        is_known = change.ref in self._shown or (not self._is_new and known is not None and self._sees(known))
        if not is_known or known is None:
            return []
        self._shown.discard(change.ref)
        self._states.pop(change.ref, None)
        return [block("session", encode(SessionEvent("deleted", known.id, None, position.n)), str(position))]

    def _told(self, ref: str, row: SessionSummary, position: ListPosition) -> list[bytes]:
        self._shown.add(ref)
        blocks: list[bytes] = []
        if "session" in self._query.kinds:
            event = SessionEvent("changed", row.id, row_of(self._service, row, with_state=True), position.n)
            blocks.append(block("session", encode(event), str(position)))
        if "state" in self._query.kinds:
            state = state_of_row(self._service, row)
            if state is not None and self._states.get(ref) != state:
                self._states[ref] = state
                blocks.append(block("state", encode(state), str(position)))
        return blocks

    def _sees(self, row: SessionSummary) -> bool:
        return self._principal.sees(row.key)

    def _is_followed(self, row: SessionSummary) -> bool:
        """Return whether a row is in the part of the listing that is followed."""
        query = self._query
        if not self._sees(row):
            return False
        if query.status == ARCHIVED:
            is_followed = row.archived
        else:
            is_followed = query.status == _ANY or (not row.archived and query.status in (None, row.status))
        return (
            is_followed
            and passes(row, self._filter)
            and (query.project is None or row.project_hash == self._hash or row.project == query.project)
        )


def _ready(position: ListPosition) -> bytes:
    return block("ready", encode(ListReady(position.n)), str(position))


@routes.add(
    "GET",
    "/v1/events",
    right="read",
    query=ListStreamQuery,
    reply=bytes,
    media_types=("text/event-stream",),
    streams=True,
)
async def follow_list(call: Call[ListStreamQuery, None]) -> EventStream:
    """Follow the listing: all rows, or those that changed after a position, then each that changes."""
    text = call.header(b"last-event-id") or call.query.since
    since = None if text is None else ListPosition.parse(text)
    service, principal = call.service, call.principal
    return EventStream(service, principal, lambda push: ListStream(service, principal, call.query, since, push).run())
