"""The connections of a model: kept while the model is entered, otherwise one client per request.

Making a client reads certificates, and the first one imports the provider's library. This takes up to a second, so it
happens in a worker thread. A client belongs to one event loop; a model that is not entered may be used from any.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Generic, Protocol, TypeVar

from anyio import CancelScope, to_thread

from ..events.errors import ExtraMissing, InvalidInput

CONNECT_TIMEOUT_S = 10.0
"""The timeout for connecting, in seconds; local servers and providers take far less."""

NO_KEY = "none"
"""The key sent to an address without a key of its own; local servers ignore keys."""

_ADDRESS = re.compile(r"https?://[^/\s]", re.IGNORECASE)


class Client(Protocol):
    """A client of a provider's library."""

    async def close(self) -> None:
        """Close its connections."""
        ...


_ClientT = TypeVar("_ClientT", bound=Client)


def check_address(base_url: str | None) -> None:
    """Check that an address, if given, is the URL of a server.

    Raises:
        InvalidInput: It does not begin with `http://` or `https://` and a host name.
    """
    if base_url is not None and not (isinstance(base_url, str) and _ADDRESS.match(base_url)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{base_url!r} is not the address of a server: use a URL such as http://localhost:11434/v1")


def require(module: str, extra: str) -> None:
    """Check that an optional library is installed, without importing it.

    Raises:
        ExtraMissing: The library is not installed.
    """
    if find_spec(module) is None:
        raise ExtraMissing(f"this needs the package {module}: pip install 'treering[{extra}]'")


class Clients(Generic[_ClientT]):
    """The source of a model's clients.

    Args:
        make: Makes a client; called in a worker thread.
    """

    def __init__(self, make: Callable[[], _ClientT]) -> None:
        self._make = make
        self._kept: _ClientT | None = None
        self._entered = 0

    async def enter(self) -> None:
        """Keep a client until `leave` has been called as often as `enter`."""
        self._entered += 1
        if self._kept is not None:
            return
        try:
            client = await to_thread.run_sync(self._make)
        except BaseException:
            self._entered -= 1
            raise
        if self._kept is None:
            self._kept = client
        else:  # another task entered in the meantime and was faster
            await _close(client)

    async def leave(self) -> None:
        """Close the kept client once `leave` has been called as often as `enter`."""
        self._entered -= 1
        if not self._entered and self._kept is not None:
            kept, self._kept = self._kept, None
            await _close(kept)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[_ClientT]:
        """Yield the kept client, or a new one that is closed at the end of the block."""
        if self._kept is not None:
            yield self._kept
            return
        client = await to_thread.run_sync(self._make)
        try:
            yield client
        finally:
            await _close(client)


async def _close(client: Client) -> None:
    with CancelScope(shield=True):  # close the sockets even if the caller is cancelled
        await client.close()
