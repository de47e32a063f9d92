"""The application: one ASGI callable that checks a request, finds its route, answers it and logs one line.

`app(host)` serves the sessions of a host that the program opened, alone or mounted in a starlette or FastAPI program.
The checks stand in this order: the size of the request's head, its Host, its path, who asks, what they may do, how many
requests they have running, where the request comes from, its body.
"""

from __future__ import annotations

import gzip
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from ..actors.host.host import SessionHost
from ..events.errors import (
    InvalidInput,
    LeafMoved,
    LogReplaced,
    NotAuthorized,
    SessionNotFound,
    TooLarge,
    TooMany,
    TreeringError,
    Unavailable,
)
from ..events.telemetry import failure_of, logger
from . import contexts, entries, finding, gathering, operations, sessions, streams, transfer, tree
from .limits import ServerLimits
from .principals import EVERYBODY, Authorize, Principal
from .problems import MEDIA_TYPE, Malformed, WrongHost, WrongMethod, problem_of
from .routing import Call, NotModified, Reply, Route, RouteTable
from .service import Service
from .streams import HEADERS, EventStream, Slow
from .tokens import Tokens, token_of
from .transfer import FileReply, remove
from .wire import encode, parse, read, read_query

ROUTES = RouteTable(
    [
        *operations.routes.all,
        *sessions.routes.all,
        *entries.routes.all,
        *tree.routes.all,
        *contexts.routes.all,
        *finding.routes.all,
        *transfer.routes.all,
        *streams.routes.all,
        *gathering.routes.all,
    ]
)
"""All routes of the interface."""

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""The names by which a machine addresses itself."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_SECURITY = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}
_EXPOSED = "ETag, Location, Link, Retry-After, Idempotent-Replayed, X-Request-Id"
_ALLOWED = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, X-Request-Id"
_COMPRESS_FROM = 1024
_NAMES_MAX = 100
_INLINE_MAX = 64 * 1024
"""Bytes up to which a reply is compressed on the event loop."""


class Application:
    """Sessions over HTTP, as an ASGI application.

    Args:
        host: The host, which is open and stays open as long as requests come.
        authorize: Tells who sends a request; None is nobody. By default, the tokens do.
        tokens: The tokens that are known.
        open_without_tokens: Whether everybody may do everything as long as there are no tokens, which only suits a
            server that nobody else can reach.
        limits: The bounds.
        read_only: Whether all writes are refused.
        allowed_hosts: The names by which requests may address the server, without ports; ("*",) for any, behind a proxy
            that checks them.
        allow_origins: Other origins whose pages may ask, such as "https://app.example".
    """

    def __init__(
        self,
        host: SessionHost,
        *,
        authorize: Authorize | None = None,
        tokens: Tokens | None = None,
        open_without_tokens: bool = True,
        limits: ServerLimits | None = None,
        read_only: bool = False,
        allowed_hosts: Sequence[str] = LOOPBACK,
        allow_origins: Sequence[str] = (),
    ) -> None:
        if isinstance(allowed_hosts, str) or isinstance(allow_origins, str):
            raise InvalidInput("`allowed_hosts` and `allow_origins` are sequences of names, not one text")
        self.service = Service(host, limits or ServerLimits(), tokens, read_only=read_only)
        self._authorize = authorize
        self._open_without_tokens = open_without_tokens
        self._allowed_hosts = frozenset(allowed_hosts)
        self._allow_origins = frozenset(allow_origins)
        self._open = 0

    async def stop(self) -> None:
        """Refuse new requests, tell all streams that they end, and wait until running requests are answered.

        It waits no longer than `drain_for_s`.
        """
        self.service.stopping.set()
        with anyio.move_on_after(self.service.limits.drain_for_s):
            while self._open:
                await self.service.one_ended()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; see ASGI."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1003})
        else:
            self._open += 1
            try:
                await Exchange(self, scope, receive, send).run()
            finally:
                self._open -= 1
                self.service.note_end()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def principal_of(self, request: Request) -> Principal | None:
        """Return who sends a request, or None."""
        if self._authorize is not None:
            return await self._authorize(request)
        tokens, token = self.service.tokens, token_of(request)
        if self._open_without_tokens and (tokens is None or not tokens.any()):
            return EVERYBODY
        return None if tokens is None or token is None else tokens.find(token)

    def check_host(self, headers: Headers) -> None:
        """Refuse a request for another host, as a page of another site makes it after rebinding its name.

        Raises:
            Malformed: There is no Host, or several.
            WrongHost: It is none of the allowed ones.
        """
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise Malformed("a request needs one Host header")
        name = hosts[0].lower()
        name = name[: name.rindex("]") + 1] if name.startswith("[") and "]" in name else name.partition(":")[0]
        if "*" not in self._allowed_hosts and name not in self._allowed_hosts:
            raise WrongHost(f"this server does not answer to the host {name[:100]!r}: start it with --allowed-host")

    def check_origin(self, request: Request) -> None:
        """Refuse a write that a page of another site makes with this browser's cookie.

        Raises:
            NotAuthorized: The Origin is neither this server's nor an allowed one.
        """
        origin = request.headers.get("origin")
        if origin is None or origin in self._allow_origins:
            return
        if urlsplit(origin).netloc.lower() != request.headers["host"].lower():
            raise NotAuthorized("this page may not write here: its origin is another one", known=True)

    def cors(self, headers: Headers) -> dict[str, str]:
        """Return the headers by which a browser lets a page of an allowed origin read the reply."""
        origin = headers.get("origin")
        if origin is None or origin not in self._allow_origins:
            return {}
        return {"access-control-allow-origin": origin, "access-control-expose-headers": _EXPOSED}


