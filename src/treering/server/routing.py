"""The route table: which handler answers a verb and a path, what it takes and returns, and who may ask.

Everything that describes the interface is made from this table: dispatching, the right that a route asks for, the names
and types that it refuses, OpenAPI.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

from msgspec import Struct
from starlette.requests import Request

from .http.fields import KEY_PATTERN, CursorText
from .http.incoming import Incoming
from .http.problems import Malformed, NoSuchRoute, WrongMethod
from .principals import Principal, Right

if TYPE_CHECKING:
    from ..actors.session.session import Session
    from .service import Service

Q_co = TypeVar("Q_co", covariant=True)
B_co = TypeVar("B_co", covariant=True)


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A query or a body without any field."""


class ReadQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every read of a session takes.

    Attributes:
        at_least: A cursor that the reply shows at least.
    """

    at_least: CursorText | None = None


class NotModified(Exception):
    """The client has what it asks for."""

    def __init__(self, etag: str) -> None:
        self.etag = etag


class Call(Generic[Q_co, B_co]):
    """One request to a handler.

    Attributes:
        service: The host and its bounds.
        principal: Who asks.
        incoming: The request itself, whose body was read unless the route streams it.
        headers: Its headers, by their names in lower case.
        key: The caller's id for this request: its Idempotency-Key.
        names: The values of the path's variables.
        query: The query.
        body: The body.
        reply_headers: Headers that the reply will carry beside those that the handler returns.
    """

    __slots__ = ("body", "headers", "incoming", "key", "names", "principal", "query", "reply_headers", "service")

    def __init__(
        self,
        service: Service,
        principal: Principal,
        incoming: Incoming,
        names: Mapping[str, str],
        query: Q_co,
        body: B_co,
    ) -> None:
        self.service = service
        self.principal = principal
        self.incoming = incoming
        self.headers = incoming.headers
        self.key = self.header(b"idempotency-key")
        self.names = names
        self.query = query
        self.body = body
        self.reply_headers: dict[str, str] = {}

    @property
    def request(self) -> Request:
        """The request as starlette sees it."""
        return self.incoming.request()

    @property
    def session_id(self) -> str:
        """The id of the session that the path names."""
        return self.names["session_id"]

    async def reading(self) -> Session:
        """Return a handle of the session that the path names, to read from; see `Service.reading`."""
        session = await self.service.reading(self.principal, self.session_id)
        if isinstance(self.query, ReadQuery) and self.query.at_least is not None:
            await self.service.reached(session, self.query.at_least)
        return session

    async def writing(self) -> Session:
        """Return a handle of the session that the path names, to write to; see `Service.writing`."""
        return await self.service.writing(self.principal, self.session_id)

    def header(self, name: bytes) -> str | None:
        """Return a header, by its name in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def check_key(self) -> None:
        """Refuse an Idempotency-Key that could be lost on the way.

        Raises:
            Malformed: It is not 1 to 255 visible ASCII characters.
        """
        if self.key is not None and not re.match(KEY_PATTERN, self.key):
            raise Malformed("the Idempotency-Key must be 1 to 255 visible ASCII characters")

    def unless_known(self, etag: str) -> None:
        """Tag the reply, and answer 304 at once if the client has it: call this before reading anything.

        Args:
            etag: What changes with the reply, without quotes.
        """
        self.reply_headers["etag"] = tag = f'"{etag}"'
        known = self.header(b"if-none-match")
        if known is not None and not {tag, "*"}.isdisjoint(as_sent(each) for each in known.split(",")):
            raise NotModified(tag)


def as_sent(etag: str) -> str:
    """Return a tag as this server sent it: proxies that compress weaken tags, or mark them."""
    etag = etag.strip().removeprefix("W/")
    for mark in ("-gzip", "-br", "-zstd"):
        etag = etag.replace(f'{mark}"', '"')
    return etag


