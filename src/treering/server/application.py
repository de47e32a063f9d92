"""The application: one ASGI callable that serves the sessions of a host, alone or mounted in another program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
from starlette.types import Receive, Scope, Send

from ..actors.host.host import SessionHost
from ..events.errors import ExtraMissing
from ..projections.base import Projection
from .cluster.peers import Cluster
from .exchange import Exchange
from .guard import LOOPBACK, Guard
from .http.limits import ServerLimits
from .openapi import document
from .principals import Authorize
from .service import Service
from .tokens import Tokens

if TYPE_CHECKING:
    from ..actors.programs.mirror import ProgramMirror
    from .cluster.forwarding import Forwarding


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
        projections: Views of the program's own that can be followed, by their names.
        programs: Fills the host with the sessions of other programs, which are then shown; give `read_only`, too.
        cluster: The other hosts of the same sessions, to which requests for what they own are sent on. The host has
            `placement="forward"` then, and the cluster's address.

    Raises:
        ExtraMissing: There is a cluster, and what sends requests to other hosts is not installed.
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
        projections: Sequence[Projection[Any, Any]] = (),
        programs: ProgramMirror | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        guard = Guard(
            authorize,
            tokens,
            open_without_tokens=open_without_tokens,
            allowed_hosts=allowed_hosts if cluster is None else [*allowed_hosts, cluster.name],
            allow_origins=allow_origins,
            cluster=cluster,
        )
        self.service = Service(
            host,
            limits or ServerLimits(),
            tokens,
            describe=document,
            read_only=read_only,
            projections=projections,
            programs=programs,
        )
        if cluster is not None:
            self.service.forwarding = _forwarding(cluster, host)
        self._guard = guard
        self._open = 0

    async def stop(self) -> None:
        """Refuse new requests, tell all streams that they end, and wait until running requests are answered.

        It waits no longer than `drain_for_s`.
        """
        self.service.stopping.set()
        with anyio.move_on_after(self.service.limits.drain_for_s):
            while self._open:
                await self.service.one_ended()
        if self.service.forwarding is not None:
            await self.service.forwarding.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; see ASGI."""
        if scope["type"] == "http":
            self._open += 1
            try:
                await Exchange(self.service, self._guard, scope, receive, send).run()
            finally:
                self._open -= 1
                self.service.note_end()
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1003})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})


def _forwarding(cluster: Cluster, host: SessionHost) -> Forwarding:
    try:
        from .cluster.forwarding import Forwarding
    except ModuleNotFoundError as error:
        if error.name != "httpx2":
            raise
        raise ExtraMissing("requests to other hosts need the package httpx2: pip install 'treering[remote]'") from error
    return Forwarding(cluster, host.core.runtime)


def app(host: SessionHost, **options: Any) -> Application:  # noqa: ANN401  # those of Application
    """Return an ASGI application that serves the sessions of a host; see `Application` for the options.

    Mount it in a starlette or FastAPI program: `program.mount("/sessions", app(host, authorize=...))`. The program
    calls `stop` when it ends, before it closes the host.
    """
    return Application(host, **options)
