"""The connections of a model: kept while the model is entered, and otherwise one client for each request.

Making a client reads certificates, and the first one imports the provider's library: that takes up to a second, so it
happens in a worker thread. A client belongs to the event loop that it was made for; a model that is not entered may be
used from any.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Generic, Protocol, TypeVar

from anyio import CancelScope, to_thread

from ..events.errors import ExtraMissing

CONNECT_TIMEOUT_S = 10.0
"""How long a connection may take to be made, in seconds; local addresses and providers alike answer in far less."""

NO_KEY = "none"
"""What is sent as a key to an address for which none was given: servers on one's own machine look at none."""


class Client(Protocol):
    """What a provider's library sends requests with."""

    async def close(self) -> None:
        """Close its connections."""
        ...


_ClientT = TypeVar("_ClientT", bound=Client)


def require(module: str, extra: str) -> None:
    """See that an optional library is there, without importing it.

    Raises:
        ExtraMissing: It is not installed.
    """
    if find_spec(module) is None:
        raise ExtraMissing(f"this needs the package {module}: pip install 'treering[{extra}]'")


class Clients(Generic[_ClientT]):
    """Where a model gets its client from.

    Args:
        make: Makes a client; it is called in a worker thread.
    """

    def __init__(self, make: Callable[[], _ClientT]) -> None:
        self._make = make
        self._kept: _ClientT | None = None
        self._entered = 0

    async def enter(self) -> None:
        """Keep a client from now on, until `leave` was called as often as this."""
        self._entered += 1
        if self._kept is not None:
            return
        try:
            made = await to_thread.run_sync(self._make)
        except BaseException:
            self._entered -= 1
            raise
        if self._kept is None:
            self._kept = made
        else:  # somebody who entered meanwhile was faster
            await _close(made)

    async def leave(self) -> None:
        """Close the kept client, where nobody else keeps it."""
        self._entered -= 1
        if not self._entered and self._kept is not None:
            kept, self._kept = self._kept, None
            await _close(kept)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[_ClientT]:
        """Give the kept client, or one that is closed at the end of the block."""
        if self._kept is not None:
            yield self._kept
            return
        made = await to_thread.run_sync(self._make)
        try:
            yield made
        finally:
            await _close(made)


async def _close(client: Client) -> None:
    with CancelScope(shield=True):  # a cancelled caller leaves no socket behind
        await client.close()
