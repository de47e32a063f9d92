"""Streams of one session: its entries and what is between them, its state, or a view, as server-sent events.

A stream is one loop on one task, without a queue of its own. What many followers of a session get at the same place is
encoded once. `SessionStream` also follows each session of a stream of many.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio
from msgspec import UNSET, Struct, UnsetType

from ...actors.session.session import Session
from ...events.entries import Entry
from ...events.errors import SessionNotFound, TreeringError
from ...events.stores.base import Cursor
from ...projections.feed_events import LeafMove, Reset, Transient
from ...projections.session_state import SessionState
from ...projections.views import Snapshot
from ..event_stream import GONE, Bye, EventStream, Push
from ..http.blocks import block
from ..http.fields import Name, Since, cursor_of
from ..http.wire import encode
from ..routing import Call, Nothing, Reply, Routes
from .states import reply_of_session

if TYPE_CHECKING:
    from ..service import Followed, Service


routes = Routes()

Kind: TypeAlias = Literal["entry", "leaf", "transient", "state", "ready"]
"""The events of a session that a reader can ask for."""


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


class Ready(Struct, frozen=True):
    """The reader has everything up to a cursor; in a stream of many sessions with its session."""

    cursor: str
    up_to_date: bool = True
    session: str | UnsetType = UNSET


class ResetEvent(Struct, frozen=True):
    """The log was replaced: all that the reader has is of another one, whose end it was at."""

    cursor: str
    reason: str
    had: str | None


class SessionReset(Struct, frozen=True):
    """The log of one of the sessions of a stream was replaced."""

    session: str
    reset: ResetEvent


class ViewEvent(Struct, frozen=True):
    """The value of a view, and where the log was."""

    cursor: str
    value: Any  # the type of the view


class ChangeEvent(Struct, frozen=True):
    """A change of a view, to be applied to its value at `base`."""

    base: str
    cursor: str
    change: Any  # the type of the view's changes


def place(session: Session, since: str) -> Cursor | int:
    """Return where a stream of a session's entries begins: at "start", at "end" or after a cursor."""
    if since == "start":
        return 0
    return session.cursor if since == "end" else cursor_of(since)


