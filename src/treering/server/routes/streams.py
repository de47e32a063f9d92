"""Streams of events: the entries and views of a session, and the changes of the listing, as server-sent events.

A stream is one loop on one task, without a queue of its own: it waits for the subscription, for the time of the next
comment, and for the end of the server or of the connection, and it awaits each send. A reader that accepts nothing for
a while is dropped; it resumes by the id of the last event that it has. What many followers of a session get at the same
place is encoded once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio
import anyio.lowlevel
from msgspec import Struct
from starlette.types import Receive, Send

from ...actors.host.listing import SessionChanged
from ...actors.session.session import Session
from ...events.entries import Entry
from ...events.errors import TreeringError
from ...events.stores.base import Cursor
from ...projections.feed import Reset, Transient
from ...projections.usage import UsageProjection
from ...projections.views import Snapshot
from ..blocks import block, entry_block
from ..fields import Folder, Name, Since, cursor_of
from ..routing import Call, Nothing, Reply, Routes
from ..wire import encode
from .sessions import SessionRow, row_of

if TYPE_CHECKING:
    from ..service import Service


routes = Routes()

HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
}
"""Headers that keep proxies from holding a stream back, storing it or changing it."""

_BEGINNING = b": ok\nretry: 2000\n\n"
_ALIVE = b": alive\n\n"
_SPREAD = 0.1

View: TypeAlias = Literal["context", "tree", "labels", "usage"]
"""The views that can be followed."""

Push: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends a chunk, and returns when the connection has taken it."""


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to follow.

    Attributes:
        since: "start", "end" or a cursor; Last-Event-ID takes precedence, since a browser repeats its address.
        kinds: Events beside entries: "transient", and "ready", which says that the reader has caught up.
        view: A view to follow instead of entries: first its value, then its changes.
        live: Whether to go on after the reader has caught up.
    """

    since: Since = "start"
    kinds: tuple[Literal["entry", "transient", "ready"], ...] = ("entry",)
    view: View | None = None
    live: bool = True


class NewTransient(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event that no log keeps; of two with the same name, a slow reader gets only the later one."""

    name: Name
    data: Any = None  # any JSON