class Reply:
    """A reply that is more than a value with the route's status.

    Args:
        body: A value to encode as JSON, or bytes.
        status: The status; None for that of the route.
        headers: Headers beside the usual ones.
        media_type: The type of the bytes.
    """

    __slots__ = ("body", "headers", "media_type", "status")

    def __init__(
        self,
        body: object = b"",
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        self.body = body
        self.status = status
        self.headers = headers or {}
        self.media_type = media_type


Handler: TypeAlias = Callable[[Call[Any, Any]], Awaitable[object]]
"""Answers a request: with a value, a `Reply`, or a stream."""


class Route(Struct, frozen=True, kw_only=True):
    """A row of the table.

    Attributes:
        verb: The method.
        path: The path; `{session_id}` and the like are variables.
        handler: What answers it; its docstring describes the route.
        right: What a principal needs.
        query: The type of its query.
        body: The type of its JSON body; None if it takes none, `bytes` if it streams one of any type.
        handler_converts: Whether its handler takes the JSON value of the body, which may be of more than one type.
        reply: The type of its JSON reply; None for no body, `bytes` for another media type.
        media_types: The types of a reply that is not JSON.
        status: The status of success.
        statuses: Other statuses of success.
        empty_statuses: Other statuses of success, of replies without a body.
        refusal: The type of the JSON in which it also refuses, where a protocol says so, with 400 or 404.
        errors: The statuses of refusals, beside those that every route may give.
        headers: Headers that a request needs.
        keyed: Whether it takes an Idempotency-Key.
        conditional: Whether it takes If-Match, and refuses with 412.
        tagged: Whether its reply has an ETag.
        streams: Whether its reply is a stream of events.
        schema: What the JSON schema of its body says beyond its type.
        page: Whether it is a part of the viewer rather than of the interface: it takes any query, runs scripts of its
            own, and is not described.
        probe: Whether it tells a supervisor if the server lives: it is answered however many requests are running.
    """

    verb: str
    path: str
    handler: Handler
    right: Right
    query: type[Struct] = Nothing
    body: Any = None
    handler_converts: bool = False
    reply: Any = None
    media_types: tuple[str, ...] = ()
    status: int = 200
    statuses: tuple[int, ...] = ()
    empty_statuses: tuple[int, ...] = ()
    refusal: Any = None
    headers: tuple[str, ...] = ()
    errors: tuple[int, ...] = ()
    keyed: bool = False
    conditional: bool = False
    tagged: bool = False
    streams: bool = False
    schema: dict[str, Any] = {}
    page: bool = False
    probe: bool = False

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """What the route does, in one sentence."""
        return (self.handler.__doc__ or "").strip().split("\n", 1)[0]


_KNOWN_PATHS_MAX = 1024
_KNOWN_PATH_MAX = 256
"""How many paths are remembered with what they mean, and how long each may be."""


class RouteTable:
    """All routes.

    A path is split before its segments are decoded, so that a "%2F" is a part of a segment. No segment may be empty,
    "." or "..", or hold NUL or bytes that are not UTF-8.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._tree: dict[str, Any] = {}
        self._known = lru_cache(_KNOWN_PATHS_MAX)(self._match)
        for route in routes:
            node = self._tree
            for segment in _segments(route.path):
                node = node.setdefault("{}" if segment.startswith("{") else segment, {})
            verbs: dict[str, Route] = node.setdefault("", {})
            if route.verb in verbs:
                raise ValueError(f"{route.verb} {route.path} stands twice in the table")
            verbs[route.verb] = route

    def __iter__(self) -> Iterator[Route]:
        return iter(self.routes)

    def match(self, verb: str, raw_path: bytes) -> tuple[Route, Mapping[str, str]]:
        """Return the route of a request, and the values of its variables.

        Raises:
            NoSuchRoute: There is none with this path.
            WrongMethod: There is, but not with this verb.
            Malformed: The path cannot be decoded.
        """
        return (self._match if len(raw_path) > _KNOWN_PATH_MAX else self._known)(verb, raw_path)

    def _match(self, verb: str, raw_path: bytes) -> tuple[Route, Mapping[str, str]]:
        verbs, values = self._find(raw_path)
        route = verbs.get("GET" if verb == "HEAD" else verb)
        if route is None:
            raise WrongMethod(f"{verb} is not a method of this path", allowed=self._allowed(verbs))
        names = [segment[1:-1] for segment in _segments(route.path) if segment.startswith("{")]
        return route, MappingProxyType(dict(zip(names, values, strict=True)))

    def allowed(self, raw_path: bytes) -> tuple[str, ...]:
        """Return the methods of a path; see `match`."""
        return self._allowed(self._find(raw_path)[0])

    def _find(self, raw_path: bytes) -> tuple[dict[str, Route], list[str]]:
        node, values = self._tree, list[str]()
        path = raw_path.split(b"?")[0]
        for segment in [] if path == b"/" else path.split(b"/")[1:]:
            text = _decoded(segment)
            if text in node and text not in ("", "{}"):
                node = node[text]
            elif "{}" in node and text:
                node = node["{}"]
                values.append(text)
            else:
                raise NoSuchRoute("there is nothing at this path: /openapi.json lists what there is")
        verbs = node.get("")
        if not verbs:
            raise NoSuchRoute("there is nothing at this path: /openapi.json lists what there is")
        return verbs, values

    @staticmethod
    def _allowed(verbs: Mapping[str, Route]) -> tuple[str, ...]:
        return (*sorted({*verbs, *(["HEAD"] if "GET" in verbs else [])}), "OPTIONS")


def _segments(path: str) -> list[str]:
    return [] if path == "/" else path.split("/")[1:]


def _decoded(segment: bytes) -> str:
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as error:
        raise Malformed("the path is not UTF-8") from error
    if "\0" in text or text in (".", ".."):
        raise Malformed("a segment of the path is '.', '..' or holds NUL: send ids as they are, percent-encoded")
    return text


class Routes:
    """Collects the routes of a module: `@routes.add("GET", "/v1/sessions", right="read", ...)`."""

    def __init__(self) -> None:
        self.all: list[Route] = []

    def add(
        self,
        verb: str,
        path: str,
        *,
        right: Right,
        **options: Any,  # noqa: ANN401  # the fields of `Route`
    ) -> Callable[[Callable[..., Awaitable[object]]], Callable[..., Awaitable[object]]]:
        """Return a decorator that adds a handler to the table; see `Route` for the options."""

        def decorate(handler: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
            self.all.append(Route(verb=verb, path=path, handler=handler, right=right, **options))
            return handler

        return decorate

    def read(
        self, path: str, reply: object, *, query: type[Struct] = ReadQuery, errors: tuple[int, ...] = (404, 409)
    ) -> Callable[[Callable[..., Awaitable[object]]], Callable[..., Awaitable[object]]]:
        """Return a decorator that adds a read of a session, whose reply has an ETag; see `Route`."""
        return self.add("GET", path, right="read", query=query, reply=reply, errors=errors, tagged=True)
