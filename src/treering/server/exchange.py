"""One request and its reply: the checks before a handler, the reply, and the line in the log.

The checks stand in this order: the size of the request's head, its Host, its path, who asks, what they may do, where
the request comes from, how many requests they have running, its query, its body. What is the same for every reply of a
kind is made once.
"""

from __future__ import annotations

import itertools
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from ..events.errors import (
    LeafMoved,
    LogReplaced,
    NotAuthorized,
    SessionLocked,
    SessionNotFound,
    TooMany,
    TreeringError,
    Unavailable,
)
from ..events.problem import MEDIA_TYPE
from ..events.telemetry import failure_of, informed, logger
from .assets import POLICY as VIEWER_POLICY
from .cluster.peers import MOVED, REFUSED, NotProven
from .event_stream import HEADERS, EventStream, Slow, preferred_s
from .guard import Guard
from .http.compression import COMPRESS_FROM, coding_of, packed, packed_pieces
from .http.connections import WHOLE_REPLY, lines_of
from .http.incoming import Incoming
from .http.openai_errors import PATHS, refusal_of
from .http.problems import WrongMethod
from .http.uploads import remove
from .http.wire import encode
from .principals import NOBODY, Principal
from .routes.table import ROUTES
from .routes.transfer import FileReply
from .routing import Call, Nothing, NotModified, Reply, Route
from .service import Service
from .tokens import token_of

