"""Connections: how many there are, how long each may say nothing, and how much it may say before it is understood.

HTTP itself is uvicorn's. What is refused here has reached no application, and gets a problem document all the same.
"""

from __future__ import annotations

import http
from asyncio import TimerHandle, Transport
from typing import Literal, TypeAlias

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ...events.errors import TooLarge, TreeringError, Unavailable
from ...events.problem import MEDIA_TYPE
from .limits import ServerLimits
from .problems import Malformed, problem_of
from .wire import encode

_Part: TypeAlias = Literal["nothing", "head", "body", "refused"]

_REFUSED_MAX = 256
"""Connections beyond the bound that are told so; others are closed at once."""

_REFUSED_FOR_S = 1.0
"""Seconds that a connection stays open after it was refused, so that its client can read why."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 over one connection, within bounds.

    A head must come whole within a time and a size. So must what is left of a body whose request was answered before
    its end: it is read, since the client would not see the answer otherwise, and thrown away.

    Attributes:
        limits: The bounds.
    """

    limits = ServerLimits()
    _deadline: TimerHandle | None = None
    _watch: TimerHandle | None = None
    _part: _Part = "nothing"
    _bytes = 0  # of this head, or of what is left of the body
    _is_first_chunk = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # narrower than asyncio's
        """Begin to count the time of the first head, or refuse the connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections_max:
            most = self.limits.connections_max
            self._refuse(Unavailable(f"the server has as many connections as `connections_max` allows ({most})"))
            return
        self._expect(self.limits.header_for_s)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head, or of what is left of a body."""
        if self._part == "refused":
            return
        self._is_first_chunk = False
        was_serving = self._serves()
        super().data_received(data)
        if self.transport.is_closing():
            return
        is_left = self._part == "body" and not self._serves()
        if self._part == "head" or is_left:
            if not (self._is_first_chunk and was_serving):  # most of that chunk may be of the request before
                self._bytes += len(data)
            if self._deadline is None and not self._serves():
                self._expect(self.limits.header_for_s)
            self._check_size(is_left=is_left)
        elif self._serves():
            self._forget_deadline()

    def _check_size(self, *, is_left: bool) -> None:
        limits = self.limits
        bytes_max = 2 * limits.body_bytes_max if is_left else limits.header_bytes_max + limits.url_bytes_max
        if self._bytes <= bytes_max:
            return
        if is_left or self._serves():  # a refusal now would stand in the middle of another reply
            self.transport.abort()
        else:
            self._refuse(
                TooLarge(f"the headers have more bytes than `header_bytes_max` ({limits.header_bytes_max})", status=431)
            )

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._part, self._bytes, self._is_first_chunk = "head", 0, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that the head is whole, and let the application drop the connection of a reader that accepts nothing."""
        self._part, self._bytes = "body", 0
        self.scope["extensions"] = {"treering.abort": {"abort": self.transport.abort}}
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Let the application read the body without a deadline, since all of it has come."""
        self._part = "nothing"
        self.scope.setdefault("extensions", {})["treering.whole"] = {}
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Begin to watch whether the client takes anything."""
        super().pause_writing()
        if self._watch is None:
            self._watch_taking(self.transport.get_write_buffer_size())

    def _watch_taking(self, waiting: int) -> None:
        """Drop the connection if its client takes nothing for twice as long as a stream would have waited for it."""

        def look() -> None:
            self._watch = None
            now = self.transport.get_write_buffer_size()
            if self.flow.write_paused and now >= waiting:
                self.transport.abort()
            elif self.flow.write_paused:
                self._watch_taking(now)

        self._watch = self.loop.call_later(2 * self.limits.send_for_s, look)

    def on_response_complete(self) -> None:
        """Begin to count the time of what has come in part, and of what the client has not taken yet."""
        super().on_response_complete()
        if self.transport.is_closing():
            if self.transport.get_write_buffer_size():
                self.loop.call_later(self.limits.send_for_s, self.transport.abort)
        elif self._part != "nothing" and not self._serves():
            self._expect(self.limits.header_for_s)

    def timeout_keep_alive_handler(self) -> None:
        """Drop a connection over which nothing has come for a while, whatever its client has not taken."""
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(Malformed("this is not HTTP/1.1"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what did not come."""
        self._forget_deadline()
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def _serves(self) -> bool:
        # there is none before the first request
        return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _refuse(self, error: TreeringError) -> None:
        self._forget_deadline()
        self.transport.write(_refusal(error))
        if not self.transport.can_write_eof() or len(self.connections) > self.limits.connections_max + _REFUSED_MAX:
            self.transport.close()
            return
        self._part = "refused"
        self.transport.write_eof()  # who still sends when the connection closes would not see the refusal
        self._expect(_REFUSED_FOR_S)

    def _expect(self, within_s: float) -> None:
        self._forget_deadline()
        self._deadline = self.loop.call_later(within_s, self._is_late)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _is_late(self) -> None:
        self._deadline = None
        if not self._serves():
            self.transport.abort()


def _refusal(error: TreeringError) -> bytes:
    """Return a whole reply that refuses what is no request."""
    problem = problem_of(error)
    body = encode(problem)
    retry = "retry-after: 1\r\n" if problem.status == 503 else ""
    head = (
        f"HTTP/1.1 {problem.status} {http.HTTPStatus(problem.status).phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        f"cache-control: no-store\r\n{retry}connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