class SessionStream:
    """The events of one session.

    Args:
        service: The server.
        session: The session.
        after: Where to begin.
        kinds: The events to send beside entries.
        push: Sends events.
        name: The session, in a stream of many.
    """

    def __init__(
        self,
        service: Service,
        session: Session,
        after: Cursor | int,
        kinds: Collection[Kind],
        push: Push,
        *,
        name: str | None = None,
    ) -> None:
        self._service = service
        self._session = session
        self._after = after
        self._kinds = frozenset(kinds)
        self._push = push
        self._name = name
        self._had = after if isinstance(after, Cursor) else None
        self._target = session.cursor
        self._misses_leaf = "leaf" in self._kinds
        self._is_ready = False

    async def run(self, *, live: bool = True) -> None:
        """Send events until the reader has caught up, if it only wants that.

        Raises:
            SessionNotFound: The session was deleted, or the host closes.
            TreeringError: The session cannot be read.
        """
        if "state" not in self._kinds:
            await self._follow(live=live)
        elif not live:
            await self._follow(live=False)
            await self._send_state(await self._session.state())
        else:
            error: BaseException | None = None
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._follow_state)
                    await self._follow(live=True)
            except* TreeringError as errors:
                error = errors
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            if error is not None:
                raise error

    async def _follow(self, *, live: bool) -> None:
        session, kinds = self._session, self._kinds
        subscription = (
            session.subscribe(after=self._after, transient="transient" in kinds, leaf=True)
            if "leaf" in kinds
            else session.subscribe(after=self._after, transient="transient" in kinds)
        )
        async with subscription as items:
            while True:
                if not self._is_ready:
                    await self._say_ready(items.cursor)
                    if self._is_ready and not live:
                        return
                try:
                    batch = await items.receive_many()
                except StopAsyncIteration:
                    raise SessionNotFound(f"session {session.id!r} was deleted, or the server stops") from None
                cursor = items.cursor
                if Reset in set(map(type, batch)):
                    await self._send_around_resets(batch, cursor.generation)
                else:
                    await self._send_items(batch, cursor.generation)
                self._had = cursor

    async def _send_around_resets(self, batch: Sequence[Entry | Transient | LeafMove | Reset], generation: str) -> None:
        start = 0
        for place_of_reset in [at for at, item in enumerate(batch) if isinstance(item, Reset)]:
            await self._send_items(batch[start:place_of_reset], generation)
            await self._send_reset(batch[place_of_reset])
            start = place_of_reset + 1
        await self._send_items(batch[start:], generation)

    async def _say_ready(self, cursor: Cursor) -> None:
        """Note that the reader has caught up, and say so if it asked."""
        if self._misses_leaf:
            return
        target = self._target
        if cursor.generation in ("", target.generation) and cursor.seq >= target.seq:
            self._is_ready = True
            if "ready" in self._kinds:
                told = Ready(str(cursor), session=UNSET if self._name is None else self._name)
                await self._push(block("ready", encode(told), self._id(cursor)))

    def _id(self, cursor: Cursor) -> str:
        return str(cursor) if self._name is None else f"{self._name}/{cursor}"

    async def _send_reset(self, reset: object) -> None:
        assert isinstance(reset, Reset)
        told = ResetEvent(str(reset.cursor), "replaced", None if self._had is None else str(self._had))
        named = told if self._name is None else SessionReset(self._name, told)
        await self._push(block("reset", encode(named), self._id(reset.cursor)))
        self._is_ready, self._target = False, self._session.cursor
        self._misses_leaf = "leaf" in self._kinds

    async def _send_items(self, items: Sequence[Entry | Transient | LeafMove | Reset], generation: str) -> None:
        shown: Any = items  # without resets
        if not items:
            return
        tracing = self._service.tracing
        begun_ns = time.time_ns() if tracing is not None and tracing.remembered else 0
        await self._push(self._service.encoded.items(shown, generation, self._name))
        if tracing is not None and begun_ns:
            tracing.delivered([item for item in items if not isinstance(item, (Reset, Transient, LeafMove))], begun_ns)
        if self._misses_leaf:
            self._misses_leaf = not any(isinstance(item, LeafMove) for item in items)

    async def _follow_state(self) -> None:
        """Send what the session is doing, and whenever that changes."""
        async with self._session.subscribe("session_state") as items:
            async for item in items:
                await self._send_state(item.value if isinstance(item, Snapshot) else item.change)

    async def _send_state(self, state: SessionState) -> None:
        await self._push(block("state", encode(await reply_of_session(self._service, self._session, state))))


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
        view = service.view(query.view)
        return EventStream(
            service,
            call.principal,
            lambda push: _to_the_end(
                service, push, lambda: _view(session, view, push, live=query.live), live=query.live
            ),
        )
    after = place(session, call.header(b"last-event-id") or query.since)
    return EventStream(
        service,
        call.principal,
        lambda push: _to_the_end(
            service,
            push,
            lambda: SessionStream(service, session, after, query.kinds, push).run(live=query.live),
            live=query.live,
        ),
    )


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
        if event.message is None:
            session.emit(event.name, event.data)
        else:
            session.emit_text(event.name, event.text, message=event.message)
    return Reply()


async def _to_the_end(
    service: Service, push: Push, run: Callable[[], Awaitable[None]], *, live: bool = True
) -> Bye | None:
    """Run a stream; say what cannot be read, and that nothing more follows."""
    try:
        await run()
    except SessionNotFound:
        return None if service.stopping.is_set() else GONE
    except TreeringError as error:
        await push(block("problem", encode(service.problem(error))))
        return GONE
    return GONE if live else None


async def _view(session: Session, view: Followed, push: Push, *, live: bool) -> None:
    """Send the value of a view, and its changes."""
    subscription = session.subscribe(view)
    base = ""
    async with subscription as items:
        async for item in items:
            cursor = str(item.cursor)
            if isinstance(item, Snapshot):
                await push(block("view", encode(ViewEvent(cursor, item.value)), cursor))
            else:
                await push(block("change", encode(ChangeEvent(base, cursor, item.change)), cursor))
            base = cursor
            if not live:
                return
