"""One request and its reply: the checks before a handler, the body, the reply, and the line in the log.

The checks stand in this order: the size of the request's head, its Host, its path, who asks, what they may do, where
the request comes from, how many requests they have running, its query, its body.
"""

from __future__ import annotations

import itertools
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import anyio
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from ..events.errors import (
    LeafMoved,
    LogReplaced,
    NotAuthorized,
    SessionNotFound,
    TooLarge,
    TooMany,
    TreeringError,
    Unavailable,
)
from ..events.problem import MEDIA_TYPE
from ..events.telemetry import failure_of, logger
from .assets import POLICY as VIEWER_POLICY
from .event_stream import HEADERS, EventStream, Slow
from .guard import Guard
from .http.compression import COMPRESS_FROM, coding_of, packed, packed_pieces
from .http.problems import Malformed, WrongMethod
from .http.wire import encode, parse, read, read_query
from .principals import NOBODY, Principal
from .routes.entries import NewEntries
from .routes.table import ROUTES
from .routes.transfer import FileReply, remove
from .routing import Call, Nothing, NotModified, Reply, Route
from .service import Service

if TYPE_CHECKING:
    from .tracing import Begun

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_RUN = secrets.token_hex(4)
_numbers = itertools.count(1)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_EVERY_REPLY = (
    (b"vary", b"Authorization, Cookie, Accept-Encoding, Origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_POLICY = "default-src 'none'; frame-ancestors 'none'"
_ALLOWED = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, X-Request-Id"
_NAMES_MAX = 100
_SENT_AT_ONCE_MAX = 64 * 1024
"""Bytes of a reply that may wait in the connection while its request no longer counts."""
_JSON = b"application/json"
_NOTHING = Nothing()


class Exchange:
    """One request and its reply."""

    def __init__(self, service: Service, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self._service = service
        self._guard = guard
        self._scope = scope
        self._receive = receive
        self._send = send
        self._request = Request(scope, self._bounded)
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._route: Route | None = None
        self._principal: Principal | None = None
        self._status = 0
        self._body_left = 0
        self._span: Begun | None = None
        self._counted_for: Principal | None = None
        given = self._headers.get(b"x-request-id", b"")
        self._id = given.decode() if _REQUEST_ID.fullmatch(given) else f"{_RUN}-{next(_numbers)}"

    async def run(self) -> None:
        """Answer the request, and log it."""
        begun = time.perf_counter()
        try:
            await self._answer()
        except Slow:
            self._service.metrics.dropped.inc()
            extension = self._scope.get("extensions", {}).get("treering.abort")
            if extension is not None:
                extension["abort"]()
                while (await self._receive())["type"] != "http.disconnect":
                    pass
        finally:
            self._leave()
            if self._span is not None and self._service.tracing is not None:
                self._service.tracing.end(self._span, self._status)
            route = "none" if self._route is None else self._route.path
            duration_s = time.perf_counter() - begun
            is_stream = self._route is not None and self._route.streams
            self._service.metrics.answered(route, self._status, None if is_stream else duration_s)
            logger().info(
                "request",
                id=self._id,
                principal=None if self._principal is None else self._principal.name,
                method=self._scope["method"],
                route=route,
                session=self._scope.get("treering.session"),
                status=self._status,
                duration_ms=round(duration_s * 1000, 3),
            )

    async def _answer(self) -> None:
        try:
            reply = await self._reply()
            if isinstance(reply, EventStream):
                await self._stream(reply)
            elif isinstance(reply, FileReply):
                await self._send_file(reply)
            else:
                await self._send_reply(reply)
        except NotModified as known:
            await self._respond(304, {"etag": known.etag}, b"")
        except TreeringError as error:
            await self._refuse(error)
        except ConnectionError:
            self._status = 499  # the client left
        except Exception as error:
            if self._status:
                raise
            logger().error("request_failed", id=self._id, **failure_of(error))
            await self._refuse(error)

    async def _reply(self) -> object:
        """Check the request and let its route answer it."""
        guard, scope, request = self._guard, self._scope, self._request
        self._check_head()
        guard.check_host(scope["headers"])
        raw_path = self._raw_path()
        if scope["method"] == "OPTIONS":
            return Reply(status=204, headers=self._options(ROUTES.allowed(raw_path)))
        route, names = ROUTES.match(scope["method"], raw_path)
        self._route = route
        if self._service.tracing is not None and not route.streams:
            self._span = self._service.tracing.begin(scope["method"], route.path, self._headers)
        scope["treering.session"] = names.get("session_id")
        principal = self._principal = await guard.principal_of(request)
        if route.right != "none":
            if principal is None:
                raise NotAuthorized("this needs a token: send it as `Authorization: Bearer TOKEN`")
            if not principal.may(route.right):
                raise NotAuthorized(f"this needs the role {route.right!r}, not {principal.role!r}", known=True)
        if scope["method"] not in _SAFE and (b"origin" in self._headers or b"cookie" in self._headers):
            guard.check_origin(request)
        if self._service.stopping.is_set() and route.right != "none":
            raise Unavailable("the server stops: repeat the request when it is back")
        caller = principal or NOBODY
        self._service.enter(caller, streams=route.streams)
        self._counted_for = caller
        query = self._read_query(route)
        body = await self._body(route)
        call: Call[object, Any] = Call(self._service, caller, request, self._headers, names, query, body)
        if route.keyed:
            call.check_key()
        try:
            value = await self._handled(route, call)
        except LeafMoved as error:
            raise self._service.stale(error, call.names.get("session_id", "")) from error
        if isinstance(value, EventStream):
            self._service.hold_stream(caller)
            self._leave()
        return self._finished(route, call, value)

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

    def _finished(self, route: Route, call: Call[Any, Any], value: object) -> object:
        if isinstance(value, (EventStream, FileReply)):
            return value
        reply = value if isinstance(value, Reply) else Reply(value)
        headers = dict(reply.headers)
        if call.etag is not None:
            headers["etag"] = call.etag
        return Reply(reply.body, status=reply.status or route.status, headers=headers, media_type=reply.media_type)

    # -- the request

    def _raw_path(self) -> bytes:
        raw: bytes = self._scope.get("raw_path") or self._scope["path"].encode()
        root = self._scope.get("root_path", "").encode()
        raw = raw.removeprefix(root)
        return raw.removeprefix(root) if root and raw.startswith(root + b"/") else raw  # a proxy may pass it on, too

    def _check_head(self) -> None:
        """Refuse a request whose head is too large.

        Raises:
            TooLarge: Its address or its headers exceed their bound.
        """
        limits = self._service.limits
        size = len(self._scope.get("raw_path") or b"") + len(self._scope["query_string"])
        if size > limits.url_bytes_max:
            raise TooLarge(
                f"the address has {size} bytes, more than `url_bytes_max` ({limits.url_bytes_max})", status=414
            )
        size = sum(len(name) + len(value) + 4 for name, value in self._scope["headers"])
        if size > limits.header_bytes_max:
            raise TooLarge(
                f"the headers have {size} bytes, more than `header_bytes_max` ({limits.header_bytes_max})", status=431
            )

    def _read_query(self, route: Route) -> object:
        kind: type[object] = route.query
        if route.page:
            return _NOTHING
        if kind is not Nothing:
            return read_query(self._query(), kind)
        if self._scope["query_string"]:
            raise Malformed("this request takes no query")
        return _NOTHING

    def _query(self) -> dict[str, list[str]]:
        try:
            text = self._scope["query_string"].decode("ascii")
            return parse_qs(
                text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=_NAMES_MAX
            )
        except ValueError as error:
            raise Malformed("the query cannot be read: send `name=value`, percent-encoded as UTF-8") from error

    async def _bounded(self) -> Message:
        """Receive a piece of the body, within the bounds on its size and on silence."""
        limits = self._service.limits
        message: Message | None = None
        if "treering.whole" in self._scope.get("extensions", ()):  # all of it has arrived
            message = await self._receive()
        else:
            with anyio.move_on_after(limits.body_for_s):
                message = await self._receive()
        if message is None:
            raise Malformed(f"no byte of the body came for {limits.body_for_s:g} s", status=408)
        if message["type"] == "http.request":
            self._body_left -= len(message.get("body", b""))
            if self._body_left < 0:
                raise TooLarge("the body is larger than the server accepts: GET /v1 tells the bounds")
        return message

    async def _whole_body(self) -> bytes:
        """Receive the whole body.

        Raises:
            ConnectionError: The client left.
        """
        pieces: list[bytes] = []
        while True:
            message = await self._bounded()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client left before its request was whole")
            pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _body(self, route: Route) -> Any:  # noqa: ANN401  # of the type that the route names
        limits = self._service.limits
        self._body_left = limits.import_bytes_max if route.body is bytes else limits.body_bytes_max
        length = self._headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._body_left:
            raise TooLarge(f"the body has {length.decode()} bytes, more than the server accepts ({self._body_left})")
        if route.body is bytes:
            return None
        body = await self._whole_body()
        if route.body is None:
            if body.strip() not in (b"", b"{}"):
                raise Malformed("this request takes no body")
            return None
        media_type = self._headers.get(b"content-type", _JSON).partition(b";")[0].strip().lower()
        if media_type != _JSON:
            raise Malformed(f"the body is {media_type[:100].decode('latin-1')!r}: send application/json", status=415)
        if self._headers.get(b"content-encoding", b"identity") != b"identity":
            raise Malformed("the body is compressed: send it as it is", status=415)
        if route.body is NewEntries:  # one entry alone, or several
            return parse(body, limits.depth_max)
        return read(body or b"{}", route.body, limits.depth_max)

    # -- the reply

    def _options(self, verbs: Sequence[str]) -> dict[str, str]:
        headers = {"allow": ", ".join(verbs)}
        if self._guard.cors(self._headers):
            headers |= {
                "access-control-allow-methods": ", ".join(verbs),
                "access-control-allow-headers": _ALLOWED,
                "access-control-max-age": "600",
            }
        return headers

    async def _send_reply(self, reply: object) -> None:
        assert isinstance(reply, Reply)
        status = reply.status or 200
        if isinstance(reply.body, bytes):
            body, media_type = reply.body, reply.media_type
        else:
            body, media_type = encode(reply.body), reply.media_type or "application/json"
        headers = {name.lower(): value for name, value in reply.headers.items()}
        if media_type is not None:
            headers["content-type"] = media_type
        headers.setdefault("cache-control", "private, no-cache")
        is_packed = "content-encoding" in headers or len(body) < COMPRESS_FROM
        coding = None if is_packed else coding_of(self._headers.get(b"accept-encoding", b""))
        if coding is not None:
            body = await packed(body, coding)
            headers["content-encoding"] = coding
        await self._respond(status, headers, body)

    async def _refuse(self, error: BaseException) -> None:
        if self._status:  # the reply has begun, and breaks off
            raise error
        problem = self._service.problem(error, instance=self._id)
        self._service.metrics.errors.labels(problem.error or "internal").inc()
        headers = {"content-type": MEDIA_TYPE, "cache-control": "no-store"}
        if isinstance(error, WrongMethod):
            headers["allow"] = ", ".join(error.allowed)
        if isinstance(error, NotAuthorized) and not error.known:
            headers["www-authenticate"] = "Bearer"
        if isinstance(error, TooMany):
            headers["retry-after"] = str(error.retry_after_s)
        elif problem.status == 503:
            headers["retry-after"] = "1"
        await self._respond(problem.status, headers, encode(problem))

    async def _respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        sized = {} if status in (204, 304) else {"content-length": str(len(body))}
        await self._begin(status, {**headers, **sized})
        shown = b"" if self._scope["method"] == "HEAD" else body
        if len(shown) > _SENT_AT_ONCE_MAX:
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
        policy = VIEWER_POLICY if is_page else _POLICY
        sent = [(b"x-request-id", self._id.encode()), (b"content-security-policy", policy.encode()), *_EVERY_REPLY]
        sent += [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        if cors := self._guard.cors(self._headers):
            sent += [(name.encode(), value.encode("latin-1")) for name, value in cors.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": sent})

    async def _stream(self, stream: EventStream) -> None:
        caller = self._principal or NOBODY
        self._service.metrics.streams.inc()
        try:
            await self._begin(200, HEADERS)
            if self._scope["method"] == "HEAD":
                await self._send({"type": "http.response.body", "body": b""})
            else:
                await stream.run(self._send, self._receive)
        finally:
            self._service.metrics.streams.dec()
            self._service.release_stream(caller)

    async def _send_file(self, reply: FileReply) -> None:
        headers = {"cache-control": "private, no-cache", **reply.headers}
        pieces = reply.pieces()
        coding = coding_of(self._headers.get(b"accept-encoding", b""))
        if coding is not None:
            del headers["content-length"]
            headers["content-encoding"] = coding
            pieces = packed_pieces(pieces, coding)
        try:
            await self._begin(200, headers)
            if self._scope["method"] != "HEAD":
                async for piece in pieces:
                    await self._push(piece)
            await self._push(b"", is_last=True)
        finally:
            await remove(reply.path.parent)
