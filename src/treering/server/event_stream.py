"""The reply that is a stream of events: what begins it, keeps it alive, bounds it and ends it.

A stream awaits each send, and has no queue. A reader that accepts nothing for a while is dropped; it resumes by the id
of the last event that it has. A stream ends with `bye` when the server stops, when it has been open for long, and when
its reader's token expires or is revoked. A reader behind a proxy that hands a reply on only when it is whole asks by
`Prefer: wait=SECONDS` (RFC 7240) for a stream that ends so soon, and opens the next one at once.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from msgspec import Struct
from starlette.types import Receive, Send

from .http.blocks import block
from .http.wire import encode
from .principals import Principal

if TYPE_CHECKING:
    from .service import Service

HEADERS = {"content-type": "text/event-stream", "cache-control": "no-store, no-transform", "x-accel-buffering": "no"}
"""Headers that keep proxies from holding a stream back, storing it or changing it."""

_BEGINNING = b": ok\nretry: 2000\n\n"
_ALIVE = b": alive\n\n"
_SPREAD = 0.1

Push: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends whole events, and returns when the connection has taken them."""


SendNow: TypeAlias = Callable[[bytes], bool]
"""Sends a part of a reply if that need not be waited for, and returns whether it did."""


class Bye(Struct, frozen=True):
    """The stream ends, and whether to open another one."""

    reason: Literal["shutdown", "rotate", "expired", "revoked", "deleted"]
    reconnect: bool
    retry_ms: int


GONE = Bye("deleted", reconnect=False, retry_ms=0)
"""The end of a stream whose session is gone."""

AGAIN = Bye("rotate", reconnect=True, retry_ms=2000)
"""The end of a stream that may go on when it is opened again."""


def _bye(bye: Bye) -> bytes:
    return block("bye", encode(bye))


def preferred_s(wait: str | None) -> float:
    """Return for how many seconds a reader wants a stream, by its preference `wait`; infinity if it does not say."""
    return float(wait) if wait is not None and re.fullmatch("[1-9][0-9]{0,5}", wait) else math.inf


class Slow(Exception):
    """The reader accepted nothing for too long."""


class EventStream:
    """A reply that is a stream of events.

    Args:
        service: The server.
        principal: Who follows.
        events: Sends the events, and returns when there are no more, with the `bye` to say.
        farewell: Returns how a `bye` is said, for readers that have their own words for it; b"" if they have none.
    """

    def __init__(
        self,
        service: Service,
        principal: Principal,
        events: Callable[[Push], Awaitable[Bye | None]],
        *,
        farewell: Callable[[Bye], bytes] = _bye,
    ) -> None:
        self._service = service
        self._principal = principal
        self._events = events
        self._farewell = farewell
        self._ending: Bye | None = None
        self._sent_at = 0.0
        self._sending_since: float | None = None
        self._sent: anyio.Event | None = None  # of who waits until another task has sent
        self._chunk_max = service.limits.chunk_bytes_max
        self._is_slow = False
        self._send: Send
        self._send_now: SendNow | None = None
        self._tasks: TaskGroup

    @property
    def offers(self) -> bool:
        """Whether the server that this runs on can send without waiting; see `offer`."""
        return self._send_now is not None

    async def run(
        self, send: Send, receive: Receive, for_s: float = math.inf, *, send_now: SendNow | None = None
    ) -> None:
        """Send events until the reader leaves, the server stops, or nothing more can follow.

        Args:
            send: Sends parts of the reply.
            receive: Says that the reader has left.
            for_s: Seconds after which the reader wants to open the next stream.
            send_now: Sends a part of the reply if that need not be waited for.

        Raises:
            Slow: The reader accepted nothing for `send_for_s`.
        """
        self._send, self._send_now = send, send_now
        async with anyio.create_task_group() as self._tasks:
            await self._push(_BEGINNING)
            self._tasks.start_soon(self._until_gone, receive)
            self._tasks.start_soon(self._watch, for_s)
            self._ending = await self._events(self._push)
            self._tasks.cancel_scope.cancel()
        if self._is_slow:
            raise Slow
        if self._ending is not None:
            with anyio.move_on_after(self._service.limits.send_for_s):
                await send(_body(self._farewell(self._ending)))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def offer(self, events: bytes) -> bool:
        """Send whole events if the connection takes them at once; return whether it did."""
        if self._sending_since is not None or len(events) > self._chunk_max or self._send_now is None:
            return False
        is_sent = self._send_now(events)
        if is_sent:
            self._sent_at = time.monotonic()
        return is_sent

    async def _push(self, events: bytes) -> None:
        """Send whole events in chunks; nothing else is sent between these."""
        while self._sending_since is not None:  # another task of this stream sends
            if self._sent is None:
                self._sent = anyio.Event()
            await self._sent.wait()
        self._sending_since = self._sent_at = time.monotonic()
        try:
            if len(events) <= self._chunk_max:
                await self._send(_body(events))
            else:
                await self._send_chunks(events)
        finally:
            self._sending_since = None
            if self._sent is not None:
                self._sent.set()
                self._sent = None
        if self._tasks.cancel_scope.cancel_called:  # a send need not wait
            await anyio.lowlevel.checkpoint_if_cancelled()

    async def _send_chunks(self, events: bytes) -> None:
        for start in range(0, len(events), self._chunk_max):
            self._sending_since = time.monotonic()
            await self._send(_body(events[start : start + self._chunk_max]))
        self._sent_at = time.monotonic()

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._tasks.cancel_scope.cancel()

    async def _watch(self, for_s: float) -> None:
        """Say that the stream lives, and end it when its reader accepts nothing, is no longer known, or must change.

        Whether the reader is known is looked at again and again, since other processes revoke tokens.
        """
        service, limits = self._service, self._service.limits
        kept_s = limits.stream_for_s * random.uniform(1 - _SPREAD, 1 + _SPREAD)
        ends_at = time.monotonic() + min(kept_s, for_s)
        known_until = 0.0
        while True:
            now = time.monotonic()
            if now >= known_until:
                left_s = service.time_left_s(self._principal)
                if left_s <= 0 or not service.still_knows(self._principal):
                    return self._end(Bye("revoked" if left_s > 0 else "expired", reconnect=False, retry_ms=0))
                known_until = now + min(left_s, limits.known_every_s)
            if now >= ends_at:
                return self._end(Bye("rotate", reconnect=True, retry_ms=2000 if kept_s < for_s else 0))
            if self._sending_since is None:
                due = self._sent_at + limits.alive_after_s
                if now >= due:
                    with anyio.move_on_after(limits.send_for_s) as bound:
                        await self._push(_ALIVE)
                    if bound.cancelled_caught:
                        return self._drop()
                    continue
            else:
                due = self._sending_since + limits.send_for_s
                if now >= due:
                    return self._drop()
            with anyio.move_on_after(min(due, ends_at, known_until, now + limits.send_for_s) - now):
                await service.stopping.wait()
                return self._end(Bye("shutdown", reconnect=True, retry_ms=2000))

    def _drop(self) -> None:
        self._is_slow = True
        self._tasks.cancel_scope.cancel()

    def _end(self, bye: Bye) -> None:
        if self._ending is None:
            self._ending = bye
        self._tasks.cancel_scope.cancel()


def _body(data: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": True}
