"""Connections: how many there are, how long each may say nothing, and how much it may say before it is understood.

HTTP itself is uvicorn's. What is refused here has reached no application, and gets a problem document all the same.
"""

from __future__ import annotations

import http
from asyncio import AbstractEventLoop, TimerHandle, Transport
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar, Literal, TypeAlias, TypedDict

from uvicorn._types import ASGI3Application, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ...events.errors import TooLarge, TreeringError, Unavailable
from ...events.problem import MEDIA_TYPE
from .limits import ServerLimits
from .problems import Malformed, problem_of
from .wire import encode

_Part: TypeAlias = Literal["nothing", "head", "body", "refused"]

_REFUSED_MAX = 256
"""Connections beyond the bound that are told so; others are closed at once."""

_BEGUN_AT_ONCE = 8
"""Requests that begin before the event loop serves everything else, such as the tasks of the program's agents."""

_REFUSED_FOR_S = 1.0
"""Seconds that a connection stays open after it was refused, so that its client can read why."""

_WITHOUT_BODY = (204, 304)


_last_chunk = (b"", b"")


def _chunk(body: bytes) -> bytes:
    """Return a chunk of a body, the same object for all followers that are sent the same one after another."""
    global _last_chunk
    known, chunk = _last_chunk
    if known is not body:
        chunk = b"%x\r\n%b\r\n" % (len(body), body)
        _last_chunk = body, chunk
    return chunk


WHOLE_REPLY: Literal["treering.reply"] = "treering.reply"
"""The extension of ASGI by which an application sends a whole reply in one message."""


class WholeReply(TypedDict):
    """A whole reply in one message.

    Attributes:
        type: That it is one.
        status: The status.
        head: The lines of all headers, each with its line break, as `lines_of` returns them.
        body: The whole body; b"" for a reply without one.
    """

    type: Literal["treering.reply"]
    status: int
    head: bytes
    body: bytes


def lines_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the lines of headers.

    Raises:
        RuntimeError: A header holds a line break, by which it could pass for more than one.
    """
    lines = [b"%b: %b\r\n" % header for header in headers]
    found = b"".join(lines)
    if found.count(b"\n") != len(lines) or found.count(b"\r") != len(lines) or b"\0" in found:
        raise RuntimeError("a header of the reply holds a line break")
    return found


class Cycle(RequestResponseCycle):
    """A request and its reply, whose head is written together with what comes first of its body.

    Each write is a call of the system, and the head of a reply is made in one piece.
    """

    head = b""

    async def send(self, message: ASGISendEvent | WholeReply) -> None:
        """Send a message of the application; see ASGI."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == WHOLE_REPLY and not self.response_started:
            self.response_started, self.waiting_for_100_continue = True, False
            end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[message["status"]] + message["head"] + end + message["body"])
            self._finish()
        elif message["type"] == "http.response.start" and not self.response_started:
            self.response_started, self.waiting_for_100_continue = True, False
            self.head = self._head_of(message["status"], list(message.get("headers", ())))
        elif message["type"] == "http.response.body" and self.response_started and not self.response_complete:
            self._write(message.get("body", b""), is_last=not message.get("more_body", False))
        else:
            raise RuntimeError(f"{message['type']!r} may not be sent now")

    def send_now(self, body: bytes) -> bool:
        """Send a piece of a body that goes on, if that need not be waited for; return whether it did."""
        if self.flow.write_paused or self.disconnected or not self.response_started or self.response_complete:
            return False
        self._write(body, is_last=False)
        return True

    def _head_of(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the head of the reply, and note how its body is to be framed.

        Raises:
            RuntimeError: A header holds a line break.
        """
        lines = [STATUS_LINE[status], lines_of(headers)]
        length = dict(headers).get(b"content-length")
        if length is not None:
            self.expected_content_length, self.chunked_encoding = int(length), False
        elif self.scope["method"] != "HEAD" and status not in _WITHOUT_BODY:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        return b"".join([*lines, b"\r\n"])

    def _write(self, body: bytes, *, is_last: bool) -> None:
        """Write a piece of the body, behind the head if that waits.

        Raises:
            RuntimeError: The body is not as long as the head says.
        """
        head, self.head = self.head, b""
        if self.scope["method"] == "HEAD":
            framed = b""
        elif self.chunked_encoding:
            framed = (_chunk(body) if body else b"") + (b"0\r\n\r\n" if is_last else b"")
        else:
            framed = body
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0 or (is_last and self.expected_content_length):
                raise RuntimeError("the body of the reply is not as long as its head says")
        if head or framed:
            self.transport.write(head + framed if head else framed)
        if is_last:
            self._finish()

    def _finish(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class Door:
    """Lets a few requests of all connections begin at once, before the event loop serves everything else.

    The line of those that wait is as long as there are connections, since each has one request at a time.

    Args:
        loop: The event loop.
    """

    __slots__ = ("_begun", "_line", "_loop")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._line: deque[Callable[[], None]] = deque()
        self._begun = 0

    def enter(self, begin: Callable[[], None]) -> None:
        """Begin a request now, or when it is its turn."""
        if self._begun == _BEGUN_AT_ONCE:
            self._line.append(begin)
            return
        if not self._begun:
            self._loop.call_soon(self._open)
        self._begun += 1
        begin()

    def _open(self) -> None:
        self._begun = 0
        line = self._line
        for _ in range(min(len(line), _BEGUN_AT_ONCE)):
            self.enter(line.popleft())


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 over one connection, within bounds.

    A head must come whole within a time and a size. So must what is left of a body whose request was answered before
    its end: it is read, since the client would not see the answer otherwise, and thrown away.

    Attributes:
        limits: The bounds.
        door: Through which requests of all connections begin.
    """

    limits = ServerLimits()
    door: ClassVar[Door]
    _abort: dict[object, object]
    _now: dict[object, object]
    _extensions: dict[str, dict[object, object]]
    _deadline: TimerHandle | None = None
    _watch: TimerHandle | None = None
    _part: _Part = "nothing"
    _bytes = 0  # of this head, or of what is left of the body
    _is_first_chunk = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # narrower than asyncio's
        """Begin to count the time of the first head, or refuse the connection if there are too many."""
        super().connection_made(transport)
        self._abort, self._now = {"abort": transport.abort}, {"send": self._send_now}
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
        self.scope["extensions"] = self._extensions = {
            "treering.abort": self._abort,
            "treering.now": self._now,
            WHOLE_REPLY: {},
        }
        super().on_headers_complete()

    def _send_now(self, body: bytes) -> bool:
        cycle = self.cycle  # one that waits behind another, if its client did not wait for the end of a stream
        return isinstance(cycle, Cycle) and cycle.send_now(body)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        cycle.__class__ = Cycle  # uvicorn knows no other way to name it
        self.door.enter(partial(HttpToolsProtocol._start_asgi_task, self, cycle, app))

    def on_message_complete(self) -> None:
        """Let the application have the body without a deadline, since all of it has come."""
        self._part = "nothing"
        self._extensions["treering.whole"] = {"body": self.cycle.body}
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
