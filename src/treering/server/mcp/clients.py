"""The clients of the Model Context Protocol that said hello: what each follows, until it says goodbye.

A client that names the version of the protocol in each request says no hello, and has nothing here.
"""

from __future__ import annotations

import secrets

from ...events.errors import NotFound
from ...mcp.resources import Following
from ..principals import Principal

_CLIENTS_MAX = 1000
"""How many there may be; another one takes the place of the one that was heard of least lately."""


class McpClients:
    """The clients, by the id that each was given."""

    def __init__(self) -> None:
        self._clients: dict[str, tuple[str, Following]] = {}

    def greet(self, principal: Principal) -> tuple[str, Following]:
        """Return an id for a new client, and what it follows."""
        client_id, following = secrets.token_urlsafe(24), Following()
        self._clients[client_id] = principal.name, following
        if len(self._clients) > _CLIENTS_MAX:
            self._clients.pop(next(iter(self._clients)))[1].end()
        return client_id, following

    def find(self, principal: Principal, client_id: str) -> Following:
        """Return what a client follows.

        Raises:
            NotFound: There is none with this id, or it is somebody else's: a client says hello again then.
        """
        owner, following = self._clients.get(client_id, (None, None))
        if owner != principal.name or following is None:
            raise NotFound("there is no such Mcp-Session-Id, or no longer: begin with `initialize`")
        self._clients[client_id] = self._clients.pop(client_id)
        return following

    def leave(self, principal: Principal, client_id: str) -> None:
        """Forget a client.

        Raises:
            NotFound: See `find`.
        """
        self.find(principal, client_id).end()
        del self._clients[client_id]