if TYPE_CHECKING:
    from .tracing import Begun

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_RUN = secrets.token_hex(4).encode()
_numbers = itertools.count(1)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_POLICY = "default-src 'none'; frame-ancestors 'none'"
_EVERY_REPLY = (
    (b"content-security-policy", _POLICY.encode()),
    (b"vary", b"Authorization, Cookie, Accept-Encoding, Origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_EVERY_PAGE = ((b"content-security-policy", VIEWER_POLICY.encode()), *_EVERY_REPLY[1:])
_ALLOWED = (
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Prefer, X-Request-Id, "
    "Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
)
_NOTHING = Nothing()
_OPENAI = PATHS.encode()
_WITHOUT_BODY = (204, 304)
_SENT_AT_ONCE_MAX = 64 * 1024
"""Bytes of a reply that may wait in the connection while its request no longer counts."""


@lru_cache(512)
def _as_bytes(header: tuple[str, str]) -> tuple[bytes, bytes]:
    return header[0].encode(), header[1].encode("latin-1")


@lru_cache(512)
def _head(headers: tuple[tuple[str, str], ...], *, is_page: bool) -> bytes:
    """Return the lines of the headers of a reply, but for those that are other ones each time."""
    return lines_of([*(_EVERY_PAGE if is_page else _EVERY_REPLY), *map(_as_bytes, headers)])


class Exchange:
    """One request and its reply."""

    __slots__ = (
        "_counted_for",
        "_guard",
        "_id",
        "_incoming",
        "_is_stream",
        "_principal",
        "_receive",
        "_route",
        "_scope",
        "_send",
        "_service",
        "_span",
        "_status",
    )

    def __init__(self, service: Service, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self._service = service
        self._guard = guard
        self._scope = scope
        self._receive = receive
        self._send = send
        self._incoming = Incoming(scope, receive, service.limits)
        self._route: Route | None = None
        self._principal: Principal | None = None
        self._status = 0
        self._is_stream = False
        self._span: Begun | None = None
        self._counted_for: Principal | None = None
        given = self._incoming.headers.get(b"x-request-id", b"")
        self._id = given if _REQUEST_ID.fullmatch(given) else b"%b-%d" % (_RUN, next(_numbers))

    async def run(self) -> None:
        """Answer the request, and log it."""
        service = self._service
        begun = time.perf_counter()
        try:
            await self._answer()
        except Slow:
            service.metrics.dropped.inc()
            extension = self._scope.get("extensions", {}).get("treering.abort")
            if extension is not None:
                extension["abort"]()
                while (await self._receive())["type"] != "http.disconnect":
                    pass
        finally:
            self._leave()
            await self._incoming.discard()
            if self._span is not None and service.tracing is not None:
                service.tracing.end(self._span, self._status)
            route = self._route
            duration_s = time.perf_counter() - begun
            path = "none" if route is None else route.path
            is_stream = self._is_stream
            service.metrics.answered(path, self._status, None if is_stream else duration_s)
            if informed():
                logger().info(
                    "request",
                    id=self._id.decode(),
                    principal=None if self._principal is None else self._principal.name,
                    method=self._scope["method"],
                    route=path,
                    session=self._scope.get("treering.session"),
                    status=self._status,
                    duration_ms=round(duration_s * 1000, 3),
                )

    async def _answer(self) -> None:
        try:
            reply = await self._reply()
            if isinstance(reply, Reply):
                await self._send_reply(reply)
            elif isinstance(reply, EventStream):
                await self._stream(reply)
            else:
                await self._send_file(reply)
        except NotModified as known:
            await self._respond(304, {"etag": known.etag}, b"")
        except TreeringError as error:
            await self._refuse(error)
        except (ConnectionError, ClientDisconnect):
            self._status = 499  # the client left
        except Exception as error:
            if self._status:
                raise
            logger().error("request_failed", id=self._id.decode(), **failure_of(error))
            await self._refuse(error)

    async def _reply(self) -> Reply | EventStream | FileReply:
        """Check the request and let its route answer it."""
        service, guard, scope, incoming = self._service, self._guard, self._scope, self._incoming
        incoming.check_head()
        guard.check_host(incoming)
        method = scope["method"]
        raw_path = incoming.raw_path()
        if method == "OPTIONS":
            return Reply(status=204, headers=self._options(ROUTES.allowed(raw_path)))
        route, names = ROUTES.match(method, raw_path)
        self._route, self._is_stream = route, route.streams
        if service.tracing is not None and not route.streams:
            self._span = service.tracing.begin(method, route.path, incoming.headers)
        scope["treering.session"] = names.get("session_id")
        caller = await self._enter(route)
        query = _NOTHING if route.page else incoming.query(route.query)
        body = await incoming.body(route.body, converted=not route.handler_converts)
        if route.body is bytes and guard.is_from_host(incoming):
            await incoming.upload()  # nothing is done with a file before its digest is known
        guard.check_body(incoming)
        call: Call[object, Any] = Call(service, caller, incoming, names, query, body)
        if route.keyed:
            call.check_key()
        service.append_turns.begin()
        try:
            value = await self._handled(route, call)
        except LeafMoved as error:
            raise service.stale(error, call.names.get("session_id", "")) from error
        except SessionLocked as locked:
            value = await self._elsewhere(route, call, locked)
        if isinstance(value, EventStream):
            service.hold_stream(caller)
            self._is_stream = True
            self._leave()
        if isinstance(value, (EventStream, FileReply)):
            return value
        reply = value if isinstance(value, Reply) else Reply(value)
        reply.status = reply.status or route.status
        reply.headers = {**reply.headers, **call.reply_headers}
        return reply

    async def _enter(self, route: Route) -> Principal:
        """Return who asks after checking that they may, and count the request as running unless it is a probe."""
        service, guard = self._service, self._guard
        principal = self._principal = await guard.principal_of(self._incoming)
        if route.right != "none":
            if principal is None:
                sent = token_of(self._incoming.request()) is not None
                wrong = "the token is not known here, was revoked or has expired: send another one" if sent else ""
                raise NotAuthorized(wrong or "this needs a token: send it as `Authorization: Bearer TOKEN`")
            if not principal.may(route.right):
                raise NotAuthorized(f"this needs the role {route.right!r}, not {principal.role!r}", known=True)
        if self._scope["method"] not in _SAFE:
            guard.check_origin(self._incoming)
        if service.stopping.is_set() and route.right != "none":
            raise Unavailable("the server stops: repeat the request when it is back")
        caller = principal or NOBODY
        if not route.probe:
            service.enter(caller, streams=route.streams)
            self._counted_for = caller
        return caller

    def _leave(self) -> None:
        """Count the request as running no longer."""
        if self._counted_for is not None:
            self._service.leave(self._counted_for)
            self._counted_for = None

    async def _handled(self, route: Route, call: Call[object, Any]) -> object:
        """Let the handler answer, once more if the handle that was kept of its session is of another one now."""
        try:
            return await route.handler(call)
        except (SessionNotFound, LogReplaced):
            if not self._service.forget(call.names.get("session_id", "")):
                raise
        return await route.handler(call)

    async def _elsewhere(self, route: Route, call: Call[object, Any], locked: SessionLocked) -> object:
        """Let the host that owns the session answer, if this one forwards, and nobody has forwarded to it."""
        forwarding, incoming = self._service.forwarding, self._incoming
        if forwarding is None or self._guard.is_from_host(incoming) or route.streams:
            raise locked
        self._service.forget(call.names.get("session_id", ""))
        if route.body is bytes:
            await incoming.upload()
        from .cluster.forwarding import Forwarded, Passed

        request = Forwarded(route.keyed, call.principal, incoming, self._id, self._service.host.core.runtime.new_id)
        value = await forwarding.carried(locked, request, lambda: self._handled(route, call))
        return Reply(value.body, status=value.status, headers=value.headers) if isinstance(value, Passed) else value

    # -- the reply

    def _options(self, verbs: Sequence[str]) -> dict[str, str]:
        headers = {"allow": ", ".join(verbs)}
        if self._guard.cors(self._incoming.headers):
            headers |= {
                "access-control-allow-methods": ", ".join(verbs),
                "access-control-allow-headers": _ALLOWED,
                "access-control-max-age": "600",
            }
        return headers

    async def _send_reply(self, reply: Reply) -> None:
        status = reply.status or 200
        if isinstance(reply.body, bytes):
            body, media_type = reply.body, reply.media_type
        else:
            body, media_type = encode(reply.body), reply.media_type or "application/json"
        headers = {"cache-control": "private, no-cache"}
        for name, value in reply.headers.items():
            headers[name.lower()] = value
        if media_type is not None:
            headers["content-type"] = media_type
        is_packed = "content-encoding" in headers or len(body) < COMPRESS_FROM
        coding = None if is_packed else coding_of(self._incoming.headers.get(b"accept-encoding", b""))
        if coding is not None:
            body = await packed(body, coding)
            headers["content-encoding"] = coding
        await self._respond(status, headers, body)

    async def _refuse(self, error: BaseException) -> None:
        if self._status:  # the reply has begun, and breaks off
            raise error
        problem = self._service.problem(error, instance=self._id.decode())
        self._service.metrics.errors.labels(problem.error or "internal").inc()
        headers = {"content-type": MEDIA_TYPE, "cache-control": "no-store"}
        if isinstance(error, WrongMethod):
            headers["allow"] = ", ".join(error.allowed)
        if isinstance(error, NotAuthorized) and not error.known:
            headers["www-authenticate"] = "Bearer"
        if isinstance(error, NotProven):
            headers[REFUSED] = "1"
        if isinstance(error, SessionLocked) and self._guard.is_from_host(self._incoming):
            headers[MOVED] = "1"
        if isinstance(error, TooMany):
            headers["retry-after"] = str(error.retry_after_s)
        elif problem.status == 503:
            headers["retry-after"] = "1"
        if self._incoming.raw_path().startswith(_OPENAI):
            status, refusal = refusal_of(problem)
            await self._respond(status, {**headers, "content-type": "application/json"}, encode(refusal))
        else:
            await self._respond(problem.status, headers, encode(problem))

    async def _respond(self, status: int, headers: dict[str, str], body: bytes) -> None:
        shown = b"" if self._scope["method"] == "HEAD" else body
        fits = len(shown) <= _SENT_AT_ONCE_MAX
        if fits and WHOLE_REPLY in self._scope.get("extensions", ()) and b"origin" not in self._incoming.headers:
            is_page = self._route is not None and self._route.page
            head = _head(tuple(headers.items()), is_page=is_page)
            head = b"x-request-id: %b\r\n%b" % (self._id, head)
            if status not in _WITHOUT_BODY:
                head = b"%bcontent-length: %d\r\n" % (head, len(body))
            self._status = status
            await self._send({"type": WHOLE_REPLY, "status": status, "head": head, "body": shown})
            return
        if status not in _WITHOUT_BODY:
            headers["content-length"] = str(len(body))
        await self._begin(status, headers)
        if not fits:
            await self._push(shown)
            await self._push(b"", is_last=True)  # which waits until the client has taken what came before
        else:
            await self._send({"type": "http.response.body", "body": shown})

    async def _push(self, piece: bytes, *, is_last: bool = False) -> None:
        """Send a piece of a long reply.

        Raises:
            Slow: The client accepted nothing for `send_for_s`.
        """
        with anyio.move_on_after(self._service.limits.send_for_s) as bound:
            await self._send({"type": "http.response.body", "body": piece, "more_body": not is_last})
        if bound.cancelled_caught:
            raise Slow

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._status = status
        is_page = self._route is not None and self._route.page
        lines = [(b"x-request-id", self._id), *(_EVERY_PAGE if is_page else _EVERY_REPLY)]
        lines += map(_as_bytes, headers.items())
        if b"origin" in self._incoming.headers:
            lines += map(_as_bytes, self._guard.cors(self._incoming.headers).items())
        await self._send({"type": "http.response.start", "status": status, "headers": lines})

    async def _stream(self, stream: EventStream) -> None:
        caller = self._principal or NOBODY
        self._service.metrics.streams.inc()
        try:
            await self._begin(200, HEADERS)
            if self._scope["method"] == "HEAD":
                await self._send({"type": "http.response.body", "body": b""})
            else:
                for_s = preferred_s(self._incoming.preferred("wait"))
                now = self._scope.get("extensions", {}).get("treering.now")
                await stream.run(self._send, self._receive, for_s, send_now=None if now is None else now["send"])
        finally:
            self._service.metrics.streams.dec()
            self._service.release_stream(caller)

    async def _send_file(self, reply: FileReply) -> None:
        headers = {"cache-control": "private, no-cache", **reply.headers}
        pieces = reply.pieces()
        coding = coding_of(self._incoming.headers.get(b"accept-encoding", b""))
        if coding is not None:
            del headers["content-length"]
            headers["content-encoding"] = coding
            pieces = packed_pieces(pieces, coding)
        try:
            await self._begin(200, headers)
            if self._scope["method"] != "HEAD":
                async with aclosing(pieces):
                    async for piece in pieces:
                        await self._push(piece)
            await self._push(b"", is_last=True)
        finally:
            await remove(reply.path.parent)
