"""Streams of one session: its entries and what is between them, its state, or a view, as server-sent events.

A stream is one loop on one task, without a queue of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...actors.session.session import Session
from ...events.errors import SessionNotFound, TreeringError
from ...projections.views import Snapshot
from ..event_stream import AGAIN, GONE, Bye, EventStream, Push
from ..http.blocks import block
from ..http.fields import Name, Since
from ..http.wire import encode
from ..routing import Call, Nothing, Reply, Routes
from .session_stream import Kind, SessionStream, place

if TYPE_CHECKING:
    from ..service import Followed, Service


routes = Routes()


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to follow.

    Attributes:
        since: "start", "end" or a cursor; Last-Event-ID takes precedence, since a browser repeats its address.
        kinds: Events beside entries: "leaf", where the leaf is and moves to; "transient"; "state", what the session is
            doing; "ready", which says that the reader has caught up.
        view: A view to follow instead of entries, first its value and then its changes: "context", "tree", "labels",
            "usage", or a projection of the program's.
        live: Whether to go on after the reader has caught up.
    """

    since: Since = "start"
    kinds: tuple[Kind, ...] = ("entry",)
    view: Name | None = None
    live: bool = True


class NewTransient(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event that no log keeps; of two with the same name, a slow reader gets only the later one.

    With `message`, it is the next piece of a text that is being written, and `text` is that piece: pieces are joined.
    """

    name: Name
    data: Any = None  # any JSON
    message: Name | None = None
    text: str = ""


class NewTransients(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events to send, in their order."""

    events: tuple[NewTransient, ...]


class ViewEvent(Struct, frozen=True):
    """The value of a view, and where the log was."""

    cursor: str
    value: Any  # the type of the view


class ChangeEvent(Struct, frozen=True):
    """A change of a view, to be applied to its value at `base`."""

    base: str
    cursor: str
    change: Any  # the type of the view's changes


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
    if query.view is not None:
        run: Callable[[Push], Awaitable[None]] = partial(_view, session, service.view(query.view), live=query.live)
    else:
        after = place(session, call.header(b"last-event-id") or query.since)

        def follow(push: Push) -> Awaitable[None]:
            offer = stream.offer if stream.offers else None
            return SessionStream(service, session, after, query.kinds, push, offer=offer).run(live=query.live)

        run = follow

    stream = EventStream(service, call.principal, lambda push: _to_the_end(service, push, run, live=query.live))
    return stream


@routes.add(
    "POST", "/v1/sessions/{session_id}/transients", right="write", body=NewTransients, status=202, errors=(404,)
)
async def send_transients(call: Call[Nothing, NewTransients]) -> Reply:
    """Send events to those who follow a session now; nothing keeps them, and they may be lost."""
    session = await call.writing()
    for event in call.body.events:
        if event.message is None:
            session.emit(event.name, event.data)
        else:
            session.emit_text(event.name, event.text, message=event.message)
    return Reply()


async def _to_the_end(
    service: Service, push: Push, run: Callable[[Push], Awaitable[None]], *, live: bool
) -> Bye | None:
    """Run a stream; say what cannot be read, and that nothing more follows, unless that passes."""
    try:
        await run(push)
    except SessionNotFound:
        return None if service.stopping.is_set() else GONE
    except TreeringError as error:
        problem = service.problem(error)
        if problem.retry:  # a store that cannot be reached for a while, for example
            return AGAIN
        await push(block("problem", encode(problem)))
        return GONE
    return GONE if live else None


async def _view(session: Session, view: Followed, push: Push, *, live: bool) -> None:
    """Send the value of a view, and its changes."""
    base = ""
    async with session.subscribe(view) as items:
        async for item in items:
            cursor = str(item.cursor)
            if isinstance(item, Snapshot):
                await push(block("view", encode(ViewEvent(cursor, item.value)), cursor))
            else:
                await push(block("change", encode(ChangeEvent(base, cursor, item.change)), cursor))
            base = cursor
            if not live:
                return
