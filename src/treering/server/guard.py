"""The guard: who sends a request, and whether the host that it names and the page that it comes from are allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..events.errors import InvalidInput, NotAuthorized
from .cluster.peers import HOP, Cluster
from .http.incoming import Incoming
from .http.problems import Malformed, WrongHost
from .principals import EVERYBODY, Authorize, Principal
from .tokens import Tokens, carries_cookie, token_of

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""The names by which a machine addresses itself."""

_EXPOSED = "ETag, Location, Link, Retry-After, Idempotent-Replayed, X-Request-Id, Mcp-Session-Id"
_NO_CORS: dict[str, str] = {}
_KNOWN_HOSTS_MAX = 100


class Guard:
    """Decides about a request before its route does.

    Args:
        authorize: Tells who sends a request; None is nobody. By default, the tokens do.
        tokens: The tokens that are known.
        open_without_tokens: Whether everybody may do everything as long as there are no tokens.
        allowed_hosts: The names by which requests may address the server, without ports; ("*",) for any.
        allow_origins: Other origins whose pages may ask.
        cluster: The other hosts, which say for whom they send requests.
    """

    def __init__(
        self,
        authorize: Authorize | None,
        tokens: Tokens | None,
        *,
        open_without_tokens: bool,
        allowed_hosts: Sequence[str],
        allow_origins: Sequence[str],
        cluster: Cluster | None = None,
    ) -> None:
        if isinstance(allowed_hosts, str) or isinstance(allow_origins, str):
            raise InvalidInput("`allowed_hosts` and `allow_origins` are sequences of names, not one text")
        self._authorize = authorize
        self._tokens = tokens
        self._open_without_tokens = open_without_tokens
        self._allowed_hosts = frozenset(allowed_hosts)
        self._allow_origins = frozenset(allow_origins)
        self._cluster = cluster
        self._known_hosts: set[bytes] = set()  # of requests that were allowed

    async def principal_of(self, incoming: Incoming) -> Principal | None:
        """Return who sends a request, or None.

        Raises:
            NotProven: It says that another host sends it, and is wrong.
        """
        if self._cluster is not None and self.is_from_host(incoming):
            return self._cluster.principal_of(incoming)
        if self._authorize is not None:
            return await self._authorize(incoming.request())
        tokens = self._tokens
        if self._open_without_tokens and (tokens is None or not tokens.any()):
            return EVERYBODY
        token = token_of(incoming.request())
        return None if tokens is None or token is None else tokens.find(token)

    def is_from_host(self, incoming: Incoming) -> bool:
        """Return whether a request says that another host has sent it on."""
        return self._cluster is not None and HOP in incoming.headers

    def check_body(self, incoming: Incoming) -> None:
        """Refuse a request that another host has sent on if its body is another one.

        Raises:
            NotProven: It is, or it was not read as a whole.
        """
        if self._cluster is not None and self.is_from_host(incoming):
            self._cluster.check_body(incoming)

    def check_host(self, incoming: Incoming) -> None:
        """Refuse a request for another host, as a page of another site makes it after rebinding its name.

        Raises:
            Malformed: There is no Host, or several.
            WrongHost: It is none of the allowed ones.
        """
        sent, by_name = incoming.scope["headers"], incoming.headers
        host = by_name.get(b"host", b"")
        if host in self._known_hosts and len(by_name) == len(sent):
            return
        hosts = [value for name, value in sent if name == b"host"]
        if len(hosts) != 1:
            raise Malformed("a request needs one Host header")
        name = host.decode("latin-1").lower()
        name = name[: name.rindex("]") + 1] if name.startswith("[") and "]" in name else name.partition(":")[0]
        if "*" not in self._allowed_hosts and name not in self._allowed_hosts:
            raise WrongHost(f"this server does not answer to the host {name[:100]!r}: start it with --allowed-host")
        if len(self._known_hosts) < _KNOWN_HOSTS_MAX:
            self._known_hosts.add(host)

    def check_origin(self, incoming: Incoming) -> None:
        """Refuse a write that a page of another origin makes, of this machine too, with this browser's cookie or none.

        Raises:
            NotAuthorized: The Origin is neither this server's nor an allowed one, or there is a cookie and no Origin.
        """
        headers = incoming.headers
        if b"origin" not in headers and b"cookie" not in headers:
            return
        request = incoming.request()
        text, host = request.headers.get("origin"), request.headers["host"]
        if text is None:
            if carries_cookie(request):
                raise NotAuthorized("a write with a cookie needs the Origin of its page: browsers send it", known=True)
            return
        if text not in self._allow_origins and text.partition("://")[2].lower() != host.lower():
            raise NotAuthorized("this page may not write here: its origin is another one", known=True)

    def cors(self, headers: Mapping[bytes, bytes]) -> dict[str, str]:
        """Return the headers by which a browser lets a page of an allowed origin read the reply."""
        if b"origin" not in headers:
            return _NO_CORS
        origin = headers[b"origin"].decode("latin-1")
        if origin not in self._allow_origins:
            return {}
        return {"access-control-allow-origin": origin, "access-control-expose-headers": _EXPOSED}
