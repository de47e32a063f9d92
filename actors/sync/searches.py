"""A search as a blocking iterator."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Self

import anyio

from ...events.errors import HostClosed
from ...events.findings import Finding
from ..search.hits import Hit, Search
from .bridge import Bridge


class SyncSearch:
    """The hits of one search, as they are found: `for hit in host.search("timeout"): ...`; see `Search`.

    Several threads may share it: each hit goes to one of them. Closing it ends their waits.

    Attributes:
        findings: The sessions that could not be searched so far.
    """

    def __init__(self, bridge: Bridge, search: Search) -> None:
        self._bridge = bridge
        self._search = search
        self._stepping: anyio.Lock | None = None
        self._scope: anyio.CancelScope | None = None
        self._closed = False
        self.findings: Sequence[Finding] = search.findings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Hit:
        hit = self._bridge.wait(self._next)
        if hit is None:
            raise StopIteration
        return hit

    def close(self) -> None:
        """End a search before its last hit; closing twice, or after the host, does nothing."""
        with contextlib.suppress(HostClosed):
            self._bridge.wait(self._end)

    # -- in the event loop

    async def _next(self) -> Hit | None:
        async with self._turn():
            if self._closed:
                return None
            with anyio.CancelScope() as self._scope:
                return await anext(self._search, None)
        return None

    async def _end(self) -> None:
        self._closed = True
        if self._scope is not None:
            self._scope.cancel()
        async with self._turn():
            await self._search.aclose()

    def _turn(self) -> anyio.Lock:
        """Return the lock that serializes steps; it is created in the event loop to which it belongs."""
        if self._stepping is None:
            self._stepping = anyio.Lock()
        return self._stepping
