"""The results of a search: hits, one after the other, and what could not be searched."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Self

from msgspec import Struct

from ...events.findings import Finding
from ...events.stores.base import Ref


class Hit(Struct, frozen=True, kw_only=True):
    """An entry that matches a search.

    Attributes:
        session_id: Its session.
        ref: The name of that session's log in the store.
        name: The session's name, if it has one.
        entry_id: The entry.
        role: The message's role, or the entry's type if it is not a message.
        timestamp: When it was appended.
        snippet: The part of its text around the first match, on one line.
        ranges: The start and end of each match within the snippet, in order.
    """

    session_id: str
    ref: Ref
    name: str | None
    entry_id: str
    role: str
    timestamp: datetime
    snippet: str
    ranges: tuple[tuple[int, int], ...]


class Search:
    """The hits of one search, as they are found: `async for hit in host.search("timeout"): ...`.

    The sessions come in the order of the listing, the most recently used first, and the entries of each in the order of
    its log. A search can be iterated once; with `async with host.search(...) as hits`, leaving the block ends it.

    Attributes:
        findings: The sessions that could not be searched, as far as the search has progressed.
    """

    def __init__(self, hits: Callable[[list[Finding]], AsyncGenerator[Hit]]) -> None:
        self.findings: list[Finding] = []
        self._hits = hits(self.findings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Hit:
        return await anext(self._hits)

    async def aclose(self) -> None:
        """End the search before it was iterated to its end."""
        await self._hits.aclose()
