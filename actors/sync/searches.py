"""A search as a blocking iterator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ...events.findings import Finding
from ..hits import Hit, Search
from .bridge import Bridge


class SyncSearch:
    """The hits of one search, as they are found: `for hit in host.search("timeout"): ...`; see `Search`.

    Attributes:
        findings: The sessions that could not be searched, as far as the search has come.
    """

    def __init__(self, bridge: Bridge, search: Search) -> None:
        self._bridge = bridge
        self._search = search
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

    async def _next(self) -> Hit | None:
        return await anext(self._search, None)

    def close(self) -> None:
        """End a search that was not gone through."""
        self._bridge.wait(self._search.aclose)