class Exchange:
    """One request and its reply."""

    def __init__(self, application: Application, scope: Scope, receive: Receive, send: Send) -> None:
        self._application = application
        self._service = application.service
        self._scope = scope
        self._receive = receive
        self._send = send
        self._request = Request(scope, self._bounded)
        self._route: Route | None = None
        self._principal: Principal | None = None
        self._status = 0
        self._body_left = 0
        given = self._request.headers.get("x-request-id", "")
        self._id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)

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
        finally:
            route = "none" if self._route is None else self._route.path
            duration_s = time.perf_counter() - begun
            self._service.metrics.requests.labels(route, str(self._status)).inc()
            if self._route is None or not self._route.streams:
                self._service.metrics.seconds.labels(route).observe(duration_s)
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
        application, scope, request = self._application, self._scope, self._request
        self._check_head()
        application.check_host(request.headers)
        raw_path = self._raw_path()
        if scope["method"] == "OPTIONS":
            return Reply(status=204, headers=self._options(ROUTES.allowed(raw_path)))
        route, names = ROUTES.match(scope["method"], raw_path)
        self._route = route
        scope["treering.session"] = names.get("session_id")
        principal = self._principal = await application.principal_of(request)
        if route.right != "none":
            if principal is None:
                raise NotAuthorized("this needs a token: send it as `Authorization: Bearer TOKEN`")
            if not principal.may(route.right):
                raise NotAuthorized(f"this needs the role {route.right!r}, not {principal.role!r}", known=True)
        if scope["method"] not in _SAFE:
            application.check_origin(request)
        if self._service.stopping.is_set() and route.right != "none":
            raise Unavailable("the server stops: repeat the request when it is back")
        query: object = read_query(self._query(), route.query)
        caller = principal or Principal(name="nobody", role="read")
        with self._service.counted(caller, streams=route.streams):
            body = await self._body(route)
            call = Call(self._service, caller, request, names, query, body)
            if route.keyed:
                call.check_key()
            try:
                value = await route.handler(call)
            except (SessionNotFound, LogReplaced):  # of a handle that was kept: another session may have its id now
                if not self._service.forget(names.get("session_id", "")):
                    raise
                value = await route.handler(call)
            except LeafMoved as error:
                raise self._service.stale(error, names["session_id"]) from error
            if isinstance(value, EventStream):
                self._service.hold_stream(caller)
            return self._finished(route, call, value)

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
        return raw[len(root) :] if root and raw.startswith(root) else raw

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

    def _query(self) -> dict[str, list[str]]:
        try:
            text = self._scope["query_string"].decode("ascii")
            return parse_qs(
                text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=100
            )
        except ValueError as error:
            raise Malformed("the query cannot be read: send `name=value`, percent-encoded as UTF-8") from error

    async def _bounded(self) -> Message:
        """Receive a piece of the body, within the bounds on its size and on silence."""
        limits = self._service.limits
        message: Message | None = None
        with anyio.move_on_after(limits.body_for_s):
            message = await self._receive()
        if message is None:
            raise Malformed(f"no byte of the body came for {limits.body_for_s:g} s", status=408)
        if message["type"] == "http.request":
            self._body_left -= len(message.get("body", b""))
            if self._body_left < 0:
                raise TooLarge("the body is larger than the server accepts: GET /v1 tells the bounds")
        return message

    async def _body(self, route: Route) -> Any:  # noqa: ANN401  # of the type that the route names
        limits, headers = self._service.limits, self._request.headers
        self._body_left = limits.import_bytes_max if route.body is bytes else limits.body_bytes_max
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length) > self._body_left:
            raise TooLarge(f"the body has {length} bytes, more than the server accepts ({self._body_left})")
        if route.body is bytes:
            return None
        body = await self._request.body()
        if route.body is None:
            if body.strip() not in (b"", b"{}"):
                raise Malformed("this request takes no body")
            return None
        media_type = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise Malformed(f"the body is {media_type[:100]!r}: send application/json", status=415)
        if headers.get("content-encoding", "identity") != "identity":
            raise Malformed("the body is compressed: send it as it is", status=415)
        if route.body is entries.NewEntries:  # one entry alone, or several
            return parse(body, limits.depth_max)
        return read(body or b"{}", route.body, limits.depth_max)

    # -- the reply

    def _options(self, verbs: Sequence[str]) -> dict[str, str]:
        headers = {"allow": ", ".join(verbs)}
        if self._application.cors(self._request.headers):
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
        if len(body) >= _COMPRESS_FROM and "gzip" in self._request.headers.get("accept-encoding", ""):
            pack = partial(gzip.compress, body, 6, mtime=0)
            body = pack() if len(body) <= _INLINE_MAX else await anyio.to_thread.run_sync(pack)
            headers["content-encoding"] = "gzip"
        await self._respond(status, headers, body)

    async def _refuse(self, error: BaseException) -> None:
        if self._status:  # the reply has begun, and breaks off
            raise error
        problem = problem_of(error, instance=self._id)
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
        await self._begin(
            status, {**headers, **({"content-length": str(len(body))} if status not in (204, 304) else {})}
        )
        shown = b"" if self._scope["method"] == "HEAD" else body
        await self._send({"type": "http.response.body", "body": shown})

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._status = status
        every = {
            "x-request-id": self._id,
            "vary": "Authorization, Cookie, Accept-Encoding, Origin",
            **_SECURITY,
            **self._application.cors(self._request.headers),
            **headers,
        }
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in every.items()],
            }
        )

    async def _stream(self, stream: EventStream) -> None:
        caller = self._principal or Principal(name="nobody", role="read")
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
        try:
            await self._begin(200, {"cache-control": "private, no-cache", **reply.headers})
            if self._scope["method"] != "HEAD":
                async for piece in reply.pieces():
                    await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            await self._send({"type": "http.response.body", "body": b""})
        finally:
            await remove(reply.path.parent)


def app(host: SessionHost, **options: Any) -> Application:  # noqa: ANN401  # those of Application
    """Return an ASGI application that serves the sessions of a host; see `Application` for the options.

    Mount it in a starlette or FastAPI program: `program.mount("/sessions", app(host, authorize=...))`. The program
    calls `stop` when it ends, before it closes the host.
    """
    return Application(host, **options)
