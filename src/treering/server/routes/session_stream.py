"""The stream of one session: its entries and what is between them, and what it is doing, as server-sent events.

A stream is one loop on one task, without a queue of its own. What many followers of a session get at the same place is
encoded once, and of those that have all there is one stream writes to all; see `audience`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio
from msgspec import UNSET, Struct, UnsetType

from ...actors.session.session import Session
from ...events.entries import Entry
from ...events.errors import SessionNotFound, TreeringError
from ...events.stores.base import Cursor
from ...projections.feed_events import LeafMove, Reset, Transient
from ...projections.session_state import SessionState
from ...projections.subscriptions import EntryFollowing
from ...projections.views import Snapshot
from ..event_stream import Push
from ..http.blocks import block
from ..http.fields import cursor_of
from ..http.wire import encode
from .audience import Audience, Offer, Progress, Seat, audience_of
from .states import reply_of_session

if TYPE_CHECKING:
    from ..service import Service

Kind: TypeAlias = Literal["entry", "leaf", "transient", "state", "ready"]
"""The events of a session that a reader can ask for."""


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
        offer: Sends events if the connection takes them at once; None if it always has to be waited for.
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
        offer: Offer | None = None,
        name: str | None = None,
    ) -> None:
        self._service = service
        self._session = session
        self._after = after
        self._kinds = frozenset(kinds)
        self._push = push
        self._offer = offer
        self._name = name
        had = after if isinstance(after, Cursor) else None
        self._progress = Progress(had, session.cursor, misses_leaf="leaf" in self._kinds)
        self._audience = Audience() if offer is None else audience_of(service, session, self._kinds - {"state"})

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
        while True:
            async with self._subscription() as items:
                try:
                    seat = await self._follow_alone(items, live=live)
                finally:
                    self._audience.end(items)
            if seat is None:
                return
            try:
                await seat.wait()
            finally:
                self._audience.leave(seat)
            self._progress = seat.progress
            self._after = seat.progress.had or self._after
            if seat.pending:
                await self._push(seat.pending)

    def _subscription(self) -> EntryFollowing[Any]:
        transient = "transient" in self._kinds
        if "leaf" in self._kinds:
            return self._session.subscribe(after=self._after, transient=transient, leaf=True)
        return self._session.subscribe(after=self._after, transient=transient)

    async def _follow_alone(self, items: EntryFollowing[Any], *, live: bool) -> Seat | None:
        """Send events until the reader takes a seat, or has caught up, if it only wants that; then return None."""
        session, progress = self._session, self._progress
        while True:
            if not progress.is_ready:
                await self._say_ready(items)
                if progress.is_ready and not live:
                    return None
            if progress.is_ready and self._offer is not None and items.has_all:
                seat = self._audience.enter(items, progress, self._offer)
                if seat is not None:
                    return seat
            try:
                batch = await items.receive_many()
            except StopAsyncIteration:
                raise SessionNotFound(f"session {session.id!r} was deleted, or the server stops") from None
            cursor = items.cursor
            if Reset in set(map(type, batch)):
                await self._send_around_resets(items, batch, cursor.generation)
            else:
                await self._send_items(items, batch, cursor.generation)
            progress.had = cursor
            if self._audience.is_led_by(items):
                pending = self._audience.settle()
                if pending:
                    await self._push(pending)

    async def _send(self, items: EntryFollowing[Any], events: bytes) -> None:
        """Send events to the reader of this stream, and to all for whom it reads."""
        if self._audience.is_led_by(items):
            self._audience.tell(events)
        else:
            await self._push(events)

    async def _send_around_resets(
        self, items: EntryFollowing[Any], batch: Sequence[Entry | Transient | LeafMove | Reset], generation: str
    ) -> None:
        start = 0
        for place_of_reset in [at for at, item in enumerate(batch) if isinstance(item, Reset)]:
            await self._send_items(items, batch[start:place_of_reset], generation)
            await self._send_reset(items, batch[place_of_reset])
            start = place_of_reset + 1
        await self._send_items(items, batch[start:], generation)

    async def _say_ready(self, items: EntryFollowing[Any]) -> None:
        """Note that the reader has caught up, and say so if it asked."""
        progress, cursor = self._progress, items.cursor
        if progress.misses_leaf:
            return
        target = progress.target
        if cursor.generation in ("", target.generation) and target.seq <= cursor.seq <= self._session.cursor.seq:
            progress.is_ready = True
            if "ready" in self._kinds:
                told = Ready(str(cursor), session=UNSET if self._name is None else self._name)
                await self._send(items, block("ready", encode(told), self._id(cursor)))

    def _id(self, cursor: Cursor) -> str:
        return str(cursor) if self._name is None else f"{self._name}/{cursor}"

    async def _send_reset(self, items: EntryFollowing[Any], reset: object) -> None:
        assert isinstance(reset, Reset)
        progress = self._progress
        told = ResetEvent(str(reset.cursor), "replaced", None if progress.had is None else str(progress.had))
        named = told if self._name is None else SessionReset(self._name, told)
        await self._send(items, block("reset", encode(named), self._id(reset.cursor)))
        progress.is_ready, progress.target = False, self._session.cursor
        progress.misses_leaf = "leaf" in self._kinds

    async def _send_items(
        self, items: EntryFollowing[Any], batch: Sequence[Entry | Transient | LeafMove | Reset], generation: str
    ) -> None:
        shown: Any = batch  # without resets
        if not batch:
            return
        tracing = self._service.tracing
        begun_ns = time.time_ns() if tracing is not None and tracing.remembered else 0
        await self._send(items, self._service.encoded.items(shown, generation, self._name))
        if tracing is not None and begun_ns:
            tracing.delivered([item for item in batch if not isinstance(item, (Reset, Transient, LeafMove))], begun_ns)
        progress = self._progress
        if progress.misses_leaf:
            progress.misses_leaf = not any(isinstance(item, LeafMove) for item in batch)

    async def _follow_state(self) -> None:
        """Send what the session is doing, and whenever that changes."""
        async with self._session.subscribe("session_state") as items:
            async for item in items:
                await self._send_state(item.value if isinstance(item, Snapshot) else item.change)

    async def _send_state(self, state: SessionState) -> None:
        await self._push(block("state", encode(await reply_of_session(self._service, self._session, state))))
