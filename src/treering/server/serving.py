"""The process: a host, the application and uvicorn, from the first request to the last `bye`.

SIGTERM and SIGINT end it in order: new requests are refused, running ones answered, streams told that they end, the
sockets closed, the host and its locks released.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import anyio
import uvicorn
from msgspec.structs import replace

from ..events.errors import InvalidInput
from .application import Application
from .http.connections import BoundedProtocol, Door

_BACKLOG = 2048
"""Connections that wait to be accepted."""

_ACCEPTED_AT_ONCE = 4
"""Connections that are accepted before anything else gets its turn."""

_REFUSES_WITHIN_S = 1.0
"""Seconds within which a Unix socket that nobody listens at refuses: one of a server that is busy does not."""

_VANISHED_AFTER_MS = 60_000
"""Milliseconds without an acknowledgement after which a client counts as gone."""


def listen(host: str, port: int, uds: Path | None) -> socket.socket:
    """Return a socket that listens, so that its address is known before the first request.

    Raises:
        InvalidInput: The address cannot be used.
    """
    family = socket.AF_UNIX if uds is not None else socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        if uds is not None:
            _remove_left(uds)
            listening.bind(str(uds))
            os.chmod(uds, 0o600)
        else:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise InvalidInput(f"cannot listen at {uds or f'{host}:{port}'}: {error.strerror or error}") from error
    if hasattr(socket, "TCP_USER_TIMEOUT") and uds is None:  # of clients that vanish without a word
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _VANISHED_AFTER_MS)
    listening.listen(_BACKLOG)
    listening.setblocking(False)
    return listening


def _remove_left(uds: Path) -> None:
    """Remove the socket of a server that has ended: binding refuses whatever else is at its path."""
    if uds.is_socket():
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(_REFUSES_WITHIN_S)
            if asking.connect_ex(str(uds)) == errno.ECONNREFUSED:
                uds.unlink()


def _open_files_max(wanted: int) -> int:
    """Return how many files this process may open, after raising that as far as it is wanted and allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted and soft != resource.RLIM_INFINITY:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else soft


async def until_signal() -> None:
    """Wait for SIGTERM or SIGINT."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            return


async def serve(
    application: Application,
    listening: socket.socket,
    *,
    until: Callable[[], Awaitable[object]] = until_signal,
    root_path: str = "",
    trusted_proxies: Sequence[str] = (),
    certificate: tuple[Path, Path] | None = None,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Serve an application until a signal, and end in order; the host stays open.

    Args:
        application: What answers.
        listening: The socket; it is closed.
        until: Returns when the server shall stop.
        root_path: The path under which a proxy shows the server.
        trusted_proxies: The addresses whose forwarded headers count.
        certificate: The files of a certificate and its key, for TLS.
        started: Called when requests are answered.

    Raises:
        InvalidInput: The certificate cannot be used.
    """
    limits = application.service.limits
    connections_max = min(limits.connections_max, _open_files_max(2 * limits.connections_max) // 2)  # half for the host
    bounds = {"limits": replace(limits, connections_max=connections_max), "door": Door(asyncio.get_running_loop())}
    protocol: type[BoundedProtocol] = type("Protocol", (BoundedProtocol,), bounds)
    files = (None, None) if certificate is None else (str(certificate[0]), str(certificate[1]))
    config = uvicorn.Config(
        application,
        http=protocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        root_path=root_path,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        server_header=False,
        backlog=_ACCEPTED_AT_ONCE,
        timeout_keep_alive=limits.idle_for_s,  # type: ignore[arg-type]  # it is the delay of a timer
        timeout_graceful_shutdown=int(limits.drain_for_s),
        ssl_certfile=files[0],
        ssl_keyfile=files[1],
    )
    try:
        config.load()
    except OSError as error:  # only TLS reads files here, and names none of them
        listening.close()
        reason = f"the certificate {files[0]} cannot be used with the key {files[1]} ({error.strerror})"
        raise InvalidInput(f"{reason}: give two files in PEM that belong together") from error
    server = _Server(config, protocol, started)
    application.service.metrics.connections.set_function(lambda: len(server.server_state.connections))

    async def stop() -> None:
        await until()
        await application.stop()
        server.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        try:
            await server.serve(sockets=[listening])
        finally:
            tasks.cancel_scope.cancel()


class _Server(uvicorn.Server):
    """A server that bounds the time in which TLS must begin and end, and whose signals are somebody else's.

    A connection counts among `connections_max` from when TLS has begun.
    """

    def __init__(self, config: uvicorn.Config, protocol: type[BoundedProtocol], started: Callable[[], None]) -> None:
        super().__init__(config)
        self._protocol = protocol
        self._say_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        config, protocol, loop = self.config, self._protocol, asyncio.get_running_loop()
        limits, state = protocol.limits, self.lifespan.state
        factory = partial(protocol, config=config, server_state=self.server_state, app_state=state)
        has_tls = config.ssl is not None
        self.servers = []
        for each in sockets or ():
            server = await loop.create_server(
                factory,
                sock=each,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=limits.header_for_s if has_tls else None,  # else a minute
                ssl_shutdown_timeout=limits.send_for_s if has_tls else None,
            )
            each.listen(_BACKLOG)  # asyncio has set it to what it accepts at once
            self.servers.append(server)
        self.started = True
        self._say_started()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # uvicorn's is a generator
        """Leave the signals alone."""
        return nullcontext()