class NewTransients(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events to send, in their order."""

    events: tuple[NewTransient, ...]


class ListStreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to follow: those of a project, or all."""

    project: Folder | None = None


class Ready(Struct, frozen=True):
    """The reader has everything up to a cursor."""

    cursor: str
    up_to_date: bool = True


class ResetEvent(Struct, frozen=True):
    """The log was replaced: all that the reader has is of another one, whose end it was at."""

    cursor: str
    reason: str
    had: str | None


class Bye(Struct, frozen=True):
    """The stream ends, and whether to open another one."""

    reason: Literal["shutdown", "rotate", "expired", "revoked", "deleted"]
    reconnect: bool
    retry_ms: int


class TransientEvent(Struct, frozen=True):
    """An event that no log has."""

    name: str
    data: Any  # any JSON value


class ViewEvent(Struct, frozen=True):
    """The value of a view, and where the log was."""

    cursor: str
    value: Any  # the type of the view


class ChangeEvent(Struct, frozen=True):
    """A change of a view, to be applied to its value at `base`."""

    base: str
    cursor: str
    change: Any  # the type of the view's changes


class ListReset(Struct, frozen=True):
    """The rows of all sessions follow: a reader drops those that it has."""

    epoch: str


class SessionEvent(Struct, frozen=True):
    """A session of the listing is new, changed or gone."""

    op: Literal["changed", "deleted"]
    id: str
    row: SessionRow | None
    n: int


class Slow(Exception):
    """The reader accepted nothing for too long."""


class EventStream:
    """A reply that is a stream of events.

    Args:
        service: The server.
        chunks: Yields what to send; None asks for nothing but lets the stream notice that it should end.
    """

    def __init__(self, service: Service, chunks: Callable[[Push], Awaitable[Bye | None]]) -> None:
        self._service = service
        self._chunks = chunks
        self._ending: Bye | None = None
        self._is_slow = False
        self._sending_since: float | None = None
        self._sent_at = 0.0

    async def run(self, send: Send, receive: Receive) -> None:
        """Send events until the reader leaves, the server stops, or nothing more can follow.

        Raises:
            Slow: The reader accepted nothing for `send_for_s`.
        """
        limits = self._service.limits
        tasks = anyio.create_task_group()

        async def push(chunk: bytes) -> None:
            self._sending_since = anyio.current_time()
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            self._sending_since = None
            self._sent_at = anyio.current_time()

        async def until_gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        async def watch() -> None:
            self._ending = await self._watched(push)
            tasks.cancel_scope.cancel()

        async with tasks:
            await push(_BEGINNING)
            tasks.start_soon(until_gone)
            tasks.start_soon(watch)
            self._ending = await self._chunks(push)
            tasks.cancel_scope.cancel()
        if self._is_slow:
            raise Slow
        if self._ending is not None:
            with anyio.move_on_after(limits.send_for_s):
                await send(
                    {"type": "http.response.body", "body": block("bye", encode(self._ending)), "more_body": True}
                )
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _watched(self, push: Push) -> Bye | None:
        """Watch over a stream: say that it lives, and return how it ends when the server stops or its time is over.

        None is returned for a reader that accepted nothing for too long.
        """
        limits, stopping = self._service.limits, self._service.stopping
        ends_at = anyio.current_time() + limits.stream_for_s * random.uniform(1 - _SPREAD, 1 + _SPREAD)
        while True:
            now = anyio.current_time()
            if now >= ends_at:
                return Bye("rotate", reconnect=True, retry_ms=2000)
            if self._sending_since is not None:
                due = self._sending_since + limits.send_for_s
                if now >= due:
                    self._is_slow = True
                    return None
                due = min(due, now + limits.alive_after_s)
            else:
                due = self._sent_at + limits.alive_after_s
                if now >= due:
                    with anyio.move_on_after(limits.send_for_s) as bound:
                        await push(_ALIVE)
                    self._is_slow = bound.cancelled_caught
                    if self._is_slow:
                        return None
                    continue
            with anyio.move_on_after(min(due, ends_at, now + limits.send_for_s) - now):
                await stopping.wait()
                return Bye("shutdown", reconnect=True, retry_ms=2000)


@routes.add(
    "GET",
    "/v1/sessions/{session_id}/events",
    right="read",
    query=StreamQuery,
    reply=bytes,
    media_types=("text/event-stream",),
    errors=(404,),
    streams=True,
)
async def follow_session(call: Call[StreamQuery, None]) -> EventStream:
    """Follow a session: its entries, those to come included, or one of its views."""
    session, query, service = await call.reading(), call.query, call.service
    if (view := query.view) is not None:
        return EventStream(service, lambda push: _view(service, session, view, live=query.live, push=push))
    after = place(session, call.header(b"last-event-id") or query.since)
    return EventStream(service, lambda push: _entries(service, session, query, after, push))


@routes.add(
    "POST",
    "/v1/sessions/{session_id}/transients",
    right="write",
    body=NewTransients,
    status=202,
    errors=(404,),
)
async def send_transients(call: Call[Nothing, NewTransients]) -> Reply:
    """Send events to those who follow a session now; nothing keeps them, and they may be lost."""
    session = await call.writing()
    for event in call.body.events:
        session.emit(event.name, event.data)
    return Reply()


def place(session: Session, since: str) -> Cursor | int:
    """Return where a stream of a session's entries begins: at "start", at "end" or after a cursor."""
    if since == "start":
        return 0
    return session.cursor if since == "end" else cursor_of(since)


async def _entries(
    service: Service,
    session: Session,
    query: StreamQuery,
    after: Cursor | int,
    push: Push,
) -> Bye | None:
    """Send the entries of a session after a cursor, and what else was asked for between them."""
    with_transients, with_ready = "transient" in query.kinds, "ready" in query.kinds
    chunk_max = service.limits.chunk_bytes_max
    had = str(after) if isinstance(after, Cursor) else None
    target = session.cursor
    caught_up = False
    subscription = session.subscribe(after=after, transient=True) if with_transients else session.subscribe(after=after)
    try:
        async with subscription as items:
            while True:
                if not caught_up and _is_past(items.cursor, target):
                    caught_up = True
                    if with_ready:
                        await push(block("ready", encode(Ready(str(items.cursor))), str(items.cursor)))
                if caught_up and not query.live:
                    return None
                try:
                    batch = await items.receive_many()
                except StopAsyncIteration:
                    return Bye("deleted", reconnect=False, retry_ms=0) if not service.stopping.is_set() else None
                generation = items.cursor.generation
                if service.encoded.knows(batch) or all(not isinstance(item, (Reset, Transient)) for item in batch):
                    await _push_entries(service, batch, generation, chunk_max, push)  # type: ignore[arg-type]  # entries
                    had = str(items.cursor)
                    continue
                for item in batch:
                    if isinstance(item, Reset):
                        reset = ResetEvent(str(item.cursor), "replaced", had)
                        await push(block("reset", encode(reset), str(item.cursor)))
                        caught_up, target = False, session.cursor
                    elif isinstance(item, Transient):
                        await push(block("transient", encode(TransientEvent(item.name, item.raw))))
                    else:
                        begun_ns = time.time_ns()
                        await push(entry_block(item, generation))
                        service.delivered([item], begun_ns)
                had = str(items.cursor)
    except TreeringError as error:
        await push(block("problem", encode(service.problem(error))))
        return Bye("deleted", reconnect=False, retry_ms=0)


def _is_past(cursor: Cursor, target: Cursor) -> bool:
    return cursor.generation in ("", target.generation) and cursor.seq >= target.seq


async def _push_entries(
    service: Service,
    entries: Sequence[Entry],
    generation: str,
    chunk_max: int,
    push: Push,
) -> None:
    encoded = service.encoded.entries(entries, generation)
    begun_ns = time.time_ns()
    for start in range(0, len(encoded), chunk_max):
        await push(encoded[start : start + chunk_max])
    service.delivered(entries, begun_ns)


async def _view(service: Service, session: Session, view: View, *, live: bool, push: Push) -> Bye | None:
    """Send the value of a view, and its changes."""
    subscription = session.subscribe(UsageProjection() if view == "usage" else view)
    base = ""
    try:
        async with subscription as items:
            async for item in items:
                cursor = str(item.cursor)
                if isinstance(item, Snapshot):
                    await push(block("view", encode(ViewEvent(cursor, item.value)), cursor))
                else:
                    await push(block("change", encode(ChangeEvent(base, cursor, item.change)), cursor))
                base = cursor
                if not live:
                    return None
    except TreeringError as error:
        await push(block("problem", encode(service.problem(error))))
    return Bye("deleted", reconnect=False, retry_ms=0)


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
    """Follow the listing: each session as it is now, then each that is new, changed or gone."""
    return EventStream(call.service, lambda push: _list(call, push))


async def _list(call: Call[ListStreamQuery, None], push: Push) -> Bye | None:
    service, project = call.service, call.query.project
    project_hash: str | None = None
    n = 0
    shown: dict[str, str] = {}  # the id of each session that the reader has, by its ref

    async def tell(op: Literal["changed", "deleted"], session_id: str, row: SessionRow | None) -> None:
        nonlocal n
        n += 1
        await push(block("session", encode(SessionEvent(op, session_id, row, n)), f"{service.epoch}-{n}"))

    async with service.host.subscribe_sessions() as changes:
        async for change in changes:
            if isinstance(change, SessionChanged):
                row = change.summary
                is_seen = row is not None and call.principal.sees(row.key) and not row.archived
                if is_seen and row is not None and project is not None and project_hash != row.project_hash:
                    is_seen = row.project == project
                if is_seen and row is not None:
                    shown[change.ref] = row.id
                    await tell("changed", row.id, row_of(call.service, row, with_state=True))
                elif change.ref in shown:
                    await tell("deleted", shown.pop(change.ref), None)
                continue
            shown.clear()
            await push(block("reset", encode(ListReset(service.epoch)), f"{service.epoch}-{n}"))
            rows = await service.host.list_sessions(project=project)
            for row in rows:
                if call.principal.sees(row.key):
                    shown[row.ref] = row.id
                    project_hash = row.project_hash if project is not None else None
                    await tell("changed", row.id, row_of(call.service, row, with_state=True))
            await push(block("ready", encode({"n": n, "up_to_date": True}), f"{service.epoch}-{n}"))
    return None
