"""Requests for sessions that another host owns: sent on to that host, once, and its reply passed on.

A request hops at most once: a host that gets one from another host and does not own the session says so, and the first
host looks again. It also looks again when the owner cannot be reached, since the session is free when the owner's lease
has ended. A request is repeated only if that is safe: it has an Idempotency-Key, which it is given if it takes one, or
its method says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import httpx2
from msgspec import Struct

from ...events.errors import AppendInDoubt, SessionLocked, TooLarge, Unavailable
from ...events.http_clients import verify_for
from ...events.telemetry import logger
from ..http.incoming import Incoming
from ..http.uploads import Upload, pieces
from ..principals import Principal
from .peers import HOP, MOVED, REFUSED, Cluster

if TYPE_CHECKING:
    from ...actors.host.runtime import Runtime

AGAIN_S = 0.25
"""After how many seconds the owner of a session is looked for again."""

BEYOND_S = 5.0
"""For how many seconds an owner is looked for, beyond the time after which a silent one loses its sessions."""

CONNECT_FOR_S = 2.0
"""How many seconds a host may take to accept a connection."""

ANSWER_FOR_S = 60.0
"""How many seconds the owner may be silent."""

TAKE_FOR_S = 600.0
"""How many seconds the owner may be silent that takes a file."""

REPLY_BYTES_MAX = 64 * 1024 * 1024
"""The most bytes of a reply that is passed on."""

_PASSED_ON = (b"content-type", b"if-match", b"if-none-match", b"prefer", b"traceparent", b"tracestate")
_PASSED_BACK = ("cache-control", "content-type", "etag", "idempotent-replayed", "link", "location", "retry-after")
_REPEATABLE = frozenset({"DELETE", "GET", "HEAD", "PUT"})
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class Passed(Struct, frozen=True):
    """The reply of another host."""

    status: int
    headers: dict[str, str]
    body: bytes


class Forwarded:
    """A request that may have to be sent on.

    Args:
        keyed: Whether it takes an Idempotency-Key.
        principal: Who asks.
        incoming: The request, whose body was read.
        request_id: Its id.
        new_id: Returns a fresh id.
    """

    def __init__(
        self, keyed: bool, principal: Principal, incoming: Incoming, request_id: bytes, new_id: Callable[[], str]
    ) -> None:
        self.method: str = incoming.scope["method"]
        query: bytes = incoming.scope["query_string"]
        self.target = incoming.raw_path() + (b"?" + query if query else b"")
        self.body: bytes | Upload = incoming.uploaded or incoming.whole or b""
        self.principal = principal
        key = incoming.headers.get(b"idempotency-key", b"")
        if keyed and not key:
            key = new_id().encode()
        self.key = key
        # A file brings what its session lacks, and that is nothing the second time.
        self.is_repeatable = bool(key) or self.method in _REPEATABLE or isinstance(self.body, Upload)
        self.headers = {name: incoming.headers[name] for name in _PASSED_ON if name in incoming.headers}
        self.headers[b"x-request-id"] = request_id
        if key:
            self.headers[b"idempotency-key"] = key
        self.answer_for_s = ANSWER_FOR_S
        if isinstance(self.body, Upload):
            self.headers[b"content-length"] = b"%d" % self.body.size
            self.answer_for_s = TAKE_FOR_S


class Forwarding:
    """Sends requests to the hosts that own their sessions.

    Args:
        cluster: Who the other hosts are.
        runtime: The seams of this host, which say for how long an owner may be silent.
    """

    def __init__(self, cluster: Cluster, runtime: Runtime) -> None:
        leases = runtime.leases
        self._cluster = cluster
        self._wait_s = BEYOND_S + (0 if leases is None else max(leases.lease_s, leases.wait_s))
        self._clients: dict[str, httpx2.AsyncClient] = {}
        self._is_closed = False
        self._client_for(cluster.address)  # most clusters speak alike, and no request waits for certificates then

    async def carried(self, locked: SessionLocked, request: Forwarded, here: Callable[[], Awaitable[object]]) -> object:
        """Return the reply of the host that owns a session, or of this one if it comes to own it.

        Args:
            locked: What says who owns it.
            request: The request.
            here: Tries to answer it here.

        Raises:
            SessionLocked: The owner cannot be reached, or is not within the networks that are followed.
            AppendInDoubt: The connection to the owner broke, and the request must not be repeated.
            Unavailable: The owner refuses what this host sends.
        """
        until = anyio.current_time() + self._wait_s
        while True:
            reply = None if locked.address is None else await self._reply_of(locked.address, request)
            if reply is not None:
                return reply
            if anyio.current_time() > until:
                raise locked
            await anyio.sleep(AGAIN_S)
            try:
                return await here()
            except SessionLocked as again:
                locked = again

    async def _reply_of(self, address: str, request: Forwarded) -> Passed | None:
        """Send a request to a host, and return its reply; None if another try is of use."""
        peer = await self._cluster.peer(address)
        parts = urlsplit(peer.url)
        ip = f"[{peer.ip}]" if ":" in peer.ip else peer.ip
        port = "" if parts.port is None else f":{parts.port}"
        proof = self._cluster.prove(
            address, request.method, request.target, request.key, request.body, request.principal
        )
        client = self._client_for(peer.url)
        sent = client.build_request(
            request.method,
            f"{parts.scheme}://{ip}{port}{parts.path}{request.target.decode('latin-1')}",
            headers=[(b"host", parts.netloc.encode()), *request.headers.items(), (HOP, proof)],
            content=pieces(request.body.path) if isinstance(request.body, Upload) else request.body,
            timeout=httpx2.Timeout(request.answer_for_s, connect=CONNECT_FOR_S, pool=None),
            extensions={"sni_hostname": parts.hostname or ""},
        )
        try:
            response = await client.send(sent, stream=True)
            try:
                body = await _whole(response)
            finally:
                await response.aclose()
        except _UNSENT:
            return None
        except httpx2.TransportError as error:
            logger().warning("forward_broken", address=address, error=repr(error))
            if request.is_repeatable:
                return None
            raise AppendInDoubt(
                "the connection to the host that owns the session broke: it may have carried out the request"
            ) from error
        if REFUSED in response.headers:
            logger().error("forward_refused", address=address)
            raise Unavailable(
                "the host that owns the session does not believe this one: give all hosts the same cluster secret, and "
                "set their clocks"
            )
        if MOVED in response.headers or (response.status_code == 503 and request.is_repeatable):
            return None
        headers = {name: response.headers[name] for name in _PASSED_BACK if name in response.headers}
        return Passed(response.status_code, headers, body)

    def _client_for(self, url: str) -> httpx2.AsyncClient:
        """Return the client for all hosts with the scheme of an address: hosts with TLS and without may be mixed.

        Raises:
            Unavailable: The server has stopped, and nobody would close another client.
        """
        if self._is_closed:
            raise Unavailable("the server stops: repeat the request when it is back")
        scheme = urlsplit(url).scheme
        if scheme not in self._clients:
            self._clients[scheme] = httpx2.AsyncClient(
                trust_env=False,
                follow_redirects=False,
                verify=verify_for(url),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            )
        return self._clients[scheme]

    async def aclose(self) -> None:
        """Close the connections, for good."""
        self._is_closed = True
        for client in [*self._clients.values()]:
            await client.aclose()


async def _whole(response: httpx2.Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > REPLY_BYTES_MAX:
            raise TooLarge(f"the reply of the host that owns the session is larger than {REPLY_BYTES_MAX} bytes")
    return b"".join(pieces)
