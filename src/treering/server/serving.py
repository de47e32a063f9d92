"""The process: a host, the application and uvicorn, from the first request to the last `bye`.

SIGTERM and SIGINT end it in order: new requests are refused, running ones answered, streams told that they end, the
sockets closed, the host and its locks released.
"""

from __future__ import annotations

import os
import signal
import socket
from asyncio import TimerHandle, Transport
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import anyio
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..events.errors import InvalidInput
from .application import Application
from .limits import ServerLimits

_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose heads must come within a time and a size, and whose connections can be dropped at once.

    Attributes:
        limits: The bounds.
    """

    limits = ServerLimits()
    _deadline: TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # narrower than asyncio's
        """Begin to count the time of the first head."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head, and its time from its first byte on, whatever trickles in."""
        if not self._serves():
            if self._deadline is None:
                self._expect_head()
            self._head_bytes += len(data)
        super().data_received(data)
        if self._serves():
            self._forget_head()
        elif self._head_bytes > self.limits.header_bytes_max + self.limits.url_bytes_max:
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """Let the application drop the connection of a reader that accepts nothing."""
        self.scope["extensions"] = {"treering.abort": {"abort": self.transport.abort}}
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Let the application read the body without a deadline, since all of it has come."""
        self.scope.setdefault("extensions", {})["treering.whole"] = {}
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the head that did not come."""
        self._forget_head()
        super().connection_lost(exc)

    def _serves(self) -> bool:
        # there is none before the first request
        return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _expect_head(self) -> None:
        self._head_bytes = 0
        self._deadline = self.loop.call_later(self.limits.header_for_s, self._head_is_late)

    def _forget_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _head_is_late(self) -> None:
        self._deadline = None
        if not self._serves():
            self.transport.abort()


def listen(host: str, port: int, uds: Path | None) -> socket.socket:
    """Return a socket that listens, so that its address is known before the first request.

    Raises:
        InvalidInput: The address cannot be used.
    """
    try:
        if uds is not None:
            uds.unlink(missing_ok=True)
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(str(uds))
            os.chmod(uds, 0o600)
        else:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listening = socket.socket(family)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
    except OSError as error:
        raise InvalidInput(f"cannot listen at {uds or f'{host}:{port}'}: {error.strerror}") from error
    listening.listen(2048)
    listening.setblocking(False)
    return listening


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
    """
    limits = application.service.limits
    protocol = type("Protocol", (BoundedProtocol,), {"limits": limits})
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
        timeout_graceful_shutdown=int(limits.drain_for_s),
        ssl_certfile=files[0],
        ssl_keyfile=files[1],
    )
    server = _Server(config, started)

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
    """A server that says when it has started, and whose signals are somebody else's."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._say_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._say_started()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # uvicorn's is a generator
        """Leave the signals alone."""
        return nullcontext()
