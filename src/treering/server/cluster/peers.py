"""Hosts that serve the same sessions: how one proves itself to another, and which of them are believed.

A request for a session that another host owns is sent on to that host, with the principal that the first host knows.
The proof that it comes from a host is an HMAC with the cluster's secret over all that counts of it, the owner's
address, the time and the principal included, so that neither a client nor a host outside can make one, and none is of
use elsewhere or later. The secret itself is never sent.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import anyio
import msgspec
from msgspec import Struct

from ...events.errors import InvalidInput, NotAuthorized, SessionLocked
from ..http.incoming import Incoming
from ..http.uploads import Upload
from ..principals import Principal

HOP = b"treering-hop"
"""The header of a request that comes from another host: the proof, the time, and the principal."""

MOVED = "treering-moved"
"""The header of a reply that says that the host does not own the session, so that the first host looks again."""

REFUSED = "treering-refused"
"""The header of a reply that says that the proof is wrong."""

VALID_S = 300.0
"""For how many seconds a proof is valid, and so by how much the clocks of two hosts may differ."""

_SECRET_BYTES_MIN = 16


class Proven(Struct, frozen=True):
    """What a host says of a request that it sends on, in one header.

    Attributes:
        time_s: When, in seconds since 1970.
        principal: Who asks.
        digest: The SHA-256 of the body, in hex.
        proof: The proof, in hex.
    """

    time_s: float
    principal: Principal
    digest: str
    proof: str


class NotProven(NotAuthorized):
    """The proof of a request that says it comes from another host is wrong."""


class Peer(Struct, frozen=True):
    """Where a request is sent: the address of a socket, and what the address of the host is."""

    ip: str
    url: str


class Cluster:
    """What a server knows of the other hosts.

    Args:
        address: Where this server answers other hosts, as they know it.
        secret: What all of them know.
        peers: The networks in which they are, in CIDR notation.
        clock_s: Returns the time in seconds since 1970.

    Attributes:
        address: The address, without a "/" at its end.

    Raises:
        InvalidInput: The address is no URL of a server, the secret is too short, or a network is none.
    """

    def __init__(
        self, address: str, secret: bytes, peers: Sequence[str], *, clock_s: Callable[[], float] = time.time
    ) -> None:
        parts = urlsplit(address)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.query
            or parts.fragment
            or parts.username
        ):
            raise InvalidInput(f"{address!r} is no address for other hosts: give one such as 'http://10.0.0.5:8765'")
        if len(secret) < _SECRET_BYTES_MIN:
            raise InvalidInput(f"the secret of a cluster has at least {_SECRET_BYTES_MIN} bytes: give a longer one")
        if not peers:
            raise InvalidInput(
                "hosts follow only addresses within known networks: give `--peer 10.0.0.0/24` or another"
            )
        self.address = address.rstrip("/")
        self._secret = secret
        self._peers = [_network(each) for each in peers]
        self._clock_s = clock_s

    @property
    def name(self) -> str:
        """The host's name in requests to `address`."""
        host = urlsplit(self.address).hostname or ""
        return f"[{host}]" if ":" in host else host

    # -- sending

    async def peer(self, address: str) -> Peer:
        """Return where the requests for an address go.

        Raises:
            SessionLocked: It is not within the networks of the other hosts; nothing is sent there.
        """
        parts = urlsplit(address)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            found = await anyio.getaddrinfo(parts.hostname or "", port) if parts.scheme in ("http", "https") else []
        except (OSError, ValueError):  # a name that is unknown, or a port that is none
            found = []
        ips = [str(place[0]) for *_, place in found]
        for ip in ips:
            if any(ip_address(ip.partition("%")[0]) in each for each in self._peers):
                return Peer(ip, address.rstrip("/"))
        raise SessionLocked(
            f"the session is owned by a host at {address}, which is not within the networks that --peer names: add its "
            f"network there, or correct --advertise of that host"
        )

    def prove(
        self, address: str, method: str, target: bytes, key: bytes, body: bytes | Upload, principal: Principal
    ) -> bytes:
        """Return the header that proves a request to another host."""
        sent = msgspec.structs.replace(principal, token=None)  # it is this host that knows it
        time_s, digest = self._clock_s(), _digest(body)
        proof = self._proof(address, method, target, key, digest, time_s, sent)
        return base64.urlsafe_b64encode(msgspec.json.encode(Proven(time_s, sent, digest, proof)))

    # -- receiving

    def principal_of(self, incoming: Incoming) -> Principal:
        """Return for whom another host sends a request.

        Raises:
            NotProven: It does not come from a host of this cluster, or it is too old, or meant for another host.
        """
        claim = self._claim(incoming.headers)
        target = incoming.raw_path() + b"?" + incoming.scope["query_string"]
        key = incoming.headers.get(b"idempotency-key", b"")
        proof = self._proof(
            self.address, incoming.scope["method"], target, key, claim.digest, claim.time_s, claim.principal
        )
        if not hmac.compare_digest(proof, claim.proof):
            raise NotProven("this request does not come from a host of this cluster: give all the same secret")
        if abs(claim.time_s - self._clock_s()) > VALID_S:
            raise NotProven(f"this request is more than {VALID_S:g} s old: set the clocks of the hosts", known=True)
        return claim.principal

    def check_body(self, incoming: Incoming) -> None:
        """Refuse a request of another host whose body is not the one that was proven.

        Raises:
            NotProven: It is another one, or it was not read as a whole.
        """
        body = incoming.whole if incoming.uploaded is None else incoming.uploaded
        if body is None or _digest(body) != self._claim(incoming.headers).digest:
            raise NotProven("the body of this request is not the one that its host has sent")

    @staticmethod
    def _claim(headers: Mapping[bytes, bytes]) -> Proven:
        try:
            return msgspec.json.decode(base64.urlsafe_b64decode(headers[HOP]), type=Proven)
        except (ValueError, InvalidInput) as error:
            raise NotProven("the header of another host cannot be read: run one version on all hosts") from error

    def _proof(
        self, address: str, method: str, target: bytes, key: bytes, digest: str, time_s: float, principal: Principal
    ) -> str:
        signed = msgspec.json.encode(
            (
                "treering-hop",
                address.rstrip("/"),
                method,
                target.decode("latin-1").removesuffix("?"),
                key.decode("latin-1"),
                digest,
                time_s,
                principal,
            )
        )
        return hmac.new(self._secret, signed, hashlib.sha256).hexdigest()


def _digest(body: bytes | Upload) -> str:
    return body.digest if isinstance(body, Upload) else hashlib.sha256(body).hexdigest()


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise InvalidInput(f"{text!r} is no network: give one such as '10.0.0.0/24' or '10.0.0.7'") from error
