"""Requests to one server: retried when that is safe, with errors as the library raises them.

Every request of a remote host is safe to repeat: reads change nothing, appends and copies carry the caller's id, and
all others set a state. So whatever was lost on the way (the request, its reply, or the server itself for a while) is
asked for again, until an answer comes or `retry_for_s` have passed. A connection that was kept from an earlier request
may have been closed by the server meanwhile: what it cuts off is sent again at once, over another one.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TypeVar
from urllib.parse import quote

import anyio
import httpx2
import msgspec

from ..events.errors import (
    AppendInDoubt,
    HostClosed,
    InvalidInput,
    NotAuthorized,
    NotFound,
    RequestError,
    TooLarge,
    TooMany,
    TreeringError,
    Unavailable,
)
from ..events.http_clients import Event, Events, verify_for
from ..events.problem import MEDIA_TYPE, Problem, error_of
from ..events.telemetry import failure_of, logger

T = TypeVar("T")

CONNECT_FOR_S = 10.0
"""The seconds to wait for a connection."""

ANSWER_FOR_S = 60.0
"""The seconds to wait for the next byte of an answer."""

OPENED_FOR_S = 10.0
"""The seconds to wait for the first byte of a stream, which a server sends at once."""

WHOLE_AFTER_S = 2
"""The seconds after which streams are asked to end, where something hands replies on only when they are whole."""

SILENCE_FOR_S = 45.0
"""The seconds after which a stream that sends nothing, not even a comment, counts as cut off."""

RETRY_FOR_S = 30.0
"""The seconds for which a request is repeated, by default."""

PAUSE_MAX_S = 5.0
"""The longest pause between two tries of a request."""

RECONNECT_MAX_S = 30.0
"""The longest pause before a stream is opened again."""

_PAUSE_S = 0.05
_TOLD_AT = 4  # whoever waits is told after half a second or so
_END_WAIT_S = 0.1
_GATEWAY = frozenset({502, 503, 504})
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_KEPT_MAX = 64
_CUT = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
_BODY_SHOWN = 200
_UNKNOWN = ("expired", "revoked")


class _Way:
    """Learns whether a request had a new connection, or one that was kept from an earlier request.

    Attributes:
        is_new: Whether it was a new one.
        extensions: What tells this object; see httpx2.
    """

    def __init__(self) -> None:
        self.is_new = False
        self.extensions = {"trace": self._note}

    async def _note(self, event: str, _: Mapping[str, object]) -> None:
        if event.startswith("connection.connect"):
            self.is_new = True


class Connection:
    """HTTP to one server.

    Args:
        url: Its address, such as "http://127.0.0.1:8765", with the path below which it is mounted, if any; or
            "unix:" and the path of its socket.
        token: Who asks; None where the server needs no token.
        retry_for_s: The seconds for which a request is repeated.

    Raises:
        InvalidInput: The address is none.
    """

    def __init__(self, url: str, token: str | None, *, retry_for_s: float = RETRY_FOR_S) -> None:
        self.url = _checked(url)
        self._token = token
        self.retry_for_s = retry_for_s
        self._client: httpx2.AsyncClient | None = None
        self._is_closed = False
        self._silent = 0  # how many streams in a row brought nothing, not even a refusal
        self._holds_back = False  # whether something between here and the server hands on whole replies alone

    @property
    def _http(self) -> httpx2.AsyncClient:
        if self._is_closed:  # a stream that closing cut off is not opened again, over a client that nobody would close
            raise HostClosed("the host is closed: open another one")
        if self._client is None:
            self._client = _client(self.url, self._token)
        return self._client

    async def aclose(self) -> None:
        """Close all connections, for good: what is asked afterwards raises `HostClosed`."""
        self._is_closed = True
        if self._client is not None:
            await self._client.aclose()

    # -- requests

    async def ask(
        self,
        kind: type[T],
        verb: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Ask until there is an answer, and return it as a value; see `answer`."""
        reply = await self.answer(verb, path, query=query, body=body, headers=headers)
        try:
            return msgspec.json.decode(reply.content, type=kind)
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"{self.url} does not answer as a treering server ({error}): check the address"
            ) from error

    async def answer(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Ask until there is an answer, and return it.

        Raises:
            TreeringError: The server refuses the request; this is the error that it raised.
            AppendInDoubt: No answer came, and the request may have been carried out.
            Unavailable: No answer came.
        """

        async def once(way: _Way) -> httpx2.Response:
            reply = await self._http.request(
                verb, path, params=query, content=body, headers=headers, extensions=way.extensions
            )
            if not reply.is_success:
                raise error_of_reply(reply)
            return reply

        return await self._answered(once, in_doubt=verb == "POST")

    async def download(
        self, path: str, query: Mapping[str, str], take: Callable[[AsyncIterator[bytes]], Awaitable[T]]
    ) -> T:
        """Ask until there is a whole answer, and return what a function makes of its pieces.

        Args:
            path: The path.
            query: The query.
            take: Takes the pieces; called again, with all of them, if the answer was cut off.

        Raises:
            TreeringError: See `answer`.
        """

        async def once(way: _Way) -> T:
            async with self._http.stream("GET", path, params=query, extensions=way.extensions) as reply:
                if not reply.is_success:
                    await reply.aread()
                    raise error_of_reply(reply)
                async with _pieces_of(reply) as pieces:
                    return await take(pieces)

        return await self._answered(once, in_doubt=False)

    async def _answered(self, once: Callable[[_Way], Awaitable[T]], *, in_doubt: bool) -> T:
        """Return the answer to a request, sent again until there is one.

        Args:
            once: Sends it.
            in_doubt: Whether it matters that it may have been carried out although no answer came.
        """
        until = anyio.current_time() + self.retry_for_s
        may_be_done = False
        attempt = closed = 0
        while True:
            pause_s = random.uniform(0, min(PAUSE_MAX_S, _PAUSE_S * (2**attempt - 1)))
            way = _Way()
            try:
                return await once(way)
            except (Unavailable, TooMany) as refusal:
                error: TreeringError = refusal
                pause_s += min(refusal.retry_after_s, RECONNECT_MAX_S) if isinstance(refusal, TooMany) else 0
            except httpx2.TransportError as failure:
                may_be_done = may_be_done or not isinstance(failure, _UNSENT)
                if isinstance(failure, _CUT) and not way.is_new and closed < _KEPT_MAX:
                    closed += 1
                    continue  # over another one
                error = self._unanswered(failure, in_doubt=in_doubt and may_be_done)
            if anyio.current_time() + pause_s > until:
                raise error
            if attempt == _TOLD_AT:
                logger().warning("no_answer", url=self.url, error=str(error))
            await anyio.sleep(pause_s)
            attempt += 1

    def _unanswered(self, failure: Exception, *, in_doubt: bool) -> TreeringError:
        said = str(failure) or type(failure).__name__
        error: TreeringError
        if in_doubt:
            error = AppendInDoubt(
                f"{self.url} did not answer ({said}), and may have done what was asked: retry with the same command id"
            )
        else:
            error = Unavailable(f"{self.url} does not answer ({said}): check the address, or ask again later")
        error.__cause__ = failure
        return error

    async def tell(self, path: str, body: bytes, until: float) -> None:
        """Send something that may be lost, and is after a time of the event loop's clock; a failure is logged."""
        try:
            with anyio.fail_after(until - anyio.current_time()):
                await self.answer("POST", path, body=body)
        except (TreeringError, TimeoutError) as error:
            logger().warning("not_sent", path=path, **failure_of(error))

    # -- streams

    async def follow(
        self, path: str, query: Mapping[str, str], since: Callable[[], str | None]
    ) -> AsyncGenerator[Event]:
        """Yield the events of a stream, which is opened again whenever it ends or is cut off.

        Args:
            path: The path.
            query: The query.
            since: Returns the place from which to go on, each time that the stream is opened; None for its beginning.

        Raises:
            TreeringError: The server refuses the stream, or ended it for good.
        """
        failures = 0
        while True:
            pause_s = random.uniform(0, min(RECONNECT_MAX_S, 0.1 * (2**failures - 1)))
            failures += 1
            place = since()
            asked = dict(query) if place is None else {**query, "since": place}
            with suppress(httpx2.TransportError, TimeoutError, Unavailable, TooMany):
                async with aclosing(self._events(path, asked)) as events:
                    async for event in events:
                        failures = 0
                        if event.event == "bye":
                            bye = msgspec.json.decode(event.data, type=_Bye)
                            if bye.reason in _UNKNOWN:
                                raise NotAuthorized(f"the stream ended: its token is {bye.reason}, give another one")
                            if not bye.reconnect:
                                raise NotFound(f"the stream ended for good ({bye.reason}): what it follows is gone")
                            pause_s = bye.retry_ms / 1000 * random.uniform(0.5, 1.5)
                            break
                        yield event
            await anyio.sleep(pause_s)

    async def _events(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Event]:
        self._holds_back = self._holds_back or self._silent > 1
        headers, opened_s = {"accept": "text/event-stream"}, OPENED_FOR_S
        if self._holds_back:
            headers["prefer"] = f"wait={WHOLE_AFTER_S}"
            opened_s += WHOLE_AFTER_S
        request = self._http.build_request("GET", path, params=query, headers=headers)
        asked_at, is_heard = anyio.current_time(), False
        try:
            with anyio.fail_after(opened_s):
                reply = await self._http.send(request, stream=True)
            async with aclosing(reply), _pieces_of(reply) as pieces:  # whose own closing has a bound
                if not reply.is_success:
                    await reply.aread()
                    raise error_of_reply(reply)
                events = Events()
                while True:
                    with anyio.fail_after(SILENCE_FOR_S if is_heard else opened_s):
                        piece = await anext(pieces, None)
                    if piece is None:
                        return
                    if not is_heard:
                        is_heard, self._silent = True, 0
                        if anyio.current_time() - asked_at < WHOLE_AFTER_S / 2:
                            self._holds_back = False
                    for event in events.take(piece):
                        yield event
        except TimeoutError:
            self._silent += not is_heard
            raise


@asynccontextmanager
async def _pieces_of(reply: httpx2.Response) -> AsyncGenerator[AsyncIterator[bytes]]:
    """Yield the pieces of a reply, and leave no generator of them behind that has not ended, which trio warns of."""
    pieces = reply.aiter_bytes()
    try:
        yield pieces
    finally:
        with anyio.move_on_after(_END_WAIT_S, shield=True):
            await reply.aclose()
        with anyio.move_on_after(_END_WAIT_S, shield=True), suppress(httpx2.TransportError, httpx2.StreamError):
            async for _ in pieces:  # it ends, or says that the reply was closed, which ends the generators below it
                pass


class _Bye(msgspec.Struct):
    reason: str
    reconnect: bool
    retry_ms: int


def segment(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def error_of_reply(reply: httpx2.Response) -> TreeringError:
    """Return the error of a refusal: the one that the server raised, or the nearest one where a proxy refused."""
    if reply.headers.get("content-type", "").startswith(MEDIA_TYPE):
        try:
            return error_of(msgspec.json.decode(reply.content, type=Problem))
        except msgspec.DecodeError:
            pass  # a proxy's, of a shape of its own
    status = reply.status_code
    told = f"the answer to {reply.request.method} {reply.request.url.path} has the status {status}"
    said = " ".join(reply.text[:_BODY_SHOWN].split())
    told = f"{told}: {said}" if said and not said.startswith("<") else told
    if status in (401, 403):
        return NotAuthorized(told, known=status == 403)
    if status in (413, 414, 431):
        return TooLarge(told, status=status)
    if status == 429:
        wait = reply.headers.get("retry-after", "1")
        return TooMany(told, retry_after_s=int(wait) if wait.isdigit() else 1)
    if status in _GATEWAY:
        return Unavailable(told)
    return NotFound(told) if status == 404 else RequestError(told)


def _checked(url: str) -> str:
    if not isinstance(url, str) or not url.startswith(("http://", "https://", "unix:")):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{url!r} is not the address of a server: give one such as http://127.0.0.1:8765")
    return url.rstrip("/")


def _client(url: str, token: str | None) -> httpx2.AsyncClient:
    headers = {"content-type": "application/json", "user-agent": "treering"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    verify = verify_for(url)
    uds = url.removeprefix("unix:") if url.startswith("unix:") else None
    transport = None if uds is None else httpx2.AsyncHTTPTransport(uds=uds, verify=verify)
    return httpx2.AsyncClient(
        base_url="http://localhost" if transport is not None else url,
        headers=headers,
        transport=transport,
        verify=verify,
        timeout=httpx2.Timeout(ANSWER_FOR_S, connect=CONNECT_FOR_S, pool=None),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=_KEPT_MAX),
    )
