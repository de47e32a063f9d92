"""What a search gives: hits, one after the other, and what could not be searched."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Self

from msgspec import Struct

from ..events.findings import Finding
from ..events.stores.base import Ref


class Hit(Struct, frozen=True, kw_only=True):
    """An entry that holds what was looked for.

    Attributes:
        session_id: Its session.
        ref: The name of that session's log in the store.
        name: The session's name, if it has one.
        entry_id: The entry.
        role: The message's role; of what is no message, the entry's type.
        timestamp: When it was appended.
        snippet: The piece of its text around the first match, on one line.
        ranges: Where in the snippet the query's words are: where each begins and ends, in order.
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
    its log. A search can be gone through once; as `async with host.search(...) as hits` it is ended by leaving the
    block.

    Attributes:
        findings: The sessions that could not be searched, as far as the search has come.
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
        """End a search that was not gone through."""
        await self._hits.aclose()
